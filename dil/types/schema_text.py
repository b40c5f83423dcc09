"""Schemas as texts: a dataset's as the chain keeps it, and whole ones with all their metadata.

The chain keeps one line per column: ``name: type``, in Arrow's own words, and ``not null`` if the
column is not nullable. An encoded schema is for a later attempt, which continues with it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from functools import reduce

import pyarrow as pa

from dil.errors import ConversionError
from dil.types.merging import wider_schema
from dil.types.schema_lines import NOT_NULL

_DECIMAL = re.compile(r"decimal(128|256)\((\d+), (-?\d+)\)")
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns), tz=([^\]]+)\]")
_FIXED = re.compile(r"fixed_size_binary\[(\d+)\]")
_FLAT = re.compile(r"[a-z0-9_]+(\([^)]*\)|\[[^\]]*\])?")


def schema_text(schema: pa.Schema) -> str:
    """Return the text of a schema; metadata is left out."""
    return "\n".join(
        f"{field.name}: {field.type}" + ("" if field.nullable else NOT_NULL) for field in schema
    )


def parse_schema(text: str) -> pa.Schema:
    """Return the schema that a text describes.

    Raises:
        ConversionError: a line cannot be read, for example because a column's name looks like a
            type.
    """
    fields = []
    for line in text.splitlines():
        try:
            fields.append(_column(line))
        except (ValueError, KeyError, pa.ArrowException) as error:
            raise ConversionError(
                f'the recorded schema of the dataset has a column that cannot be read: "{line}"',
                "Describe the columns of this job in ms.output.schema, or use"
                " ms.schema.contract=evolve.",
            ) from error
    return pa.schema(fields)


def merged_text(known: str, others: Iterable[str]) -> str:
    """Return the text of a merged schema, with columns in order of appearance.

    Raises:
        ConversionError: a text cannot be read.
    """
    texts = dict.fromkeys(text for text in (known, *others) if text)
    if len(texts) <= 1:
        return next(iter(texts), "")
    return schema_text(reduce(wider_schema, map(parse_schema, texts)))


def encoded_schema(schema: pa.Schema) -> str:
    """Return a schema with all its metadata as text."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def decoded_schema(text: str) -> pa.Schema | None:
    """Return the schema that a text encodes, None if the text is damaged."""
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
    except (binascii.Error, pa.ArrowException, OSError):
        return None


def encoded_type(data_type: pa.DataType) -> str:
    """Return a type as text."""
    return encoded_schema(pa.schema([pa.field("", data_type)]))


def decoded_type(text: str) -> pa.DataType | None:
    """Return the type that a text encodes, None if the text is damaged."""
    schema = decoded_schema(text)
    return None if schema is None or len(schema) != 1 else schema.field(0).type


def _field(text: str) -> tuple[pa.Field, str]:
    """Return the field ``name: type`` that begins a text, and the rest of the text."""
    name, colon, rest = text.partition(": ")
    if not colon:
        raise ValueError(text)
    data_type, rest = _type(rest)
    nullable = not rest.startswith(NOT_NULL)
    return pa.field(name, data_type, nullable), rest if nullable else rest[len(NOT_NULL) :]


def _type(text: str) -> tuple[pa.DataType, str]:
    """Return the type that begins a text, and the rest of the text."""
    if text.startswith("struct<"):
        fields, rest = [], text.removeprefix("struct<")
        while not rest.startswith(">"):
            field, rest = _field(rest)
            fields.append(field)
            rest = rest.removeprefix(", ")
        return pa.struct(fields), rest[1:]
    if text.startswith("list<"):
        item, rest = _field(text.removeprefix("list<"))
        return pa.list_(item), _after(">", rest)
    if text.startswith("map<"):
        key, rest = _type(text.removeprefix("map<"))
        value, rest = _type(_after(", ", rest))
        return pa.map_(key, value), _after(">", rest)
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


def _after(start: str, text: str) -> str:
    if not text.startswith(start):
        raise ValueError(text)
    return text[len(start) :]


def _column(line: str) -> pa.Field:
    """Return the column of a whole line."""
    field, rest = _field(line)
    if rest:
        raise ValueError(rest)
    return field
