"""Base class and helpers for streams of a response's bytes."""

from __future__ import annotations

import hashlib
import io
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from dil.errors import SourceContractError, WriteError
from dil.spi.connector import Response

_CHUNK = 1024 * 1024
_DEFLATE_METHOD = 8


class ReadStream(io.RawIOBase):
    """A binary stream whose subclasses define ``read``, and close the streams that they own.

    Every function for binary files can read from it, and so can ``io.BufferedReader``.
    """

    def readable(self) -> bool:
        """Return True."""
        return True

    @abstractmethod
    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, empty at the end; -1 means all the rest."""

    def readall(self) -> bytes:
        """Return the rest; ``read`` may call it for -1."""
        return b"".join(iter(lambda: self.read(_CHUNK), b""))

    def readinto(self, buffer: object, /) -> int:
        """Fill a buffer; return the number of bytes."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)


def read_up_to(stream: BinaryIO, size: int) -> bytes:
    """Return the next ``size`` bytes, fewer if the stream ends before."""
    chunks = [stream.read(min(_CHUNK, size))]
    taken = len(chunks[0])
    while chunks[-1] and taken < size:
        # One read fetches all of the rest: joining many pieces would take most of the time of a
        # long page.
        chunks.append(stream.read(size - taken))
        taken += len(chunks[-1])
    return b"".join(chunks)


def page_place(response: Response, page: int) -> str:
    """Return the words before an error about an answer: the request, and the number of its page."""
    return f"{response.location}, page {page}: " if response.location else f"page {page}: "


@contextmanager
def located_errors(where: str) -> Iterator[None]:
    """Put ``where``, the origin of an answer, before the messages of errors about the answer."""
    try:
        yield
    except SourceContractError as error:
        located = SourceContractError(f"{where}{error.message}", error.fix)
        located.retryable = error.retryable
        raise located from error.__cause__


@contextmanager
def temporary_file_errors(what: str) -> Iterator[None]:
    """Translate errors of the folder of temporary files; ``what`` names the data to be kept there.

    Raises:
        WriteError: the folder is full, or forbidden.
    """
    try:
        yield
    except OSError as error:
        raise WriteError(
            f"{what} is too long for memory and cannot be kept in {tempfile.gettempdir()}:"
            f" {error.strerror or error}",
            "Free space there, or name another folder in the environment variable TMPDIR.",
        ) from None


class MeasuredBody(ReadStream):
    """Passes on a stream and closes it; ``count`` gets the number of bytes of every read."""

    def __init__(self, stream: BinaryIO, count: Callable[[int], None], *, hashes: bool) -> None:
        self._stream = stream
        self._count = count
        self._hash = hashlib.sha256() if hashes else None

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes; -1 means all the rest."""
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
        """Return the hash of the bytes read so far, None if ``hashes`` is false."""
        return None if self._hash is None else self._hash.digest()


def has_zlib_header(data: bytes) -> bool:
    """Return whether data begins with a header of RFC 1950 section 2.2."""
    header = data[:2]
    is_deflate = len(header) > 1 and header[0] & 15 == _DEFLATE_METHOD
    return is_deflate and int.from_bytes(header) % 31 == 0


def stream_of(begin: bytes, rest: BinaryIO) -> BinaryIO:
    """Return one stream of bytes that were read already and the rest of their stream."""
    return cast("BinaryIO", _Joined(begin, rest))


class _Joined(ReadStream):
    """Some bytes, and the stream with the bytes behind them; closing this closes that stream."""

    def __init__(self, begin: bytes, rest: BinaryIO) -> None:
        self._begin = begin
        self._rest = rest

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, empty at the end; -1 means all the rest."""
        if not self._begin:
            return self._rest.read(size)
        end = len(self._begin) if size < 0 else size
        data, self._begin = self._begin[:end], self._begin[end:]
        # Readers treat each result as a piece of its own, so the read is completed.
        left = size if size < 0 else size - len(data)
        return data + self._rest.read(left) if left else data

    def close(self) -> None:
        """Close the stream behind."""
        super().close()
        self._rest.close()
