"""JSON texts that are longer than memory should be: their rows in windows, their look-ups exact.

The text is read twice. The first reading checks all of it and keeps where its parts are: the rows'
windows, and small values as they stand around the rows. The second one yields the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

import msgspec

from dil.extraction.json.document import Document, decode_elements, decode_lines
from dil.extraction.json.scan import Cursor, OversizeError
from dil.extraction.json.spool import Limits, Span, Spool
from dil.extraction.json.windows import RowWindows, scan_elements
from dil.extraction.json_path import index, number
from dil.model.json import JsonValue
from dil.spi.extractor import MISSING, Missing

Payload: TypeAlias = RowWindows | Sequence[msgspec.Raw] | msgspec.Raw | Missing


@dataclass(frozen=True, slots=True)
class _Closed:
    """A long container that does not lead to the rows; only its end is known."""


@dataclass(slots=True)
class _Members:
    """A long object or array around the rows; elements go by their number.

    ``size`` is how many there are, known when all were read.
    """

    parts: dict[str | int, _Node] = field(default_factory=dict)
    is_array: bool = False
    size: int = 0
    is_complete: bool = True

    def leads_on(self, segment: str, key: str | int) -> bool:
        """Tell whether a segment of a path means the part that is being read.

        Raises:
            OversizeError: the segment counts from the end, which is not known yet.
        """
        if not isinstance(key, int):
            return segment == key
        position = number(segment)
        if position is not None and position < 0:
            raise OversizeError(f'"{segment}" counts from the end of an array that holds the rows')
        return position == key

    def keep(self, key: str | int, part: _Node, most: int) -> None:
        """Take note of a part; of a repeated member the last one counts."""
        if key in self.parts or len(self.parts) < most or not isinstance(part, Span):
            self.parts[key] = part
        else:
            self.is_complete = False

    def part(self, segment: str) -> _Node | Missing:
        """Return a member or an element."""
        key = index(segment, self.size) if self.is_array else segment
        found: _Node | Missing = MISSING if key is None else self.parts.get(key, MISSING)
        if isinstance(found, Missing) and not self.is_complete:
            raise OversizeError(f'"{segment}" may be one of the members that were not kept')
        return found


_Node: TypeAlias = "Span | RowWindows | _Members | _Closed"


class LargeDocument:
    """One JSON value in a spooled text; ``path`` leads to its rows.

    Raises:
        MalformedError: it is no JSON, at whatever place.
        OversizeError: a row, or another value that is needed whole, is too long.
    """

    def __init__(self, text: Spool, path: str, limits: Limits) -> None:
        self._text = text
        self._limits = limits
        cursor = Cursor(text, limits)
        first = cursor.peek()
        self.is_container = first in {b"{", b"["}
        self._root: _Node = _Members()
        if first:
            self._root = self._node(cursor, tuple(path.split(".")) if path else ())
            cursor.end()

    def rows(self, path: str) -> Payload:
        """Return the payload: the rows of the path it was made for, or the one value there is."""
        node, rest = self._found(path)
        if isinstance(node, Span):
            return Document(self._text.read(node)).rows(rest)
        return node if isinstance(node, RowWindows) else MISSING

    def lookup(self, path: str) -> JsonValue | Missing:
        """Return the value at a path, MISSING where there is none.

        Raises:
            OversizeError: the value is, or is inside, one that is too long to be looked into.
        """
        node, rest = self._found(path)
        if isinstance(node, Missing):
            return node
        if isinstance(node, Span):
            return Document(self._text.read(node)).lookup(rest)
        if isinstance(node, RowWindows) and rest:
            return _in_row(node, rest)
        raise OversizeError(f'"{path}" is too long to be looked up')

    def _found(self, path: str) -> tuple[_Node | Missing, str]:
        """Return the part that a path leads to or into, and the rest of the path."""
        node: _Node | Missing = self._root
        rest = path
        while rest and isinstance(node, _Members):
            segment, _, rest = rest.partition(".")
            node = node.part(segment)
        return node, rest

    def _node(self, cursor: Cursor, wanted: tuple[str, ...] | None) -> _Node:
        """Read the value that comes next; ``wanted`` leads from it to the rows, None: it does not.

        A value shorter than a window is left for later.
        """
        first = cursor.peek()
        span = cursor.value(self._limits.window)
        if span is not None:
            return span
        if first == b"[" and not wanted:
            spans, end = scan_elements(self._text, cursor.at + 1, self._limits)
            cursor.move_to(end)
            return _Closed() if wanted is None else RowWindows(self._text, spans, decode_elements)
        if first in {b"[", b"{"} and wanted != ():
            return self._members(cursor, wanted, is_array=first == b"[")
        span = cursor.value(self._limits.value)
        if span is None:
            raise OversizeError(
                f"the value that begins at byte {cursor.at} is longer than"
                f" {self._limits.value:,} bytes"
            )
        return span

    def _members(self, cursor: Cursor, wanted: tuple[str, ...] | None, *, is_array: bool) -> _Node:
        """Read a long container part by part; keep the parts when it leads to the rows."""
        members = _Members(is_array=is_array)
        opening, closing = (b"[", b"]") if is_array else (b"{", b"}")
        cursor.take(opening, "")
        for place in count():
            if not place and cursor.peek() == closing:
                break
            key = place if is_array else cursor.name()
            members.size += 1
            rest = wanted[1:] if wanted and members.leads_on(wanted[0], key) else None
            part = self._node(cursor, rest)
            if wanted is not None:
                members.keep(key, part, self._limits.members)
            if cursor.peek() == closing:
                break
            cursor.take(b",", f"expected ',' or '{closing.decode()}'")
        cursor.take(closing, "")
        return _Closed() if wanted is None else members


class LargeLines:
    """One JSON value for each line of a spooled text."""

    is_container = True

    def __init__(self, text: Spool, limits: Limits) -> None:
        self._lines = RowWindows(text, list(_line_windows(text, limits)), decode_lines)

    def rows(self, path: str) -> Payload:
        """Return the lines; with a path, what it leads to from the line of its first segment.

        Raises:
            MalformedError: (as they are read) a line is no JSON.
        """
        if not path:
            return self._lines
        segment, _, rest = path.partition(".")
        line = _row(self._lines, segment)
        return line if isinstance(line, Missing) else Document(bytes(line)).rows(rest)

    def lookup(self, path: str) -> JsonValue | Missing:
        """Return the value at a path, which begins with a line's number; else MISSING."""
        return _in_row(self._lines, path)


def _line_windows(text: Spool, limits: Limits) -> Iterator[Span]:
    """Yield windows of whole lines."""
    at, size = 0, limits.window
    while at < text.size:
        end = min(at + size, text.size)
        if end < text.size:
            cut = text.read(Span(at, end)).rfind(b"\n")
            if cut < 0 and size >= limits.value:
                raise OversizeError(
                    f"the line that begins at byte {at} is longer than {limits.value:,} bytes"
                )
            if cut < 0:
                size = min(4 * size, limits.value)
                continue
            end = at + cut + 1
        yield Span(at, end)
        at, size = end, limits.window


def _row(rows: RowWindows, segment: str) -> msgspec.Raw | Missing:
    position = number(segment)
    found = None if position is None else rows.nth(position)
    return MISSING if found is None else found


def _in_row(rows: RowWindows, path: str) -> JsonValue | Missing:
    """Return a value at a path that begins with the number of a row."""
    segment, _, rest = path.partition(".")
    row = _row(rows, segment)
    return row if isinstance(row, Missing) else Document(bytes(row)).lookup(rest)
