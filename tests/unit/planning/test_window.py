"""What a backfill reads: the job's own partitions, as far as runs have read them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil import planning
from dil.errors import ConfigError, PlanningError
from dil.model.history import Coverage, UnitRecord
from dil.model.interval import Interval
from dil.model.job import PlanningSpec
from dil.model.work_unit import Plan, Reason
from dil.planning.window import plan_window
from tests.stories import day

NOW = day(40)
SPEC = PlanningSpec(
    start="2020-01-01", end="2020-01-31", partition="daily", zone="UTC", units=('{"u":"a"}',)
)


class Records:
    """A history of given records; ``signature`` is that of a day of the one unit."""

    def __init__(self, *records: UnitRecord) -> None:
        self._records = records

    def is_empty(self) -> bool:
        return not self._records

    def coverage(self, unit_key: str) -> Coverage | None:
        raise AssertionError(unit_key)

    def records(self, unit_key: str, low: int, high: int) -> Mapping[str, UnitRecord]:
        return {
            each.signature: each
            for each in self._records
            if low <= each.low < high and each.signature.endswith(f"{unit_key}]")
        }

    def open_records(self, unit_key: str) -> Mapping[str, UnitRecord]:
        raise AssertionError(unit_key)


def signature(number: int, unit: str = "a") -> str:
    return f'[watermark.datetime.{day(number)}, watermark.unit.{{"u":"{unit}"}}]'


def read(number: int, *, up_to: int | None = None, unit: str = "a") -> UnitRecord:
    high = day(number + 1) if up_to is None else up_to
    return UnitRecord(signature(number, unit), day(number), high)


def windows(plan: Plan) -> list[tuple[int, int]]:
    return [(unit.low, unit.high) for unit in plan.work_units]


def of_days(first: int, end: int, *records: UnitRecord, spec: PlanningSpec = SPEC) -> Plan:
    window = Interval(day(first), day(end))
    return plan_window(spec, window, now_ms=NOW, history=Records(*records))


def test_what_was_read_is_read_again_and_the_rest_is_left() -> None:
    plan = of_days(1, 4, read(0), read(1), read(3), read(4))

    assert windows(plan) == [(day(1), day(2)), (day(3), day(4))]
    assert {unit.reason for unit in plan.work_units} == {Reason.BACKFILL}
    assert (plan.skipped, plan.partitions) == (1, 3)


def test_signatures_are_those_of_the_jobs_own_plan() -> None:
    history = planning.BareHistory({})
    whole = planning.plan(SPEC, now_ms=NOW, history=history)

    plan = of_days(0, 30, *map(read, range(30)))

    assert [each.signature for each in plan.work_units] == [
        each.signature for each in whole.work_units
    ]
    assert windows(plan) == windows(whole)


def test_what_was_read_in_part_is_read_up_to_there() -> None:
    noon = day(2) + 43_200_000

    assert windows(of_days(1, 3, read(1), read(2, up_to=noon)))[1] == (day(2), noon)


def test_what_failed_is_read_as_far_as_it_should_have_been() -> None:
    noon = day(2) + 43_200_000
    failed = UnitRecord(signature(2), day(2), None, failed=True, owed=noon)

    assert windows(of_days(1, 3, failed)) == [(day(2), noon)]


@given(
    low=st.integers(day(0), day(30) - 1), length=st.integers(1, 31 * 86_400_000), read_days=st.sets(
        st.integers(0, 29)
    )
)  # fmt: skip
def test_every_day_with_an_instant_in_the_range_that_was_read_is_there_once(
    low: int, length: int, read_days: set[int]
) -> None:
    high = min(low + length, day(30))
    wanted = [
        number for number in sorted(read_days) if day(number) < high and day(number + 1) > low
    ]
    history = Records(*map(read, read_days))
    if not wanted:
        with pytest.raises(ConfigError):
            plan_window(SPEC, Interval(low, high), now_ms=NOW, history=history)
        return

    plan = plan_window(SPEC, Interval(low, high), now_ms=NOW, history=history)

    assert windows(plan) == [(day(number), day(number + 1)) for number in wanted]


def test_units_are_those_that_are_asked_for() -> None:
    spec = PlanningSpec(
        start="2020-01-01",
        end="2020-01-31",
        partition="daily",
        zone="UTC",
        units=('{"u":"a"}', '{"u":"b"}'),
    )
    history = Records(read(1), read(1, unit="b"))
    window = Interval(day(1), day(2))

    plan = plan_window(spec, window, now_ms=NOW, history=history, only=['{"u":"b"}'])

    assert [each.signature for each in plan.work_units] == [signature(1, "b")]
    with pytest.raises(ConfigError):
        plan_window(spec, window, now_ms=NOW, history=history, only=['{"u":"c"}'])


def test_units_of_the_source_must_be_told() -> None:
    spec = PlanningSpec(start="2020-01-01", end="2020-01-31", zone="UTC", units=None)

    with pytest.raises(PlanningError):
        of_days(1, 2, spec=spec)


@pytest.mark.parametrize(("first", "end"), [(2, 2), (3, 2), (-1, 2), (29, 31), (40, 41)])
def test_a_range_out_of_the_watermarks_is_refused(first: int, end: int) -> None:
    with pytest.raises(ConfigError):
        of_days(first, end, read(1), read(29))


def test_a_watermark_without_time_has_nothing_to_read_again() -> None:
    empty = PlanningSpec(start="2020-01-31", end="2020-01-01", zone="UTC")
    with pytest.raises(ConfigError, match="has an empty range, so no rows can be read again"):
        of_days(1, 2, spec=empty)


def test_a_range_between_two_sub_ranges_is_refused() -> None:
    parts = (("daily", "2020-01-01", "2020-01-05"), ("daily", "2020-01-20", "2020-01-31"))
    spec = PlanningSpec(start="2020-01-01", end="2020-01-31", zone="UTC", composite=parts)
    with pytest.raises(ConfigError, match="name a range that contains no partition"):
        of_days(6, 8, read(1), spec=spec)


def test_a_range_that_no_run_has_reached_is_refused() -> None:
    with pytest.raises(ConfigError, match="no run has read anything yet"):
        of_days(10, 12, read(1))
