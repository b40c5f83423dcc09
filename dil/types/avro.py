"""Makes the Avro schema of a typed Arrow schema, and finds the types of the values that it holds.

Source: Apache Avro 1.11 specification, "Names", "Unions", "Decimal". See docs/rows.md.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from dil.errors import ConversionError
from dil.model.arrow import type_word, word_of
from dil.model.job import WritingSpec
from dil.model.json import JsonObject, JsonValue

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OUTSIDE_NAME = re.compile(r"[^A-Za-z0-9_]")

_FLAT: dict[pa.DataType, str] = {
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.binary(): "bytes",
}
_OF_WORD = {word: kind for kind, word in _FLAT.items()}


def avro_schema(schema: pa.Schema, spec: WritingSpec) -> dict[str, JsonValue]:
    """Return the record schema, named as ``spec`` says; a nullable column is a union with null.

    Every field has its declared type word as ``source.type``. Dates, times and timestamps are plain
    longs. A nested record is named after its field, in the namespace ``<outer namespace>.<outer
    name>``.

    Raises:
        ConversionError: a column's name cannot be a name in Avro, or its type has no Avro form.
    """
    name = _as_name(spec.record_name or "row")
    namespace = ".".join(_as_name(part) for part in spec.record_namespace.split(".") if part)
    return _record(list(schema), name, namespace)


def held_type(avro: Any) -> pa.DataType:  # the JSON of a type in ``avro_schema``
    """Return the Arrow type of the values in a file; dates, times and timestamps are longs."""
    match avro:
        case str():
            return _OF_WORD[avro]
        case list():
            return held_type(next(branch for branch in avro if branch != "null"))
        case {"type": "record", "fields": members}:
            fields = [(member["name"], held_type(member["type"])) for member in members]
            held: pa.DataType = pa.struct(fields)
        case {"type": "map", "values": values}:
            held = pa.map_(pa.string(), held_type(values))
        case {"type": "array", "items": items}:
            held = pa.list_(held_type(items))
        case {"logicalType": "decimal", "precision": digits, "scale": scale}:
            held = pa.decimal128(digits, scale)
        case _:
            held = held_type(avro["type"])
    return held


def _record(fields: list[pa.Field], name: str, namespace: str) -> dict[str, JsonValue]:
    inner = f"{namespace}.{name}" if namespace else name
    record: dict[str, JsonValue] = {"type": "record", "name": name}
    if namespace:
        record["namespace"] = namespace
    record["fields"] = [_field(field, inner) for field in fields]
    return record


def _field(field: pa.Field, namespace: str) -> JsonObject:
    if not _NAME.fullmatch(field.name):
        raise ConversionError(
            f'column "{field.name}" cannot be written as Avro: an Avro name has only letters,'
            " digits and _, and does not begin with a digit",
            "Rename the column with ms.schema.cleansing, or choose writer.output.format=PARQUET.",
        )
    result: dict[str, JsonValue] = {
        "name": field.name,
        "type": _optional(field, field.name, namespace),
    }
    if field.nullable:
        result["default"] = None
    result["source.type"] = type_word(field) or word_of(field.type)
    return result


def _optional(field: pa.Field, name: str, namespace: str) -> JsonValue:
    avro_type = _type(field.type, name, namespace)
    return ["null", avro_type] if field.nullable else avro_type


def _type(data_type: pa.DataType, name: str, namespace: str) -> JsonValue:
    if pa.types.is_struct(data_type):
        return _record(list(data_type), name, namespace)
    if pa.types.is_map(data_type):
        return {"type": "map", "values": _optional(data_type.item_field, name, namespace)}
    if pa.types.is_list(data_type):
        return {"type": "array", "items": _optional(data_type.value_field, name, namespace)}
    if pa.types.is_decimal128(data_type):
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": data_type.precision,
            "scale": data_type.scale,
        }
    word = "long" if pa.types.is_temporal(data_type) else _FLAT.get(data_type)
    if word is None:
        raise ConversionError(
            f'column "{name}" has type {data_type}, which has no Avro form',
            "Convert the column at the source, or choose writer.output.format=PARQUET.",
        )
    return word


def _as_name(text: str) -> str:
    """Return a label as an Avro name: ``my-table`` becomes ``my_table``."""
    name = _OUTSIDE_NAME.sub("_", text)
    return name if _NAME.fullmatch(name) else f"_{name}"
