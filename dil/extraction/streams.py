"""What a stream of a response's bytes needs beyond its own ``read``."""

from __future__ import annotations

import io
from abc import abstractmethod


class ReadStream(io.RawIOBase):
    """A binary stream that is all told by ``read``; subclasses close what they own.

    Everything that takes a binary file reads from it, ``io.BufferedReader`` as well.
    """

    def readable(self) -> bool:
        """Return True."""
        return True

    @abstractmethod
    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, empty at the end; all that is left with -1."""

    def readall(self) -> bytes:
        """Return all that is left."""
        return self.read(-1)

    def readinto(self, buffer: object, /) -> int:
        """Fill a buffer; return the number of bytes."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)
