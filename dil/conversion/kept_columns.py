"""Keeps columns that the dataset has but the rows now lack, filled with null."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dil.errors import ConversionError
from dil.spi.converter import Converter, ConverterContext, PageFacts
from dil.types.schema_text import parse_schema


class KeptColumns(Converter):
    """Adds the columns of the recorded schema that a batch lacks: nullable, and last.

    Names are compared without regard to letter case, because readers of files may ignore it.
    """

    def __init__(self, context: ConverterContext) -> None:
        super().__init__(context)
        try:
            self._known = parse_schema(context.known_schema)
        except ConversionError:  # As in KnownTypes, an unreadable schema counts as unknown.
            self._known = pa.schema([])

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        """Yield the batch with all columns."""
        del facts
        names = {name.lower() for name in batch.schema.names}
        lacking = [field for field in self._known if field.name.lower() not in names]
        columns = [*batch.columns, *(pa.nulls(batch.num_rows, field.type) for field in lacking)]
        fields = [*batch.schema, *(field.with_nullable(nullable=True) for field in lacking)]
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
