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
    RecordType,
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
    word, arrow_type = _described(column.type, typed=typed)
    return pa.field(
        column.name,
        arrow_type,
        # Raw rows may miss a column that must not be null; conversion reports that, not Arrow.
        nullable=column.nullable or not typed,
        metadata={TYPE_KEY: word.encode()},
    )


def _described(data_type: DataType, *, typed: bool) -> tuple[str, pa.DataType]:
    """Return the word of a type, and its Arrow type in the raw or the typed form."""
    match data_type:
        case Primitive("decimal", precision, scale):
            return "decimal", pa.decimal128(precision, scale)
        case Primitive(word):
            return word, _COMMON.get(word) or (_TYPED[word] if typed else pa.string())
        case EnumType():
            return "enum", pa.string()
        case ArrayType(items, items_nullable, name):
            item = _field(Column(name or "item", items, items_nullable), typed=typed)
            return "array", pa.list_(item.with_name("item"))
        case MapType(values, values_nullable):
            value = _field(Column("value", values, values_nullable), typed=typed)
            return "map", pa.map_(pa.string(), value)
        case RecordType(columns):
            return "record", pa.struct([_field(column, typed=typed) for column in columns])
