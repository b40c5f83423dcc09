"""Cuts one long JSON array into windows of whole elements.

A window ends at a comma that is first guessed and then proved: with a bracket in place of the
comma, the text is a complete array only if the comma separates two elements of this array.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from dil.extraction.json.scan import MalformedError, OversizeError, value_end
from dil.extraction.json.spool import Span, Spool, SpoolLimits

_OPEN, _CLOSE, _COMMA = b"[],"
_BLANKS = b" \t\r\n"
_TRIES = 8
# The beginning of an element; for an object, up to its first name: other objects begin alike.
_HEAD = re.compile(rb'\{[ \t\r\n]*"[^"\\]{1,100}"[ \t\r\n]*:|[{\[]|')


def scan_elements(text: Spool, begin: int, limits: SpoolLimits) -> tuple[list[Span], int]:
    """Return windows of the elements of an array, and the offset behind its closing bracket.

    Args:
        text: The text that holds the array.
        begin: The offset behind its opening bracket.
        limits: The lengths of windows and elements.

    Raises:
        MalformedError: the array is no JSON.
        OversizeError: one element is longer than ``limits.value``.
    """
    spans: list[Span] = []
    at, size = begin, limits.window
    while True:
        buffer = bytearray(text.read(Span(at - 1, at + size)))
        buffer[0] = _OPEN  # this byte was the opening bracket, or the comma before the element
        is_all = at - 1 + len(buffer) >= text.size
        cut = _cut(buffer, is_all=is_all, offset=at - 1)
        if cut is None:
            if size >= limits.value:
                raise OversizeError(
                    f"the element that begins at byte {at} is longer than {limits.value:,} bytes"
                )
            size = min(4 * size, limits.value)
            continue
        end, is_last = cut
        if is_last and spans and not bytes(buffer[1:end]).strip():
            raise MalformedError("trailing comma in array", at - 1)
        spans.append(Span(at, at - 1 + end))
        at, size = at + end, limits.window
        if is_last:
            return spans, at


def _cut(buffer: bytearray, *, is_all: bool, offset: int) -> tuple[int, bool] | None:
    """Return the offset to cut at, and whether the array ends there; None if no element is whole.

    ``buffer`` begins with a bracket, and has the same bytes when this returns.
    """
    view = memoryview(buffer)
    for comma in _likely_commas(buffer):
        buffer[comma] = _CLOSE
        try:
            end = value_end(view[: comma + 1], is_all=False, offset=offset)
        except MalformedError as error:
            if error.at < offset + comma:
                raise
            continue  # A bracket is wrong here, so the comma is no end of an element.
        finally:
            buffer[comma] = _COMMA
        if end == comma + 1:
            return comma, False
        if end is not None:
            return buffer.rindex(_CLOSE, 0, end), True
    end = value_end(view, is_all=is_all, offset=offset)
    if end is not None:
        return buffer.rindex(_CLOSE, 0, end), True
    last = _last_comma(view, offset)
    return None if last is None else (last, False)


def _likely_commas(buffer: bytearray) -> Iterator[int]:
    """Yield the offsets of commas that may separate two elements, from the end backwards."""
    first = _past_blanks(buffer, 1)
    found = _HEAD.match(buffer, first)
    head = found[0] if found else b""
    at = len(buffer)
    for _ in range(_TRIES):
        at = buffer.rfind(head or b",", first + 1, at)
        if at < 0:
            return
        comma = _before_blanks(buffer, at - 1) if head else at
        if buffer[comma] == _COMMA:
            yield comma


def _past_blanks(buffer: bytearray, at: int) -> int:
    while at < len(buffer) and buffer[at] in _BLANKS:
        at += 1
    return at


def _before_blanks(buffer: bytearray, at: int) -> int:
    while buffer[at] in _BLANKS:
        at -= 1
    return at


def _last_comma(view: memoryview, offset: int) -> int | None:
    """Return the offset of the last comma between elements, found by reading element by element."""
    at = 1
    comma: int | None = None
    while at < len(view):
        end = value_end(view[at:], is_all=False, offset=offset + at)
        if end is None or at + end >= len(view):
            break
        comma = at + end
        at = comma + 1
    return comma


class RowWindows:
    """The rows of a spooled text, read window by window, or one row by its number."""

    def __init__(
        self,
        text: Spool,
        spans: Sequence[Span],
        decode: Callable[[bytes, int], list[msgspec.Raw]],
    ) -> None:
        self._text = text
        self._spans = spans
        self._decode = decode
        self._counts: list[int] = []
        self._newest: tuple[int, list[msgspec.Raw]] = (-1, [])

    def __iter__(self) -> Iterator[list[msgspec.Raw]]:
        """Yield the rows of each window, in order.

        Raises:
            MalformedError: a window of lines is no JSON.
        """
        for span in self._spans:
            yield self._decode(self._text.read(span), span.begin)

    def nth(self, position: int) -> msgspec.Raw | None:
        """Return a row by its number from 0, or from -1 for the last row; None if it is missing."""
        if position < 0:
            return self._nth_from_end(-position)
        before = 0
        for number in range(len(self._spans)):
            if number == len(self._counts):
                self._counts.append(len(self._window(number)))
            if position < before + self._counts[number]:
                return self._window(number)[position - before]
            before += self._counts[number]
        return None

    def _nth_from_end(self, position: int) -> msgspec.Raw | None:
        for number in reversed(range(len(self._spans))):
            rows = self._window(number)
            if position <= len(rows):
                return rows[-position]
            position -= len(rows)
        return None

    def _window(self, number: int) -> list[msgspec.Raw]:
        """Return the rows of a window; the last window is kept for the next look-up."""
        if self._newest[0] != number:
            span = self._spans[number]
            self._newest = (number, self._decode(self._text.read(span), span.begin))
        return self._newest[1]
