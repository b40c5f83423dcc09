"""The time watermark cut into half-open partitions (rules P6 to P12)."""

from __future__ import annotations

import sys
from bisect import bisect_left
from calendar import monthrange
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import count, pairwise
from typing import TYPE_CHECKING

from dil.errors import ConfigError
from dil.model.interval import HOUR_MS, Interval
from dil.model.job import PlanningSpec
from dil.model.json import JsonValue, compact
from dil.text.instants import INSTANT_FIX, Instant, InstantError, parse_instant
from dil.text.zones import find_zone, to_local, to_ms

if TYPE_CHECKING:
    from dil.text.windows import Windows

WATERMARK_KEY = "ms.watermark"
_APART = ',"apart":true'
PARTITION_KEY = "ms.work.unit.partition"


def _months_later(local: datetime, months: int) -> datetime:
    years, month = divmod(local.month - 1 + months, 12)
    year = local.year + years
    return local.replace(
        year=year, month=month + 1, day=min(local.day, monthrange(year, month + 1)[1])
    )


# How far boundary k lies from the first one, on the local calendar.
_STEPS: dict[str, Callable[[datetime, int], datetime]] = {
    "daily": lambda local, k: local + timedelta(days=k),
    "weekly": lambda local, k: local + timedelta(days=7 * k),
    "monthly": _months_later,
    "yearly": lambda local, k: _months_later(local, 12 * k),
}
WORDS = ("none", "hourly", *_STEPS)


@dataclass(frozen=True, slots=True)
class Partitions:
    """Partitions in ascending order, as epoch ms UTC; they never overlap.

    ``zone`` is the zone of the watermark's ``from``; the partitions were cut in this zone.
    """

    starts: Sequence[int]
    ends: Sequence[int]
    zone: str

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> Interval:
        return _interval(self.starts[index], self.ends[index])

    def from_index(self, first: int) -> Partitions:
        """Return the partitions from an index on."""
        return Partitions(self.starts[first:], self.ends[first:], self.zone) if first else self


# A walk asks for the same partition once per unit.
@lru_cache(maxsize=1024)
def _interval(low: int, high: int) -> Interval:
    return Interval(low, high)


def partition(spec: PlanningSpec, *, now_ms: int, until_ms: int | None = None) -> Partitions:
    """Return the partitions of the watermark's range; none if ``from`` is at or after ``to``.

    Boundary k is the watermark's ``from`` plus k steps on the local calendar, clipped on its own
    (rule P9). A boundary that falls into a DST gap moves forward by the gap, without moving the
    other boundaries; hourly steps are elapsed hours. A last partition that is shorter than its type
    is kept if ``spec.partial`` is true. The range ends ``spec.delay_ms`` before now at the latest.
    If timelabels split work units, partitions are cut again at the ends of windows (rule T12).
    ``until_ms`` replaces the watermark's ``to``, and the now of sub-ranges that end at now.

    Raises:
        ConfigError: a text is no point in time, a partition word is unknown, sub-ranges overlap or
            none has any time in it.
    """
    start = _instant(spec.start, WATERMARK_KEY, spec.zone, now_ms=now_ms, end=False)
    if until_ms is None:
        end = _instant(spec.end, WATERMARK_KEY, spec.zone, now_ms=now_ms, end=True).ms
        if spec.delay_ms:
            end = min(end, now_ms - spec.delay_ms)
    else:
        end = until_ms
    if not spec.composite:
        word = _known(spec.partition)
        starts, ends = _cut(word, start, end, partial=spec.partial)
        return _by_window(spec, Partitions(starts, ends, start.zone))
    starts, ends = [], []
    for word, low, high in _sub_ranges(spec, now_ms if until_ms is None else until_ms):
        first = low if low.ms > start.ms else start
        more_starts, more_ends = _cut(word, first, min(high, end), partial=spec.partial)
        starts += more_starts
        ends += more_ends
    return _by_window(spec, Partitions(starts, ends, start.zone))


def watermark_range(spec: PlanningSpec, *, now_ms: int) -> Interval:
    """Return the range of the watermark without delay; if it has sub-ranges, the range they span.

    Raises:
        ConfigError: a text is no point in time, or a partition word is unknown.
    """
    low = _instant(spec.start, WATERMARK_KEY, spec.zone, now_ms=now_ms, end=False).ms
    high = _instant(spec.end, WATERMARK_KEY, spec.zone, now_ms=now_ms, end=True).ms
    if spec.composite:
        ranges = _sub_ranges(spec, now_ms)
        low, high = max(low, ranges[0][1].ms), min(high, ranges[-1][2])
    return Interval(low, high)


def _by_window(spec: PlanningSpec, whole: Partitions) -> Partitions:
    """Return the partitions; if timelabels split work units, each lies in one window."""
    windows = splitting_windows(spec)
    if windows is None:
        return whole
    starts, ends = [], []
    for low, high in zip(whole.starts, whole.ends, strict=True):
        reached = low
        while reached < high:
            starts.append(reached)
            reached = min(windows.at(reached).high, high)
            ends.append(reached)
    return Partitions(starts, ends, whole.zone)


def splitting_windows(spec: PlanningSpec) -> Windows | None:
    """Return the windows at whose ends work units are split, None if they are not split."""
    if spec.timelabel is None or not spec.timelabel.splits:
        return None
    from dil.text.windows import windows_of  # few jobs have labels

    return windows_of(spec.timelabel)


def partition_from(spec: PlanningSpec, start: int, limit: int, *, now_ms: int) -> int | None:
    """Return the end of the partition that starts at ``start``, at most ``limit`` (epoch ms UTC).

    The result is None if no sub-range has time there. ``start`` is assumed to be a boundary of
    the job's grid, unless a part that timelabels split off begins there.
    """
    origin = _instant(spec.start, WATERMARK_KEY, spec.zone, now_ms=now_ms, end=False)
    windows = splitting_windows(spec)
    if windows is not None:
        # A part may begin inside a partition: then its start is no boundary of the grid.
        known = partition(spec, now_ms=now_ms)
        index = bisect_left(known.starts, start)
        if index < len(known) and known.starts[index] == start:
            return min(known.ends[index], limit)
        limit = min(windows.at(start).high, limit)
    word, last = spec.partition.lower(), limit
    if spec.composite:
        found = [each for each in _sub_ranges(spec, now_ms) if each[1].ms <= start < each[2]]
        if not found:
            return None
        word, low, high = found[0]
        origin = low if low.ms > origin.ms else origin
        last = min(limit, high)
    ends = _cut(word, _boundary_at(start, origin), last, partial=True)[1]
    return ends[0] if ends else None


def _boundary_at(ms: int, origin: Instant) -> Instant:
    """Return a boundary of the calendar from ``origin`` on, and how far a DST gap moved it.

    All boundaries that no gap moved have the same time of the day.
    """
    zone = find_zone(origin.zone)
    local = to_local(ms, zone).replace(tzinfo=None)
    first = to_local(origin.ms, zone).replace(tzinfo=None) - origin.moved
    moved = (local - first) % timedelta(days=1)
    is_moved = to_ms(local - moved, zone) == ms
    return Instant(ms, origin.zone, moved if is_moved else timedelta())


def shape(spec: PlanningSpec) -> str:
    """Return a text of all that signatures depend on.

    These are the names of both watermarks, ``from``, the zone and the partition. A ``from`` such as
    P30D has the same shape every day (rule P33). The schedule is part of the shape if it splits
    work units.

    Raises:
        ConfigError: ``from`` is no point in time.
    """
    start = _instant(spec.start, WATERMARK_KEY, spec.zone, now_ms=0, end=False)
    kind = [list(entry) for entry in spec.composite] or spec.partition.lower()
    members: dict[str, JsonValue] = {
        "name": spec.datetime_name,
        "unit": spec.unit_name,
        "from": spec.start,
        "zone": start.zone,
        "partition": kind,
    }
    if spec.once:
        members["once"] = spec.once
    labels = spec.timelabel
    if labels is not None and labels.splits:
        schedule = labels.schedule or labels.unit or f"{labels.every_ms} ms"
        members["split"] = [str(schedule), *([] if labels.every_ms else [labels.zone])]
    return compact(members)


def shape_among_others(text: str) -> str:
    """Return the text of a shape with the note that absent units have records of another grid."""
    return f"{text[:-1]}{_APART}}}"


def is_shape(spec: PlanningSpec, text: str) -> bool:
    """Return whether a kept text is the shape of a job's watermark."""
    return shape(spec) == text.replace(f"{_APART}}}", "}")


def _instant(text: str, key: str, zone: str, *, now_ms: int, end: bool) -> Instant:
    try:
        return parse_instant(text, now_ms=now_ms, zone=zone, end=end)
    except InstantError as error:
        raise ConfigError.single(key, f"{'to' if end else 'from'}: {error}", INSTANT_FIX) from error


def _known(word: str) -> str:
    if word.lower() not in WORDS:
        raise ConfigError.single(
            PARTITION_KEY, f'has the unknown word "{word}"', f"Known words: {', '.join(WORDS)}"
        )
    return word.lower()


def _sub_ranges(spec: PlanningSpec, now_ms: int) -> list[tuple[str, Instant, int]]:
    """Return word, low and high of each sub-range that has any time in it, by start."""
    ranges = [
        (
            _known(word),
            _bound(low, spec.zone, now_ms=now_ms, end=False),
            _bound(high, spec.zone, now_ms=now_ms, end=True).ms,
        )
        for word, low, high in spec.composite
    ]
    found = sorted((entry for entry in ranges if entry[1].ms < entry[2]), key=lambda e: e[1].ms)
    if not found:
        raise ConfigError.single(
            PARTITION_KEY,
            "has no sub-range with any time in it",
            "Set a from that is earlier than its to, in at least one of them",
        )
    for (word, _, high), (next_word, next_low, _) in pairwise(found):
        if next_low.ms < high:
            raise ConfigError.single(
                PARTITION_KEY,
                f'has overlapping sub-ranges: "{word}" ends after "{next_word}" begins',
                "Let each sub-range begin where the one before it ends",
            )
    return found


def _bound(text: str, zone: str, *, now_ms: int, end: bool) -> Instant:
    """Return one bound of a sub-range: a date or time; ``-`` is now without rounding."""
    if end and text == "-":
        return Instant(now_ms, zone)
    if text.startswith("P"):
        raise ConfigError.single(
            PARTITION_KEY, f'has the duration "{text}"', "Write a date; to may be -"
        )
    return _instant(text, PARTITION_KEY, zone, now_ms=now_ms, end=end)


def _cut(word: str, low: Instant, high: int, *, partial: bool) -> tuple[list[int], list[int]]:
    """Return starts and ends of the partitions of [low, high)."""
    if low.ms >= high:
        return [], []
    boundaries = _boundaries(word, low, high)
    if boundaries[-1] > high and partial:
        boundaries[-1] = high
    elif boundaries[-1] > high:
        boundaries.pop()
    return boundaries[:-1], boundaries[1:]


def _boundaries(word: str, low: Instant, high: int) -> list[int]:
    """Return the boundaries from ``low`` on to the first that is not before ``high``."""
    if word == "none":
        return [low.ms, high]
    if word == "hourly":
        return [*range(low.ms, high + HOUR_MS, HOUR_MS)]
    boundaries = [low.ms]
    calendar = _calendar_boundaries(_STEPS[word], low)
    while boundaries[-1] < high:
        boundary = next(calendar, sys.maxsize)  # after the year 9999 none follows
        # A zone that skips a whole day moves two boundaries to the same instant.
        if boundary > boundaries[-1]:
            boundaries.append(boundary)
    return boundaries


def _calendar_boundaries(step: Callable[[datetime, int], datetime], low: Instant) -> Iterator[int]:
    """Yield boundary 1, 2 and so on, as far as there are dates."""
    zone = find_zone(low.zone)
    try:
        first = to_local(low.ms, zone).replace(tzinfo=None, fold=0) - low.moved
    except ValueError as error:
        raise ConfigError.single(WATERMARK_KEY, f"from: {error}", INSTANT_FIX) from error
    try:
        for k in count(1):
            yield to_ms(step(first, k), zone)
    except (OverflowError, ValueError):
        return
