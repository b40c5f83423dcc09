"""The text form of a dataset's schema, as the chain keeps it: one line a column.

A line is ``name: type`` with Arrow's own words for types, and ``not null`` where that holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import reduce

import pyarrow as pa

from dil.errors import ConversionError
from dil.model.widening import wider_flat

_NOT_NULL = " not null"
_DECIMAL = re.compile(r"decimal(128|256)\((\d+), (-?\d+)\)")
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns), tz=([^\]]+)\]")
_FIXED = re.compile(r"fixed_size_binary\[(\d+)\]")
_FLAT = re.compile(r"[a-z0-9_]+(\([^)]*\)|\[[^\]]*\])?")


def schema_text(schema: pa.Schema) -> str:
    """Return the text of a schema; metadata is left out."""
    return "\n".join(
        f"{field.name}: {field.type}" + ("" if field.nullable else _NOT_NULL) for field in schema
    )


def parse_schema(text: str) -> pa.Schema:
    """Return the schema that a text describes.

    Raises:
        ConversionError: a line cannot be read; a column's name may look like a type.
    """
    fields = []
    for line in text.splitlines():
        try:
            fields.append(_column(line))
        except (ValueError, KeyError, pa.ArrowException) as error:
            raise ConversionError(
                f'the recorded schema of the dataset has a column that cannot be read: "{line}"',
                "Give the columns of this job with ms.output.schema, or use"
                " ms.schema.contract=evolve.",
            ) from error
    return pa.schema(fields)


def merged_text(known: str, others: Iterable[str]) -> str:
    """Return the text of a schema that all of these fit, its columns in order of appearance.

    Raises:
        ConversionError: a text cannot be read.
    """
    texts = dict.fromkeys(text for text in (known, *others) if text)
    if len(texts) <= 1:
        return next(iter(texts), "")
    first, *rest = (pa.struct(list(parse_schema(text))) for text in texts)
    return schema_text(pa.schema(list(reduce(_wider_struct, rest, first))))


def wider(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Return a type that holds the values of both exactly; text where there is no other."""
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        return _wider_struct(a, b)
    if pa.types.is_list(a) and pa.types.is_list(b):
        return pa.list_(_wider_field(a.value_field, b.value_field))
    if pa.types.is_map(a) and pa.types.is_map(b):
        return pa.map_(a.key_type, _wider_field(a.item_field, b.item_field))
    return pa.string() if pa.types.is_nested(a) or pa.types.is_nested(b) else wider_flat(a, b)


def _wider_struct(a: pa.StructType, b: pa.StructType) -> pa.StructType:
    added = {field.name: field for field in b}
    fields = []
    for field in a:
        other = added.pop(field.name, None)
        fields.append(
            field.with_nullable(nullable=True) if other is None else _wider_field(field, other)
        )
    fields.extend(field.with_nullable(nullable=True) for field in added.values())
    return pa.struct(fields)


def _wider_field(a: pa.Field, b: pa.Field) -> pa.Field:
    return pa.field(a.name, wider(a.type, b.type), a.nullable or b.nullable)


def _field(text: str) -> tuple[pa.Field, str]:
    """Read ``name: type`` at the beginning of a text; return it and what follows."""
    name, colon, rest = text.partition(": ")
    if not colon:
        raise ValueError(text)
    data_type, rest = _type(rest)
    nullable = not rest.startswith(_NOT_NULL)
    return pa.field(name, data_type, nullable), rest if nullable else rest[len(_NOT_NULL) :]


def _type(text: str) -> tuple[pa.DataType, str]:
    """Read a type at the beginning of a text; return it and what follows."""
    if text.startswith("struct<"):
        fields, rest = [], text.removeprefix("struct<")
        while not rest.startswith(">"):
            field, rest = _field(rest)
            fields.append(field)
            rest = rest.removeprefix(", ")
        return pa.struct(fields), rest[1:]
    if text.startswith("list<"):
        item, rest = _field(text.removeprefix("list<"))
        return pa.list_(item), _closed(rest)
    if text.startswith("map<"):
        key, rest = _type(text.removeprefix("map<"))
        value, rest = _type(_after(", ", rest))
        return pa.map_(key, value), _closed(rest)
    match = _FLAT.match(text)
    if match is None:
        raise ValueError(text)
    return _flat(match[0]), text[match.end() :]


def _flat(word: str) -> pa.DataType:
    if match := _DECIMAL.fullmatch(word):
        make = pa.decimal128 if match[1] == "128" else pa.decimal256
        return make(int(match[2]), int(match[3]))
    if match := _ZONED.fullmatch(word):
        return pa.timestamp(match[1], tz=match[2])
    if match := _FIXED.fullmatch(word):
        return pa.binary(int(match[1]))
    return pa.type_for_alias(word)


def _closed(text: str) -> str:
    return _after(">", text)


def _after(start: str, text: str) -> str:
    if not text.startswith(start):
        raise ValueError(text)
    return text[len(start) :]


def _column(line: str) -> pa.Field:
    """Read a whole line."""
    field, rest = _field(line)
    if rest:
        raise ValueError(rest)
    return field
