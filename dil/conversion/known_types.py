"""Keeps the dataset's types and columns, as its chain has recorded them.

Inference sees only the rows of one work unit: a column of 1.5 and 2 may be an int tomorrow. Under
the contract evolve such a column keeps its type, so that all files have one schema. A column whose
values do not fit is drift, and keeps the inferred type.

A column that the rows now lack may be kept, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dil.conversion.failures import RowFailures
from dil.conversion.fitting import Fitting
from dil.errors import ConversionError
from dil.spi.converter import Converter, ConverterContext, PageFacts
from dil.types.containers import positions
from dil.types.schema_text import parse_schema


def known_fields(recorded: str) -> tuple[pa.Field, ...]:
    """Return the fields of a recorded schema; none if the text is of another version of DIL."""
    try:
        return tuple(parse_schema(recorded))
    except ConversionError:
        return ()


class KnownTypes(Converter):
    """Passes every row, with its columns in the types of the recorded schema if values fit."""

    def __init__(self, context: ConverterContext) -> None:
        super().__init__(context)
        self._keys = context.job.extraction.primary_keys
        self._known = {field.name: field for field in known_fields(context.known_schema)}

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        """Yield the batch; each column whose values fit its known type gets that type."""
        del facts
        if all(self._is_settled(field) for field in batch.schema):
            yield batch
            return
        rows = positions(batch.num_rows)
        columns, fields = [], []
        for field, column in zip(batch.schema, batch.columns, strict=True):
            known = self._known.get(field.name)
            fitted = None
            if known is not None and not self._is_settled(field):
                fitted = self._fitted(column, known, rows)
            columns.append(column if fitted is None else fitted)
            fields.append(field if fitted is None else known)
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, batch.schema.metadata))

    def _is_settled(self, field: pa.Field) -> bool:
        """Return whether a column is unknown, or already has its known type."""
        known = self._known.get(field.name)
        return known is None or bool(known.type == field.type)

    def _fitted(self, column: pa.Array, known: pa.Field, rows: pa.Array) -> pa.Array | None:
        """Return a column in its known type, None if a value or a member does not fit it."""
        failures, strangers = RowFailures(), []

        def unknown(path: str, values: pa.Array, of_rows: pa.Array) -> None:
            del values, of_rows
            strangers.append(path)

        fitting = Fitting(failures, unknown, keys=self._keys)
        fitted = fitting.fit(column, known.with_nullable(nullable=True), known.name, rows)
        return None if strangers or len(failures) else fitted


class KeptColumns(Converter):
    """Adds the columns of the recorded schema that a batch lacks: nullable, and last.

    Names are compared without regard to letter case, because readers of files may ignore it.
    """

    def __init__(self, context: ConverterContext) -> None:
        super().__init__(context)
        self._known = known_fields(context.known_schema)

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        """Yield the batch with all columns."""
        del facts
        names = {name.lower() for name in batch.schema.names}
        lacking = [field for field in self._known if field.name.lower() not in names]
        columns = [*batch.columns, *(pa.nulls(batch.num_rows, field.type) for field in lacking)]
        fields = [*batch.schema, *(field.with_nullable(nullable=True) for field in lacking)]
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
