"""What one run after the other takes up: nothing due, limits, changed watermarks, no state."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from dil.errors import ConfigError, DilError, LeaseHeldError, PlanningError
from dil.model.job import Job
from dil.model.report import RunStatus, UnitCounts
from dil.model.work_unit import Reason
from dil.run import plan_checks
from dil.run.exit_codes import exit_code
from dil.run.lease import new_run_id
from dil.run.plan_builder import plan_job
from tests.jobs import visible_files
from tests.stories import (
    ROWS_PER_DAY,
    Story,
    day,
    failing,
    ids_of,
    snapshot,
    work_unit,
)


class Unwanted:
    """An executor that must not be needed."""

    def execute(self, run, units, watch):
        raise AssertionError("work was started")


def watermark(start: str, name: str = "system") -> str:
    return json.dumps(
        [
            {"name": name, "type": "datetime", "range": {"from": start, "to": "P0D"}},
            {"name": "unit", "type": "unit", "units": "a,b"},
        ]
    )


# Nothing due


def test_nothing_due_is_a_success_that_changes_nothing(story: Story) -> None:
    story.run(day(2))
    before = snapshot(story.folder / "lake")
    head, requests = story.head(), len(story.source.requests)

    report = story.run(day(2), executor=Unwanted())

    assert (report.status, report.exit_code) == (RunStatus.NOTHING_DUE, 0)
    assert report.units == UnitCounts()
    assert report.files == ()
    assert len(story.source.requests) == requests
    assert snapshot(story.folder / "lake") == before
    assert story.head() == head


def test_an_earlier_now_finds_nothing_to_do(story: Story) -> None:
    story.run(day(3))

    assert story.run(day(2), executor=Unwanted()).status is RunStatus.NOTHING_DUE


def test_a_source_that_has_not_begun_yet_is_nothing_due(story: Story) -> None:
    report = story.run(day(0), executor=Unwanted())

    assert report.status is RunStatus.NOTHING_DUE
    assert story.head() is None


def test_a_disabled_job_touches_nothing(story: Story) -> None:
    report = story.run(day(2), story.job(job__disabled="true"), executor=Unwanted())

    assert (report.status, report.exit_code) == (RunStatus.NOTHING_DUE, 0)
    assert "job.disabled" in report.notes[0]
    assert not (story.folder / "lake").exists()
    assert not (story.folder / "state").exists()


def test_planning_alone_changes_nothing(story: Story) -> None:
    job = story.job()

    plan = plan_job(job, now_ms=day(2)).plan

    assert [unit.reason for unit in plan.work_units] == [Reason.NEW] * 4
    assert not (story.folder / "lake").exists()
    assert not (story.folder / "state").exists()


def test_too_few_work_units_fail_the_run_before_it_begins(story: Story) -> None:
    with pytest.raises(PlanningError):
        story.run(day(1), story.job(ms__work__unit__min__units="3"), executor=Unwanted())

    assert story.runs() == {}


# More than one run may take


def test_a_limit_spreads_the_work_over_runs_until_all_is_done(story: Story) -> None:
    job = story.job(ms__work__unit__parallelism__max="3")

    reports = [story.run(day(4), job) for _ in range(4)]

    assert [report.left for report in reports] == [5, 2, 0, 0]
    assert [report.units.succeeded for report in reports] == [3, 3, 2, 0]
    assert [report.status for report in reports] == [RunStatus.SUCCESS] * 3 + [
        RunStatus.NOTHING_DUE
    ]
    assert story.rows() == ids_of("a", "b", days=range(4))


def test_the_watermark_of_the_chain_waits_for_what_is_left(story: Story) -> None:
    job = story.job(ms__work__unit__parallelism__max="3")
    marks = []
    for _ in range(3):
        story.run(day(4), job)
        head = story.head()
        assert head is not None
        marks.append(head["event"]["newWatermark"][:10])  # type: ignore[index,call-overload]

    assert marks == ["2020-01-02", "2020-01-04", "2020-01-05"]


def test_a_limit_and_a_lasting_failure_end_with_all_else_published(story: Story) -> None:
    story.source.faults.append(failing(0, "a"))
    job = story.job(ms__work__unit__parallelism__max="3", job__commit__policy="successful")

    for _ in range(6):
        story.run(day(4), job)

    assert story.rows() == ids_of("a", "b", days=range(4)) - ids_of("a", days=range(1))


# A changed watermark


@pytest.mark.parametrize(
    "change",
    [
        {"ms__watermark": watermark("2020-01-02T06:00:00")},
        {"ms__watermark": watermark("2020-01-01", name="other")},
        {"ms__timezone": "America/New_York"},
        {"ms__work__unit__partition": "weekly"},
    ],
)
def test_a_changed_shape_is_refused_because_it_would_double_rows(story: Story, change) -> None:
    story.run(day(3))
    before = snapshot(story.folder / "lake")

    with pytest.raises(ConfigError) as caught:
        story.run(day(4), story.job(**change), executor=Unwanted())

    problem = caught.value.problems[0]
    assert exit_code(caught.value) == 2
    assert problem.key == "ms.watermark"
    assert problem.origin is not None
    assert problem.origin.line is not None
    assert "--accept-new-signatures" in problem.fix
    assert snapshot(story.folder / "lake") == before
    assert story.run(day(4)).units.planned == 2


def test_a_later_from_on_a_boundary_leaves_records_out_and_reads_nothing_twice(
    story: Story,
) -> None:
    assert story.run(day(4)).units.planned == 8

    later = story.job(ms__watermark=watermark("2020-01-03"))

    assert story.run(day(4), later).status is RunStatus.NOTHING_DUE
    assert story.run(day(5), later).units.planned == 2
    assert story.rows() == ids_of("a", "b", days=range(5))
    # Back again: what was left out for a while has its records still.
    assert story.run(day(5)).status is RunStatus.NOTHING_DUE


def test_without_partitions_a_later_from_is_another_signature(story: Story) -> None:
    whole = {"ms__work__unit__partition": "none"}
    story.run(day(3), story.job(**whole))

    for start in ("2020-01-02", "2020-01-04"):
        job = story.job(**whole, ms__watermark=watermark(start))
        with pytest.raises(ConfigError):
            story.run(day(5), job, executor=Unwanted())


def test_the_refusal_names_the_first_record_that_would_be_lost(story: Story) -> None:
    story.run(day(3))

    with pytest.raises(ConfigError) as caught:
        story.run(day(4), story.job(ms__work__unit__partition="weekly"), executor=Unwanted())

    what, fix = caught.value.problems[0].what, caught.value.problems[0].fix
    assert "2020-01-01 00:00+00:00 .. 2020-01-02 00:00+00:00 UTC" in what
    assert "{" not in what + fix
    assert "2020-01-01, UTC, daily" in fix


def test_records_of_units_that_the_job_has_no_more_are_no_reason(story: Story) -> None:
    story.run(day(2))
    other = json.loads(watermark("2020-01-01"))
    other[1]["units"] = "c"
    job = story.job(ms__watermark=json.dumps(other), ms__work__unit__partition="weekly")
    with story.store() as store:
        assert plan_checks.changed_shape(job, store, day(4)) is None


def test_a_unit_that_was_away_while_from_moved_off_the_grid_is_not_read_again(
    story: Story,
) -> None:
    def of(units: str, start: str) -> Job:
        mark = json.loads(watermark(start))
        mark[1]["units"] = units
        return story.job(ms__watermark=json.dumps(mark))

    story.run(day(2), of("a,b", "2020-01-01"))
    for _ in range(2):
        story.run(day(3), of("c", "2020-01-01T06:00:00"))

    with pytest.raises(ConfigError) as caught:
        story.run(day(3), of("a,b,c", "2020-01-01T06:00:00"), executor=Unwanted())
    assert caught.value.problems[0].key == "ms.watermark"
    with pytest.raises(ConfigError):
        story.run(day(3), of("c", "2020-01-01"), executor=Unwanted())

    assert story.run(day(3), of("a,b", "2020-01-01")).units.planned == 2
    with pytest.raises(ConfigError):
        story.run(day(3), of("a,b,c", "2020-01-01"), executor=Unwanted())
    assert story.rows() == ids_of("a", "b", days=range(3))
    assert story.run(day(4), of("a,b", "2020-01-01")).units.planned == 2


@pytest.mark.parametrize("mode", ["append", "window_replace"])
def test_an_earlier_from_adds_history_and_reads_nothing_twice(story: Story, mode: str) -> None:
    def since(start: str) -> Job:
        return story.job(ms__watermark=watermark(start), ms__publish__mode=mode)

    assert story.run(day(4), since("2020-01-03")).units.planned == 4

    report = story.run(day(5), since("2020-01-01"))

    assert report.status is RunStatus.SUCCESS
    assert report.units.planned == 4 + 2
    assert story.rows() == ids_of("a", "b", days=range(5))
    assert story.run(day(5), since("2020-01-01")).status is RunStatus.NOTHING_DUE


@pytest.mark.parametrize(
    ("partition", "start"),
    [("none", "2020-01-01"), ("weekly", "2020-01-01"), ("daily", "2020-01-01T06:00:00")],
)
def test_an_earlier_from_that_cuts_other_partitions_is_refused(
    story: Story, partition: str, start: str
) -> None:
    cut = {"ms__work__unit__partition": partition, "ms__work__unit__partial__partition": "true"}
    story.run(day(4), story.job(**cut, ms__watermark=watermark("2020-01-03")))

    with pytest.raises(ConfigError) as caught:
        story.run(day(5), story.job(**cut, ms__watermark=watermark(start)), executor=Unwanted())

    assert caught.value.problems[0].key == "ms.watermark"


def test_a_plan_that_a_run_would_refuse_says_so_on_one_line(
    story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    story.run(day(3))

    plan_job(story.job(ms__work__unit__partition="weekly"), now_ms=day(4))

    (message,) = [each.getMessage() for each in caplog.records if "refuse" in each.getMessage()]
    assert "\n" not in message
    assert "--accept-new-signatures" in message


def test_an_accepted_shape_reads_everything_again_once(story: Story) -> None:
    story.run(day(2))
    job = story.job(ms__timezone="Etc/GMT+6")

    report = story.run(day(3), job, accept_new_signatures=True)

    assert report.status is RunStatus.SUCCESS
    assert report.units.planned == 4
    assert story.run(day(3), job).status is RunStatus.NOTHING_DUE


def test_a_shape_is_not_accepted_by_a_run_that_could_not_plan(story: Story) -> None:
    story.run(day(2))
    with story.store() as store:
        before = store.recorded_shape()
    absent = json.dumps(
        [{"path": str(story.folder / "absent"), "category": "authentication", "fields": ["token"]}]
    )
    job = story.job(ms__timezone="Etc/GMT+6", ms__secondary__input=absent)

    with pytest.raises(DilError):
        story.run(day(3), job, accept_new_signatures=True, sleep=lambda seconds: None)

    with story.store() as store:
        assert store.recorded_shape() == before


def test_a_changed_end_or_unit_is_no_changed_shape(story: Story) -> None:
    story.run(day(2))
    wider = json.loads(watermark("2020-01-01"))
    wider[1]["units"] = "a,b,c"

    report = story.run(day(2), story.job(ms__watermark=json.dumps(wider)))

    assert report.units.planned == 2
    assert {one.unit["unit"] for one in plan_job(story.job(), now_ms=day(3)).plan.work_units} == {
        "a",
        "b",
    }


def test_a_backfill_of_a_range_leaves_the_recorded_shape_alone(story: Story) -> None:
    story.run(day(3))
    ranged = json.loads(watermark("2020-01-02"))
    ranged[0]["range"]["to"] = "2020-01-03"
    backfill = story.job(ms__backfill="true", ms__watermark=json.dumps(ranged))

    report = story.run(day(3), backfill)

    assert report.units.planned == 2
    assert story.rows()[("a", ROWS_PER_DAY)] == 2
    assert story.run(day(3)).status is RunStatus.NOTHING_DUE


def test_a_replacing_job_may_change_its_shape(story: Story) -> None:
    replacing = {"ms__publish__mode": "replace"}
    story.run(day(3), story.job(**replacing))

    report = story.run(day(4), story.job(**replacing, ms__work__unit__partition="none"))

    assert report.status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(4))


# Without watermarks


def test_without_a_state_store_every_run_reads_all(story: Story) -> None:
    job = story.job(state__store__enabled="false")

    for _ in range(2):
        assert story.run(day(2), job).units == UnitCounts(planned=4, succeeded=4)

    assert story.rows() == ids_of("a", "b", days=range(2)) + ids_of("a", "b", days=range(2))
    assert story.states() == {}
    assert story.head() is None


@pytest.mark.parametrize("mode", ["replace", "window_replace"])
def test_without_a_state_store_replacing_is_still_right(story: Story, mode: str) -> None:
    job = story.job(state__store__enabled="false", ms__publish__mode=mode)

    for number in (2, 3, 3):
        assert story.run(day(number), job).status is RunStatus.SUCCESS
        assert story.rows() == ids_of("a", "b", days=range(number))


def test_without_a_state_store_a_changed_shape_is_nobodys_business(story: Story) -> None:
    job = {"state__store__enabled": "false", "ms__publish__mode": "replace"}
    story.run(day(2), story.job(**job))

    story.run(day(2), story.job(**job, ms__timezone="Etc/GMT+6"))

    # Days now run from six to six o'clock UTC.
    assert {number for _, number in story.rows()} == set(range(1, 1 + ROWS_PER_DAY))


# The lease


def test_a_second_run_at_once_is_refused_and_says_who_holds_the_lease(story: Story) -> None:
    with story.store() as store:
        store.acquire_lease("other-run", lease_s=60)

    with pytest.raises(LeaseHeldError) as caught:
        story.run(day(1), executor=Unwanted())

    assert "other-run" in caught.value.message
    assert exit_code(caught.value) == 3


def test_a_failed_run_gives_its_lease_back(story: Story) -> None:
    with pytest.raises(PlanningError):
        story.run(day(1), story.job(ms__work__unit__min__units="9"))

    assert story.run(day(1)).status is RunStatus.SUCCESS


# Run ids


def test_run_ids_sort_by_time_and_are_never_equal() -> None:
    ids = [new_run_id(day(number)) for number in (0, 1, 1, 2)]

    assert ids[0].startswith("20200101T000000Z-")
    assert sorted(ids, key=lambda one: one[:16]) == ids
    assert len(set(ids)) == 4


def test_a_run_without_a_given_id_names_its_files_by_the_real_clock(story: Story) -> None:
    story.run(day(1), run_id=None)

    starts = Counter(path.name[:21] for path in visible_files(story.folder))
    assert starts == {"part-20220927T000000Z": 2}


def test_only_the_units_of_the_failed_work_are_named(story: Story) -> None:
    story.source.faults.append(failing(0, "b"))

    report = story.run(day(1))

    assert [failure.signature for failure in report.failures] == [work_unit(0, "b")]


# Backfill beyond a partition that was read in part


def weekly(start: str, **changes: str) -> dict[str, str]:
    return {"ms.watermark": watermark(start), "ms.work.unit.partition": "weekly", **changes}


def test_a_backfill_of_newer_partitions_keeps_the_rest_of_an_older_one_due(story: Story) -> None:
    story.run(day(2), story.job(**weekly("2020-01-01")))

    newer = story.job(**weekly("2020-01-08", **{"ms.backfill": "true"}))
    report = story.run(day(9), newer)

    assert report.status is RunStatus.SUCCESS
    assert "that rest stays due" in " ".join(report.notes)
    report = story.run(day(9), story.job(**weekly("2020-01-01")))
    assert report.units.succeeded == 2
    assert story.rows() == ids_of("a", "b", days=range(6))


def test_a_backfill_next_to_what_was_read_to_its_end_owes_nothing(story: Story) -> None:
    story.run(day(2))
    story.run(day(4), story.job(**{"ms.watermark": watermark("2020-01-04"), "ms.backfill": "true"}))

    assert {state.status for state in story.states().values()} == {"COMMITTED"}
    story.run(day(4), story.job())
    assert story.rows() == ids_of("a", "b", days=range(4))
