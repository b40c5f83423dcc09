"""Moves columns into one new column of records, lists of records, or maps.

See docs/rows.md.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dil.conversion.texts import text_of
from dil.errors import ConversionError
from dil.model.arrow import raw_schema
from dil.model.schema import ArrayType, Column, DataType, MapType, RecordType
from dil.types.nested import items_of, members_of, positions, rebuilt, records


def conformed(array: pa.Array, kind: DataType) -> pa.Array:
    """Return records with the members that a type declares, also inside lists and maps.

    A member that the type lacks is left out, and a missing member becomes null. If the type is a
    map, a record becomes a map without the record's nulls. Flat values, and values of another shape
    than the type, stay unchanged. A record type without columns fits every record.
    """
    if isinstance(kind, RecordType) and kind.columns and pa.types.is_struct(array.type):
        return _conformed_records(array, kind)
    if isinstance(kind, MapType) and pa.types.is_struct(array.type):
        return as_maps(array, kind, keeps_nulls=False)
    if isinstance(kind, ArrayType) and pa.types.is_list(array.type):
        items = conformed(items_of(array), kind.items)
        return rebuilt(array, items, pa.list_(array.type.value_field.with_type(items.type)))
    if isinstance(kind, MapType) and pa.types.is_map(array.type):
        items = conformed(items_of(array), kind.values)
        item = array.type.item_field.with_type(items.type)
        return rebuilt(array, items, pa.map_(array.type.key_type, item))
    return array


def _conformed_records(array: pa.StructArray, kind: RecordType) -> pa.Array:
    members = members_of(array)
    fields, columns = [], []
    for column, blank in zip(kind.columns, raw_schema(kind.columns), strict=True):
        _, found = members.get(column.name, (blank, pa.nulls(len(array), blank.type)))
        made = conformed(found, column.type)
        fields.append(blank.with_type(made.type))
        columns.append(made)
    return records(columns, fields, array.is_null())


def as_lists(items: pa.Array, offsets: pa.Array) -> pa.Array:
    """Return lists over items; ``offsets`` are int32."""
    kind = pa.list_(pa.field("item", items.type))
    return pa.ListArray.from_arrays(offsets, items, type=kind)


def as_maps(array: pa.StructArray, kind: MapType, *, keeps_nulls: bool) -> pa.Array:
    """Return for each record a map from its members' names to their values.

    Raises:
        ConversionError: a value does not fit the type of the map's values.
    """
    item = raw_schema((Column("value", kind.values, kind.values_nullable),)).field(0)
    members = {name: column for name, (_, column) in members_of(array).items()}
    rows, width = len(array), len(members)
    columns = [_value(name, column, item.type) for name, column in members.items()]
    # The values come column after column; entry k belongs to row k / width.
    entries = positions(rows * width)
    of_row = pc.divide(entries, width) if width else entries
    of_member = pc.subtract(entries, pc.multiply(of_row, width))
    order = pc.add(pc.multiply(of_member, rows), of_row)
    values = pa.concat_arrays([*columns, pa.nulls(0, item.type)]).take(order)
    names = pa.array(list(members), pa.string()).take(of_member)
    is_kept = pc.and_(
        array.is_valid().take(of_row),
        pa.repeat(pa.scalar(keeps_nulls), len(values)) if keeps_nulls else values.is_valid(),
    )
    before = pa.concat_arrays(
        [pa.array([0], pa.int64()), pc.cumulative_sum(is_kept.cast(pa.int64()))]
    )
    offsets = before.take(pc.multiply(positions(rows + 1), width)).cast(pa.int32())
    return pa.MapArray.from_arrays(
        offsets,
        names.filter(is_kept),
        values.filter(is_kept),
        type=pa.map_(pa.string(), item.with_name("value")),
        mask=array.is_null(),
    )


def _value(name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if column.null_count == len(column):
        return pa.nulls(len(column), kind)
    try:
        return text_of(column) if pa.types.is_string(kind) else column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ConversionError(
            f'column "{name}": a value of type {column.type} does not fit a map of {kind}',
            "Declare values of type string for the map in ms.target.schema.",
        ) from None
