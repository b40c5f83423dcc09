"""One schema for all rows of a work unit, while inference still widens it (rule F17).

int widens to long, to decimal, to double; any flat type widens to text; members are added to
records. A column that never held a value takes whatever type comes later, because the type of an
all-null column is only a guess. Nothing is rounded: what does not fit exactly is an error.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import ConversionError
from dil.model.arrow import TYPE_KEY
from dil.model.exact_decimals import exact_cast
from dil.model.number_texts import texts_of_numbers
from dil.model.widening import is_number, widened_word, wider_flat
from dil.writing.nested import items_of, rebuild_batch


class Widening:
    """The schema of all batches seen so far; ``add`` each batch before it is written.

    ``seen`` is the type of the values that were there: null wherever none was.
    """

    def __init__(self) -> None:
        self.schema: pa.Schema | None = None
        self.seen: pa.DataType = pa.null()

    def resume(self, schema: pa.Schema | None, seen: pa.DataType) -> None:
        """Continue from another widening: its schema, and the types it saw in each column."""
        self.schema = schema
        self.seen = seen

    def add(self, batch: pa.RecordBatch) -> pa.Schema:
        """Return the schema that fits everything so far and this batch.

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
            merged = _merge_structs(
                _Side(pa.struct(list(self.schema)), self.seen),
                _Side(pa.struct(list(batch.schema)), here),
                "",
            )
            self.schema = pa.schema(list(merged))
        self.seen = _union(self.seen, here)
        return self.schema


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch in ``schema``, every value exactly as it was.

    Raises:
        ConversionError: a value would change, such as 2^53 + 1 as a double.
    """
    return rebuild_batch(batch, schema, _widen_values)


def observed(array: pa.Array) -> pa.DataType:
    """Return the type of the values that are there: null wherever none is."""
    if array.null_count == len(array):
        return pa.null()
    if pa.types.is_struct(array.type):
        fields = list(array.type)
        return pa.struct([(f.name, observed(array.field(i))) for i, f in enumerate(fields)])
    if pa.types.is_map(array.type):
        items = items_of(array)
        # A map without any entry is what an empty object was taken for: it says nothing.
        return pa.map_(pa.string(), observed(items)) if len(items) else pa.null()
    if pa.types.is_list(array.type):
        return pa.list_(observed(items_of(array)))
    return array.type


class _Side:
    """A declared type together with what was observed of it."""

    def __init__(self, declared: pa.DataType, seen: pa.DataType) -> None:
        self.declared = declared
        self.seen = seen

    def child(self, index: int) -> _Side:
        field = self.declared.field(index)
        inner = pa.null()
        if pa.types.is_struct(self.seen):
            at = self.seen.get_field_index(field.name)
            inner = self.seen.field(at).type if at >= 0 else pa.null()
        return _Side(field.type, inner)

    def item(self) -> _Side:
        if pa.types.is_map(self.declared):
            inner = self.seen.item_type if pa.types.is_map(self.seen) else pa.null()
            return _Side(self.declared.item_type, inner)
        inner = self.seen.value_type if pa.types.is_list(self.seen) else pa.null()
        return _Side(self.declared.value_type, inner)


def _merge(old: _Side, new: _Side, path: str) -> pa.DataType:
    a, b = old.declared, new.declared
    if a == b:
        return a
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        return _merge_structs(old, new, path)
    if pa.types.is_map(a) and pa.types.is_map(b):
        merged = _merge(old.item(), new.item(), f"{path}.*")
        return pa.map_(a.key_type, _merge_fields(a.item_field, b.item_field, merged))
    if pa.types.is_list(a) and pa.types.is_list(b):
        merged = _merge(old.item(), new.item(), f"{path}[]")
        return pa.list_(_merge_fields(a.value_field, b.value_field, merged))
    return _merge_kinds(old, new, path)


def _merge_kinds(old: _Side, new: _Side, path: str) -> pa.DataType:
    """Merge two types of which at least one is flat, or that are nested in different ways."""
    if pa.types.is_null(new.seen):
        return new.declared if pa.types.is_null(old.declared) else old.declared
    if pa.types.is_null(old.seen):
        return new.declared
    return _merge_flat(old.declared, new.declared, path)


def _merge_structs(old: _Side, new: _Side, path: str) -> pa.StructType:
    added = {field.name: index for index, field in enumerate(new.declared)}
    fields = []
    for index, field in enumerate(old.declared):
        at = added.pop(field.name, None)
        if at is None:
            fields.append(field.with_nullable(nullable=True))
            continue
        place = f"{path}.{field.name}" if path else field.name
        merged = _merge(old.child(index), new.child(at), place)
        fields.append(_merge_fields(field, new.declared.field(at), merged))
    fields.extend(new.declared.field(at).with_nullable(nullable=True) for at in added.values())
    return pa.struct(fields)


def _merge_fields(old: pa.Field, new: pa.Field, merged: pa.DataType) -> pa.Field:
    nullable = old.nullable or new.nullable
    if merged == old.type or pa.types.is_nested(merged):
        return old.with_type(merged).with_nullable(nullable)
    if merged == new.type:
        return new.with_name(old.name).with_nullable(nullable)
    return pa.field(old.name, merged, nullable, {TYPE_KEY: widened_word(merged)})


def _merge_flat(a: pa.DataType, b: pa.DataType, path: str) -> pa.DataType:
    if pa.types.is_nested(a) or pa.types.is_nested(b):
        raise ConversionError(
            f'column "{path}" holds records or lists in some rows and plain values in others',
            "Give the columns of this job with ms.output.schema, without this column.",
        )
    return wider_flat(a, b)


def _union(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Return what both observations together have seen."""
    if pa.types.is_null(a):
        return b
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        seen = {field.name: field.type for field in a}
        for field in b:
            seen[field.name] = _union(seen.get(field.name, pa.null()), field.type)
        return pa.struct(list(seen.items()))
    if pa.types.is_map(a) and pa.types.is_map(b):
        return pa.map_(pa.string(), _union(a.item_type, b.item_type))
    if pa.types.is_list(a) and pa.types.is_list(b):
        return pa.list_(_union(a.value_type, b.value_type))
    return a


def _widen_values(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_map(array.type) and pa.types.is_struct(target):
        return _members(array, target)
    if pa.types.is_string(target) and is_number(array.type):
        return texts_of_numbers(array)
    return exact_cast(array, target)


def _members(array: pa.MapArray, target: pa.StructType) -> pa.Array:
    """Return maps as records: rows with only ``{}`` are taken for maps until a member appears."""
    columns = [
        pc.map_lookup(array, pa.scalar(field.name), "first").cast(field.type) for field in target
    ]
    return pa.StructArray.from_arrays(columns, fields=list(target), mask=array.is_null())
