"""Half-open stretches of time, and lengths of time in milliseconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


class Interval(msgspec.Struct, frozen=True, order=True, gc=False):
    """``[low, high)`` in epoch milliseconds UTC."""

    low: int
    high: int

    @property
    def is_empty(self) -> bool:
        """Return whether no instant lies inside."""
        return self.low >= self.high


class SubRange(NamedTuple):
    """A part of the range that a word of its own cuts; the texts are kept as written."""

    word: str
    start: str
    end: str


def joined(stretches: Iterable[tuple[int, int]]) -> list[Interval]:
    """Return stretches of ascending starts as intervals; those that touch or overlap become one.

    Empty stretches are left out.
    """
    found: list[Interval] = []
    start = end = None
    for low, high in stretches:
        if low >= high:
            continue
        if start is None or end is None:
            start, end = low, high
        elif low > end:
            found.append(Interval(start, end))
            start, end = low, high
        elif high > end:
            end = high
    if start is not None and end is not None:
        found.append(Interval(start, end))
    return found
