"""A response's body that counts what is read from it, and can tell one content from another."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import BinaryIO

from dil.extraction.streams import ReadStream


class MeasuredBody(ReadStream):
    """Passes on a stream that it owns; ``count`` is told the number of bytes of every read."""

    def __init__(self, stream: BinaryIO, count: Callable[[int], None], *, hashes: bool) -> None:
        self._stream = stream
        self._count = count
        self._hash = hashlib.sha256() if hashes else None

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, all that is left with -1."""
        data = self._stream.read(size)
        self._count(len(data))
        if self._hash is not None:
            self._hash.update(data)
        return data

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        super().close()

    @property
    def content(self) -> bytes | None:
        """Return the hash of what was read so far, None where none was asked for."""
        return None if self._hash is None else self._hash.digest()
