"""The cutoff rule: rules P19 to P24, with worked examples."""

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from dil.model.history import UnitRecord
from dil.model.interval import DAY_MS, Interval
from dil.model.job import PlanningSpec
from dil.model.work_unit import Plan, Reason
from dil.planning import BareHistory, plan
from dil.planning.cutoff import CutoffRule


def la(text: str) -> int:
    zone = ZoneInfo("America/Los_Angeles")
    return round(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


def run(spec: PlanningSpec, day: str, history: dict[str, int]) -> tuple[Plan, dict[str, int]]:
    """Plan one run and return its plan and the history after its success."""
    made = plan(spec, now_ms=la(day), history=BareHistory(history))
    return made, history | {unit.signature: unit.high for unit in made.work_units}


def windows(made: Plan) -> list[tuple[int, int]]:
    return [(unit.low, unit.high) for unit in made.work_units]


def test_e1_a_growing_month_is_read_again_from_the_cutoff() -> None:
    spec = PlanningSpec(start="2019-01-01", end="P0D", partition="monthly", grace_ms=3 * DAY_MS)

    first, history = run(spec, "2020-02-21 12:00", {})
    second, _ = run(spec, "2020-02-22 12:00", history)

    assert len(first.work_units) == 14
    assert second.cutoff == la("2020-02-18")
    assert windows(second) == [(la("2020-02-18"), la("2020-02-22"))]
    assert second.work_units[0].partition == Interval(la("2020-02-01"), la("2020-02-22"))
    assert second.work_units[0].reason is Reason.INCREMENTAL
    assert second.skipped == 13


def test_e2_daily_partitions_inside_the_grace_period_are_read_again() -> None:
    spec = PlanningSpec(start="2020-01-01", end="P0D", partition="daily", grace_ms=3 * DAY_MS)

    _, history = run(spec, "2020-02-21", {})
    second, _ = run(spec, "2020-02-22", history)

    assert max(history.values()) == 1582272000000
    assert second.cutoff == 1582012800000
    assert windows(second) == [
        (la("2020-02-18"), la("2020-02-19")),
        (la("2020-02-19"), la("2020-02-20")),
        (la("2020-02-20"), la("2020-02-21")),
        (la("2020-02-21"), la("2020-02-22")),
    ]
    assert [unit.reason for unit in second.work_units] == [Reason.INCREMENTAL] * 3 + [Reason.NEW]


def test_e3_abstinence_leaves_a_day_out() -> None:
    spec = PlanningSpec(start="2020-01-01", end="P0D", abstinent_ms=DAY_MS)

    first, history = run(spec, "2020-01-15", {})
    second, history = run(spec, "2020-01-16", history)
    third, _ = run(spec, "2020-01-17", history)

    assert windows(first) == [(la("2020-01-01"), la("2020-01-15"))]
    assert windows(second) == []
    assert (second.cutoff, second.skipped) == (la("2020-01-16"), 1)
    assert windows(third) == [(la("2020-01-16"), la("2020-01-17"))]


def test_e4_grace_widens_an_unpartitioned_range() -> None:
    spec = PlanningSpec(start="2020-01-01", end="P0D", grace_ms=3 * DAY_MS)

    _, history = run(spec, "2020-01-15", {})
    second, _ = run(spec, "2020-01-16", history)

    assert windows(second) == [(la("2020-01-12"), la("2020-01-16"))]
    unit = second.work_units[0]
    assert (unit.last_high, unit.cutoff) == (la("2020-01-15"), la("2020-01-12"))


def test_e5_files_that_the_source_keeps_a_week_are_read_once() -> None:
    read: list[str] = []
    history: dict[str, int] = {}
    for day in range(15, 30):
        files = tuple(f'{{"file":"f{n}"}}' for n in range(max(15, day - 6), day + 1))
        spec = PlanningSpec(
            start="2020-01-01", end="P0D", unit_name="file", units=files, abstinent_ms=7 * DAY_MS
        )
        made, history = run(spec, f"2020-01-{day:02}", history)
        read += [unit.unit_json for unit in made.work_units]

    assert read == [f'{{"file":"f{n}"}}' for n in range(15, 30)]


def test_a_new_unit_every_day_does_not_keep_older_ones_from_being_due_again() -> None:
    units = ('{"id":"old"}',)
    spec = PlanningSpec(start="2020-01-01", end="P0D", units=units, abstinent_ms=2 * DAY_MS)
    _, history = run(spec, "2020-01-15", {})

    _, history = run(replace(spec, units=(*units, '{"id":"b"}')), "2020-01-16", history)
    third, _ = run(replace(spec, units=(*units, '{"id":"c"}')), "2020-01-18", history)

    assert [unit.unit["id"] for unit in third.work_units] == ["old", "c"]
    assert third.work_units[0].low == la("2020-01-17")


def test_e6_a_limit_works_through_many_units_run_by_run() -> None:
    units = tuple(f'{{"file":"{n}"}}' for n in range(1000))
    spec = PlanningSpec(
        start="2020-01-01", end="P0D", units=units, abstinent_ms=30 * DAY_MS, limit=300
    )

    first, history = run(spec, "2020-02-01", {})
    second, _ = run(spec, "2020-02-01", history)

    assert [unit.unit_json for unit in first.work_units] == [*units[:300]]
    assert [unit.unit_json for unit in second.work_units] == [*units[300:600]]
    assert (second.skipped, second.left) == (300, 400)


def test_e7_a_partition_that_never_succeeded_is_read_whole_however_old_it_is() -> None:
    spec = PlanningSpec(start="2020-02-01", end="P0D", partition="daily", grace_ms=3 * DAY_MS)
    _, history = run(spec, "2020-02-21", {})
    failed = f"[watermark.datetime.{la('2020-02-10')}, watermark.unit.{{}}]"
    history[failed] = la("2020-02-10")

    made, _ = run(spec, "2020-02-22", history)

    assert made.cutoff == la("2020-02-18")
    assert windows(made)[0] == (la("2020-02-10"), la("2020-02-11"))
    assert made.work_units[0].reason is Reason.RETRY
    assert made.work_units[0].last_high is None
    assert windows(made)[1] == (la("2020-02-18"), la("2020-02-19"))


PARTITION = Interval(10 * DAY_MS, 11 * DAY_MS)


def record(high: int | None, *, failed: bool = False) -> UnitRecord:
    return UnitRecord("s", PARTITION.low, high, failed)


@pytest.mark.parametrize(
    ("high", "shift", "overall", "due"),
    [
        (PARTITION.high, 0, PARTITION.high, False),
        (PARTITION.high - 1, 0, PARTITION.high - 1, True),
        (PARTITION.high, -1, PARTITION.high - 1, True),
        (PARTITION.high, -1, PARTITION.high, False),
        (PARTITION.high - 2, 1, PARTITION.high - 1, True),
        (PARTITION.high - 1, 1, PARTITION.high, False),
    ],
)
def test_due_is_strictly_after_both_cutoffs(high: int, shift: int, overall: int, due: bool) -> None:
    decision = CutoffRule(shift).decide(PARTITION, record(high), overall)

    assert (decision.low is not None) is due


def test_a_failed_attempt_is_due_whatever_the_cutoff_and_keeps_its_last_high() -> None:
    high = PARTITION.high - DAY_MS // 2

    decision = CutoffRule(0).decide(PARTITION, record(high, failed=True), 99 * DAY_MS)

    assert (decision.low, decision.reason, decision.waits) == (high, Reason.RETRY, True)


def test_a_first_attempt_that_failed_is_read_whole() -> None:
    decision = CutoffRule(DAY_MS).decide(PARTITION, record(None, failed=True), 99 * DAY_MS)

    assert (decision.low, decision.reason, decision.cutoff) == (PARTITION.low, Reason.RETRY, None)


def test_a_failed_attempt_with_nothing_left_to_read_is_not_due() -> None:
    decision = CutoffRule(0).decide(PARTITION, record(PARTITION.high, failed=True), None)

    assert decision.low is None


def test_a_replaced_window_is_read_from_its_start() -> None:
    rule = CutoffRule(-DAY_MS // 2, from_partition_start=True)

    decision = rule.decide(PARTITION, record(PARTITION.high), None)

    assert (decision.low, decision.cutoff) == (PARTITION.low, PARTITION.high - DAY_MS // 2)


def test_the_overall_cutoff_is_the_newest_success_shifted() -> None:
    assert CutoffRule(5).overall([None, None]) is None
    assert CutoffRule(5).overall([None, PARTITION.high, PARTITION.low]) == PARTITION.high + 5


def test_records_that_never_succeeded_do_not_count_in_the_overall_cutoff() -> None:
    spec = PlanningSpec(start="2020-02-01", end="P0D", partition="daily", abstinent_ms=5)
    first, second = la("2020-02-01"), la("2020-02-02")
    names = [f"[watermark.datetime.{start}, watermark.unit.{{}}]" for start in (first, second)]

    assert run(spec, "2020-02-04", {names[1]: second})[0].cutoff is None
    made, _ = run(spec, "2020-02-04", {names[0]: second, names[1]: second})
    assert made.cutoff == second + 5


def test_a_high_at_the_start_of_its_partition_is_no_success() -> None:
    """So the whole partition is due, whatever the abstinent period is."""
    record = UnitRecord("s", 0, 0)

    found = CutoffRule(shift_ms=DAY_MS).decide(Interval(0, 2 * DAY_MS), record, None)

    assert (found.low, found.reason, found.cutoff) == (0, Reason.RETRY, None)
