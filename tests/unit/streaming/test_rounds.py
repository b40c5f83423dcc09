"""Due work units, cut into micro-batches."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dil.model.report import RunReport, RunStatus, UnitCounts
from dil.model.stream import StreamSpec
from dil.streaming.patience import Patience, backoff_s
from dil.streaming.rounds import Admission, micro_batches
from tests.micro_batches import DAY_MS, plan_of


def report(units: int, rows: int, size: int = 0) -> RunReport:
    return RunReport("feed", "", RunStatus.SUCCESS, UnitCounts(units, units), rows=rows, bytes=size)


def numbers(plan) -> tuple[int, ...]:
    return tuple(unit.partition.low // DAY_MS for unit in plan.work_units)


@given(
    due=st.lists(st.integers(0, 30), unique=True, max_size=20).map(sorted),
    size=st.integers(1, 6),
    alone=st.sets(st.integers(0, 30)),
    held=st.sets(st.integers(0, 30)),
    again=st.sets(st.integers(0, 30), max_size=4),
)
def test_each_due_work_unit_is_in_one_micro_batch_or_held_back(
    due, size, alone, held, again
) -> None:
    patience = Patience()
    for number in alone | held:
        patience.failed_alone([f"[{number}]"], 0 if number in held else -1_000)
    patience.failed_together(f"[{number}]" for number in sorted(again))
    admission = Admission(StreamSpec(max_units=size), None)

    found = list(micro_batches(plan_of(*due), admission, patience, now_s=0.5))

    taken = [number for each in found for number in numbers(each.plan)]
    assert sorted(taken) == [number for number in due if number not in held]
    for place, each in enumerate(found):
        rest = {number for later in found[place + 1 :] for number in numbers(later.plan)}
        rest |= held & set(due)
        assert each.plan.left_low == (min(rest) * DAY_MS if rest else None)
        assert not each.is_alone or len(each.plan.work_units) == 1
        if set(numbers(each.plan)) & (alone | held):
            assert each.is_alone


def test_the_work_units_of_a_micro_batch_that_failed_come_first_and_together() -> None:
    patience = Patience()
    patience.failed_together(["[3]", "[4]"])
    admission = Admission(StreamSpec(max_units=1), None)

    found = micro_batches(plan_of(1, 3, 4, 5), admission, patience, now_s=0)

    assert [numbers(each.plan) for each in found] == [(3, 4), (1,), (5,)]


def test_work_units_that_no_run_reads_are_recorded_by_the_first_micro_batch_alone() -> None:
    due = replace(plan_of(1, 2, 3), missed=plan_of(0).work_units)

    found = micro_batches(due, Admission(StreamSpec(max_units=1), None), Patience(), now_s=0)

    assert [len(each.plan.missed) for each in found] == [1, 0, 0]


def test_rows_are_estimated_by_the_micro_batches_before() -> None:
    admission = Admission(StreamSpec(max_rows=1_000), 500)
    assert admission.next_size() == 1
    admission.learn(report(1, 100))
    assert admission.next_size() == 2, "a guess grows slowly"
    admission.learn(report(2, 200))
    assert admission.next_size() == 4
    for _ in range(2):
        admission.learn(report(8, 800))
    assert admission.next_size() == 10
    admission.learn(report(1, 100_000))
    assert admission.next_size() == 1


def test_bytes_are_estimated_like_rows_and_adopted_work_units_count() -> None:
    admission = Admission(StreamSpec(max_bytes=1_000), None)
    for _ in range(4):
        admission.learn(replace(report(0, 0, size=800), units=UnitCounts(8, adopted=8)))
    assert admission.next_size() == 10


def test_the_least_of_all_limits_counts() -> None:
    admission = Admission(StreamSpec(max_units=7, max_rows=10**9, max_bytes=500), 5)
    for _ in range(9):
        admission.learn(report(50, 10, size=5_000))
    assert admission.next_size() == 5
    assert Admission(StreamSpec(), None).next_size() is None


def test_waits_double_up_to_five_minutes() -> None:
    assert [backoff_s(n) for n in (1, 2, 3, 9, 10, 1_000)] == [1, 2, 4, 256, 300, 300]


def test_what_was_published_is_neither_held_back_nor_read_alone() -> None:
    patience = Patience()
    patience.failed_alone(["[1]"], 0)
    patience.succeeded(["[1]"])

    (unit,) = plan_of(1).work_units
    assert not patience.is_held(unit, 0.5)
    assert not patience.is_alone(unit)
    assert patience.knows_nothing
