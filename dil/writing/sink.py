"""Writing to file systems: files that count and hash their bytes, and errors for people."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from dil.errors import WriteError
from dil.model.task import StagedFile
from dil.storage import Filesystem

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class MeasuredSink(io.RawIOBase):
    """Forwards writes to ``target`` and keeps their SHA-256 and length. Cannot seek.

    Closing the sink leaves ``target`` open, so that a format library cannot end the file early.
    After ``discard`` the sink ignores writes: an abandoned library may still want to write its
    footer, and some libraries end the whole process if that fails.
    """

    def __init__(self, target: BinaryIO) -> None:
        super().__init__()
        self._target: BinaryIO | None = target
        self._digest = hashlib.sha256()
        self.bytes = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Write all of the data."""
        view = memoryview(data).cast("B")
        if self._target is not None:
            self._target.write(view)
        self._digest.update(view)
        self.bytes += len(view)
        return len(view)

    def discard(self) -> None:
        """Forward no more writes."""
        self._target = None

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self.bytes

    @property
    def sha256(self) -> str:
        """Return the hex digest of the bytes written so far."""
        return self._digest.hexdigest()


class MeasuredFile:
    """A new file of an attempt: write to its ``sink``, then finish, abandon or delete the file.

    After a ``finish`` that failed, the file can still be abandoned or deleted.
    """

    def __init__(self, filesystem: Filesystem, path: str) -> None:
        self.path = path
        self._filesystem = filesystem
        self._stream = filesystem.open_output(path)
        self.sink = MeasuredSink(self._stream)

    def finish(self, rows: int) -> StagedFile:
        """Make the file durable and return it.

        Raises:
            OSError: the operating system refused to write.
            WriteError: the store refused to write.
        """
        self._stream.close()
        return StagedFile(self.path, rows, self.sink.bytes, self.sink.sha256)

    def abandon(self) -> None:
        """Close the file without an error: the attempt failed already, for another reason."""
        with suppress(OSError, WriteError):
            self._stream.close()

    def delete(self) -> None:
        """Close and delete the file, also without an error."""
        self.abandon()
        with suppress(WriteError):
            self._filesystem.delete_file(self.path)


@contextmanager
def write_errors(path: str) -> Iterator[None]:
    """Turn an OSError into a WriteError about a file or folder of an attempt."""
    try:
        yield
    except OSError as error:
        raise WriteError(
            f"{path}: {error.strerror or error}",
            "Check free space and permissions there, then run the job again: no data was lost.",
        ) from error
