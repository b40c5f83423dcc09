"""Encodes schemas as text, so that a later attempt can continue with them."""

from __future__ import annotations

import base64
import binascii

import pyarrow as pa


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
