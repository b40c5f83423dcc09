"""What a run publishes and records when work units fail (rule U10)."""

from __future__ import annotations

from collections import Counter

import pytest

from dil.model.report import RunStatus, UnitCounts
from dil.model.work_unit import Reason
from dil.run.plan_builder import plan_job
from tests.stories import Story, day, failing, ids_of, snapshot, work_unit

FULL = {"job__commit__policy": "full"}
SUCCESSFUL = {"job__commit__policy": "successful"}


@pytest.mark.parametrize("policy", [FULL, SUCCESSFUL])
def test_a_run_without_failures_publishes_and_records_all(story: Story, policy) -> None:
    report = story.run(day(2), story.job(**policy))

    assert (report.status, report.exit_code) == (RunStatus.SUCCESS, 0)
    assert report.units == UnitCounts(planned=4, succeeded=4)
    assert report.rows == 16
    assert len(report.files) == 4
    assert report.requests == 4
    assert story.rows() == ids_of("a", "b", days=range(2))
    assert {key: state.high for key, state in story.states().items()} == {
        work_unit(number, unit): day(number + 1) for number in range(2) for unit in ("a", "b")
    }
    assert story.staged() == []


def test_full_publishes_and_records_nothing_when_one_work_unit_fails(story: Story) -> None:
    story.source.faults.append(failing(1, "b"))

    report = story.run(day(2), story.job(**FULL))

    assert (report.status, report.exit_code) == (RunStatus.FAILED, 1)
    assert report.units == UnitCounts(planned=4, succeeded=3, failed=1)
    assert (report.rows, report.files) == (0, ())
    assert [(one.signature, one.code) for one in report.failures] == [
        (work_unit(1, "b"), "DIL-SRC")
    ]
    assert story.rows() == Counter()
    assert story.states() == {}
    assert story.head() is None


def test_successful_publishes_what_succeeded_and_records_both(story: Story) -> None:
    story.source.faults.append(failing(1, "b"))

    report = story.run(day(2), story.job(**SUCCESSFUL))

    assert (report.status, report.exit_code) == (RunStatus.PARTIAL, 4)
    assert report.units == UnitCounts(planned=4, succeeded=3, failed=1)
    assert (report.rows, len(report.files)) == (12, 3)
    assert story.rows() == ids_of("a", days=range(2)) + ids_of("b", days=range(1))
    failed = story.states()[work_unit(1, "b")]
    assert (failed.high, failed.status, failed.attempts) == (None, "FAILED", 1)
    assert story.states()[work_unit(1, "a")].high == day(2)
    assert story.staged() == []


def test_successful_with_failures_only_publishes_nothing_and_records_them(story: Story) -> None:
    story.source.faults.extend([failing(0, "a"), failing(0, "b")])

    report = story.run(day(1), story.job(**SUCCESSFUL))

    assert (report.status, report.exit_code) == (RunStatus.FAILED, 1)
    assert (report.rows, report.files) == (0, ())
    assert story.rows() == Counter()
    assert {state.status for state in story.states().values()} == {"FAILED"}


def test_what_failed_is_tried_again_on_the_next_day_and_lands_once(story: Story) -> None:
    story.source.faults.append(failing(1, "b", at=(1,)))
    job = story.job(**SUCCESSFUL)
    story.run(day(2), job)

    plan = plan_job(job, now_ms=day(3)).plan
    assert {unit.signature: unit.reason for unit in plan.work_units} == {
        work_unit(1, "b"): Reason.RETRY,
        work_unit(2, "a"): Reason.NEW,
        work_unit(2, "b"): Reason.NEW,
    }

    report = story.run(day(3), job)
    assert report.status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(3))
    assert story.run(day(3), job).status is RunStatus.NOTHING_DUE


def test_a_work_unit_that_fails_every_day_never_holds_the_others_up(story: Story) -> None:
    story.source.faults.append(failing(0, "a"))
    job = story.job(**SUCCESSFUL)

    statuses = [story.run(day(number), job).status for number in (1, 2, 3)]

    assert statuses == [RunStatus.PARTIAL] * 3
    assert story.rows() == ids_of("a", "b", days=range(3)) - ids_of("a", days=range(1))
    assert story.states()[work_unit(0, "a")].attempts == 3


def test_a_failure_keeps_the_high_of_an_earlier_success(story: Story) -> None:
    job = story.job(**SUCCESSFUL, ms__grace__period__days="1")
    story.run(day(2), job)
    story.source.faults.append(failing(1, "a"))

    report = story.run(day(3), job)

    assert report.status is RunStatus.PARTIAL
    kept = story.states()[work_unit(1, "a")]
    assert (kept.status, kept.high) == ("FAILED", day(2))


def test_a_failed_run_under_full_leaves_the_dataset_as_it_was(story: Story) -> None:
    story.run(day(2))
    before = snapshot(story.folder / "lake" / "shop")
    head = story.head()
    story.source.faults.append(failing(2, "a"))

    assert story.run(day(3)).status is RunStatus.FAILED

    assert snapshot(story.folder / "lake" / "shop") == before
    assert story.head() == head


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_stop_the_run_early(story: Story, status: int) -> None:
    story.source.faults.extend(
        failing(number, unit, status=status) for number in range(5) for unit in ("a", "b")
    )

    report = story.run(day(5))

    assert report.exit_code == 1
    assert report.units == UnitCounts(planned=10, failed=3, not_started=7)
    assert story.source.count("/records") == 3
    last = report.failures[-1]
    assert (last.signature, last.code) == (None, "DIL-SRC-AUTH")
    assert {one.code for one in report.failures} == {"DIL-SRC-AUTH"}


def test_one_success_among_refusals_keeps_the_run_going(story: Story) -> None:
    story.source.faults.extend(failing(number, "b", status=401) for number in range(3))

    report = story.run(day(3), story.job(**SUCCESSFUL))

    assert report.units == UnitCounts(planned=6, succeeded=3, failed=3)
    assert report.exit_code == 4


def test_under_successful_work_units_that_never_started_are_new_on_the_next_run(
    story: Story,
) -> None:
    story.source.faults.extend(
        failing(number, unit, status=401, at=(1,)) for number in range(2) for unit in ("a", "b")
    )
    job = story.job(**SUCCESSFUL)

    first = story.run(day(3), job)
    assert first.units == UnitCounts(planned=6, failed=3, not_started=3)
    assert len(story.states()) == 3

    second = story.run(day(3), job)
    assert second.units.failed == 1
    third = story.run(day(3), job)
    assert third.status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_the_report_counts_rows_requests_and_dropped_pages_of_all_work_units(story: Story) -> None:
    job = story.job(
        ms__parameters='[{"name":"unit"},{"name":"since","type":"watermark","value":"low"},'
        '{"name":"until","type":"watermark","value":"high"},{"name":"cursor","type":"session"},'
        '{"name":"limit","type":"primitive","value":3}]'
    )

    report = story.run(day(2), job)

    assert (report.requests, report.rows_read, report.rows, report.rows_dropped) == (8, 16, 16, 0)
    assert report.bytes == sum(path.stat().st_size for path in story.folder.rglob("part-*"))
    assert report.peak_rss_bytes > 0


def test_records_of_the_minimum_are_asked_of_each_work_unit(story: Story) -> None:
    job = story.job(ms__work__unit__min__records="5")

    report = story.run(day(1), job)

    assert report.exit_code == 1
    assert {one.code for one in report.failures} == {"DIL-SRC-CONTRACT"}
