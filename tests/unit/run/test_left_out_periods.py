"""Periods that runs leave out, missed or before the first run; how they return; split units."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from dil.model.report import RunReport, RunStatus
from dil.operator import amendments
from dil.run.plan_builder import plan_job
from tests.backfills import Backfills
from tests.servers.http_server import HttpServer
from tests.stories import STEP_MS, Story, day, executor, failing, ids_of, notes_of, work_unit

UNITS = ("a", "b")
LABELS = {"ms__timelabel__schedule": "@daily", "ms__publish__mode": "window_replace"}
LATEST_ONLY = {**LABELS, "ms__timelabel__catchup": "false"}
FROM_NOW_ON = {**LABELS, "ms__timelabel__first__run": "period"}


def label(number: int) -> str:
    return f"202001{number + 1:02}000000"


def statuses(story: Story) -> dict[str, str]:
    return {signature: state.status for signature, state in story.states().items()}


def of_days(*numbers: int) -> Counter[tuple[str, int]]:
    return sum((ids_of(*UNITS, days=range(each, each + 1)) for each in numbers), Counter())


def told(report: RunReport, word: str) -> list[str]:
    return [note for note in report.notes if note.startswith(word)]


class Crash(BaseException):
    """The driver is gone: no code of ours sees this."""


class _Dying:
    """Reads the first work unit, then the driver dies."""

    def execute(self, run, units, watch):
        executor().execute(run, units[:1], watch)
        raise Crash


@pytest.fixture
def latest_only(tmp_path, source: HttpServer) -> Story:
    return Story(tmp_path, source, **LATEST_ONLY)


@pytest.fixture
def from_now_on(tmp_path, source: HttpServer) -> Story:
    return Story(tmp_path, source, **FROM_NOW_ON)


# Catching up


def test_a_run_after_a_pause_reads_its_own_period_and_records_the_missed_ones(
    latest_only: Story,
) -> None:
    first = latest_only.run(day(1))
    after = latest_only.run(day(4))

    assert (notes_of(first), after.status) == ((), RunStatus.SUCCESS)
    assert latest_only.rows() == of_days(0, 3)
    missed = {work_unit(number, unit) for number in (1, 2) for unit in UNITS}
    found = statuses(latest_only)
    assert {each for each, status in found.items() if status == "SKIPPED"} == missed
    assert {found[each] for each in found.keys() - missed} == {"COMMITTED"}
    (note,) = told(after, "skipped")
    assert f"2 timelabels, {label(1)} {label(2)}, 4 work units" in note
    assert "--from 2020-01-02T00:00:00Z --to 2020-01-04T00:00:00Z" in note
    head = latest_only.head()
    assert head is not None
    assert head["event"]["newWatermark"].startswith("2020-01-05")


def test_what_was_skipped_is_never_due_again_whatever_the_grace_period(latest_only: Story) -> None:
    latest_only.run(day(1))
    latest_only.run(day(4))
    job = latest_only.job(ms__grace__period__days="4")

    report = latest_only.run(day(5), job)

    assert report.units.planned == 6, "days 0, 3 and 4 are within four days of day 4"
    assert latest_only.rows() == of_days(0, 3, 4)
    assert told(report, "skipped") == []
    for explain in (False, True):
        plan = plan_job(job, now_ms=day(6), explain=explain).plan
        assert {unit.partition.low for unit in plan.work_units} == {day(3), day(4), day(5)}
    assert any("no run took place" in skip.why for skip in plan.skips or ())


def test_the_plan_names_what_a_run_will_skip_and_changes_nothing(latest_only: Story) -> None:
    latest_only.run(day(1))

    for _ in range(2):
        plan = plan_job(latest_only.job(), now_ms=day(4)).plan
        assert [unit.signature for unit in plan.work_units] == [work_unit(3, u) for u in UNITS]
        assert [unit.timelabel for unit in plan.missed] == [label(1), label(1), label(2), label(2)]
    assert set(statuses(latest_only).values()) == {"COMMITTED"}


def test_the_first_run_reads_history_all_the_same(latest_only: Story) -> None:
    report = latest_only.run(day(4))

    assert latest_only.rows() == of_days(0, 1, 2, 3)
    assert notes_of(report) == ()


def test_a_period_whose_run_failed_is_not_missed(latest_only: Story, source: HttpServer) -> None:
    latest_only.run(day(1))
    source.faults.append(failing(3, "a"))

    assert latest_only.run(day(4)).status is RunStatus.FAILED
    assert set(statuses(latest_only).values()) == {"COMMITTED"}
    source.faults.clear()
    report = latest_only.run(day(5))

    assert latest_only.rows() == of_days(0, 3, 4)
    assert f"{label(1)} {label(2)}" in told(report, "skipped")[0]


def test_a_work_unit_that_failed_alone_is_tried_again(tmp_path, source: HttpServer) -> None:
    story = Story(tmp_path, source, **LATEST_ONLY, job__commit__policy="successful")
    story.run(day(1))
    source.faults.append(failing(3, "a"))

    assert story.run(day(4)).status is RunStatus.PARTIAL
    source.faults.clear()
    story.run(day(5))

    assert story.rows() == of_days(0, 3, 4)
    assert statuses(story)[work_unit(2, "a")] == "SKIPPED"


def test_what_the_limit_left_is_not_missed(tmp_path, source: HttpServer) -> None:
    limit = {"ms__work__unit__parallelism__max": "1"}
    story = Story(tmp_path, source, **LATEST_ONLY, **limit)

    assert story.run(day(1)).left == 1
    report = story.run(day(4))

    assert told(report, "skipped")
    assert statuses(story)[work_unit(0, "b")] == "COMMITTED"
    for _ in range(2):
        story.run(day(4))
    assert story.rows() == of_days(0, 3)
    assert story.run(day(4)).status is RunStatus.NOTHING_DUE


def test_the_run_after_a_crash_records_what_the_crashed_one_skipped(
    tmp_path, source: HttpServer
) -> None:
    story = Story(tmp_path, source, **LATEST_ONLY, job__commit__policy="successful")
    story.run(day(1))
    with pytest.raises(Crash):
        story.run(day(4), executor=_Dying())

    report = story.run(day(5))

    assert report.recovered == ("run-2",)
    assert story.rows() == of_days(0, 3, 4)
    assert Counter(statuses(story).values()) == {"COMMITTED": 6, "SKIPPED": 4}


def test_a_backfill_reads_what_was_skipped(latest_only: Story) -> None:
    latest_only.run(day(1))
    latest_only.run(day(4))
    backfills = Backfills(latest_only, 4)

    publication = backfills.propose(definition := backfills.take(range(1, 3)))
    assert publication.refusal is None
    backfills.publish(definition)

    assert latest_only.rows() == of_days(0, 1, 2, 3)
    assert set(statuses(latest_only).values()) == {"COMMITTED"}
    assert latest_only.run(day(4)).status is RunStatus.NOTHING_DUE


def test_an_operator_can_make_a_skipped_period_due(latest_only: Story) -> None:
    latest_only.run(day(1))
    latest_only.run(day(4))
    with latest_only.store() as store:
        session = amendments.OperatorSession(
            latest_only.job(), store, day(4), lambda: latest_only.clock, None
        )
        selection = amendments.Selection(signatures=frozenset({work_unit(2, "a")}))
        preview = amendments.propose_forget(session, selection, amendments.FileDecision.KEEP)

    assert preview.plan is not None
    assert [unit.signature for unit in preview.plan.work_units] == [work_unit(2, "a")]


def test_a_saved_plan_records_what_it_skips(latest_only: Story) -> None:
    latest_only.run(day(1))
    saved = plan_job(latest_only.job(), now_ms=day(4))

    report = latest_only.run(day(5), plan=saved)

    assert told(report, "skipped")
    assert latest_only.rows() == of_days(0, 3)
    assert Counter(statuses(latest_only).values()) == {"COMMITTED": 4, "SKIPPED": 4}


# The first run


def test_the_first_run_reads_its_period_and_later_ones_nothing_older(from_now_on: Story) -> None:
    first = from_now_on.run(day(3))
    later = from_now_on.run(day(4))

    assert from_now_on.rows() == of_days(2, 3)
    (note,) = told(first, "left out")
    assert "4 work units" in note
    assert told(later, "left out") == []
    assert set(statuses(from_now_on).values()) == {"COMMITTED"}


def test_a_first_run_that_fails_still_decides_where_the_job_begins(
    from_now_on: Story, source: HttpServer
) -> None:
    source.faults.append(failing(2, "a"))
    assert from_now_on.run(day(3)).status is RunStatus.FAILED
    source.faults.clear()

    from_now_on.run(day(4))

    assert from_now_on.rows() == of_days(2, 3)


def test_missed_periods_are_caught_up_after_a_first_run_of_one(from_now_on: Story) -> None:
    from_now_on.run(day(2))
    from_now_on.run(day(5))

    assert from_now_on.rows() == of_days(1, 2, 3, 4)


def test_history_can_be_had_later(from_now_on: Story) -> None:
    from_now_on.run(day(3))

    from_now_on.run(day(3), from_now_on.job(ms__timelabel__first__run="history"))

    assert from_now_on.rows() == of_days(0, 1, 2)


def test_both_leave_the_job_with_the_period_of_each_run(tmp_path, source: HttpServer) -> None:
    story = Story(tmp_path, source, **LATEST_ONLY, ms__timelabel__first__run="period")

    for number in (2, 5):
        story.run(day(number))

    assert story.rows() == of_days(1, 4)
    assert story.run(day(5)).status is RunStatus.NOTHING_DUE


# Split work units


def test_split_work_units_hold_every_row_once(tmp_path, source: HttpServer) -> None:
    weekly = {"ms__work__unit__partition": "weekly", "ms__timelabel__split": "units"}
    story = Story(tmp_path, source, **LABELS, **weekly)

    story.run(day(2))
    assert story.run(day(2)).status is RunStatus.NOTHING_DUE
    story.run(day(4))

    assert story.rows() == of_days(0, 1, 2, 3)
    found = statuses(story)
    assert set(found) == {work_unit(number, unit) for number in range(4) for unit in UNITS}
    assert {file["timelabel"] for file in story.manifest()["files"]} == {
        label(number) for number in range(4)
    }


def test_a_backfill_beyond_it_leaves_the_rest_of_a_split_work_unit_due(
    tmp_path, source: HttpServer
) -> None:
    split = {"ms__work__unit__partition": "none", "ms__timelabel__split": "units"}
    story = Story(tmp_path, source, **LABELS, **split, ms__watermark=_until_now("2020-01-01"))
    story.run(day(1) + 2 * STEP_MS)

    report = story.run(
        day(3), story.job(ms__backfill="true", ms__watermark=_until_now("2020-01-03"))
    )
    assert any("that rest stays due" in note for note in report.notes)
    story.run(day(4))

    assert story.rows() == of_days(0, 1, 2, 3)


def _until_now(start: str) -> str:
    return json.dumps(
        [
            {"name": "system", "type": "datetime", "range": {"from": start, "to": "-"}},
            {"name": "unit", "type": "unit", "units": "a,b"},
        ]
    )
