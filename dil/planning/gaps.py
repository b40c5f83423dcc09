"""Finds, by unit, the stretches of a range that were read, and the unread ones; pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from dil.model.history import UnitRecord, UnitStretches
from dil.model.interval import DAY_MS, Interval
from dil.model.job import PlanningSpec
from dil.model.work_unit import unit_key
from dil.planning.cutoff import CutoffRule
from dil.planning.partitions import Partitions, partition, watermark_range

_YEAR_MS = 366 * DAY_MS


class GapStatus(StrEnum):
    """The status of a stretch of time; if stretches overlap, the first member of this list counts.

    An ``OPEN`` stretch was not read, but may still be read: it is in the abstinent period of the
    newest success, after the end of the partitions so far, or after the event-time watermark. All
    other unread stretches are ``NEVER``.
    """

    COMMITTED = "committed"
    FAILED = "failed"
    SKIPPED = "skipped"
    OPEN = "open"
    NEVER = "never"


class Stretch(msgspec.Struct, frozen=True, gc=False):
    """A stretch of time with one status; epoch ms UTC."""

    low: int
    high: int
    status: GapStatus


@dataclass(frozen=True, slots=True)
class UnitGaps:
    """The stretches of one unit, ascending; they fill the window, and equal neighbours are joined.

    ``in_job`` is False for a unit that only the state knows: no run reads this unit any more.
    """

    unit_key: str
    stretches: tuple[Stretch, ...]
    in_job: bool


def gaps(
    spec: PlanningSpec,
    window: Interval,
    recorded: Iterable[UnitStretches],
    *,
    now_ms: int,
    watermark: int | None = None,
) -> list[UnitGaps]:
    """Return for each unit the stretches of a window with their status.

    Units of the job come first, in its order, even without records; then units that only the state
    knows, by key. If units come from input or from the source, all recorded units count as units of
    the job.

    Args:
        spec: The job's planning properties.
        window: The range, epoch ms UTC.
        recorded: The recorded stretches, by unit.
        now_ms: The one value of now, epoch ms UTC.
        watermark: The event-time watermark, epoch ms UTC, None for a job without one.

    Raises:
        ConfigError: the watermark or the partition type cannot be understood.
    """
    known = {unit.unit_key: unit for unit in recorded}
    if spec.units is None:
        wanted = dict.fromkeys(sorted(known))
    else:
        wanted = dict.fromkeys(unit_key(spec.unit_name, text) for text in spec.units)
    grid = _Grid.of(spec, window, now_ms, watermark)
    found = [_of_unit(known.get(key, UnitStretches(key)), window, grid) for key in wanted]
    return found + [_of_unit(known[key], window, None) for key in sorted(known.keys() - wanted)]


@dataclass(frozen=True, slots=True)
class _Grid:
    """The partitions that the job would read, and the part of the window after them.

    ``rule`` decides which part of a read partition is left; None if history does not count.
    """

    partitions: Partitions
    behind: Interval
    rule: CutoffRule | None

    @classmethod
    def of(cls, spec: PlanningSpec, window: Interval, now_ms: int, watermark: int | None) -> _Grid:
        partitions = partition(spec, now_ms=now_ms)
        end = watermark_range(spec, now_ms=now_ms).high
        is_growing = end < watermark_range(spec, now_ms=now_ms + _YEAR_MS).high
        reached = partitions.ends[-1] if partitions else window.low
        if watermark is not None:
            reached = max(window.low, min(reached, watermark))
        behind = Interval(reached, window.high if is_growing else min(window.high, end))
        is_anew = spec.backfill or spec.ignore_history
        return cls(partitions, behind, None if is_anew else CutoffRule.of(spec))

    def rest(self, newest: Interval | None) -> Iterator[Interval]:
        """Yield the unread part of the newest success's partition, if the next run leaves it out.

        The part ends where the next run starts to read.
        """
        starts, rule = self.partitions.starts, self.rule
        if newest is None or rule is None:
            return
        index = bisect_left(starts, newest.low)
        if index == len(starts) or starts[index] != newest.low:
            return
        record = UnitRecord("", newest.low, newest.high)
        whole = self.partitions[index]
        low = rule.decide(whole, record, rule.overall([newest.high])).low
        rest = Interval(newest.high, whole.high if low is None else low)
        if not rest.is_empty:
            yield rest


def _of_unit(unit: UnitStretches, window: Interval, grid: _Grid | None) -> UnitGaps:
    """Return the stretches of a unit; if ``grid`` is None, no run reads more of the unit."""
    layers: dict[GapStatus, Sequence[Interval]] = {
        GapStatus.COMMITTED: unit.read,
        GapStatus.FAILED: unit.failed,
        GapStatus.SKIPPED: unit.skipped,
    }
    if grid is not None:
        rest = grid.rest(unit.newest)
        if grid.rule is not None and grid.rule.once:  # a file that was read does not grow with time
            layers[GapStatus.COMMITTED] = [*unit.read, *rest]
            rest = iter(())
        layers[GapStatus.OPEN] = sorted([*rest, grid.behind])
    # Each layer fills the holes that earlier layers left.
    holes = [] if window.is_empty else [window]
    found: list[Stretch] = []
    for status, stretches in layers.items():
        taken, holes = _filled(holes, stretches)
        found += [Stretch(each.low, each.high, status) for each in taken]
    found += [Stretch(each.low, each.high, GapStatus.NEVER) for each in holes]
    joined: list[Stretch] = []
    for stretch in sorted(found, key=lambda each: each.low):
        if joined and joined[-1].status is stretch.status:
            joined[-1] = Stretch(joined[-1].low, stretch.high, stretch.status)
        else:
            joined.append(stretch)
    return UnitGaps(unit.unit_key, tuple(joined), in_job=grid is not None)


def _filled(
    holes: Sequence[Interval], stretches: Sequence[Interval]
) -> tuple[list[Interval], list[Interval]]:
    """Return the parts of holes that stretches fill, and the remaining holes; all ascending."""
    taken: list[Interval] = []
    left: list[Interval] = []
    following = iter(stretches)
    stretch = next(following, None)
    for hole in holes:
        reached = hole.low
        while stretch is not None and stretch.low < hole.high:
            low, high = max(stretch.low, reached), min(stretch.high, hole.high)
            if low < high:
                if reached < low:
                    left.append(Interval(reached, low))
                taken.append(Interval(low, high))
                reached = high
            if stretch.high > hole.high:
                break
            stretch = next(following, None)
        if reached < hole.high:
            left.append(Interval(reached, hole.high))
    return taken, left
