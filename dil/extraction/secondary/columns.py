"""The common part of all readers of files: the wanted columns, values as JSON, and limits.

A file may have any size. See docs/secondary-input.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Decimal
from typing import BinaryIO, NoReturn, TypeAlias

import msgspec

from dil.extraction.sizes import share_of
from dil.model.json import JsonObject, JsonValue, compact, read_number

Rows: TypeAlias = Iterator[JsonObject]
Open: TypeAlias = Callable[[], AbstractContextManager[BinaryIO]]
"""Opens the file again, from its start."""
MAX_BYTES = "ms.secondary.input.max.bytes"
# A row costs time and memory besides its bytes, and a file can hold any number of empty rows.
_ROW_BYTES = 256


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
    row: Mapping[str, object], columns: Sequence[str], maps: Collection[str]
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


@dataclass(frozen=True, slots=True)
class InputLimits:
    """The limits of reading inputs, in bytes; 0 or None is no limit.

    ``memory_bytes`` is the memory of the process. ``most_bytes`` is the most that may be read of an
    input that is kept as a whole, such as activation: each row counts its unpacked bytes plus 256.
    """

    memory_bytes: int | None = None
    most_bytes: int = 0


class Allowance:
    """Counts how much of the limits is left while one input is read, file after file."""

    def __init__(self, limits: InputLimits, *, is_kept: bool) -> None:
        self.memory_bytes = limits.memory_bytes
        self._most = limits.most_bytes if is_kept else 0
        self._taken = 0

    def longest(self, usual: int) -> int:
        """Return the most bytes of a part that is read as a whole."""
        return share_of(self.memory_bytes, usual)

    def take(self, rows: int, size: int) -> None:
        """Count rows of ``size`` bytes before the rows are made.

        Raises:
            UnfitError: the input is longer than it may be.
        """
        self.expect(rows, size)
        self._taken += rows * _ROW_BYTES + size

    def expect(self, rows: int, size: int) -> None:
        """Raise if a file's own numbers announce too many rows, before any row is read.

        Raises:
            UnfitError: the input would be longer than it may be.
        """
        if self._most and self._taken + rows * _ROW_BYTES + size > self._most:
            raise UnfitError(
                f"makes the input longer than {self._most:,} bytes ({_ROW_BYTES} bytes are added"
                " for each row)",
                "The file may be damaged, or made to exhaust memory. If it is sound, name fewer"
                " fields and a path with fewer rows (rows that filters leave out count, too), or"
                f" raise {MAX_BYTES}; 0 means no limit.",
            )
