"""Finds the Python types of Arrow values, and decodes text into exactly these types."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypedDict

import msgspec
import pyarrow as pa

from dil.types.number_texts import number_text

# The forms in which DIL writes doubles alone. A decimal of one place may look like "1.0", too.
_DOUBLE = re.compile(r"-?[0-9]+(\.0|(\.[0-9]+)?e[+-]?[0-9]+)")
_TEXT = msgspec.json.Decoder(str | None)
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


def json_decoder(data_type: pa.DataType) -> Callable[[bytes | str], Any]:
    """Return a function that decodes the JSON of a value that DIL wrote.

    Where ``data_type`` has a text, a number or a boolean may have been written before the column
    became text, and records may lack members that were added later. The function raises
    msgspec.ValidationError if the JSON has another type.
    """
    decode = msgspec.json.Decoder(plain_type(data_type)).decode
    decode_earlier = _earlier_decoder(data_type)

    def decoded(value: bytes | str) -> Any:
        try:
            return decode(value)
        except msgspec.ValidationError:
            return decode_earlier(value)

    return decoded


def plain_type(data_type: pa.DataType) -> Any:  # a type form, as msgspec takes it
    """Return the type of one value; None is allowed at every level."""
    kind: Any
    if pa.types.is_struct(data_type):
        make: Any = TypedDict
        kind = make("Members", {field.name: plain_type(field.type) for field in data_type})
    elif pa.types.is_map(data_type):
        kind = dict[str, plain_type(data_type.item_type)]  # type: ignore[misc]
    elif pa.types.is_list(data_type):
        kind = list[plain_type(data_type.value_type)]  # type: ignore[misc]
    else:
        kind = next(plain for matches, plain in _FLAT if matches(data_type))
    return kind | None


def _earlier_decoder(data_type: pa.DataType) -> Callable[[Any], Any]:  # JSON, also msgspec.Raw
    """Return the slower decoder, for JSON of earlier types; texts keep each digit of a number."""
    if pa.types.is_string(data_type):
        return _text_of
    if pa.types.is_list(data_type):
        item = _earlier_decoder(data_type.value_type)
        return _rebuilt(list[msgspec.Raw], lambda found: [item(each) for each in found])
    if pa.types.is_map(data_type):
        entry = _earlier_decoder(data_type.item_type)
        return _rebuilt(
            dict[str, msgspec.Raw], lambda found: {name: entry(found[name]) for name in found}
        )
    if pa.types.is_struct(data_type):
        member = {field.name: _earlier_decoder(field.type) for field in data_type}
        return _rebuilt(
            dict[str, msgspec.Raw],
            lambda found: {name: member[name](found[name]) for name in member if name in found},
        )
    return msgspec.json.Decoder(plain_type(data_type)).decode


def _rebuilt(raw: Any, build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decoder of nested values, whose ``build`` decodes the parts."""
    decode = msgspec.json.Decoder(raw | None).decode

    def decoded(value: Any) -> Any:
        found = decode(value)
        return None if found is None else build(found)

    return decoded


def _text_of(value: msgspec.Raw | str) -> str | None:
    text = value if isinstance(value, str) else bytes(value).decode()
    if text[0] in "-0123456789":
        return number_text(text) if _DOUBLE.fullmatch(text) else text
    return text if text in ("true", "false") else _TEXT.decode(text)
