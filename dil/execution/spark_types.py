"""Converts types of Arrow columns to Spark types, and back.

Spark's own conversion is not a public interface, and has no times of day or unsigned numbers.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as sql

from dil.errors import ConfigError

_MOST_DIGITS = 38
_FLAT: dict[pa.DataType, sql.DataType] = {
    pa.bool_(): sql.BooleanType(),
    pa.int8(): sql.ByteType(),
    pa.uint8(): sql.ShortType(),
    pa.int16(): sql.ShortType(),
    pa.uint16(): sql.IntegerType(),
    pa.int32(): sql.IntegerType(),
    pa.uint32(): sql.LongType(),
    pa.int64(): sql.LongType(),
    pa.uint64(): sql.DecimalType(20, 0),
    pa.float16(): sql.FloatType(),
    pa.float32(): sql.FloatType(),
    pa.float64(): sql.DoubleType(),
    pa.date32(): sql.DateType(),
    pa.date64(): sql.DateType(),
    pa.binary(): sql.BinaryType(),
    pa.large_binary(): sql.BinaryType(),
}
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_TO_ARROW: dict[type[sql.DataType], pa.DataType] = {
    sql.BooleanType: pa.bool_(),
    sql.ByteType: pa.int8(),
    sql.ShortType: pa.int16(),
    sql.IntegerType: pa.int32(),
    sql.LongType: pa.int64(),
    sql.FloatType: pa.float32(),
    sql.DoubleType: pa.float64(),
    sql.StringType: pa.string(),
    sql.BinaryType: pa.binary(),
    sql.DateType: pa.date32(),
    sql.TimestampType: pa.timestamp("us", tz="UTC"),
    sql.TimestampNTZType: pa.timestamp("us"),
    sql.DayTimeIntervalType: pa.duration("us"),
}


def spark_schema(schema: pa.Schema) -> sql.StructType:
    """Return the Spark schema of rows; every column may be null.

    A time of day becomes a text ``HH:MM:SS.ffffff``, because Spark's Parquet reader refuses times
    of day. A column without any value becomes a text, too.
    """
    return sql.StructType(
        [sql.StructField(field.name, _spark_type(field.type)) for field in schema]
    )


def arrow_schema(schema: sql.StructType) -> pa.Schema:
    """Return the Arrow schema in which Spark takes rows of a Spark schema.

    Raises:
        ConfigError: the schema has a type that cannot be read.
    """
    return pa.schema(
        [
            pa.field(field.name, _arrow_type(field.name, field.dataType), field.nullable)
            for field in schema.fields
        ]
    )


def _spark_type(kind: pa.DataType) -> sql.DataType:
    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type)
    if pa.types.is_struct(kind):
        return spark_schema(pa.schema(list(kind)))
    if pa.types.is_map(kind):
        return sql.MapType(_spark_type(kind.key_type), _spark_type(kind.item_type))
    if any(is_list(kind) for is_list in _LISTS):
        return sql.ArrayType(_spark_type(kind.value_type))
    return _flat_type(kind)


def _flat_type(kind: pa.DataType) -> sql.DataType:
    if pa.types.is_decimal(kind) and kind.precision <= _MOST_DIGITS and kind.scale >= 0:
        return sql.DecimalType(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return sql.TimestampNTZType() if kind.tz is None else sql.TimestampType()
    if pa.types.is_duration(kind):
        return sql.DayTimeIntervalType()
    if pa.types.is_fixed_size_binary(kind):
        return sql.BinaryType()
    return _FLAT.get(kind, sql.StringType())


def _arrow_type(name: str, kind: sql.DataType) -> pa.DataType:
    if isinstance(kind, sql.StructType):
        return pa.struct(list(arrow_schema(kind)))
    if isinstance(kind, sql.MapType):
        value = pa.field("value", _arrow_type(name, kind.valueType), kind.valueContainsNull)
        return pa.map_(_arrow_type(name, kind.keyType), value)
    if isinstance(kind, sql.ArrayType):
        item = pa.field("element", _arrow_type(name, kind.elementType), kind.containsNull)
        return pa.list_(item)
    if isinstance(kind, sql.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    found = next((arrow for each, arrow in _TO_ARROW.items() if isinstance(kind, each)), None)
    if found is None:
        raise ConfigError.single(
            "schema",
            f"has the type {kind.simpleString()} for {name}, which cannot be read",
            "Name another type, such as string, and cast the column in Spark.",
        )
    return found
