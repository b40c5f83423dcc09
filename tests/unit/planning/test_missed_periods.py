"""Which periods a run leaves out, by the runs that were there, failed, or were not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.model.history import PastRuns, UnitRecord
from dil.model.job import PlanningSpec
from dil.model.timelabels import LabelUnit, TimelabelSpec
from dil.model.work_unit import Plan
from dil.planning import BareHistory, plan
from tests.stories import day

HOUR_MS = 3_600_000
LABELS = TimelabelSpec(schedule="10 0 * * *", catches_up=False)
SPEC = PlanningSpec(
    start="2020-01-01", end="P0D", partition="daily", zone="UTC", units=('{"u":"a"}',),
    timelabel=LABELS,
)  # fmt: skip
FIRST_ONLY = replace(SPEC, timelabel=replace(LABELS, catches_up=True, first_period=True))


def at(number: int) -> int:
    """Return ten past twelve on a day, when the day before is over and its run begins."""
    return day(number) + 600_000


def signature(number: int, unit: str = "a") -> str:
    return f'[watermark.datetime.{day(number)}, watermark.unit.{{"u":"{unit}"}}]'


def read(*numbers: int) -> BareHistory:
    return BareHistory({signature(each): day(each + 1) for each in numbers})


def days(made: Plan) -> tuple[list[int], list[int]]:
    """Return the days that are read and those that are missed."""
    return (
        [(unit.partition.low - day(0)) // (24 * HOUR_MS) for unit in made.work_units],
        [(unit.partition.low - day(0)) // (24 * HOUR_MS) for unit in made.missed],
    )


@pytest.mark.parametrize(
    ("past_runs", "due", "missed"),
    [
        (PastRuns(at(2)), [6], [2, 3, 4, 5]),  # the run of day 1, then none
        (PastRuns(at(2), (at(4),)), [3, 6], [2, 4, 5]),  # the one of day 3 failed
        (PastRuns(at(2), (at(5), at(4))), [3, 4, 6], [2, 5]),
        (PastRuns(at(6)), [2, 3, 4, 5, 6], []),  # all that is left over, for want of places
        (PastRuns(at(9)), [2, 3, 4, 5, 6], []),  # of a run with a later --now
        (PastRuns(None, (at(4),)), [3, 6], [2, 4, 5]),  # as far as records tell
        (None, [6], [2, 3, 4, 5]),
    ],
)
def test_what_no_run_was_there_for_is_missed(
    past_runs: PastRuns | None, due: list[int], missed: list[int]
) -> None:
    made = plan(SPEC, now_ms=at(7), history=read(0, 1), past_runs=past_runs)

    assert days(made) == (due, missed)
    assert made.skipped == 2 + len(missed)


def test_nothing_is_missed_before_the_first_run() -> None:
    assert days(plan(SPEC, now_ms=at(3), history=BareHistory({}))) == ([0, 1, 2], [])


def test_what_was_begun_is_finished() -> None:
    spec = replace(SPEC, end="-")
    history = BareHistory({signature(0): day(1), signature(1): day(1) + HOUR_MS})

    made = plan(spec, now_ms=day(4) + HOUR_MS, history=history, past_runs=PastRuns(at(1)))

    assert days(made) == ([1, 3, 4], [2]), "the rest of day 1, day 3, and day 4 so far"


def test_failed_work_units_are_tried_again_and_skipped_ones_are_not() -> None:
    records = {
        signature(0): day(1),
        signature(1): UnitRecord(signature(1), day(1), None, failed=True, attempts=1, owed=day(2)),
        signature(2): UnitRecord(signature(2), day(2), None, skipped=True),
    }
    spec = replace(SPEC, grace_ms=9 * 24 * HOUR_MS)

    made = plan(
        spec, now_ms=at(4), history=BareHistory(records), past_runs=PastRuns(at(3)), explain=True
    )

    assert days(made) == ([0, 1, 3], [])
    (skip,) = made.skips or ()
    assert skip.signature == signature(2)
    assert (skip.cutoff, skip.own_cutoff) == (None, None)


def test_a_range_that_ends_before_the_run_has_its_newest_period_read() -> None:
    spec = replace(SPEC, end="P3D")

    made = plan(spec, now_ms=at(9), history=read(0, 1), past_runs=PastRuns(at(5)))

    assert days(made) == ([5], [2, 3, 4])


def test_each_unit_misses_what_it_never_tried() -> None:
    spec = replace(SPEC, units=('{"u":"a"}', '{"u":"b"}'))
    history = BareHistory({signature(0): day(1), signature(1): day(2), signature(0, "b"): day(1)})

    made = plan(spec, now_ms=at(3), history=history, past_runs=PastRuns(at(1)))

    assert [unit.signature for unit in made.missed] == [signature(1, "b")]
    assert {unit.signature for unit in made.work_units} == {signature(2), signature(2, "b")}


@pytest.mark.parametrize("labels", [LABELS, replace(LABELS, schedule="", unit=LabelUnit.DAY)])
def test_periods_of_a_schedule_and_of_a_unit_are_left_out_alike(labels: TimelabelSpec) -> None:
    spec = replace(SPEC, partition="hourly", timelabel=labels)
    history = BareHistory({signature(0): day(0) + HOUR_MS})

    made = plan(spec, now_ms=at(4), history=history, past_runs=PastRuns(at(1)))

    assert sorted(set(days(made)[0])) == [0, 3]
    assert sorted(set(days(made)[1])) == [1, 2]
    assert len(made.missed) == 48


@pytest.mark.parametrize("changes", [{"backfill": True}, {"ignore_history": True}])
def test_who_reads_everything_leaves_out_nothing(changes: dict[str, bool]) -> None:
    labels = replace(LABELS, first_period=True)
    spec = replace(SPEC, timelabel=labels, **changes)

    made = plan(spec, now_ms=at(4), history=read(0), past_runs=PastRuns(at(1)))

    assert days(made) == ([0, 1, 2, 3], [])
    assert made.before_first == 0


# The first run


def test_the_first_run_reads_one_period() -> None:
    made = plan(FIRST_ONLY, now_ms=at(4), history=BareHistory({}))

    assert days(made) == ([3], [])
    assert (made.before_first, made.partitions, made.skipped) == (3, 1, 3)


def test_the_job_begins_with_the_earliest_of_the_first_runs_that_failed() -> None:
    past_runs = PastRuns(None, (at(3), at(2)))
    made = plan(FIRST_ONLY, now_ms=at(5), history=BareHistory({}), past_runs=past_runs)

    assert days(made) == ([1, 2, 3, 4], [])


def test_later_runs_begin_where_the_first_one_did() -> None:
    made = plan(FIRST_ONLY, now_ms=at(6), history=read(3))

    assert days(made) == ([4, 5], [])
    assert made.before_first == 3


def test_a_period_with_several_partitions_is_read_whole() -> None:
    spec = replace(FIRST_ONLY, partition="hourly")

    made = plan(spec, now_ms=at(4), history=BareHistory({}))

    assert [unit.low for unit in made.work_units] == [day(3) + k * HOUR_MS for k in range(24)]


def test_split_work_units_make_one_period_of_a_job_that_is_one_work_unit() -> None:
    labels = TimelabelSpec(schedule="10 0 * * *", splits=True, first_period=True)
    spec = replace(SPEC, partition="none", end="-", timelabel=labels)

    made = plan(spec, now_ms=at(4), history=BareHistory({}))

    windows = [(unit.low, unit.high) for unit in made.work_units]
    assert windows == [(day(3), day(4)), (day(4), at(4))]


# Whatever happens


outcomes = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(("read", "fail", "crash"))), max_size=8
)


@given(outcomes, st.integers(1, 4), st.sampled_from(("daily", "hourly")))
@settings(max_examples=150, deadline=None)
def test_a_period_is_read_or_recorded_as_skipped_and_read_if_a_run_was_there(
    runs: list[tuple[int, str]], limit: int, partition: str
) -> None:
    """Runs come after pauses of some days; some publish, some do not, all up to a limit."""
    spec = replace(SPEC, partition=partition, limit=limit * (24 if partition == "hourly" else 1))
    history: dict[str, int | UnitRecord] = {}
    committed, still_open, attended, number = None, [], set(), 1
    for pause, outcome in [(0, "read"), *runs, *[(0, "read")] * 8]:
        number += pause
        made = plan(
            spec,
            now_ms=at(number),
            history=BareHistory(history),
            past_runs=PastRuns(committed, tuple(still_open)),
        )
        due, missed = days(made)
        if committed is not None and not pause and not due:
            break
        assert not set(due) & set(missed)
        if pause or committed is None:
            attended.add(number - 1)
        assert not attended & set(missed), "a run was there"
        if outcome != "read":
            still_open.append(at(number))
            continue
        committed, still_open = at(number), []
        for unit in made.missed:
            history[unit.signature] = UnitRecord(
                unit.signature, unit.partition.low, None, skipped=True
            )
        history |= {unit.signature: unit.high for unit in made.work_units}
    final = plan(spec, now_ms=at(number), history=BareHistory(history), explain=True)
    assert days(final) == ([], [])
    kept = {
        (high - day(0) - 1) // (24 * HOUR_MS) for high in history.values() if isinstance(high, int)
    }
    assert attended <= kept
