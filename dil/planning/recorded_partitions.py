"""Compares recorded partitions with a job's: misfits, and remainders that a backfill hides."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import msgspec

from dil.model.history import History
from dil.model.interval import DAY_MS, HOUR_MS, Interval
from dil.model.job import PlanningSpec
from dil.model.work_unit import Plan, Reason, WorkUnit
from dil.planning.partitions import (
    Partitions,
    partition,
    partition_from,
    shape,
    splitting_windows,
    watermark_range,
)

# Longer than any partition, except the only partition of the type none.
_BEYOND_MS = 400 * DAY_MS

# No partition is longer, in any time zone.
_WIDEST_MS = {
    "hourly": HOUR_MS,
    "daily": 2 * DAY_MS,
    "weekly": 8 * DAY_MS,
    "monthly": 32 * DAY_MS,
    "yearly": 367 * DAY_MS,
    "none": 10_000 * 367 * DAY_MS,  # a sub-range of any length
}


@dataclass(frozen=True, slots=True)
class Grid:
    """The partitions of a job up to the end of the records, whatever ``to`` and now are.

    ``is_same_kind`` says that earlier runs cut time in the same way, and only ``from`` has moved.
    Then a recorded partition that ends before its present end was only cut off by the earlier
    ``to``. ``only_start`` is the only start of a job without partitions, None if the job has
    partitions.
    """

    partitions: Partitions
    is_same_kind: bool
    only_start: int | None = None

    def misfits(self, recorded: Iterable[Interval]) -> Iterator[Interval]:
        """Yield the recorded partitions that a plan would read again under other boundaries.

        Recorded partitions outside of all partitions are left out: no plan reads them again.
        """
        starts, ends = self.partitions.starts, self.partitions.ends
        for each in recorded:
            at = bisect_left(starts, each.low)
            if at < len(starts) and starts[at] == each.low:
                is_cut_off = self.is_same_kind and each.high < ends[at]
                if each.high != ends[at] and not is_cut_off:
                    yield each
                continue
            begins_in = at > 0 and ends[at - 1] > each.low
            reaches_in = at < len(starts) and starts[at] < each.high
            if begins_in or reaches_in or self.only_start is not None:
                yield each


def grid_until(spec: PlanningSpec, reached_ms: int, known_shape: str, *, now_ms: int) -> Grid:
    """Return the partitions of a job up to the end of its records, ``reached_ms`` (epoch ms UTC).

    Raises:
        ConfigError: as ``partition``.
    """
    whole = replace(spec, partial=True)
    partitions = partition(whole, now_ms=now_ms, until_ms=reached_ms + _BEYOND_MS)
    is_whole = spec.partition.lower() == "none" and not spec.composite
    is_one = is_whole and splitting_windows(spec) is None
    low = watermark_range(spec, now_ms=now_ms).low if is_one else None
    return Grid(partitions, _kind(shape(spec)) == _kind(known_shape), low)


def _kind(text: str) -> dict[str, object] | str:
    """Return a shape without its ``from`` and note; a text of another release stays as it is."""
    try:
        members = msgspec.json.decode(text, type=dict[str, object])
    except msgspec.DecodeError:
        return text
    return {name: value for name, value in members.items() if name not in {"from", "apart"}}


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
    longest = max(_WIDEST_MS[word.lower()] for word in spec.words)
    remainders: list[WorkUnit] = []
    for key, top in tops.items():
        coverage = history.coverage(key)
        if coverage is None or coverage.max_high >= top.high:
            continue
        newest = coverage.max_high
        # No partition that ends at the newest high begins earlier.
        low = newest - longest if windows is None else windows.at(newest - 1).low
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
