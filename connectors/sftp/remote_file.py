"""Reads one file of an SFTP server."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from connectors.files.body import FileStream, RemoteFile, changed
from connectors.sftp.connection import SftpConnection
from connectors.sftp.failures import NotThereError, translated_errors
from connectors.sftp.listing import version_of
from connectors.sftp.read_ahead import ReadAhead
from dil.errors import SourceContractError, SourceError, TransientSourceError

if TYPE_CHECKING:
    import paramiko


class SftpFile(RemoteFile):
    """One state of one file: its size and time of change at the first opening.

    The protocol gives times in whole seconds. ``first`` is the open stream from the file's
    beginning.
    """

    def __init__(self, connection: SftpConnection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._state: tuple[int, str] | None = None
        self._handle: paramiko.SFTPFile | None = None
        self.size = 0
        self.shown = f"{connection.server.shown}{path}"
        self.version = ""
        self.first = self.open_at(0)

    def open_at(self, position: int) -> FileStream:
        """Return a stream from a position on; raise if the file is in another state now."""
        try:
            with translated_errors(self.shown):
                handle = self._connection.client().open(self._path, "rb")
                state = self._state_of(handle)
        except NotThereError as error:
            when = "after it was listed" if self._state is None else "while it was read"
            raise SourceContractError(
                f"{self.shown}: the file vanished {when}",
                "Another program deletes or renames files there. The next attempt lists again.",
            ) from error
        if self._state is None:
            self._state = state
            self.size, self.version = state
        elif state != self._state:
            handle.close()
            raise changed(self.shown, self._difference(state))
        self._handle = handle
        return _SftpStream(self, handle, position)

    def taken(self, data: bytes) -> None:
        """Do nothing: the protocol has no checksum for comparison."""

    def check_end(self) -> None:
        """Check that the file has not changed, and has no more bytes.

        A file that the system generates while it is read, as Linux does below /proc, has more bytes
        than its reported size.
        """
        if self._handle is None:
            return
        with translated_errors(self.shown):
            has_more = _has_byte(self._handle, self.size)
            state = self._state_of(self._handle)
        if state != self._state:
            raise changed(self.shown, self._difference(state))
        if has_more:
            raise changed(self.shown, f"it has more than the {self.size} bytes that it should have")

    def drop(self) -> None:
        """Close a connection that failed."""
        self._connection.drop()

    def _state_of(self, handle: paramiko.SFTPFile) -> tuple[int, str]:
        """Return the size and the version of an open file."""
        status = handle.stat()
        if status.st_size is None:
            handle.close()
            raise SourceContractError(
                f"{self.shown}: the server does not say how long the file is",
                "A file that is cut would look whole. Ask the server's owner to let the server"
                " give sizes.",
            )
        return status.st_size, version_of(status)

    def _difference(self, state: tuple[int, str]) -> str:
        if state[0] != self.size:
            return f"it had {self.size} bytes and has {state[0]} now"
        return "it was written again"


class _SftpStream(FileStream):
    """An open file from a position on."""

    def __init__(self, file: SftpFile, handle: paramiko.SFTPFile, position: int) -> None:
        self._file = file
        self._handle = handle
        self._ahead = ReadAhead(handle.sftp, handle.handle, position, file.size)
        self._is_broken = False

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes, empty at the end."""
        try:
            with translated_errors(self._file.shown):
                try:
                    return self._ahead.read(size)
                except EOFError:
                    self._file.check_end()  # The file became shorter, or the connection broke.
                    raise
        except TransientSourceError:
            self._is_broken = True
            raise

    def close(self) -> None:
        """Close the file, or drop the connection if it broke."""
        if self._is_broken:
            self._file.drop()
            return
        with suppress(SourceError), translated_errors(self._file.shown):
            self._handle.close()


def _has_byte(handle: paramiko.SFTPFile, position: int) -> bool:
    """Return whether a file has a byte at a position; False also if the connection is lost."""
    try:
        return bool(ReadAhead(handle.sftp, handle.handle, position, position + 1).read(1))
    except EOFError:
        return False
