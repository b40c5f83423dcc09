"""Checks ASCII-armored PGP messages: GnuPG would drop text around them, and accept a cut message.

Source: RFC 9580, 6.2.
"""

from __future__ import annotations

from typing import BinaryIO

from dil.extraction.preprocessing.decoded import cut, garbage, not_of
from dil.extraction.streams import ReadStream

_BEGIN = b"-----BEGIN PGP "
_END = b"\n-----END PGP MESSAGE-----"


class WatchedArmor(ReadStream):
    """Passes on a PGP message; an armored message must be whole. Closing it closes the source."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._tail = b""
        self._is_armored: bool | None = None
        self._has_ended = False

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, empty at the end; -1 means all the rest.

        Raises:
            SourceContractError: an armored message has no end, or other text than blanks around it.
        """
        if size < 0:
            return self.readall()
        if size == 0:
            return b""
        data = self._source.read(size)
        if self._is_armored is None:
            self._look_at_begin(data)
        if self._is_armored:
            self._look_for_end(data)
        return data

    def close(self) -> None:
        """Close the stream beneath."""
        if not self.closed:
            super().close()
            self._source.close()

    def _look_at_begin(self, data: bytes) -> None:
        begin = (self._tail + data).lstrip()
        if data and _BEGIN.startswith(begin[: len(_BEGIN)]) and len(begin) < len(_BEGIN):
            self._tail = begin
            return
        self._is_armored = begin.startswith(_BEGIN)
        # All packets of a message in binary form begin with this bit (4.2).
        if begin and not self._is_armored and not begin[0] & 0x80:
            raise not_of("PGP", begin[:1024])

    def _look_for_end(self, data: bytes) -> None:
        if not data and not self._has_ended:
            raise cut("PGP")
        behind = data
        if not self._has_ended:
            text = self._tail + data
            at = text.find(_END)
            if at < 0:
                self._tail = text[1 - len(_END) :]
                return
            self._has_ended = True
            behind = text[at + len(_END) :]
        if behind.strip():
            raise garbage("PGP")
