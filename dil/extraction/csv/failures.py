"""Refuses a first line that is no header, and drops unreadable rows up to a limit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import ConversionError, SourceContractError, lasting
from dil.extraction.coercion import RowPosition
from dil.extraction.excerpt import bracketed_form, kind_of
from dil.model.messages import nearest_word

DROPPED = "CSV rows that could not be read were dropped, as ms.csv allows by maxFailures"
_FIX = (
    "Correct the source, or the column's type in ms.output.schema, ms.data.default.type or"
    " defaultFieldType of ms.csv."
)
_MORE = "To drop such rows instead, raise maxFailures of ms.csv."


def refuse_other_header(header: Sequence[str], known: Collection[str], whose: str) -> None:
    """Raise if a header has no known column and no name that resembles one.

    Letter case does not count. ``whose`` names the origin of the known columns for the message.

    Raises:
        SourceContractError: the line is probably not a header. The message shows the line with its
            letters and digits replaced, because it may be a row.
    """
    names = [name for name in header if name]
    there = {name.lower() for name in names}
    if not names or not known or any(name.lower() in there for name in known):
        return
    if any(nearest_word(name, names) for name in known):
        return  # The header has a column under a new or misspelled name.
    form = bracketed_form(",".join(header)).strip(" ()")
    error = SourceContractError(
        f"the header line has none of the columns of {whose}; it looks like {form} (9 means a"
        " digit, a means a letter)",
        "If the file came without its header line, ask the source for one, or leave"
        " columnHeaderIndex out of ms.csv and describe the columns in ms.output.schema. If the"
        " line is the header, name its columns in ms.output.schema, or check columnHeaderIndex"
        " and fieldSeparator of ms.csv.",
    )
    raise lasting(error)


@dataclass(frozen=True, slots=True)
class BadRow:
    """A bad row of a block: its number from 0, the column of a bad cell, the error, the advice."""

    row: int
    column: str
    what: str
    fix: str

    def text(self, position: RowPosition) -> str:
        """Return the sentence about this row of a block whose first row is at ``position``."""
        where = f"row {position.first_row + self.row} of page {position.page}: {self.what}"
        return f'column "{self.column}", {where}' if self.column else where


def bad_cells(cells: pa.Array, values: pa.Array, column: str, word: str) -> list[BadRow]:
    """Return the rows in which a cell became null because it did not fit its column's type."""
    if values.null_count == cells.null_count:
        return []
    rows = pc.indices_nonzero(pc.and_(values.is_null(), cells.is_valid()))
    texts = cells.take(rows).to_pylist()
    return [
        BadRow(row, column, f"{kind_of(text)}{bracketed_form(text)} is no {word}", _FIX)
        for row, text in zip(rows.to_pylist(), texts, strict=True)
    ]


class CsvFailures:
    """Counts how many rows of an attempt may still be dropped."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.dropped = 0

    def without(
        self, batch: pa.RecordBatch, bad: Iterable[BadRow], position: RowPosition
    ) -> pa.RecordBatch:
        """Return a batch without its bad rows; the batch's first row is at ``position``.

        Raises:
            ConversionError: more rows are bad than the limit allows; the message names the first
                row beyond the limit.
        """
        first: dict[int, BadRow] = {}
        for each in bad:
            first.setdefault(each.row, each)
        for row in sorted(first):
            if self.dropped == self._limit:
                counted = f" (failure {self._limit + 1}; {self._limit} are tolerated)"
                raise ConversionError(
                    f"{first[row].text(position)}{counted if self._limit else ''}",
                    f"{first[row].fix} {_MORE}",
                )
            self.dropped += 1
        if not first:
            return batch
        rows = pa.array(range(batch.num_rows), pa.int64())
        return batch.filter(pc.invert(pc.is_in(rows, pa.array(sorted(first), pa.int64()))))
