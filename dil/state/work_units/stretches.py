"""Derives from one unit's records which stretches of time were read, failed, or left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from dil.model.history import UnitStretches
from dil.model.interval import Interval
from dil.state.blocks.source_state import COMMITTED, FAILED, SKIPPED

# A row begins with partition start and end, last successful high or None, status
# (sql.UNIT_RECORDS).
RecordRow: TypeAlias = tuple[Any, ...]


def stretches_of(unit_key: str, rows: Sequence[RecordRow]) -> UnitStretches:
    """Return the stretches of one unit from its records, sorted by partition start.

    A record counts as read up to its high, whatever its partition is. The time from there to the
    end that it failed to reach counts as failed. A period without a run counts as skipped up to the
    partition's end.
    """
    # Each row is handled by few expressions: there may be a million rows.
    read = [row for row in rows if row[2] is not None and row[2] > row[0]]
    others = [row[:4] for row in rows if row[3] != COMMITTED]
    failed = [
        (low if high is None else max(low, high), end)
        for low, end, high, status in others
        if status == FAILED
    ]
    failed.sort()  # the rest of a partition may begin after the start of the next one
    skipped = [(low, end) for low, end, _, status in others if status == SKIPPED]
    newest = max(read, key=itemgetter(2), default=None)
    return UnitStretches(
        unit_key,
        read=_joined(map(itemgetter(0, 2), read)),
        failed=_joined(failed),
        skipped=_joined(skipped),
        newest=Interval(newest[0], newest[2]) if newest and newest[3] == COMMITTED else None,
    )


def _joined(stretches: Iterable[tuple[int, int]]) -> list[Interval]:
    """Return stretches, sorted by start, with overlapping or adjoining ones merged."""
    joined: list[Interval] = []
    start = end = None
    for low, high in stretches:
        if low >= high:
            continue
        if start is None or end is None:
            start, end = low, high
        elif low > end:
            joined.append(Interval(start, end))
            start, end = low, high
        elif high > end:
            end = high
    if start is not None and end is not None:
        joined.append(Interval(start, end))
    return joined
