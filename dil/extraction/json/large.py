"""Reads JSON texts that are too long for memory: rows come in windows, look-ups are exact.

The text is read twice. The first reading checks the whole text, and keeps the offsets of the rows'
windows and of the small values around the rows. The second reading yields the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

import msgspec

from dil.extraction.json.document import Document, decode_elements, decode_lines
from dil.extraction.json.scan import Cursor, OversizeError
from dil.extraction.json.spool import Span, Spool, SpoolLimits
from dil.extraction.json.windows import RowWindows, scan_elements
from dil.extraction.sizes import JSONPATH_SEARCHED_BYTES
from dil.model.json import JsonValue
from dil.model.path import MISSING, Missing, Step, Steps, number
from dil.text.paths import compile_path, index

Payload: TypeAlias = RowWindows | Sequence[msgspec.Raw] | msgspec.Raw | Missing


@dataclass(frozen=True, slots=True)
class _Closed:
    """A long container that does not lead to the rows; only its end is known."""


@dataclass(slots=True)
class _Members:
    """A long object or array around the rows; the keys of elements are their numbers.

    ``size`` is the number of parts, known after all parts were read.
    """

    parts: dict[str | int, _Node] = field(default_factory=dict)
    is_array: bool = False
    size: int = 0
    is_complete: bool = True

    def leads_on(self, segment: Step, key: str | int) -> bool:
        """Return whether a segment of a path selects the part that is being read.

        Raises:
            OversizeError: the segment counts from the end of the array, which is not known yet.
        """
        if not isinstance(key, int):
            return segment == key
        position = number(segment)
        if position is not None and position < 0:
            raise OversizeError(f'"{segment}" counts from the end of an array that holds the rows')
        return position == key

    def keep(self, key: str | int, part: _Node, most: int) -> None:
        """Keep a part, up to ``most`` parts; of a repeated member the last value is kept."""
        if key in self.parts or len(self.parts) < most or not isinstance(part, Span):
            self.parts[key] = part
        else:
            self.is_complete = False

    def part(self, segment: Step) -> _Node | Missing:
        """Return the member or element of a path's segment, MISSING if there is none."""
        key = index(segment, self.size) if self.is_array else segment
        if not self.is_array and isinstance(segment, int):
            return MISSING
        found: _Node | Missing = MISSING if key is None else self.parts.get(key, MISSING)
        if isinstance(found, Missing) and not self.is_complete:
            raise OversizeError(f'"{segment}" may be one of the members that were not kept')
        return found


_Node: TypeAlias = "Span | RowWindows | _Members | _Closed"


class LargeDocument:
    """One JSON value in a spooled text; ``path`` leads to its rows.

    Raises:
        MalformedError: the text is no JSON, at any place.
        OversizeError: a row, or another value that must be read whole, is too long.
    """

    def __init__(self, text: Spool, path: str, limits: SpoolLimits) -> None:
        self._text = text
        self._limits = limits
        cursor = Cursor(text, limits)
        first = cursor.peek()
        self.is_container = first in {b"{", b"["}
        self._root: _Node = _Members()
        if first:
            self._root = self._node(cursor, compile_path(path).steps)
            cursor.end()

    def rows(self, path: str) -> Payload:
        """Return the payload at the path of this document: its rows, or the single value."""
        compiled = compile_path(path)
        node, rest = self._found(compiled.steps)
        if isinstance(node, Span):
            return Document(self._text.read(node)).rows_at(rest, compiled)
        return node if isinstance(node, RowWindows) else MISSING

    def lookup(self, path: str) -> JsonValue | Missing:
        """Return the value at a path, MISSING if there is none.

        Raises:
            OversizeError: the value, or a value around it, is too long to decode.
        """
        compiled = compile_path(path)
        if not compiled.is_place:
            return whole_document(self._text).lookup(path)
        node, rest = self._found(compiled.steps)
        if isinstance(node, Missing):
            return node
        if isinstance(node, Span):
            return Document(self._text.read(node)).at(rest)
        if isinstance(node, RowWindows) and rest:
            return _in_row(node, rest)
        raise OversizeError(f'"{path}" is too long to be looked up')

    def _found(self, steps: Steps) -> tuple[_Node | Missing, Steps]:
        """Follow steps to the innermost kept part; return the part, and the steps inside it."""
        node: _Node | Missing = self._root
        while steps and isinstance(node, _Members):
            node = node.part(steps[0])
            steps = steps[1:]
        return node, steps

    def _node(self, cursor: Cursor, wanted: Steps | None) -> _Node:
        """Return the next value; ``wanted`` leads from it to the rows, None if it has no rows.

        A value shorter than a window is not decoded yet.
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

    def _members(self, cursor: Cursor, wanted: Steps | None, *, is_array: bool) -> _Node:
        """Read and return a long container part by part; keep its parts if it has the rows."""
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

    def __init__(self, text: Spool, limits: SpoolLimits) -> None:
        self._text = text
        self._lines = RowWindows(text, list(_line_windows(text, limits)), decode_lines)

    def rows(self, path: str) -> Payload:
        """Return the lines; for a path, the payload in the line whose number is its first step.

        Raises:
            MalformedError: (as they are read) a line is no JSON.
        """
        compiled = compile_path(path)
        if not compiled.steps:
            return self._lines
        line = _row(self._lines, compiled.steps[0])
        if isinstance(line, Missing):
            return line
        return Document(bytes(line)).rows_at(compiled.steps[1:], compiled)

    def lookup(self, path: str) -> JsonValue | Missing:
        """Return the value at a path that begins with a line's number, MISSING if there is none."""
        compiled = compile_path(path)
        if not compiled.is_place:
            return whole_document(self._text, is_lines=True).lookup(path)
        return _in_row(self._lines, compiled.steps) if compiled.steps else MISSING


def whole_document(text: Spool, *, is_lines: bool = False) -> Document:
    """Return a long text as one document, because searches need the whole text.

    Raises:
        OversizeError: the text is too long to decode as a whole.
    """
    if text.size > JSONPATH_SEARCHED_BYTES:
        raise OversizeError(
            f"the text has {text.size:,} bytes, and JSONPath that may find several places can"
            f" search {JSONPATH_SEARCHED_BYTES:,} bytes at most"
        )
    return Document(text.read(Span(0, text.size)), is_lines=is_lines)


def _line_windows(text: Spool, limits: SpoolLimits) -> Iterator[Span]:
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


def _row(rows: RowWindows, step: Step) -> msgspec.Raw | Missing:
    position = number(step)
    found = None if position is None else rows.nth(position)
    return MISSING if found is None else found


def _in_row(rows: RowWindows, steps: Steps) -> JsonValue | Missing:
    """Return the value at steps; the first step is the number of a row."""
    row = _row(rows, steps[0])
    return row if isinstance(row, Missing) else Document(bytes(row)).at(steps[1:])
