"""Rows that cannot be converted: counted, dropped up to the limit, then the work unit fails.

Source: behaviour.md B11.3; defects X-90.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import ConversionError

_HINT_LENGTH = 24
_FIX = (
    "Correct the source or the column's type in ms.output.schema. To drop such rows instead, raise"
    " converter.avro.max.conversion.failures."
)


def shape_of(value: object) -> str:
    """Return what a value looks like, without the value: ``2020-13-01`` becomes ``9999-99-99``."""
    text = str(value)
    shape = re.sub(r"\d", "9", re.sub(r"[^\W\d_]", "a", text[:_HINT_LENGTH]))
    return f'"{shape}"' + ("..." if len(text) > _HINT_LENGTH else "")


class RowFailures:
    """The failures of one batch: the first one of each row, with column and reason."""

    def __init__(self) -> None:
        self._first: dict[int, tuple[str, str]] = {}

    def __len__(self) -> int:
        return len(self._first)

    def add(self, column: str, reason: str, rows: pa.Array, values: pa.Array | None = None) -> None:
        """Record failures of rows of the batch; ``values`` are theirs, shown by shape only."""
        shapes = [shape_of(v) for v in values.to_pylist()] if values is not None else None
        for position, row in enumerate(rows.to_pylist()):
            looks = f", it looks like {shapes[position]}" if shapes else ""
            self._first.setdefault(row, (column, reason + looks))

    def in_order(self) -> list[tuple[int, str, str]]:
        """Return (row of the batch, column, reason), by row."""
        return [(row, *self._first[row]) for row in sorted(self._first)]


class FailureBudget:
    """How many rows of a work unit may still be dropped."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.dropped = 0

    def spend(self, failures: RowFailures, rows_before: int) -> None:
        """Count the failures of a batch whose first row follows ``rows_before`` others.

        Raises:
            ConversionError: there are more than the limit; names the row that is one too many.
        """
        for row, column, reason in failures.in_order():
            if self.dropped == self._limit:
                raise ConversionError(
                    f'column "{column}", row {rows_before + row + 1} of the work unit: {reason}'
                    f"{self._counted()}",
                    _FIX,
                )
            self.dropped += 1

    def _counted(self) -> str:
        return f" (failure {self._limit + 1}, {self._limit} are tolerated)" if self._limit else ""


def keep_good(batch: pa.RecordBatch, failures: RowFailures) -> pa.RecordBatch:
    """Return the batch without the rows that failed."""
    if not len(failures):
        return batch
    bad = pa.array([row for row, _, _ in failures.in_order()], pa.int64())
    rows = pa.array(range(batch.num_rows), pa.int64())
    return batch.filter(pc.invert(pc.is_in(rows, bad)))
