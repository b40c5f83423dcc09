"""Reads rows of JSON lines: one object a line, in UTF-8, with exact numbers (RFC 8259)."""

from __future__ import annotations

import re
from functools import partial

from dil.extraction.secondary.columns import (
    Allowance,
    Open,
    Rows,
    UnfitError,
    check_columns,
    exact_json,
)
from dil.extraction.sizes import INPUT_LINE_BYTES
from dil.model.json import JsonObject, compact

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ESCAPE = re.compile(rb"\\u[dD]")


def read_json_lines(opened: Open, columns: tuple[str, ...], allowed: Allowance) -> Rows:
    """Yield the rows; memory holds one line at a time. Blank lines are no rows.

    The first row defines the columns; a column that a later row lacks is null.
    """
    is_first = True
    longest = allowed.longest(INPUT_LINE_BYTES)
    with opened() as stream:
        for number, line in enumerate(iter(partial(stream.readline, longest + 1), b""), 1):
            if len(line) > longest:
                raise UnfitError(f"has more than {longest:,} bytes in line {number}")
            allowed.take(1, len(line))
            text = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
            if not text.strip():
                continue
            row = _row(text, number)
            if is_first:
                check_columns(columns, row)
                is_first = False
            wanted = {name: row.get(name) for name in columns}
            if _ESCAPE.search(line):
                _refuse_half_pair(wanted, number)
            yield wanted


def _row(line: bytes, number: int) -> JsonObject:
    try:
        row = exact_json(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        # The line itself may hold a token.
        raise UnfitError(
            f"has no JSON object in line {number}; JSON is read as one object per line"
        )
    return row


def _refuse_half_pair(row: JsonObject, number: int) -> None:
    """Raise if a text has half of an escaped surrogate pair, which UTF-8 cannot express."""
    try:
        compact(row).encode()
    except UnicodeEncodeError:
        raise UnfitError(
            f"has a text with half of a surrogate pair in line {number}, which is no Unicode",
            "Correct the row; its writer may have cut a text inside a character.",
        ) from None
