"""Splits lists, maps and structs of Arrow into parts, even if they are slices of other arrays."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


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
