"""Cuts rows into groups across pages: of a fixed size, or smaller if a value changes.

See docs/rows.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dil.conversion.joining import join_batches
from dil.conversion.texts import text_of
from dil.types.nested import positions


@dataclass(frozen=True, slots=True)
class Groups:
    """Whole groups: group k has the rows from ``offsets[k]`` up to ``offsets[k + 1]``.

    ``offsets`` are int32, begin at 0 and end at the number of rows.
    """

    rows: pa.RecordBatch
    offsets: pa.Array

    @property
    def first_rows(self) -> pa.Array:
        """Return the position of each group's first row."""
        return self.offsets.slice(0, len(self.offsets) - 1)


class Grouping:
    """Cuts a stream of batches into groups of ``size`` rows; the last one may have fewer.

    A group also ends where the value of a column in ``breaks_on`` changes. Rows of an incomplete
    group are held back, in the batches in which they came.
    """

    def __init__(self, size: int, breaks_on: Sequence[str]) -> None:
        self._size = size
        self._breaks_on = breaks_on
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[Groups]:
        """Yield the groups that this batch completes."""
        if not batch.num_rows:
            return
        is_whole = self._held_rows + batch.num_rows >= self._size
        if is_whole or self._changes_within(batch):
            rows = join_batches([*self._held, batch])
            starts = self._starts(rows)
            last = starts[-1].as_py()
            # The last group waits for more rows, unless it is full.
            end = rows.num_rows if rows.num_rows - last == self._size else last
            self._hold([rows.slice(end)] if end < rows.num_rows else [])
            if end:
                ends = starts if end == rows.num_rows else starts.slice(0, len(starts) - 1)
                yield _groups(rows.slice(0, end), ends)
        else:
            self._hold([*self._held, batch])

    def rest(self) -> Iterator[Groups]:
        """Yield the last group, if there is one; call it once."""
        if self._held:
            rows = join_batches(self._held)
            self._hold([])
            yield _groups(rows, pa.array([0], pa.int64()))

    def _hold(self, batches: list[pa.RecordBatch]) -> None:
        self._held = batches
        self._held_rows = sum(batch.num_rows for batch in batches)

    def _changes_within(self, batch: pa.RecordBatch) -> bool:
        """Return whether a change of values ends the open group before or in a batch."""
        if not self._breaks_on:
            return False
        before = [self._held[-1].slice(self._held[-1].num_rows - 1)] if self._held else []
        changed = pc.any(_changes(join_batches([*before, batch]), self._breaks_on), min_count=0)
        return bool(changed.as_py())

    def _starts(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the positions at which groups begin."""
        inside = places = positions(rows.num_rows)
        if self._breaks_on:
            changes = _changes(rows, self._breaks_on)
            runs = pc.cumulative_max(pc.if_else(changes, places, 0))
            inside = pc.subtract(places, runs)
        whole = pc.multiply(pc.divide(inside, self._size), self._size)
        return pc.indices_nonzero(pc.equal(inside, whole)).cast(pa.int64())


def _groups(rows: pa.RecordBatch, starts: pa.Array) -> Groups:
    end = pa.array([rows.num_rows], pa.int64())
    return Groups(rows, pa.concat_arrays([starts, end]).cast(pa.int32()))


def _changes(rows: pa.RecordBatch, names: Sequence[str]) -> pa.Array:
    """Return for each row whether a column differs from the row before; False for the first row."""
    changes = pa.repeat(pa.scalar(value=False), rows.num_rows)
    for name in names:
        if name not in rows.schema.names:
            continue
        column = rows.column(name)
        plain = text_of(column) if pa.types.is_nested(column.type) else column
        # Codes of a dictionary make null equal to null, and work for every flat type.
        codes = plain.dictionary_encode(null_encoding="encode").indices
        differs = pc.not_equal(codes.slice(1), codes.slice(0, len(codes) - 1))
        changes = pc.or_(changes, pa.concat_arrays([pa.array([False]), differs]))
    return changes
