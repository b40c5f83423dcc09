"""Computes which stretch of one unit's partitions is done, kept in one row (rule P34).

A *tile* is the partition of a work unit that succeeded. Adjoining tiles form a *span*: every
partition that starts inside it has a successful record. Two spans are kept, because a work unit
that never succeeds would stop a single span from growing for ever. Planning uses ``main``, the
wider span; ``tail`` is the newest span apart from ``main``. Adding a tile takes constant time;
spans that meet are joined in one step, and tiles outside of both spans are found again one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dil.model.interval import Interval

NOTHING = Interval(0, 0)


class Tiles(Protocol):
    """Lookups of one unit's successful work units."""

    def end_of_tile_at(self, low: int) -> int | None:
        """Return the end of the tile that starts at ``low``, None if there is none."""

    def start_of_tile_until(self, high: int) -> int | None:
        """Return the start of the tile that ends at ``high``, None if there is none."""


@dataclass(frozen=True, slots=True)
class Spans:
    """The covered time of one unit; an empty span covers nothing."""

    main: Interval = NOTHING
    tail: Interval = NOTHING


def contradicts(spans: Spans, tile: Interval) -> bool:
    """Return whether a new tile shows that the spans belong to another grid of partitions.

    A new partition that starts inside a span, or crosses one of its ends, cannot belong to the same
    grid: then the spans say nothing about the present partitions and are dropped.
    """
    return any(
        not span.is_empty and tile.low < span.high and span.low < tile.high
        for span in (spans.main, spans.tail)
    )


def cover(spans: Spans, tile: Interval, tiles: Tiles) -> Spans:
    """Return the spans after one more success, which must not contradict them.

    Args:
        spans: The spans so far.
        tile: The partition that succeeded; ``low`` is its nominal start.
        tiles: All tiles, including this one.
    """
    joined = _joined(spans.main, tile)
    if joined is not None:
        main = _absorb(joined, spans.tail, tiles)
        return Spans(main, NOTHING if _contains(main, spans.tail) else spans.tail)
    grown = _absorb(_joined(spans.tail, tile) or tile, spans.main, tiles)
    if _contains(grown, spans.main):
        return Spans(grown)
    if _width(grown) > _width(spans.main):
        return Spans(grown, spans.main)
    return Spans(spans.main, grown)


def uncover(spans: Spans, tile: Interval) -> Spans:
    """Return the spans without a tile, whose work unit now has another tile or none."""
    left = [
        part
        for span in (spans.main, spans.tail)
        for part in (
            (Interval(span.low, tile.low), Interval(tile.high, span.high))
            if span.low <= tile.low < span.high
            else (span,)
        )
        if not part.is_empty
    ]
    return _widest_and_newest(sorted(left, key=lambda each: each.low))


def spans_of(tiles: Iterable[Interval]) -> Spans:
    """Return the spans of all tiles of one unit, sorted by start.

    Tiles that overlap belong to different grids, and it is unknown which grid is right: then no
    time counts as covered.
    """
    runs: list[Interval] = []
    for tile in tiles:
        if runs and tile.low < runs[-1].high:
            return Spans()
        if runs and tile.low == runs[-1].high:
            runs[-1] = Interval(runs[-1].low, tile.high)
        else:
            runs.append(tile)
    return _widest_and_newest(runs)


def _widest_and_newest(runs: Sequence[Interval]) -> Spans:
    """Return the widest run and the newest other one; ``runs`` are sorted and do not adjoin."""
    if not runs:
        return Spans()
    main = max(runs, key=_width)
    return Spans(main, next((run for run in reversed(runs) if run != main), NOTHING))


def _joined(span: Interval, tile: Interval) -> Interval | None:
    """Return the span extended by an adjoining tile, None if the tile does not adjoin it."""
    if span.is_empty:
        return None
    if tile.low == span.high:
        return Interval(span.low, tile.high)
    if tile.high == span.low:
        return Interval(tile.low, span.high)
    return None


def _absorb(span: Interval, other: Interval, tiles: Tiles) -> Interval:
    low, high = span.low, span.high
    if other.is_empty:
        other = Interval(high, high)
    end: int | None = high
    while end is not None:
        high = other.high if other.low == end else end
        end = tiles.end_of_tile_at(high)
    start: int | None = low
    while start is not None:
        low = other.low if other.high == start else start
        start = tiles.start_of_tile_until(low)
    return Interval(low, high)


def _contains(span: Interval, other: Interval) -> bool:
    return other.is_empty or (span.low <= other.low and other.high <= span.high)


def _width(span: Interval) -> int:
    return max(0, span.high - span.low)
