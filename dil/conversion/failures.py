"""Counts rows that cannot be converted; beyond the limit the work unit fails.

See docs/rows.md.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import ConversionError
from dil.spi.rejects import RejectedRow
from dil.types.nested import positions

_HINT_LENGTH = 35
_FIX = "Correct the source or the column's type in ms.output.schema."
_DROP = "To put such rows aside instead, raise converter.avro.max.conversion.failures."
# Shapes of text that have only one meaning, and the patterns that read them.
_PATTERNS = {"9999-99-99": "yyyy-MM-dd", "99999999": "yyyyMMdd"}
_ISO_SHAPE = re.compile(r"(?:9999-99-99([a ]))?99:99(:99(?:\.(9+))?)?(a|[+-]99(?::?99)?)?")
_MILLI_DIGITS = 3


@dataclass(frozen=True, slots=True)
class FailureReason:
    """The reason why values could not be converted.

    ``pattern_property`` is the property with patterns for such text, if there is one, and ``tried``
    are the patterns in it. ``exact`` matches the shapes of texts that are read without a pattern.
    """

    text: str
    pattern_property: str = ""
    tried: tuple[str, ...] = ()
    exact: re.Pattern[str] | None = None


NULL = FailureReason("null, but the column is not nullable")


@dataclass(frozen=True, slots=True)
class RowFailure:
    """One row of a batch that cannot be converted: the column, the reason, the advice.

    ``kind`` is the reason without the shape of the value. ``is_fatal`` is true if the row lacks a
    required value, so that leaving out unfit values does not help.
    """

    row: int
    column: str
    reason: str
    fix: str
    kind: str = ""
    is_fatal: bool = False

    @property
    def rejected(self) -> RejectedRow:
        """Return the failure as the record that is put aside."""
        return RejectedRow(self.row, self.column, self.reason, self.kind)


def shape_of(value: object) -> str:
    """Return the shape of a value: ``2020-13-01`` becomes ``9999-99-99``."""
    text = str(value)
    shape = re.sub(r"\d", "9", re.sub(r"[^\W\d_]", "a", text[:_HINT_LENGTH]))
    return shape + ("..." if len(text) > _HINT_LENGTH else "")


def looks_like(shape: str) -> str:
    """Return words that show a shape and explain its letters."""
    return f'it looks like "{shape}" (9 means a digit, a means a letter)'


class RowFailures:
    """The failures of one batch: the first failure of each row, with column and reason."""

    def __init__(self) -> None:
        self._first: dict[int, RowFailure] = {}
        self._values: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._first)

    def add(
        self, column: str, reason: FailureReason, rows: pa.Array, values: pa.Array | None = None
    ) -> None:
        """Record failures of rows of the batch; only the shapes of ``values`` are shown.

        Without ``values`` the failures are nulls in a column that is not nullable.
        """
        if values is not None:
            self._values[column] += len(values)
        shapes = None if values is None else [shape_of(v) for v in values.to_pylist()]
        for position, row in enumerate(rows.to_pylist()):
            first = self._first.get(row)
            if first is not None:
                if shapes is None and not first.is_fatal:
                    self._first[row] = replace(first, is_fatal=True)
                continue
            shape = shapes[position] if shapes else ""
            looks = f", {looks_like(shape)}" if shapes else ""
            self._first[row] = RowFailure(
                row,
                column,
                reason.text + looks,
                _fix(reason, shape),
                reason.text,
                is_fatal=shapes is None,
            )

    def in_order(self) -> list[RowFailure]:
        """Return the failures in the order of rows."""
        return [self._first[row] for row in sorted(self._first)]

    def values(self) -> dict[str, int]:
        """Return the number of unfit values of each column."""
        return dict(self._values)

    def only_fatal(self) -> RowFailures:
        """Return the failures that remain if unfit values are left out."""
        fatal = RowFailures()
        fatal._first = {row: each for row, each in self._first.items() if each.is_fatal}
        return fatal


def _fix(reason: FailureReason, shape: str) -> str:
    if not reason.pattern_property:
        return _FIX
    iso = _ISO_SHAPE.fullmatch(shape)
    pattern = _pattern_of(iso) if iso else _PATTERNS.get(shape)
    if pattern is None:
        return (
            f"Set {reason.pattern_property} to the pattern of the source's text, in Joda letters."
        )
    if pattern in reason.tried or (reason.exact and reason.exact.fullmatch(shape)):
        return _FIX  # The text has the right form, but no such date or time exists.
    loss = _loss_of(iso, reason.pattern_property) if iso else ""
    return f"Set {reason.pattern_property}={pattern}{loss}."


def _pattern_of(iso: re.Match[str]) -> str:
    """Return the pattern that reads texts of a shape of ISO 8601."""
    between, seconds, fraction, offset = iso.groups()
    day = {"a": "yyyy-MM-dd'T'", " ": "yyyy-MM-dd ", None: ""}[between]
    digits = f".{'S' * len(fraction)}" if fraction else ""
    return f"{day}HH:mm{':ss' if seconds else ''}{digits}{'ZZ' if offset else ''}"


def _loss_of(iso: re.Match[str], pattern_property: str) -> str:
    """Return words about the part that the pattern cuts off, and advice for keeping this part."""
    if pattern_property.endswith(".date.format"):
        return ", which cuts the time off, or declare the column as timestamp"
    if len(iso[3] or "") > _MILLI_DIGITS:
        return ", which cuts the digits after the milliseconds, or declare the column as string"
    return ""


class FailureBudget:
    """Counts the rows of a work unit that may still be put aside; ``limit`` may be None."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self.dropped = 0

    def spend(self, failures: RowFailures, rows_before: int) -> None:
        """Count the failures of a batch; ``rows_before`` rows of the work unit came before it.

        Raises:
            ConversionError: more rows failed than the limit; the error names the first row beyond
                the limit.
        """
        for failure in failures.in_order():
            if self.dropped == self._limit:
                place = f'column "{failure.column}", row {rows_before + failure.row + 1}'
                counted = (
                    f" (failure {self._limit + 1}; {self._limit} are tolerated)"
                    if self._limit
                    else ""
                )
                raise ConversionError(
                    f"{place} of the work unit: {failure.reason}{counted}",
                    f"{failure.fix} {_DROP}",
                )
            self.dropped += 1


def keep_good(batch: pa.RecordBatch, failures: RowFailures) -> pa.RecordBatch:
    """Return the batch without the rows that failed."""
    if not len(failures):
        return batch
    bad = pa.array([failure.row for failure in failures.in_order()], pa.int64())
    rows = positions(batch.num_rows)
    return batch.filter(pc.invert(pc.is_in(rows, bad)))
