"""Streams over remote files: one class reads at any position, another writes in parts."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_TRIES = 4


class RemoteReader(io.RawIOBase, ABC):
    """A position in one version of a file; a subclass for the service reads the data there."""

    def __init__(self) -> None:
        super().__init__()
        self._position = 0

    @property
    @abstractmethod
    def _size(self) -> int:
        """Return the size of the file in bytes."""

    @abstractmethod
    def _read(self, size: int) -> bytes:
        """Return at least one and at most ``size`` bytes from the position.

        Raises:
            WriteError: the service refuses to read, or the file was replaced.
        """

    def _leave(self) -> None:
        """Release an answer that would continue at the position."""

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set and return the position; the next read requests the data there."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        position = max(start + offset, 0)
        if position != self._position:
            self._leave()
            self._position = position
        return position

    def readinto(self, target: WriteableBuffer, /) -> int:
        """Read up to the size of ``target``; return the number of bytes.

        Raises:
            WriteError: the service refuses to read, or the file was replaced.
        """
        view = memoryview(target).cast("B")
        if self._position >= self._size:
            return 0
        data = self._read(min(len(view), self._size - self._position))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        """Release the service's answer."""
        self._leave()
        super().close()


class ResumedAnswers:
    """An answer that continues to the end of a file; if it breaks off, the rest is requested.

    ``ask`` requests the data at the position; ``take`` reads bytes of an answer, and may raise one
    of the errors ``broken``.
    """

    def __init__(
        self,
        broken: tuple[type[BaseException], ...],
        ask: Callable[[], Any],
        take: Callable[[Any, int], bytes],
    ) -> None:
        self._broken = broken
        self._ask = ask
        self._take = take
        self._current: Any = None

    def open(self) -> None:
        """Send a request, unless an answer is open."""
        if self._current is None:
            self._current = self._ask()

    def read(self, size: int) -> bytes:
        """Return the next bytes; empty if answers break off repeatedly."""
        for _ in range(_TRIES):
            self.open()
            with suppress(*self._broken):
                data = self._take(self._current, size)
                if data:
                    return data
            self.close()
        return b""

    def close(self) -> None:
        """Close the answer; if the answer was not read to its end, close its connection too."""
        answer, self._current = self._current, None
        if answer is not None:
            with suppress(*self._broken):
                answer.close()


class PartWriter(io.RawIOBase, ABC):
    """Writes a file that exists, whole and durable, after the stream is closed.

    Memory is bounded by two parts of ``part_bytes``; all parts but the last have that size. After a
    failure no file appears. If a stream is never closed, it leaves only data that no reader sees.
    """

    def __init__(self, part_bytes: int) -> None:
        super().__init__()
        self._part_bytes = part_bytes
        self._waiting = bytearray()
        self._is_broken = False

    @abstractmethod
    def _send(self, data: bytes) -> None:
        """Send a part that is not the last one."""

    @abstractmethod
    def _end(self, data: bytes) -> None:
        """Send the last part, or all the data, and make the file appear."""

    @abstractmethod
    def _drop(self) -> None:
        """Delete the sent parts, ignoring errors."""

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Collect bytes, and send each full part; return the number of bytes.

        Raises:
            WriteError: the service refuses to write.
        """
        size = memoryview(data).nbytes
        self._waiting += data
        try:
            while len(self._waiting) > self._part_bytes:
                self._send(bytes(self._waiting[: self._part_bytes]))
                del self._waiting[: self._part_bytes]
        except BaseException:
            self._is_broken = True
            raise
        return size

    def close(self) -> None:
        """Make the file appear.

        Raises:
            WriteError: the service refuses to write; the file does not exist.
        """
        if self.closed:
            return
        super().close()
        if self._is_broken:
            self._drop()
            return
        try:
            self._end(bytes(self._waiting))
        except BaseException:
            self._drop()
            raise

    def __del__(self) -> None:
        """Leave an unfinished file unwritten; the base class would write the data so far."""
