"""Event time in job files: what a job may say, and what is refused with what to use."""

from __future__ import annotations

import pytest

from dil.config import event_time_spec
from dil.model.event_time import Strategy

COLUMN = {"ms.event.column": "seen_at"}
BOUNDED = {**COLUMN, "ms.event.watermark": "bounded", "ms.event.delay": "PT1M"}


def test_a_job_without_event_column_has_no_events(job_file):
    assert job_file.load().job.events is None


def test_a_job_has_what_the_same_properties_mean_in_python(job_file):
    written = {**BOUNDED, "ms.event.idle.timeout": "PT5M", "ms.late.action": "drop"}
    assert job_file.load(written).job.events == event_time_spec(written)


def test_a_strategy_without_column_is_refused(job_file):
    problem = job_file.problem("ms.event.watermark", "adaptive")
    assert "no column says when rows happened" in problem.what
    assert "ms.event.column" in problem.fix


def test_a_column_without_strategy_is_a_notice_that_rows_are_only_counted(job_file):
    loaded = job_file.load(COLUMN)
    assert loaded.job.events.strategy is Strategy.NONE
    [notice] = loaded.notices
    assert notice.key == "ms.event.watermark"
    assert "counted, and no row is late" in notice.what


def test_late_rows_without_event_column_are_a_notice(job_file):
    assert job_file.notices({"ms.late.action": "drop"}) == ["ms.late.action"]


@pytest.mark.parametrize(
    ("more", "key", "said"),
    [
        ({"ms.state.cursor.commit": "page"}, "ms.state.cursor.commit", "partition"),
        (
            {"state.store.enabled": "false", "ms.publish.mode": "replace"},
            "ms.event.watermark",
            "Keep the state",
        ),
        (
            {"converter.classes": "in-flow-validation", "ms.validation.attributes": None},
            "ms.event.column",
            "writes the rows",
        ),
    ],
)
def test_what_is_not_there_yet_is_refused_with_what_to_use(job_file, more, key, said):
    fixes = [each.fix for each in job_file.problems({**BOUNDED, **more}) if each.key == key]
    assert any(said in fix for fix in fixes)


def test_late_rows_go_beside_a_dataset_that_has_a_folder_of_its_own(job_file):
    beside = {**BOUNDED, "ms.late.action": "side_table"}
    assert job_file.load(beside).job.events.late_action == "side_table"
    shared = {**beside, "data.publisher.appendExtractToFinalDir": "false"}
    (found,) = job_file.problems(shared)
    assert found.key == "ms.late.action"
    assert "Set writer.file.path.type=namespace_table" in found.fix


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("ms.event.delay", '{"eu": true}'),
        ("ms.event.delay", '{"eu": null}'),
        ("ms.event.adaptive", '{"quantile": "most"}'),
        ("ms.event.adaptive", '{"window": true}'),
    ],
)
def test_a_member_that_is_no_number_is_named_with_what_to_write(job_file, key, text):
    (found,) = job_file.problems({**BOUNDED, key: text})
    assert found.key == key
    assert found.fix.startswith("Write ")


def test_defaults_of_event_time_change_no_digest_and_the_column_does(job_file):
    plain = job_file.load().job
    defaults = {"ms.event.watermark": "none", "ms.event.null": "keep", "ms.late.lag": "0"}
    assert job_file.load(defaults).job.known_digests == plain.known_digests
    assert job_file.load(COLUMN).job.digest != plain.digest
    flagged = job_file.load({**COLUMN, "ms.late.action": "flag"}).job
    assert flagged.digest != job_file.load(COLUMN).job.digest


def test_whether_requests_ask_from_the_low_watermark_on_is_known(job_file):
    window = [{"name": "from", "type": "watermark", "watermark": "dt", "value": "low"}]
    assert not job_file.load(BOUNDED).job.events.reads_on
    asked = job_file.load(
        {
            **BOUNDED,
            "ms.watermark": '[{"name": "dt", "type": "datetime",'
            ' "range": {"from": "2024-01-01", "to": "-"}}]',
            "ms.parameters": str(window).replace("'", '"'),
        }
    )
    assert asked.job.events.reads_on
