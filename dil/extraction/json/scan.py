"""Reads a long JSON text value by value, without holding the whole text.

The JSON decoder finds the end of a value: its error names the byte at which something follows a
complete value. So a text is checked as strictly, and as fast, as if it were decoded as a whole.
"""

from __future__ import annotations

import re

import msgspec

from dil.extraction.json.spool import Span, Spool, SpoolLimits

_VALUE = msgspec.json.Decoder(msgspec.Raw)
_NAME = msgspec.json.Decoder(str)
_FOLLOWED = re.compile(r"trailing characters \(byte ([0-9]+)\)")
_MALFORMED = re.compile(r"JSON is malformed: (.*) \(byte ([0-9]+)\)")
_BLANKS = re.compile(rb"[ \t\r\n]*")
_NUMBER_BYTES = b"-0123456789"


class MalformedError(ValueError):
    """A text is not JSON; the message names the byte at which the reader noticed it."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(f"{reason} (byte {at})")
        self.reason = reason
        self.at = at


class OversizeError(ValueError):
    """A value that must be held whole is too long."""


def value_end(view: memoryview, *, is_all: bool, offset: int = 0) -> int | None:
    """Return the offset in ``view`` after its first value and the blanks behind it.

    Args:
        view: Bytes of a text.
        is_all: Whether the text ends with these bytes.
        offset: The offset of these bytes in the text, for the message.

    Returns:
        None if more bytes are needed to decide.

    Raises:
        MalformedError: the value is no JSON.
    """
    try:
        value = _VALUE.decode(view)
    except msgspec.DecodeError as error:
        return _end_from(str(error), view, is_all=is_all, offset=offset)
    # A number may continue behind these bytes; every other value marks its own end.
    goes_on = not is_all and memoryview(value)[0] in _NUMBER_BYTES
    return None if goes_on else len(view)


def _end_from(message: str, view: memoryview, *, is_all: bool, offset: int) -> int | None:
    followed = _FOLLOWED.search(message)
    if followed:
        return int(followed[1]) - 1
    malformed = _MALFORMED.fullmatch(message)
    reason, at = (malformed[1], int(malformed[2])) if malformed else (message, len(view))
    # An error at the very end may only mean that the value is cut off there.
    if is_all or at < len(view):
        raise MalformedError(reason, offset + at)
    return None


class Cursor:
    """Reads a spooled text value by value; ``at`` is the offset of the next byte."""

    def __init__(self, text: Spool, limits: SpoolLimits) -> None:
        self.text = text
        self.at = self._begin = 0
        self._limits = limits
        self._held = b""

    def move_to(self, at: int) -> None:
        """Continue reading at another offset."""
        self.at = self._begin = at
        self._held = b""

    def peek(self) -> bytes:
        """Move to the next non-blank byte and return it; empty at the end of the text."""
        while True:
            found = _BLANKS.match(self._held, self.at - self._begin)
            position = found.end() if found else len(self._held)
            self.at = self._begin + position
            if position < len(self._held):
                return self._held[position : position + 1]
            if not self._fill(self._limits.window):
                return b""

    def take(self, wanted: bytes, reason: str) -> None:
        """Move past one byte.

        Raises:
            MalformedError: the next byte is another one; ``reason`` is the text of the message.
        """
        if self.peek() != wanted:
            raise MalformedError(reason, self.at)
        self.at += 1

    def end(self) -> None:
        """Check that only blanks follow.

        Raises:
            MalformedError: something else follows.
        """
        if self.peek():
            raise MalformedError("trailing characters", self.at)

    def value(self, most: int) -> Span | None:
        """Move past the next value and the blanks behind it; return the span of these bytes.

        Returns:
            None, without moving, if the value is longer than ``most`` bytes.

        Raises:
            MalformedError: the value is no JSON.
        """
        view = memoryview(self._held)[self.at - self._begin :]
        while True:
            is_all = self.at + len(view) >= self.text.size
            end = value_end(view, is_all=is_all, offset=self.at)
            if end is not None:
                self.at += end
                return Span(self.at - end, self.at)
            if len(view) >= most:
                return None
            self._fill(min(most, max(self._limits.window, 4 * len(view))))
            view = memoryview(self._held)

    def name(self) -> str:
        """Move past the name of a member and the colon behind it; return the name."""
        if self.peek() != b'"':
            raise MalformedError("object keys must be strings", self.at)
        span = self.value(self._limits.value)
        if span is None:
            raise OversizeError("the name of a member is too long")
        name = _NAME.decode(self.text.read(span))
        self.take(b":", "expected ':'")
        return name

    def _fill(self, size: int) -> bool:
        """Read ahead up to ``size`` bytes from here; return whether there are any."""
        self._held = b""  # The old bytes are freed before the new bytes are read.
        self._held = self.text.read(Span(self.at, self.at + size))
        self._begin = self.at
        return bool(self._held)
