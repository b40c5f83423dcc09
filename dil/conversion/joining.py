"""Joins several batches into one, although inference widened the types in between.

As in the writers, int widens to long, to decimal, to double; flat types without a common wider type
become text. A column of nulls does not affect the type. No value changes.

See rules F16 and F17.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dil.conversion.texts import text_of
from dil.model.arrow import TYPE_KEY
from dil.types.fitting import exact_cast
from dil.types.lattice import widened_word, wider_flat
from dil.types.merging import refuse_clash
from dil.types.nested import items_of, keys_of, members_of, records

FieldArray = tuple[pa.Field, pa.Array]


def join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of all batches in order, in a schema with the columns of all.

    Raises:
        ConversionError: a column holds records in some rows and plain values in others.
    """
    if len(batches) == 1:
        return batches[0]
    schema = batches[0].schema
    rows = [batch.to_struct_array() for batch in batches]
    if all(batch.schema.equals(schema, check_metadata=True) for batch in batches):
        return pa.RecordBatch.from_struct_array(pa.concat_arrays(rows))
    _, array = _joined([(pa.field("", each.type), each) for each in rows], "")
    return pa.RecordBatch.from_struct_array(array)


def _joined(parts: Sequence[FieldArray], path: str) -> FieldArray:
    """Return the parts of one column as one part."""
    telling = [part for part in parts if part[1].null_count < len(part[1])] or list(parts[:1])
    field = telling[0][0].with_nullable(any(field.nullable for field, _ in parts))
    types = {part[1].type for part in telling}
    if len(types) == 1:
        # The types differ only in the metadata of nested fields: the first type is kept.
        kind = field.type
        arrays = [array if array.type == kind else pa.nulls(len(array), kind) for _, array in parts]
        return field, pa.concat_arrays(arrays)
    if all(map(_is_record, telling)):
        array = _joined_records(parts, path)
    elif all(pa.types.is_map(kind) for kind in types):
        array = _joined_maps(parts, path)
    elif all(pa.types.is_list(kind) for kind in types):
        array = _joined_lists(parts, path)
    else:
        return _joined_flat(parts, telling, path)
    return field.with_type(array.type), array


def _is_record(part: FieldArray) -> bool:
    """Return whether a part holds records; ``{}`` alone was read as a map without entries."""
    _, array = part
    if pa.types.is_map(array.type):
        return len(items_of(array)) == 0
    return bool(pa.types.is_struct(array.type))


def _joined_records(parts: Sequence[FieldArray], path: str) -> pa.Array:
    members = [members_of(array) if pa.types.is_struct(array.type) else {} for _, array in parts]
    columns: list[pa.Array] = []
    fields: list[pa.Field] = []
    for name in dict.fromkeys(name for each in members for name in each):
        there = [
            each.get(name) or (pa.field(name, pa.null()), pa.nulls(len(array)))
            for each, (_, array) in zip(members, parts, strict=True)
        ]
        field, column = _joined(there, f"{path}.{name}" if path else name)
        fields.append(field)
        columns.append(column)
    return records(columns, fields, _nulls(parts))


def _joined_lists(parts: Sequence[FieldArray], path: str) -> pa.Array:
    field, items = _joined([_items(array) for _, array in parts], f"{path}[]")
    return pa.ListArray.from_arrays(
        _offsets(parts), items, type=pa.list_(field.with_name("item")), mask=_nulls(parts)
    )


def _joined_maps(parts: Sequence[FieldArray], path: str) -> pa.Array:
    field, items = _joined([_items(array) for _, array in parts], f"{path}.*")
    keys = [keys_of(array) for _, array in parts if pa.types.is_map(array.type)]
    return pa.MapArray.from_arrays(
        _offsets(parts),
        pa.concat_arrays(keys),
        items,
        type=pa.map_(pa.string(), field),
        mask=_nulls(parts),
    )


def _items(array: pa.Array) -> FieldArray:
    """Return the items of lists or maps; no items for an array of nulls of another type."""
    if pa.types.is_map(array.type):
        return array.type.item_field, items_of(array)
    if pa.types.is_list(array.type):
        return array.type.value_field, items_of(array)
    return pa.field("item", pa.null()), pa.nulls(0)


def _offsets(parts: Sequence[FieldArray]) -> pa.Array:
    lengths = [pa.array([0], pa.int32())]
    for _, array in parts:
        if pa.types.is_list(array.type) or pa.types.is_map(array.type):
            lengths.append(pc.pairwise_diff(array.offsets).slice(1))
        else:
            lengths.append(pa.repeat(pa.scalar(0, pa.int32()), len(array)))
    return pc.cumulative_sum(pa.concat_arrays(lengths))


def _nulls(parts: Sequence[FieldArray]) -> pa.Array:
    return pa.concat_arrays([array.is_null() for _, array in parts])


def _joined_flat(
    parts: Sequence[FieldArray], telling: Sequence[FieldArray], path: str
) -> FieldArray:
    if any(pa.types.is_nested(array.type) for _, array in telling):
        refuse_clash(path)
    kind = wider_flat(*(array.type for _, array in telling))
    try:
        arrays = [_exact(array, kind) for _, array in parts]
    except pa.ArrowInvalid:
        kind = pa.string()
        arrays = [_exact(array, kind) for _, array in parts]
    field = pa.field(parts[0][0].name, kind, metadata={TYPE_KEY: widened_word(kind)})
    return field, pa.concat_arrays(arrays)


def _exact(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), kind)
    if pa.types.is_string(kind):
        return text_of(array)
    return exact_cast(array, kind)
