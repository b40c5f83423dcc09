"""Finds unread remainders of partitions that a backfill would make look read; pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dil.model.history import History
from dil.model.interval import Interval
from dil.model.job import DAY_MS, PlanningSpec
from dil.model.work_unit import Plan, Reason, WorkUnit
from dil.planning.partitions import partition_from, splitting_windows
from dil.text.instants import HOUR_MS

if TYPE_CHECKING:
    from dil.text.windows import Windows

# No partition is longer, in any time zone.
_WIDEST_MS = {
    "hourly": HOUR_MS,
    "daily": 2 * DAY_MS,
    "weekly": 8 * DAY_MS,
    "monthly": 32 * DAY_MS,
    "yearly": 367 * DAY_MS,
    "none": 10_000 * 367 * DAY_MS,  # a sub-range of any length
}


def remainders_past_backfill(
    spec: PlanningSpec, plan: Plan, history: History
) -> tuple[WorkUnit, ...]:
    """Return the parts below the end of a backfill that stay unread, as work units.

    A unit's cutoff follows its newest high (rule P19). A backfill beyond this high moves the cutoff
    past a partition that was read in part; the other rows of this partition would never be read. If
    the remainder is recorded as failed, it stays due (rule P20).
    """
    windows = splitting_windows(spec)
    if not spec.backfill or (spec.partition == "none" and windows is None):
        return ()
    planned = {unit.signature for unit in plan.work_units}
    tops: dict[str, WorkUnit] = {}
    for unit in plan.work_units:
        top = tops.get(unit.unit_key)
        tops[unit.unit_key] = unit if top is None or unit.high > top.high else top
    widest = _widest(spec, windows)
    remainders: list[WorkUnit] = []
    for key, top in tops.items():
        coverage = history.coverage(key)
        if coverage is None or coverage.max_high >= top.high:
            continue
        newest = coverage.max_high
        # No partition that ends at the newest high begins earlier.
        low = newest - widest(newest)
        for record in history.records(key, low, newest).values():
            if record.high != newest or record.failed or record.signature in planned:
                continue
            end = partition_from(spec, record.low, top.high, now_ms=plan.now)
            if end is not None and end > newest:
                remainders.append(
                    WorkUnit(
                        record.signature,
                        newest,
                        end,
                        Interval(record.low, end),
                        top.unit_name,
                        top.unit_json,
                        Reason.RETRY,
                        last_high=newest,
                    )
                )
    return tuple(remainders)


def _widest(spec: PlanningSpec, windows: Windows | None) -> Callable[[int], int]:
    """Return a function: given a partition's end, it returns the greatest possible length in ms."""
    if windows is None:
        words = [word for word, _, _ in spec.composite] or [spec.partition]
        longest = max(_WIDEST_MS[word.lower()] for word in words)
        return lambda _: longest
    return lambda end: end - windows.at(end - 1).low
