"""Writes rows that were put aside, as JSON lines beside the staged files of an attempt.

The lines are published together with the attempt's files, but they are not live files of the
dataset. Memory is bounded by a slice of a batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec
import pyarrow as pa

from dil.errors import ConversionError
from dil.model.schema import QuarantineSpec
from dil.model.task import AttemptId, DiscardCount, RejectCount, StagedFile
from dil.spi.rejects import RejectedRow
from dil.storage import Folder
from dil.types.nested import rows_of
from dil.writing.sink import MeasuredFile, write_errors

_SLICE_ROWS = 1024
_MOST_REASONS = 50
_ENCODER = msgspec.json.Encoder(decimal_format="number")
_MICROS: dict[pa.DataType, pa.DataType] = {
    pa.time64("ns"): pa.time64("us"),
    pa.duration("ns"): pa.duration("us"),
}


class QuarantineWriter:
    """Writes and counts the rows that an attempt's steps put aside; see ``spi.rejects``.

    Every line names the attempt. A file that reaches ``target_bytes`` is ended.
    """

    def __init__(
        self,
        folder: Folder,
        spec: QuarantineSpec,
        attempt: AttemptId,
        target_bytes: int = 128 * 1024 * 1024,
    ) -> None:
        self._folder = folder
        self._spec = spec
        self._attempt = attempt
        self._target_bytes = target_bytes
        self._batch = _Batch(0, 0, 0)
        self._open: MeasuredFile | None = None
        self._open_rows = 0
        self._files: list[StagedFile] = []
        self._next = 0
        self._reasons: Counter[tuple[str, str]] = Counter()
        self._discarded: Counter[str] = Counter()
        self.rows = 0

    def begin(self, page: int, rows: int) -> None:
        """Announce a batch of ``rows`` rows of a page; ``page`` 0 means an unknown page."""
        before = self._batch
        first = before.first + before.rows if page == before.page else 0
        self._batch = _Batch(page, first, rows)

    def add(self, batch: pa.RecordBatch, rejected: Sequence[RejectedRow]) -> None:
        """Write rows of a batch that were put aside.

        Raises:
            ConversionError: more rows than ``ms.quarantine.max.rows`` were put aside.
            WriteError: the rows cannot be written.
        """
        places = self._batch.take([each.row for each in rejected], batch.num_rows)
        limit = self._spec.max_rows
        if limit is not None and self.rows + len(rejected) > limit:
            at = limit - self.rows
            first, row = rejected[at], places[at]
            place = "" if row is None else f", row {row} of page {self._batch.page}"
            raise ConversionError(
                f'column "{first.column}"{place}: {first.reason}; the work unit may put at most'
                f" {limit} rows aside",
                "Correct the source or the schema, or raise ms.quarantine.max.rows.",
            )
        self.rows += len(rejected)
        for each in rejected:
            self._reasons[each.column, each.kind or each.reason] += 1
        if self._spec.enabled and rejected:
            with write_errors(self._folder.path):
                self._write(batch, rejected, places)

    def discard(self, column: str, values: int) -> None:
        """Count values of a column that were dropped while their rows were kept."""
        self._discarded[column] += values

    def finish(self) -> tuple[StagedFile, ...]:
        """End the open file and return all files; later rows begin another file.

        Raises:
            WriteError: the open file cannot be made durable.
        """
        self._end_file()
        return tuple(self._files)

    def abort(self) -> None:
        """Close the open file; the attempt's folder is deleted as a whole."""
        if self._open is not None:
            self._open.abandon()
            self._open = None

    def delete(self) -> None:
        """Delete all files; for an attempt that has no folder of its own."""
        for number in range(self._next):
            self._folder.filesystem.delete_file(self._folder.file(f"quarantine-{number}.json"))

    def reasons(self) -> tuple[RejectCount, ...]:
        """Return the counts of the reasons why rows were put aside, the most frequent first."""
        common = self._reasons.most_common(_MOST_REASONS)
        return tuple(RejectCount(column, reason, rows) for (column, reason), rows in common)

    def discarded(self) -> tuple[DiscardCount, ...]:
        """Return the counts of dropped values by column, the most frequent column first."""
        return tuple(DiscardCount(*each) for each in self._discarded.most_common(_MOST_REASONS))

    def _write(
        self, batch: pa.RecordBatch, rejected: Sequence[RejectedRow], places: Sequence[int | None]
    ) -> None:
        indices = pa.array([each.row for each in rejected], pa.int64())
        reasons = zip(rejected, places, strict=True)
        for rows in rows_of(_printable(batch.take(indices)), _SLICE_ROWS):
            lines = [
                {
                    "row": row,
                    "reason": why.reason,
                    "column": why.column,
                    "work_unit": self._attempt.signature,
                    "run_id": self._attempt.run_id,
                    "attempt": self._attempt.number,
                    "page": self._batch.page or None,
                    "row_number": place,
                }
                for row, (why, place) in zip(rows, islice(reasons, len(rows)), strict=True)
            ]
            if self._open is None:
                path = self._folder.file(f"quarantine-{self._next}.json")
                self._open, self._open_rows = MeasuredFile(self._folder.filesystem, path), 0
                self._next += 1
            self._open.sink.write(_ENCODER.encode_lines(lines))
            self._open_rows += len(rows)
            if self._open.sink.bytes >= self._target_bytes:
                self._end_file()

    def _end_file(self) -> None:
        if self._open is not None:
            current, self._open = self._open, None
            with write_errors(self._folder.path):
                self._files.append(current.finish(self._open_rows))


@dataclass(slots=True)
class _Batch:
    """The batch on its way through the steps: its page, its position in the page, its rows."""

    page: int
    first: int
    rows: int
    left: list[int] | None = None

    def take(self, rows: Sequence[int], of: int) -> list[int | None]:
        """Return the positions of rows in their page, and count these rows as removed.

        ``rows`` are indexes in a step's batch of ``of`` rows. Positions begin at 1. A position is
        None if the page is unknown, or if an earlier step made other rows from the page's rows.
        """
        left = self.left
        if left is None:
            left = list(range(self.first + 1, self.first + self.rows + 1))
        if not self.page or len(left) != of:
            return [None] * len(rows)
        gone = set(rows)
        self.left = [number for at, number in enumerate(left) if at not in gone]
        return [left[row] for row in rows]


def _printable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with times in microseconds: Python shows nanoseconds only with pandas."""
    columns = []
    for column in batch.columns:
        kind = column.type
        if pa.types.is_timestamp(kind) and kind.unit == "ns":
            columns.append(column.cast(pa.timestamp("us", tz=kind.tz), safe=False))
        else:
            columns.append(column.cast(_MICROS[kind], safe=False) if kind in _MICROS else column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
