"""Compares recorded partitions with a job's: misfits, and remainders that a backfill hides."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
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

    ``earlier_end`` returns the end that the partition at a start has on the grid of earlier runs,
    None if that is unknown. If it is the present end, a recorded partition that ends before was
    only cut off by the earlier ``to`` or by the time of the run. ``only_start`` is the only start
    of a job without partitions, None if the job has partitions.
    """

    partitions: Partitions
    earlier_end: Callable[[int], int | None]
    only_start: int | None = None

    def misfits(self, recorded: Iterable[Interval]) -> Iterator[Interval]:
        """Yield the recorded partitions that a plan would read again under other boundaries.

        Recorded partitions outside of all partitions are left out: no plan reads them again.
        """
        starts, ends = self.partitions.starts, self.partitions.ends
        for each in recorded:
            at = bisect_left(starts, each.low)
            if at < len(starts) and starts[at] == each.low:
                is_cut_off = each.high < ends[at] and self.earlier_end(each.low) == ends[at]
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
    limit = reached_ms + _BEYOND_MS
    partitions = partition(whole, now_ms=now_ms, until_ms=limit)
    is_whole = spec.partition.lower() == "none" and not spec.composite
    is_one = is_whole and splitting_windows(spec) is None
    low = watermark_range(spec, now_ms=now_ms).low if is_one else None
    present, earlier = _members(shape(spec)), _members(known_shape)
    if _without(present) == _without(earlier):
        ends = dict(zip(partitions.starts, partitions.ends, strict=True))
        return Grid(partitions, ends.get, low)
    known = _with_partition(whole, earlier)
    if known is None or _without(present, "partition") != _without(earlier, "partition"):
        return Grid(partitions, lambda _: None, low)
    return Grid(partitions, lambda start: partition_from(known, start, limit, now_ms=now_ms), low)


def _members(text: str) -> dict[str, object]:
    """Return the members of a shape; a text of another release is its only member."""
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except msgspec.DecodeError:
        return {"text": text}


def _without(members: Mapping[str, object], *names: str) -> dict[str, object]:
    """Return the members of a shape but its ``from``, its note and those of some names."""
    left_out = {"from", "apart", *names}
    return {name: value for name, value in members.items() if name not in left_out}


def _with_partition(spec: PlanningSpec, earlier: Mapping[str, object]) -> PlanningSpec | None:
    """Return the job's watermark with the ``from`` and partition of an earlier shape.

    The result is None if that partition is no single word, or timelabels split work units.
    """
    start, kind = earlier.get("from"), earlier.get("partition")
    is_word = isinstance(kind, str) and kind != "none"
    if not is_word or not isinstance(start, str) or splitting_windows(spec) is not None:
        return None
    return replace(spec, start=start, partition=str(kind), composite=())


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
