"""Converts Arrow columns to columns of an Iceberg table.

Every column that a job makes may hold null. Source: the Iceberg table specification, "Schemas and
Data Types", "Schema Evolution"; the library decides which files with other types a table can read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg import types as iceberg
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, index_by_name
from pyiceberg.transforms import IdentityTransform

from dil.types.table_formats import UTC_ZONES, unfit

_FIRST_PARTITION_FIELD = 1000
_FLAT: dict[pa.DataType, iceberg.PrimitiveType] = {
    pa.bool_(): iceberg.BooleanType(),
    pa.int8(): iceberg.IntegerType(),
    pa.int16(): iceberg.IntegerType(),
    pa.int32(): iceberg.IntegerType(),
    pa.int64(): iceberg.LongType(),
    pa.float32(): iceberg.FloatType(),
    pa.float64(): iceberg.DoubleType(),
    pa.string(): iceberg.StringType(),
    pa.large_string(): iceberg.StringType(),
    pa.binary(): iceberg.BinaryType(),
    pa.large_binary(): iceberg.BinaryType(),
    pa.date32(): iceberg.DateType(),
}


def iceberg_schema(schema: pa.Schema, table: Schema | None = None) -> Schema:
    """Return the columns for a table, numbered from 1, because the table assigns its own ids.

    Args:
        schema: The columns of the rows.
        table: The table's columns so far; required columns stay required.

    Raises:
        WriteError: no type holds a column's values exactly, or rows may lack a column that the
            table requires.
    """
    required = {field.name for field in table.fields if field.required} if table else set()
    sure = {field.name for field in schema if not field.nullable}
    if required - sure:
        raise unfit(
            min(required - sure), "required by the Iceberg table", "and the rows may lack it"
        )
    numbers = itertools.count(1)
    fields = [_field(field, field.name, numbers) for field in schema]
    return Schema(
        *(field.model_copy(update={"required": field.name in required}) for field in fields)
    )


def refuse_retyped(table: Schema, other: Schema) -> None:
    """Raise if a column's type is neither the table's type nor a wider or narrower form of it.

    Widening is int to long, float to double, and more digits before a decimal's point.

    Raises:
        WriteError: the type of a column is too different.
    """
    known = {name: table.find_type(name) for name in index_by_name(table)}
    for name in index_by_name(other):
        kind, old = other.find_type(name), known.get(name)
        if old is not None and _family(kind) != _family(old):
            raise unfit(name, kind, f"and {old} in the Iceberg table")


def _family(kind: iceberg.IcebergType) -> str:
    match kind:
        case iceberg.DecimalType(scale=scale):
            return f"decimal(*, {scale})"
        case iceberg.IntegerType() | iceberg.LongType():
            return "long"
        case iceberg.FloatType() | iceberg.DoubleType():
            return "double"
        case iceberg.StructType() | iceberg.ListType() | iceberg.MapType():
            return type(kind).__name__
        case _:
            return str(kind)


def partition_spec(schema: Schema, names: tuple[str, ...]) -> PartitionSpec:
    """Return the spec of a table that is partitioned by the values of columns.

    Raises:
        WriteError: the rows lack a column.
    """
    known = {field.name: field.field_id for field in schema.fields}
    for name in names:
        if name not in known:
            raise unfit(name, "in ms.table.partition.fields", "and the rows do not have it")
    return PartitionSpec(
        *(
            PartitionField(known[name], _FIRST_PARTITION_FIELD + place, IdentityTransform(), name)
            for place, name in enumerate(names)
        )
    )


def undated_column(footer: pq.FileMetaData) -> tuple[str, str] | None:
    """Return the name and the type of a column with values beyond Python's calendar, else None."""
    for place in range(footer.num_columns):
        column = footer.schema.column(place)
        groups = (footer.row_group(n).column(place) for n in range(footer.num_row_groups))
        try:
            for statistics in (group.statistics for group in groups):
                _ = statistics and (statistics.min, statistics.max)
        except OverflowError:
            return column.path, column.logical_type.type.lower()
    return None


def _field(field: pa.Field, path: str, numbers: Iterator[int]) -> iceberg.NestedField:
    number = next(numbers)
    kind = _type(field.type, path, numbers)
    return iceberg.NestedField(number, field.name, kind, required=False)


def _type(kind: pa.DataType, path: str, numbers: Iterator[int]) -> iceberg.IcebergType:
    if pa.types.is_struct(kind):
        members = [_field(member, f"{path}.{member.name}", numbers) for member in kind]
        return iceberg.StructType(*members)
    if pa.types.is_map(kind):
        key, value = next(numbers), next(numbers)
        return iceberg.MapType(
            key_id=key,
            key_type=_type(kind.key_type, f"{path}.key", numbers),
            value_id=value,
            value_type=_type(kind.item_type, f"{path}.value", numbers),
            value_required=False,
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = next(numbers)
        return iceberg.ListType(
            element_id=element,
            element_type=_type(kind.value_type, f"{path}.element", numbers),
            element_required=False,
        )
    return _flat(kind, path)


def _flat(kind: pa.DataType, path: str) -> iceberg.PrimitiveType:
    if pa.types.is_decimal128(kind) and kind.scale >= 0:
        return iceberg.DecimalType(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind) and kind.unit in {"s", "ms", "us"}:
        if kind.tz is None:
            return iceberg.TimestampType()
        if kind.tz in UTC_ZONES:
            return iceberg.TimestamptzType()
    if pa.types.is_time64(kind) and kind.unit == "us":
        return iceberg.TimeType()
    known = _FLAT.get(kind)
    if known is None:
        raise unfit(path, kind, "which no type of Iceberg holds")
    return known
