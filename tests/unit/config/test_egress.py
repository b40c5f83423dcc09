"""What a job says about the rows that it sends, and about the record of them."""

from __future__ import annotations

import json

import pytest

from dil.model.destination import AuditSpec, EgressSpec
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


BODY = "ms.http.request.body"
AS_TEXT = {
    "ms.http.request.method": "POST",
    "ms.http.request.headers": '{"Content-Type": "text/xml"}',
    BODY: "<list/>",
}


def typed(content_type: str, text: str) -> dict[str, str]:
    return {"ms.http.request.headers": json.dumps({"content-type": content_type}), BODY: text}


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"ms.http.request.method": None}, "is GET, which has no body"),
        ({"ms.http.request.headers": None}, "has no Content-Type"),
        (typed("application/json", '{"a": "{{ a }}"}'), "is a JSON object or a form"),
        (typed("application/vnd.api+json", "{}"), "is a JSON object or a form"),
        (typed("application/x-www-form-urlencoded; charset=utf-8", "a=b"), "JSON object or a form"),
        (typed("text/xml; charset=ISO-8859-1", "<a/>"), "names another character set"),
        (typed("text/xml", '<?xml version="1.0" encoding="UTF-16"?><a/>'), "another encoding"),
        ({"ms.secondary.input": SENDING["ms.secondary.input"]}, "has rows to send"),
        (
            {"ms.secondary.input": SENDING["ms.secondary.input"], BODY: "<a>{{a}}</a>"},
            "has rows to send",
        ),
        ({BODY: "<a>{{pwd}}</a>"}, "uses {{pwd}}, which nothing gives a value"),
        ({BODY: "env:BODY"}, "refers to a secret as a whole"),
        ({BODY: "ENC(v1:abcd)"}, "refers to a secret as a whole"),
        ({BODY: "file:body.xml"}, "refers to a secret as a whole"),
    ],
)
def test_a_body_as_text_needs_a_place_and_a_type(
    job_file: JobFile, facts: dict[str, str | None], what: str
) -> None:
    (found,) = job_file.problems({**AS_TEXT, **facts})
    assert found.key == BODY
    assert what in found.what


@pytest.mark.parametrize(
    "facts",
    [
        {},
        typed('text/xml; charset="UTF-8"', '<?xml version="1.0" encoding="utf-8"?><a>{{ a }}</a>'),
        typed("application/x-ndjson", '{"index": "a"}\n{"size": 1}'),
        typed("application/json", '[{"method": "list"}]'),
        typed("application/json", '{"index": "a"}\n{"size": 1}'),
        typed("text/plain", "<![CDATA[ {{ a }} ]]>"),
    ],
)
def test_a_body_may_be_any_text_that_parameters_cannot_write(
    job_file: JobFile, facts: dict[str, str]
) -> None:
    # The command line takes a line break as it is, which a file writes in another way.
    loaded = job_file.load(AS_TEXT, overrides=facts)
    assert BODY not in [each.key for each in loaded.notices]


def test_no_value_goes_into_cdata(job_file: JobFile) -> None:
    given = {"ms.parameters": '[{"name": "after", "value": "1"}]'}
    job_file.load({**AS_TEXT, **given, BODY: "<a><![CDATA[x]]>{{after}}</a>"})
    (found,) = job_file.problems({**AS_TEXT, **given, BODY: "<a><![CDATA[<{{after}}]]></a>"})
    assert (found.key, "uses after inside of CDATA" in found.what) == (BODY, True)


@pytest.mark.parametrize(
    ("body", "parameters", "names"),
    [
        ("<a/>", '[{"name": "pw", "value": "env:PW"}]', ["pw"]),
        ("<a/>", '[{"name": "pw", "value": ["x", "env:PW"]}, {"name": "n", "value": "1"}]', ["pw"]),
        (
            "<a/>",
            '[{"name": "login", "value": "u:{{tmpPw}}"}, {"name": "tmpPw", "value": "env:PW"}]',
            ["login"],
        ),
        (
            "<a/>",
            '[{"name": "o", "type": "object", "value": [{"name": "pw", "value": "env:PW"}]}]',
            ["o"],
        ),
        ("<a>{{pw}}</a>", '[{"name": "pw", "value": "env:PW"}]', []),
        ("<a/>", '[{"name": "tmpPw", "value": "env:PW"}, {"name": "n", "value": "1"}]', []),
    ],
)
def test_beside_a_body_as_text_no_secret_goes_to_the_query(
    job_file: JobFile, body: str, parameters: str, names: list[str]
) -> None:
    job = {**AS_TEXT, BODY: body, "ms.parameters": parameters}
    if not names:
        job_file.load(job, environ={"PW": "s3cret"})
        return
    found = job_file.problems(job, environ={"PW": "s3cret"})
    assert [each.what.split()[0].strip('"') for each in found] == names
    assert {each.key for each in found} == {"ms.parameters"}


def test_beside_a_body_as_text_no_field_of_authentication_input_goes_to_the_query(
    job_file: JobFile,
) -> None:
    field = {"path": "key.json", "fields": ["key"], "category": "authentication"}
    job = {
        **AS_TEXT,
        "ms.secondary.input": json.dumps([field]),
        "ms.parameters": '[{"name": "key", "value": ""}]',
    }
    job_file.load({**job, BODY: "<a>{{key}}</a>"})
    (found,) = job_file.problems(job)
    assert (found.key, '"key" holds a secret' in found.what) == ("ms.parameters", True)


def test_a_body_that_only_looks_like_json_has_a_digest_of_its_own(job_file: JobFile) -> None:
    plain = {"ms.http.request.headers": '{"Content-Type": "text/plain"}'}
    digests = {
        job_file.load({**AS_TEXT, **plain, BODY: text}).job.digest
        for text in ("[SELECT 1]", '["SELECT 1"]', '[ "SELECT 1" ]')
    }
    assert len(digests) == 3


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
