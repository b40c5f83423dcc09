"""Timelabels are closed by the commit that makes them complete; rows that come later are told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dil.model.closed_labels import CLOSED_LABELS
from dil.model.report import RunStatus
from dil.model.work_unit import PlannedClosedLabels
from dil.operator.amendments import list_known_labels
from dil.publishing.timeseries.registry import LabelEntry
from dil.run.plan_builder import plan_job
from dil.state import open_store
from tests.closing_days import ClosingDays, label
from tests.servers.day_rows import DayRows
from tests.servers.rows import DAY_MS, START_MS


@pytest.fixture
def source() -> Iterator[DayRows]:
    with DayRows() as running:
        yield running


def test_each_run_closes_the_labels_that_the_frontier_has_passed(source, tmp_path: Path):
    days = ClosingDays(tmp_path, source)
    days.fill(0, 1, 2, 3)
    days.run(2)
    assert days.events() == ["AddData", f"CloseBooks {label(0)}", f"CloseBooks {label(1)}"]
    days.run(4)
    assert days.events()[3:] == ["AddData", f"CloseBooks {label(2)}", f"CloseBooks {label(3)}"]
    days.run(4)
    assert len(days.events()) == 6
    assert days.closed(6) == [0, 1, 2, 3]
    assert days.problems() == ()


def test_a_label_waits_for_its_grace_period(source, tmp_path: Path):
    days = ClosingDays(tmp_path, source, ms__grace__period__days="1")
    days.fill(0, 1, 2)
    days.run(2)
    assert days.closed(4) == [0]
    days.run(3)
    assert days.closed(4) == [0, 1]
    assert not any(event.startswith("Reopen") for event in days.events())


def test_a_label_with_a_failed_work_unit_stays_open_and_so_do_later_ones(source, tmp_path: Path):
    days = ClosingDays(tmp_path, source, ms__work__unit__min__records="1",
                       job__commit__policy="successful")  # fmt: skip
    days.fill(0, 2)
    assert days.run(3).status is RunStatus.PARTIAL
    assert days.closed(4) == [0]
    days.fill(1)
    days.run(3.5)
    assert days.closed(4) == [0, 1, 2]


def test_labels_before_the_first_closed_one_are_closed_when_an_earlier_from_adds_them(
    source, tmp_path: Path
):
    """A day without rows, too."""
    range_of = '[{"name": "system", "type": "datetime", "range": {"from": "%s", "to": "P0D"}}]'
    late, early = range_of % "2020-01-04", range_of % "2020-01-01"
    days = ClosingDays(tmp_path, source, ms__watermark=late)
    days.fill(0, 2, 3, 4)
    days.run(5)
    assert days.closed(6) == [3, 4]
    days = ClosingDays(
        tmp_path, source, ms__watermark=early, ms__work__unit__min__records="1",
        job__commit__policy="successful",
    )  # fmt: skip
    assert days.run(5).status is RunStatus.PARTIAL  # the second day has no rows
    assert days.closed(6) == [0, 3, 4]
    days = ClosingDays(tmp_path, source, ms__watermark=early)
    days.run(6)
    assert days.closed(7) == [0, 1, 2, 3, 4, 5]
    listed = [each.label for each in listing(days)]
    assert listed == [label(day) for day in range(6)]
    assert days.problems() == ()


def listing(days: ClosingDays) -> Sequence[LabelEntry]:
    with open_store(days.job.state, days.job.name, clock=lambda: 0) as store:
        return list_known_labels(days.job, store).entries


@pytest.fixture
def forgotten(source, tmp_path: Path, request):
    """Return a job of which two days are closed and the first was forgotten, with another row."""
    days = ClosingDays(tmp_path, source, ms__late__after__close=request.param)
    days.fill(0, 1)
    days.run(2)
    forget(days, 0)
    days.fill(0, rows=4)
    return days


def forget(days: ClosingDays, *numbers: int) -> None:
    """Make days as if they had never been read, as ``dil state forget`` does."""
    from dil.cli.main import main

    starts = [f"2020-01-{number + 1:02}" for number in numbers]
    for start in starts:
        words = ["state", "forget", str(days.path), "--from", start, "--to", f"{start}T12:00:00Z"]
        assert main([*words, "--yes"]) == 0


@pytest.mark.parametrize("forgotten", ["reject"], indirect=True)
def test_a_work_unit_of_a_closed_label_is_not_read_where_rows_are_rejected(forgotten):
    before = forgotten.events()
    plan = plan_job(forgotten.job, now_ms=START_MS + 2 * DAY_MS).plan
    assert (plan.closed_labels, len(plan.work_units)) == (PlannedClosedLabels(1, (label(0),)), 0)
    done = forgotten.run(2)
    assert done.status is RunStatus.NOTHING_DUE
    assert any("closed" in note and label(0) in note for note in done.notes)
    assert forgotten.events() == before
    assert forgotten.ids() == [0, 1, 2, 100, 101, 102]


@pytest.mark.parametrize("forgotten", ["reject"], indirect=True)
def test_what_is_left_of_a_closed_label_does_not_keep_later_ones_open(forgotten):
    forgotten.fill(2)
    forgotten.run(3)
    assert forgotten.closed(4) == [0, 1, 2]
    assert forgotten.problems() == ()


@pytest.mark.parametrize("forgotten", ["reopen"], indirect=True)
def test_a_closed_label_is_reopened_published_and_closed_again(forgotten):
    plan = plan_job(forgotten.job, now_ms=START_MS + 2 * DAY_MS).plan
    assert (plan.closed_labels, len(plan.work_units)) == (
        PlannedClosedLabels(reopens=(label(0),)),
        1,
    )
    before = len(forgotten.events())
    forgotten.run(2)
    assert forgotten.events()[before:] == [
        f"ReopenBooks {label(0)}",
        "AddData",
        f"CloseBooks {label(0)}",
    ]
    assert forgotten.ids() == [0, 1, 2, 3, 100, 101, 102]
    assert forgotten.closed(3) == [0, 1]
    assert forgotten.problems() == ()


def test_rows_of_a_column_for_a_closed_label_are_rejected_and_counted(source, tmp_path: Path):
    days = ClosingDays(
        tmp_path, source, ms__timelabel__column="at", ms__publish__layout="timelabel"
    )
    source.days[START_MS] = [{"id": 0, "at": START_MS}]
    days.run(1)
    source.days[START_MS + DAY_MS] = [
        {"id": 100, "at": START_MS + DAY_MS},
        {"id": 101, "at": START_MS + 5},
    ]
    done = days.run(2)
    assert days.ids() == [0, 100]
    assert any(note.startswith("REJECTED 1 row for 1 timelabel") for note in done.notes), done.notes
    assert days.problems() == ()


def test_rows_of_a_column_for_a_closed_label_reopen_it(source, tmp_path: Path):
    days = ClosingDays(
        tmp_path,
        source,
        ms__timelabel__column="at",
        ms__publish__layout="timelabel",
        ms__late__after__close="reopen",
    )
    source.days[START_MS] = [{"id": 0, "at": START_MS}]
    days.run(1)
    source.days[START_MS + DAY_MS] = [
        {"id": 100, "at": START_MS + DAY_MS},
        {"id": 101, "at": START_MS + 5},
    ]
    days.run(2)
    assert days.ids() == [0, 100, 101]
    assert days.events()[2:] == [
        f"ReopenBooks {label(0)}",
        "AddData",
        f"CloseBooks {label(0)}",
        f"CloseBooks {label(1)}",
    ]
    assert days.closed(3) == [0, 1]


def test_a_label_waits_for_the_event_watermark(source, tmp_path: Path):
    days = ClosingDays(
        tmp_path,
        source,
        ms__event__column="at",
        ms__event__watermark="bounded",
        ms__event__delay="PT0S",
    )
    for day in range(3):
        noon = START_MS + day * DAY_MS + DAY_MS // 2
        source.days[START_MS + day * DAY_MS] = [{"id": day, "at": noon}]
    days.run(2)
    assert days.closed(3) == [0]
    days.run(3)
    assert days.closed(3) == [0, 1]


def test_closed_labels_that_differ_from_the_chain_are_found(source, tmp_path: Path):
    days = ClosingDays(tmp_path, source)
    days.fill(0, 1)
    days.run(2)
    with open_store(days.job.state, days.job.name, clock=lambda: 0) as store:
        lease = store.acquire_lease("test", lease_s=60)
        store.change_checkpoint(lease, CLOSED_LABELS, {"closed": [[START_MS, START_MS + DAY_MS]]})
        store.release_lease(lease)
    assert any(problem.startswith("V24") for problem in days.problems())


def test_a_commit_closes_no_more_of_a_long_history_than_one_can_bear(
    source, tmp_path: Path, monkeypatch
):
    from dil.state.chain import label_closing

    monkeypatch.setattr(label_closing, "_MOST_LABELS", 2)
    days = ClosingDays(tmp_path, source)
    days.fill(*range(5))
    days.run(3)
    assert days.closed(6) == [0, 1]
    days.run(4)
    assert days.closed(6) == [0, 1, 2, 3]


def test_windows_go_on_where_the_last_one_ended_under_another_schedule(source, tmp_path: Path):
    days = ClosingDays(tmp_path, source)
    days.fill(*range(9))
    days.run(2)
    weekly = ClosingDays(tmp_path, source, ms__timelabel__schedule="30 2 * * 1")
    plan = plan_job(weekly.job, now_ms=START_MS + 4 * DAY_MS).plan
    assert [unit.timelabel for unit in plan.work_units] == [label(2), label(2)]
    weekly.run(4)
    assert weekly.closed(9) == [0, 1]
    weekly.run(8)  # 2020-01-06 is a Monday: [3 January, 6 January) is over, and so is no other
    assert weekly.closed(9) == [0, 1, 2, 3, 4]
    assert weekly.events()[-1] == f"CloseBooks {label(2)}"
    daily = ClosingDays(tmp_path, source, ms__timelabel__schedule="@daily")
    daily.run(9)
    plan = plan_job(daily.job, now_ms=START_MS + 9 * DAY_MS).plan
    assert plan.work_units == ()
    assert daily.closed(10) == [0, 1, 2, 3, 4]
    assert daily.problems() == ()


def test_a_schedule_under_which_nothing_was_read_leaves_no_trace(source, tmp_path: Path):
    days = ClosingDays(tmp_path, source)
    days.fill(0, 1, 2, 3)
    days.run(2)
    ClosingDays(tmp_path, source, ms__timelabel__schedule="30 2 * * 1").run(2)
    back = ClosingDays(tmp_path, source)
    back.run(4)
    assert back.closed(5) == [0, 1, 2, 3]
    assert back.events()[-2:] == [f"CloseBooks {label(2)}", f"CloseBooks {label(3)}"]


@pytest.mark.parametrize("kind", ["sqlite", "fs"])
def test_labels_are_closed_in_each_state_store_that_needs_no_server(
    source, tmp_path: Path, kind: str
):
    days = ClosingDays(tmp_path, source, state__store__type=kind, ms__late__after__close="reopen")
    days.fill(0, 1)
    days.run(2)
    forget(days, 1)
    days.fill(1, 2, rows=4)
    days.run(3)
    assert days.closed(4) == [0, 1, 2]
    assert days.events()[-4:] == [
        f"ReopenBooks {label(1)}",
        "AddData",
        f"CloseBooks {label(1)}",
        f"CloseBooks {label(2)}",
    ]
    assert days.problems() == ()


def test_a_period_that_was_skipped_is_not_closed_and_does_not_keep_later_ones_open(
    source, tmp_path: Path
):
    days = ClosingDays(tmp_path, source, ms__timelabel__catchup="false")
    days.fill(*range(6))
    days.run(1)
    days.run(4)
    assert days.closed(6) == [0, 3]
    days.run(5)
    assert days.closed(6) == [0, 3, 4]
    forget(days, 2)
    days.run(5.5)
    assert 200 in days.ids()
    assert days.closed(6) == [0, 2, 3, 4]
    assert days.problems() == ()
