"""A key column cut into half-open ranges: no gap, no overlap, nulls in a range of their own; pure.

The first range has no lower end and the last one no upper end, so that rows which come while the
table is read, and keys beyond what was seen, are in exactly one range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Key = int | float | str


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys from ``low`` on and before ``high``; None is no end. ``is_null`` takes the nulls."""

    low: Key | None = None
    high: Key | None = None
    is_null: bool = False


def even_ranges(least: int, most: int, count: int, *, nulls: bool) -> tuple[KeyRange, ...]:
    """Cut whole keys from ``least`` to ``most`` into ranges of equal width.

    Args:
        least: The least key that was seen.
        most: The greatest.
        count: How many ranges are wanted; there are fewer where there are fewer keys.
        nulls: Whether there are nulls.
    """
    width = most - least + 1
    number = max(1, min(count, width))
    bounds = [least + width * at // number for at in range(1, number)]
    return between(bounds, nulls=nulls)


def between(bounds: Sequence[Key], *, nulls: bool) -> tuple[KeyRange, ...]:
    """Return the ranges between some bounds, such as quantiles; equal bounds count once.

    Args:
        bounds: Keys in the order in which the database sorts them.
        nulls: Whether there are nulls.
    """
    distinct = dict.fromkeys(bounds)
    ends = [None, *distinct, None]
    ranges = [KeyRange(low, high) for low, high in pairwise(ends)]
    return (*ranges, KeyRange(is_null=True)) if nulls else tuple(ranges)
