"""Finds one schema for all rows of a work unit, while inference still widens it (rule F17).

int widens to long, to decimal, to double; any flat type widens to text; members are added to
records. A column that never had a value takes the type that comes later, because the type of an
all-null column is only a guess. No value is rounded: a value that does not fit exactly raises an
error.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dil.types.fitting import exact_cast
from dil.types.lattice import is_number
from dil.types.merging import SeenType, merged_records, refuse_clash, union_of_seen
from dil.types.nested import items_of, rebuild_batch
from dil.types.number_texts import texts_of_numbers


class Widening:
    """The schema of all batches seen so far; ``add`` each batch before it is written.

    ``seen`` is the type of the values that occurred; parts of it without any value are null.
    """

    def __init__(self) -> None:
        self.schema: pa.Schema | None = None
        self.seen: pa.DataType = pa.null()

    def resume(self, schema: pa.Schema | None, seen: pa.DataType) -> None:
        """Continue another widening: from its schema, and the types that it saw in each column."""
        self.schema = schema
        self.seen = seen

    def add(self, batch: pa.RecordBatch) -> pa.Schema:
        """Return the schema that fits this batch and all batches before it.

        Raises:
            ConversionError: a column holds records in some rows and plain values in others.
        """
        here = pa.struct(
            [
                pa.field(name, observed(column))
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ]
        )
        if self.schema is None:
            self.schema = batch.schema
        elif not self.schema.equals(batch.schema, check_metadata=True):
            old = SeenType(pa.struct(list(self.schema)), self.seen)
            new = SeenType(pa.struct(list(batch.schema)), here)
            self.schema = pa.schema(list(merged_records(old, new, refuse_clash)))
        self.seen = union_of_seen(self.seen, here)
        return self.schema


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch in ``schema``, with every value exactly preserved.

    Raises:
        ConversionError: a value would change, such as 2^53 + 1 as a double.
    """
    return rebuild_batch(batch, schema, _widen_values)


def observed(array: pa.Array) -> pa.DataType:
    """Return the type of the values in an array; parts of the type without any value are null."""
    if array.null_count == len(array):
        return pa.null()
    if pa.types.is_struct(array.type):
        fields = list(array.type)
        return pa.struct([(f.name, observed(array.field(i))) for i, f in enumerate(fields)])
    if pa.types.is_map(array.type):
        items = items_of(array)
        # An empty object was read as a map without entries, which shows no type.
        return pa.map_(pa.string(), observed(items)) if len(items) else pa.null()
    if pa.types.is_list(array.type):
        return pa.list_(observed(items_of(array)))
    return array.type


def _widen_values(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_map(array.type) and pa.types.is_struct(target):
        # Rows with only {} are read as maps until a member appears.
        columns = [
            pc.map_lookup(array, pa.scalar(field.name), "first").cast(field.type)
            for field in target
        ]
        return pa.StructArray.from_arrays(columns, fields=list(target), mask=array.is_null())
    if pa.types.is_string(target) and is_number(array.type):
        return texts_of_numbers(array)
    return exact_cast(array, target)
