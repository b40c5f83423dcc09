"""Finds the Python types of Arrow values, for decoders that read text into exactly these types."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypedDict

import pyarrow as pa

_FLAT: tuple[tuple[Callable[[pa.DataType], bool], type], ...] = (
    (pa.types.is_string, str),
    (pa.types.is_boolean, bool),
    (pa.types.is_integer, int),
    (pa.types.is_floating, float),
    (pa.types.is_decimal, Decimal),
    (pa.types.is_binary, bytes),
    (pa.types.is_date, dt.date),
    (pa.types.is_time, dt.time),
    (pa.types.is_timestamp, dt.datetime),
)


def row_type(schema: pa.Schema) -> Any:  # a type form, as msgspec takes it
    """Return the type of one row: a typed dict."""
    return _members(list(schema))


def plain_type(data_type: pa.DataType) -> Any:  # a type form, as msgspec takes it
    """Return the type of one value; None is allowed at every level."""
    kind: Any
    if pa.types.is_struct(data_type):
        kind = _members(list(data_type))
    elif pa.types.is_map(data_type):
        kind = dict[str, plain_type(data_type.item_type)]  # type: ignore[misc]
    elif pa.types.is_list(data_type):
        kind = list[plain_type(data_type.value_type)]  # type: ignore[misc]
    else:
        kind = next(plain for matches, plain in _FLAT if matches(data_type))
    return kind | None


def _members(fields: list[pa.Field]) -> Any:  # a type form, as msgspec takes it
    make: Any = TypedDict
    return make("Members", {field.name: plain_type(field.type) for field in fields})
