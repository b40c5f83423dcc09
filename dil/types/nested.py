"""Rebuilds arrays with other flat types, walking through structs, lists and maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from dil.errors import ConversionError
from dil.types.containers import items_of, keys_of, rebuilt, whole

Leaf = Callable[[pa.Array, pa.DataType], pa.Array]
"""Converts an array of a flat type, or of another shape than the wanted type, to that type."""


def rebuild(array: pa.Array, target: pa.DataType, leaf: Leaf) -> pa.Array:
    """Return ``array`` converted to type ``target``; nulls stay null.

    Members of a struct are matched by name: a missing member becomes null, an additional member is
    left out.
    """
    source = array.type
    if source == target:
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), target)
    return _by_shape(array, target, partial(rebuild, leaf=leaf), leaf)


def explicit(array: pa.Array) -> pa.Array:
    """Return an equal array without slices inside; all values below a null are null."""
    if not pa.types.is_nested(array.type):
        return whole(array)
    return _by_shape(array, array.type, _explicit_child, _explicit_child)


def rebuild_batch(batch: pa.RecordBatch, schema: pa.Schema, leaf: Leaf) -> pa.RecordBatch:
    """Return ``batch`` with exactly the columns of ``schema``, in order; missing ones are null.

    Raises:
        ConversionError: a value does not fit its new type exactly; the error names the column.
    """
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    present = {name: index for index, name in enumerate(batch.schema.names)}
    columns = []
    for field in schema:
        if field.name not in present:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        column = batch.column(present[field.name])
        try:
            columns.append(rebuild(column, field.type, leaf))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ConversionError(
                f'column "{field.name}": a value of type {column.type} does not fit'
                f" {field.type} exactly",
                "Describe the columns and their types in ms.output.schema.",
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def rows_of(batch: pa.RecordBatch, size: int) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows as dicts, maps as dicts too; ``size`` rows at a time bound the memory.

    Raises:
        KeyError: a map holds a key twice.
    """
    # This option takes Arrow three times as long, even without maps.
    mode = "strict" if any(_holds_map(data_type) for data_type in batch.schema.types) else None
    for start in range(0, batch.num_rows, size):
        yield batch.slice(start, size).to_pylist(maps_as_pydicts=mode)


def map_type(data_type: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type with every flat type inside replaced; names and nullability stay."""
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(map_type(field.type, leaf)) for field in data_type])
    if pa.types.is_map(data_type):
        item = data_type.item_field
        return pa.map_(data_type.key_type, item.with_type(map_type(item.type, leaf)))
    if pa.types.is_list(data_type):
        item = data_type.value_field
        return pa.list_(item.with_type(map_type(item.type, leaf)))
    return leaf(data_type)


def map_schema(schema: pa.Schema, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.Schema:
    """Return a schema with every flat type inside replaced."""
    return pa.schema([field.with_type(map_type(field.type, leaf)) for field in schema])


def _explicit_child(array: pa.Array, target: pa.DataType) -> pa.Array:
    del target  # This is the type of the array.
    return explicit(array)


def _by_shape(array: pa.Array, target: pa.DataType, inner: Leaf, leaf: Leaf) -> pa.Array:
    """Return children rebuilt with ``inner`` if both types have one shape, else call ``leaf``."""
    source = array.type
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        names = [field.name for field in source]
        children = dict(zip(names, array.flatten(), strict=True))
        columns = [
            inner(children[field.name], field.type)
            if field.name in children
            else pa.nulls(len(array), field.type)
            for field in target
        ]
        return pa.StructArray.from_arrays(columns, fields=list(target), mask=array.is_null())
    if pa.types.is_map(source) and pa.types.is_map(target):
        keys = inner(keys_of(array), target.key_type)
        return rebuilt(array, inner(items_of(array), target.item_type), target, keys)
    if pa.types.is_list(source) and pa.types.is_list(target):
        return rebuilt(array, inner(items_of(array), target.value_type), target)
    return leaf(array, target)


def _holds_map(data_type: pa.DataType) -> bool:
    if pa.types.is_map(data_type):
        return True
    if not pa.types.is_nested(data_type):
        return False
    return any(_holds_map(data_type.field(i).type) for i in range(data_type.num_fields))
