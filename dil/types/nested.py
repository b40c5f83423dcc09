"""Takes nested arrays of Arrow apart, and rebuilds them with other flat types.

A list, map or struct may be a slice of another array: its parts here are those of the slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import ConversionError

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

    def inner(child: pa.Array, _same: pa.DataType) -> pa.Array:
        return explicit(child)

    return _by_shape(array, array.type, inner, inner)


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


def _by_shape(array: pa.Array, target: pa.DataType, inner: Leaf, leaf: Leaf) -> pa.Array:
    """Return children rebuilt with ``inner`` if both types have one shape, else call ``leaf``."""
    source = array.type
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        members = members_of(array)
        columns = [
            inner(members[field.name][1], field.type)
            if field.name in members
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


def offsets_of(array: pa.Array) -> pa.Array:
    """Return the offsets of lists or maps; they begin at 0 and are no slice of other offsets."""
    offsets = array.offsets
    is_moved = offsets[0].as_py() != 0
    return whole(pc.subtract(offsets, offsets[0]) if is_moved else offsets)


def whole(array: pa.Array) -> pa.Array:
    """Return an equal array that is no slice, because Arrow accepts no mask with sliced offsets."""
    return array if array.offset == 0 else pa.concat_arrays([array, array.slice(0, 0)])


def positions(count: int) -> pa.Array:
    """Return 0, 1, 2 and so on, as int64."""
    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count)), 1)


def items_of(array: pa.Array) -> pa.Array:
    """Return the items of lists, or the values of maps, of this slice only."""
    inner = array.items if pa.types.is_map(array.type) else array.values
    return _covered(array, inner)


def keys_of(array: pa.MapArray) -> pa.Array:
    """Return the keys of maps, of this slice only."""
    return _covered(array, array.keys)


def _covered(array: pa.Array, inner: pa.Array) -> pa.Array:
    start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return inner.slice(start, end - start)


def rows_of_items(array: pa.Array, rows: pa.Array) -> pa.Array:
    """Return, for each item of lists or maps, the element of ``rows`` at its list's position."""
    offsets = offsets_of(array)
    lists = pa.ListArray.from_arrays(offsets, pa.nulls(offsets[-1].as_py(), pa.int8()))
    return rows.take(pc.list_parent_indices(lists))


def spread(values: pa.Array, is_valid: pa.Array) -> pa.Array:
    """Return an array with the values at the valid positions, in order, and null elsewhere."""
    before = pc.subtract(pc.cumulative_sum(is_valid.cast(pa.int64())), 1)
    return values.take(pc.if_else(is_valid, before, None))


def has_not_null(data_type: pa.DataType) -> bool:
    """Return whether any part inside a type must not be null."""
    if pa.types.is_map(data_type):
        return not data_type.item_field.nullable or has_not_null(data_type.item_type)
    if not pa.types.is_nested(data_type):
        return False
    fields = [data_type.field(index) for index in range(data_type.num_fields)]
    return any(not field.nullable or has_not_null(field.type) for field in fields)


def rebuilt(
    array: pa.Array, items: pa.Array, kind: pa.DataType, keys: pa.Array | None = None
) -> pa.Array:
    """Return lists or maps of type ``kind`` with each item replaced, and each key if given."""
    mask = array.is_null() if array.null_count else None
    offsets = offsets_of(array).cast(pa.int32())  # of large lists they are int64
    if pa.types.is_map(kind):
        keys = keys_of(array) if keys is None else keys
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)
    return pa.ListArray.from_arrays(offsets, items, type=kind, mask=mask)


def members_of(array: pa.StructArray) -> dict[str, tuple[pa.Field, pa.Array]]:
    """Return the members of records by name; members of a null record are null."""
    pairs = zip(array.type, array.flatten(), strict=True)
    return {field.name: (field, column) for field, column in pairs}


def records(
    columns: list[pa.Array], fields: list[pa.Field], mask: pa.Array | None = None
) -> pa.StructArray:
    """Return records with at least one member; ``mask`` marks the records that are null."""
    return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)
