"""The bytes of a remote file: complete and unchanged, or an error.

If the connection is cut, the stream opens it again at the position of the cut, a bounded number of
times. ``RemoteFile.open_at`` has to check that the file has not changed in the meantime.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from dil.errors import SourceContractError, TransientSourceError
from dil.extraction.streams import ReadStream

log = logging.getLogger(__name__)
# The bytes that one call requests; a failed call is repeated as a whole.
_PIECE = 1 << 16
# After this many tries in a row that each bring less than one MiB, the stream gives up.
_TRIES = 5
_PROGRESS = 1 << 20
CHANGED_FIX = (
    "Another program writes to the file. Let writers write under another name and rename, or read"
    " the file later."
)


class FileStream(Protocol):
    """An open stream over the rest of a file; it raises only errors of dil.errors."""

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes, empty at the end of the stream.

        Raises:
            TransientSourceError: the connection broke; opening the file again here may help.
        """

    def close(self) -> None:
        """Free the connection."""


class RemoteFile(ABC):
    """One state of one file of ``size`` bytes; the file can be opened at any position."""

    size: int
    shown: str

    @abstractmethod
    def open_at(self, position: int) -> FileStream:
        """Return a stream over the rest of the file from a position on.

        Raises:
            TransientSourceError: the file cannot be reached now.
            SourceContractError: the file has changed.
            SourceError: the file no longer exists, or access is refused.
        """

    @abstractmethod
    def taken(self, data: bytes) -> None:
        """Record bytes that were read; the caller passes each byte of the file once, in order."""

    @abstractmethod
    def check_end(self) -> None:
        """Check the whole content, after all bytes were read.

        Raises:
            SourceContractError: the bytes that were read are not the content of the file.
        """


class FileBody(ReadStream):
    """Reads a file as one stream; returns the last bytes only after a check of the whole file.

    The stream calls ``wait`` with the seconds to wait before it opens the connection again.
    """

    def __init__(self, file: RemoteFile, wait: Callable[[float], None], first: FileStream) -> None:
        self._file = file
        self._wait = wait
        self._part: FileStream | None = first
        self._ready = memoryview(b"")
        self._position = 0
        self._tries = 0
        self._last_try_at = 0
        if not file.size:
            file.check_end()

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, empty at the end; -1 means all the rest.

        Raises:
            TransientSourceError: the connection breaks too often.
            SourceContractError: the file changed while it was read, or is damaged.
            SourceError: the file no longer exists, or access is refused.
        """
        if size < 0:
            return self.readall()
        left = self._file.size - self._position
        while size and left and not self._ready:
            self._ready = memoryview(self._some(min(left, _PIECE)))
        taken, self._ready = self._ready[:size], self._ready[size:]
        return bytes(taken)

    def close(self) -> None:
        """Free the connection, even before the end."""
        if not self.closed:
            self._drop()
        super().close()

    def _some(self, wanted: int) -> bytes:
        """Return some bytes; empty if the connection broke and must be opened again."""
        try:
            data = self._taken(wanted)
        except TransientSourceError as error:
            self._drop()
            self._go_on(error)
            return b""
        self._position += len(data)
        self._file.taken(data)
        if self._position == self._file.size:
            self._file.check_end()
        return data

    def _taken(self, wanted: int) -> bytes:
        if self._part is None:
            self._part = self._file.open_at(self._position)
        data = self._part.read(wanted)
        if not data:
            raise TransientSourceError(
                f"{self._file.shown}: the stream ends after {self._position} of"
                f" {self._file.size} bytes"
            )
        return data

    def _go_on(self, error: TransientSourceError) -> None:
        """Wait before the next try; the first try follows at once."""
        if self._position - self._last_try_at >= _PROGRESS:
            self._tries = 0
        self._tries += 1
        self._last_try_at = self._position
        if self._tries >= _TRIES:
            raise TransientSourceError(
                f"{error.message}; given up after {_TRIES} tries at byte {self._position} of"
                f" {self._file.size}",
                error.fix or "Check the source, the network and the proxies on the way.",
            ) from None
        log.warning("%s; going on from byte %d", error.message, self._position)
        if self._tries > 1:
            self._wait(2.0 ** (self._tries - 2))

    def _drop(self) -> None:
        part, self._part = self._part, None
        if part is not None:
            part.close()


def changed(shown: str, what: str) -> SourceContractError:
    """Return the error for a file that changed after its reading began."""
    return SourceContractError(f"{shown}: the file changed while it was read: {what}", CHANGED_FIX)
