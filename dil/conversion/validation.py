"""In-flow validation: counts rows instead of writing them; the final count passes or fails.

See docs/rows.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from dil.conversion.row_paths import find_column
from dil.conversion.texts import text_of
from dil.errors import ConversionError
from dil.model.json import JsonObject, JsonValue
from dil.model.settings import ValidationAttributes
from dil.sections.conversion import ValidationSection
from dil.spi.converter import Converter, ConverterContext, PageFacts
from dil.text.paths import name_of
from dil.types.nested import items_of

_ATTRIBUTES = "ms.validation.attributes"
_NUMBER = re.compile(r"\s*[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?\s*")


@dataclass(frozen=True, slots=True)
class ValidationVerdict:
    """The outcome: the counted and the expected number of rows, and whether the count passes."""

    counted: int
    expected: Decimal
    attributes: ValidationAttributes

    @property
    def percent(self) -> float:
        """Return the counted rows in percent of the expected rows.

        If no row is expected, the result is 100 if any row was counted, else 0.
        """
        if not self.expected:
            return 100.0 if self.counted else 0.0
        return float(self.counted * 100 / self.expected)

    @property
    def passes(self) -> bool:
        """Return whether the count fulfils the rule."""
        threshold = self.attributes.threshold
        if self.attributes.criteria == "success":
            return self.percent >= threshold
        # If no row is expected and none was counted, the count passes at any threshold.
        is_nothing = not self.expected and not self.counted
        return is_nothing or self.percent < threshold

    def __str__(self) -> str:
        what = "success" if self.attributes.criteria == "success" else "failure"
        limit = "at least" if self.attributes.criteria == "success" else "less than"
        return (
            f"{self.counted:,} of {self.expected:,} expected rows ({self.percent:.4g} %) count as"
            f" {what}; {limit} {self.attributes.threshold:g} % was asked for"
        )


class InFlowValidation(Converter):
    """Counts rows, or the items of the only column; compares the count with the expected count.

    If there is an ``errorColumn``, a row or item counts only if its value in this column is neither
    null nor blank. No row is passed on to the writer.
    """

    def __init__(self, context: ConverterContext) -> None:
        super().__init__(context)
        properties = context.job.properties
        self._attributes = properties.section(ValidationSection).attributes
        # The first field of the first validation entry counts.
        inputs = context.job.secondary.of("validation")
        has_field = bool(inputs and inputs[0].fields)
        self._field = name_of(inputs[0].fields[0]) if has_field else None
        self._counted = 0
        self._verdict: ValidationVerdict | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the counts as a note, after the validation passed."""
        return () if self._verdict is None else (f"in-flow validation passed: {self._verdict}",)

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        """Count the rows of a batch; yield no batch."""
        del facts
        self._counted += _count(batch, self._attributes.error_column)
        return iter(())

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Compare the count with the rule, even if no row came; yield no batch.

        Raises:
            ConversionError: the count breaks the rule of ms.validation.attributes.
        """
        rows = self.context.validation_rows
        expected = Decimal(1) if rows is None else expected_count(rows(), self._field)
        verdict = ValidationVerdict(self._counted, expected, self._attributes)
        if not verdict.passes:
            raise ConversionError(
                f"in-flow validation failed: {verdict}",
                f"Check the rows of the source, or correct the rule in {_ATTRIBUTES}.",
            )
        self._verdict = verdict
        return iter(())


def expected_count(rows: Iterable[JsonObject], field: str | None) -> Decimal:
    """Return the number of rows that the validation input expects.

    The first row's value of ``field`` decides. If it is an array, the result is the sum of the
    arrays' sizes. If it is a number or the text of a number, the result is the sum of the numbers.
    Otherwise, or without ``field``, the result is the number of rows.
    """
    count = 0
    items: int | None = None
    numbers: Decimal | None = None
    for row in rows:
        value = row.get(field) if field else None
        if not count and field:
            items = None if _size(value) is None else 0
            numbers = Decimal(0) if _number(value) is not None else None
        count += 1
        if items is not None:
            items += _size(value) or 0
        if numbers is not None:
            number = _number(value)
            numbers = None if number is None else numbers + number
    if items is not None:
        return Decimal(items)
    return Decimal(count) if numbers is None else numbers


def _size(value: JsonValue) -> int | None:
    """Return the number of items of an array, None for any other value."""
    return len(value) if isinstance(value, list | tuple) else None


def _number(value: JsonValue) -> Decimal | None:
    """Return the exact number of a number or of its text, None for any other value."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return Decimal(value.strip()) if _NUMBER.fullmatch(value) else None
    return Decimal(str(value)) if isinstance(value, int | float | Decimal) else None


def _count(batch: pa.RecordBatch, error_column: str | None) -> int:
    rows = batch
    kinds = batch.schema.types
    if len(kinds) == 1 and (pa.types.is_list(kinds[0]) or pa.types.is_large_list(kinds[0])):
        lists = batch.column(0)
        # A null list may still store items.
        items = items_of(lists.drop_null() if lists.null_count else lists)
        if error_column is None:
            return len(items)
        if not pa.types.is_struct(items.type):
            return 0
        rows = pa.RecordBatch.from_struct_array(items.drop_null())
    if error_column is None:
        return int(rows.num_rows)
    column = find_column(rows, error_column)
    if column is None:
        return 0
    # A value counts if it is neither null nor blank text.
    if pa.types.is_nested(column.type):
        return len(column) - int(column.null_count)
    texts = pc.utf8_trim_whitespace(text_of(column))
    return int(pc.sum(pc.not_equal(texts, ""), min_count=0).as_py())
