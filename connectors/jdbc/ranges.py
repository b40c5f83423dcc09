"""Cuts a key column into half-open ranges without gap or overlap; nulls get their own range.

The functions do no I/O. The first range has no lower end, and the last range has no upper end. So
rows that arrive during reading, and keys outside the bounds that planning found, are in exactly one
range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Key = int | float | str


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys from ``low`` to before ``high``, None for no end; if ``is_null``, only the nulls."""

    low: Key | None = None
    high: Key | None = None
    is_null: bool = False


def even_ranges(least: int, most: int, count: int, *, nulls: bool) -> tuple[KeyRange, ...]:
    """Return ranges of equal width for the whole keys from ``least`` to ``most``.

    Args:
        least: The least key of the column.
        most: The greatest key.
        count: The number of ranges; fewer come back if there are fewer keys.
        nulls: Whether the column has nulls.
    """
    width = most - least + 1
    number = max(1, min(count, width))
    bounds = [least + width * at // number for at in range(1, number)]
    return between(bounds, nulls=nulls)


def between(bounds: Sequence[Key], *, nulls: bool) -> tuple[KeyRange, ...]:
    """Return the ranges between bounds, such as quantiles; equal bounds count once.

    Args:
        bounds: Keys in the order in which the database sorts them.
        nulls: Whether the column has nulls.
    """
    distinct = dict.fromkeys(bounds)
    ends = [None, *distinct, None]
    ranges = [KeyRange(low, high) for low, high in pairwise(ends)]
    return (*ranges, KeyRange(is_null=True)) if nulls else tuple(ranges)
