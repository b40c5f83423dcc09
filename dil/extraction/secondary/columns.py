"""The common part of all readers of files: the wanted columns, and values as JSON.

See docs/secondary-input.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import BinaryIO, NoReturn, TypeAlias

import msgspec

from dil.model.json import JsonObject, JsonValue, compact, read_number

Rows: TypeAlias = Iterator[JsonObject]
Open: TypeAlias = Callable[[], AbstractContextManager[BinaryIO]]
"""Opens the file again, from its start."""


class UnfitError(Exception):
    """The file can be read but does not fit the request; the message never contains a value."""

    def __init__(self, what: str, fix: str = "Check ms.secondary.input.") -> None:
        super().__init__(what)
        self.fix = fix


def check_columns(wanted: Sequence[str], present: Collection[str]) -> None:
    """Raise if the data lacks a wanted column.

    Raises:
        UnfitError: a column is missing; the message names the first such column.
    """
    for name in wanted:
        if name not in present:
            raise UnfitError(f'has no column "{name}"; its columns are {", ".join(present)}')


def json_row(
    row: Mapping[str, object], columns: Sequence[str], maps: Collection[str] = ()
) -> dict[str, JsonValue]:
    """Return the columns of a row as JSON values.

    Whole numbers and decimals stay exact. Dates, times and instants are ISO 8601 text, bytes are
    base64, and not-a-number is null, as in our JSON files. The columns in ``maps`` become compact
    JSON text.
    """
    plain: dict[str, JsonValue] = msgspec.to_builtins(
        {name: row[name] for name in columns}, builtin_types=(Decimal,), str_keys=True
    )
    for name, value in plain.items():
        if name in maps and value is not None:
            plain[name] = compact(value)
        elif isinstance(value, float) and not math.isfinite(value):
            plain[name] = None
    return plain


def exact_json(text: str | bytes) -> JsonValue:
    """Return the value of a JSON text, with exact numbers.

    Raises:
        ValueError, RecursionError: the text is no JSON, or nested too deeply.
    """
    value: JsonValue = json.loads(
        text, parse_int=read_number, parse_float=read_number, parse_constant=_refuse
    )
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
