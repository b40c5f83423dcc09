"""What a job says about the rows that it sends, and about the record of them."""

from __future__ import annotations

import json

import pytest

from dil.model.egress import AuditSpec, EgressSpec
from tests.unit.config.conftest import JobFile

SENDING = {
    "ms.http.request.method": "POST",
    "ms.secondary.input": json.dumps(
        [{"path": "rows.json", "fields": ["id"], "category": "payload"}]
    ),
}


def test_without_words_of_its_own_a_job_keeps_no_refused_rows_and_no_audit(
    job_file: JobFile,
) -> None:
    job = job_file.load(SENDING).job
    assert job.extraction.egress == EgressSpec()
    assert job.audit == AuditSpec(enabled=False, directory="", is_required=True)


def test_all_that_a_job_may_say_is_read(job_file: JobFile) -> None:
    job = job_file.load(
        {
            **SENDING,
            "ms.egress.failed.rows": "Keep",
            "ms.egress.failed.max.rows": "7",
            "ms.egress.send.again": "true",
            "ms.egress.batch.rows": "200",
            "ms.egress.batch.field": "records",
            "ms.audit.enabled": "true",
            "ms.audit.dir": "audit",
            "ms.audit.required": "false",
        }
    ).job
    assert job.extraction.egress == EgressSpec(
        keeps_refused=True, max_refused=7, sends_again=True, batch_rows=200, batch_field="records"
    )
    assert job.audit == AuditSpec(
        enabled=True, directory=str(job_file.folder / "audit"), is_required=False
    )


def test_resume_keeps_progress_after_every_row(job_file: JobFile) -> None:
    assert job_file.load(SENDING).job.running.page_commit_s is None
    assert job_file.load({**SENDING, "ms.egress.resume": "true"}).job.running.page_commit_s == 0


def test_paging_of_rows_to_send_is_to_be_left_out(job_file: JobFile) -> None:
    paging = '{"initialvalues":[0,100],"stopOnShortPage":true}'
    loaded = job_file.load({**SENDING, "ms.pagination": paging})
    told = [(each.what, each.fix) for each in loaded.notices if each.key == "ms.pagination"]
    one_each = "ms.secondary.input has rows to send, one in each request"
    assert told == [(f"has no effect: {one_each}", "Remove it.")]


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"ms.http.request.method": None}, "is GET, which has no body"),
        ({"ms.http.request.headers": None}, "has no Content-Type"),
        ({"ms.http.request.headers": '{"content-type": "application/json"}'}, "is JSON or a form"),
        ({"ms.secondary.input": SENDING["ms.secondary.input"]}, "has rows to send"),
    ],
)
def test_a_body_as_text_needs_a_place_and_a_type(
    job_file: JobFile, facts: dict[str, str | None], what: str
) -> None:
    sound = {
        "ms.http.request.method": "POST",
        "ms.http.request.headers": '{"Content-Type": "text/xml"}',
        "ms.http.request.body": "<list/>",
    }
    job_file.load(sound)
    (found,) = job_file.problems({**sound, **facts})
    assert found.key == "ms.http.request.body"
    assert what in found.what


def test_a_batch_needs_a_member_of_the_body(job_file: JobFile) -> None:
    (found,) = job_file.problems({**SENDING, "ms.egress.batch.rows": "2"})
    assert found.key == "ms.egress.batch.rows"
    assert "ms.egress.batch.field" in found.fix


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ms.egress.failed.rows", "keep"),
        ("ms.egress.resume", "true"),
        ("ms.egress.batch.field", "records"),
    ],
)
def test_words_about_rows_to_send_are_noticed_where_there_are_none(
    job_file: JobFile, key: str, value: str
) -> None:
    assert key in job_file.notices({key: value})
    assert key not in job_file.notices({**SENDING, key: value})


def test_what_only_concerns_one_run_leaves_staged_work_of_use(job_file: JobFile) -> None:
    before = job_file.load(SENDING).job.digest
    once = {"ms.egress.send.again": "true", "ms.audit.enabled": "true", "ms.egress.resume": "true"}
    assert job_file.load({**SENDING, **once}).job.digest == before
    assert job_file.load({**SENDING, "ms.egress.failed.rows": "keep"}).job.digest != before


def test_an_audit_topic_of_kafka_is_no_error_and_files_are_named_in_its_place(
    job_file: JobFile,
) -> None:
    kafka = {"ms.kafka.audit.topic.name": "audit", "ms.kafka.brokers": "k:9092"}
    loaded = job_file.load({**SENDING, **kafka, "ms.audit.enabled": "true"})
    (notice,) = [one for one in loaded.notices if one.key == "ms.kafka.audit.topic.name"]
    assert "in place of Kafka" in notice.what
    assert "ms.audit.dir" in notice.fix


def test_an_audit_folder_is_on_a_local_path(job_file: JobFile) -> None:
    assert "hdfs" in job_file.problem("ms.audit.dir", "hdfs://lake/audit").what


def test_resume_is_refused_where_a_converter_holds_rows_back(job_file: JobFile) -> None:
    schema = [{"columnName": "ids", "dataType": {"type": "array", "items": {"type": "long"}}}]
    facts = {
        **SENDING,
        "ms.egress.resume": "true",
        "converter.classes": "com.linkedin.cdi.converter.JsonNormalizerConverter",
        "ms.target.schema": json.dumps(schema),
    }
    found = job_file.problems(facts)
    assert ("ms.egress.resume", True) in [(one.key, "holds rows back" in one.what) for one in found]


def test_resume_and_rows_put_aside_exclude_each_other(job_file: JobFile) -> None:
    aside = {"converter.avro.max.conversion.failures": "5", "ms.egress.resume": "true"}
    (found,) = job_file.problems({**SENDING, **aside})
    assert found.key == "ms.egress.resume"


@pytest.mark.parametrize(
    ("changes", "is_told"),
    [
        ({}, True),
        ({"ms.http.idempotency.header": "Idempotency-Key"}, False),
        ({"ms.http.retry.unsafe": "true"}, False),
        ({"ms.http.request.method": "PUT"}, False),
    ],
)
def test_rows_that_must_not_be_repeated_are_told_of_without_asking_for_anything(
    job_file: JobFile, changes: dict[str, str], is_told: bool
) -> None:
    infos = job_file.load({**SENDING, **changes}).infos
    assert any("without ms.http.idempotency.header" in one.what for one in infos) is is_told
