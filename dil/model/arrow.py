"""Arrow forms of our schemas, in a module of their own so that planning never imports pyarrow.

Two forms exist. Extractors yield the *raw* form: temporal, bytes and enum columns are still the
source's text. Writers receive the *typed* form: date32, time64[us], timestamp[us, UTC], binary,
dictionary-free text for enums (rule F19). Each field, also a nested one, carries the original type
word in its metadata under ``dil.type``.
"""

from __future__ import annotations

import pyarrow as pa

from dil.model.schema import (
    JSON,
    ArrayType,
    Column,
    DataType,
    EnumType,
    MapType,
    Primitive,
    Schema,
)

TYPE_KEY = b"dil.type"

_COMMON: dict[str, pa.DataType] = {
    "string": pa.string(),
    JSON: pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}
_TYPED: dict[str, pa.DataType] = {
    "bytes": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
# The typed form of each flat word except decimal, whose type depends on its digits.
TYPED_WORDS: dict[str, pa.DataType] = {**_COMMON, **_TYPED, "enum": pa.string()}


def raw_schema(columns: Schema) -> pa.Schema:
    """Return the Arrow schema of rows as extractors yield them."""
    return pa.schema([_field(column, typed=False) for column in columns])


def typed_schema(columns: Schema) -> pa.Schema:
    """Return the Arrow schema of rows as writers receive them."""
    return pa.schema([_field(column, typed=True) for column in columns])


def type_word(field: pa.Field) -> str:
    """Return the field's declared type word; empty text if none is declared."""
    metadata = field.metadata or {}
    word: bytes = metadata.get(TYPE_KEY, b"")
    return word.decode()


def word_of(data_type: pa.DataType) -> str:
    """Return the word that declares an Arrow type; ``string`` if no word fits exactly."""
    for word, known in (*_COMMON.items(), *_TYPED.items()):
        if known == data_type:
            return word
    kinds = (
        (pa.types.is_struct, "record"), (pa.types.is_map, "map"), (pa.types.is_list, "array"),
        (pa.types.is_integer, "long"), (pa.types.is_floating, "double"),
        (pa.types.is_decimal, "decimal"), (pa.types.is_timestamp, "timestamp"),
        (pa.types.is_date, "date"), (pa.types.is_time, "time"), (pa.types.is_binary, "bytes"),
    )  # fmt: skip
    return next((word for is_kind, word in kinds if is_kind(data_type)), "string")


def _field(column: Column, *, typed: bool) -> pa.Field:
    return pa.field(
        column.name,
        _arrow_type(column.type, typed=typed),
        # Raw rows may miss a column that must not be null; conversion reports that, not Arrow.
        nullable=column.nullable or not typed,
        metadata={TYPE_KEY: _word(column.type).encode()},
    )


def _word(data_type: DataType) -> str:
    match data_type:
        case Primitive(word=word):
            return word
        case EnumType():
            return "enum"
        case ArrayType():
            return "array"
        case MapType():
            return "map"
        case _:
            return "record"


def _primitive(data_type: Primitive, *, typed: bool) -> pa.DataType:
    if data_type.word == "decimal":
        return pa.decimal128(data_type.precision, data_type.scale)
    if data_type.word in _COMMON:
        return _COMMON[data_type.word]
    return _TYPED[data_type.word] if typed else pa.string()


def _arrow_type(data_type: DataType, *, typed: bool) -> pa.DataType:
    match data_type:
        case Primitive():
            return _primitive(data_type, typed=typed)
        case EnumType():
            return pa.string()
        case ArrayType(items=items, items_nullable=nullable, name=name):
            item = Column(name or "item", items, nullable)
            return pa.list_(_field(item, typed=typed).with_name("item"))
        case MapType(values=values, values_nullable=nullable):
            return pa.map_(pa.string(), _field(Column("value", values, nullable), typed=typed))
        case _:
            return pa.struct([_field(column, typed=typed) for column in data_type.columns])
