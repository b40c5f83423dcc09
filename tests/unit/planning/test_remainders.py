"""What a backfill leaves unread of partitions that were read in part stays due."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dil.model.history import Coverage, UnitRecord
from dil.model.interval import SubRange
from dil.model.job import PlanningSpec
from dil.model.timelabels import TimelabelSpec
from dil.planning import BareHistory, plan, remainders_past_backfill
from tests.stories import day

KEY = "unit.{}"
NOW = day(400)


class ReadOnce:
    """A history of one unit, of which one partition was read up to ``high``."""

    def __init__(self, low: int, high: int) -> None:
        self.record = UnitRecord(f"[watermark.datetime.{low}, watermark.{KEY}]", low, high)

    def has_succeeded(self) -> bool:
        return True

    def coverage(self, unit_key: str) -> Coverage | None:
        assert unit_key == KEY
        return Coverage(self.record.low, self.record.high, self.record.high, 0)

    def records(self, unit_key: str, low: int, high: int) -> Mapping[str, UnitRecord]:
        assert unit_key == KEY
        found = low <= self.record.low < high
        return {self.record.signature: self.record} if found else {}

    def open_records(self, unit_key: str) -> Mapping[str, UnitRecord]:
        raise AssertionError(unit_key)


def left(spec: PlanningSpec, low: int, high: int) -> list[tuple[int, int]]:
    """Return the parts that a backfill leaves unread, of days since 2020 began."""
    made = plan(spec, now_ms=NOW, history=BareHistory({}))
    found = remainders_past_backfill(spec, made, ReadOnce(day(low), day(high)))
    return [
        ((each.low - day(0)) // 86_400_000, (each.high - day(0)) // 86_400_000) for each in found
    ]


def backfill(start: str, **more: object) -> PlanningSpec:
    given = {"end": "2020-06-01", "partition": "monthly", **more}
    return PlanningSpec(start=start, zone="UTC", backfill=True, **given)  # type: ignore[arg-type]


def test_the_rest_of_a_month_is_read_after_a_backfill_of_later_months() -> None:
    assert left(backfill("2020-03-01"), 0, 9) == [(9, 31)]
    assert left(backfill("2020-03-01"), 0, 31) == []


@pytest.mark.parametrize("word", ["none", "monthly"])
def test_the_rest_of_a_sub_range_is_read_too(word: str) -> None:
    parts = (
        SubRange(word, "2020-01-01", "2020-02-01"),
        SubRange("daily", "2020-03-01", "2020-06-01"),
    )
    spec = backfill("2020-03-01", partition="composite", composite=parts)
    assert left(spec, 0, 9) == [(9, 31)]
    assert left(spec, 40, 41) == [], "no sub-range has the 10th of February"


def test_a_sub_range_of_years_may_be_one_partition() -> None:
    parts = (
        SubRange("none", "2010-01-01", "2020-02-01"),
        SubRange("daily", "2020-03-01", "2020-06-01"),
    )
    spec = backfill("2020-03-01", partition="composite", composite=parts)
    assert left(spec, -3652, 9) == [(9, 31)]


def test_the_rest_ends_where_a_timelabel_does() -> None:
    weeks = TimelabelSpec(schedule="0 0 * * 1", splits=True)
    spec = backfill("2020-03-01", timelabel=weeks)
    assert left(spec, 5, 7) == [(7, 12)], "the week that began on Monday the 6th"
