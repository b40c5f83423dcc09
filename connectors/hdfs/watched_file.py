"""A file that must not change between its listing and the end of its reading."""

from __future__ import annotations

from connectors.files.body import FileStream, RemoteFile, changed
from connectors.hdfs.failures import translated_errors
from connectors.hdfs.store import FileStatus, FileStore


class WatchedFile(RemoteFile):
    """One state of a file of a store."""

    def __init__(self, store: FileStore, status: FileStatus) -> None:
        self._store = store
        self._status = status
        self._part: FileStream | None = None
        self.size = status.size
        self.shown = store.shown(status.path)

    def open_at(self, position: int) -> FileStream:
        """Return a stream from a position on; check that the file is unchanged, except at 0."""
        if position:
            self._compare()
        with translated_errors(self.shown, listed=True):
            self._part = _TranslatingStream(
                self._store.open(self._status.path, position), self.shown
            )
        return self._part

    def taken(self, data: bytes) -> None:
        """Do nothing: file systems give no checksum for comparison."""

    def check_end(self) -> None:
        """Check that the file has not changed since it was listed, and has no more bytes.

        A file of HDFS that is still being written has more bytes than its reported size.

        Raises:
            SourceContractError: the file changed.
            TransientSourceError: the file no longer exists.
        """
        if self._part is not None and self._part.read(1):
            raise changed(self.shown, f"it has more than the {self.size} bytes that were listed")
        self._compare()

    def _compare(self) -> None:
        with translated_errors(self.shown, listed=True):
            now = self._store.status(self._status.path)
        if now.size != self.size:
            raise changed(self.shown, f"{self.size} bytes when listed, {now.size} now")
        if now != self._status:
            raise changed(
                self.shown,
                "it was written to; its owner, rights or links were changed; or another file took"
                " its place",
            )


class _TranslatingStream:
    """An open stream whose errors are errors of dil.errors."""

    def __init__(self, part: FileStream, shown: str) -> None:
        self._part = part
        self._shown = shown

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes, empty at the end."""
        with translated_errors(self._shown):
            return self._part.read(size)

    def close(self) -> None:
        """Close the file."""
        self._part.close()
