"""Reads one file of an SFTP server."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from paramiko.message import Message
from paramiko.sftp import CMD_DATA, CMD_READ, CMD_STATUS, SFTPError, int64

from connectors.files.body import FileStream, RemoteFile, changed
from connectors.sftp.connection import SftpConnection
from connectors.sftp.failures import NotThereError, translated_errors
from connectors.sftp.listing import version_of
from dil.errors import SourceContractError, SourceError, TransientSourceError

if TYPE_CHECKING:
    import paramiko

# The most bytes that OpenSSH sends in one answer.
_BLOCK = 255 * 1024
# A shorter answer than this means the end of the file, not a server's limit.
_LEAST = 4096
# At most this many bytes are requested and have not arrived yet.
_UNDER_WAY = 8 * 1024 * 1024


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
        self._ahead = _ReadAhead(handle.sftp, handle.handle, position, file.size)
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


class _ReadAhead:
    """The bytes of an open file from a position to an end, in order.

    Many requests are open at once, so that the network's delay does not matter. The client
    library's own ``prefetch`` starts threads that outlive a broken connection, and keeps a list of
    all requests of the file. Its requests of 32 KiB take six times as much processor time as the
    largest requests that OpenSSH answers. So this class sends the messages itself.
    """

    def __init__(self, client: Any, handle: Any, position: int, end: int) -> None:
        self._client = client
        self._handle = handle
        self._next = position
        self._end = end
        self._length = _BLOCK
        self._asked: deque[tuple[int, int, int]] = deque()
        self._answers: dict[int, bytes | Exception] = {}
        self._block = memoryview(b"")

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, empty at the end.

        Raises:
            EOFError: the file ends before the expected end.
        """
        if not self._block:
            while self._next < self._end and len(self._asked) * self._length < _UNDER_WAY:
                length = min(self._length, self._end - self._next)
                self._asked.append(self._request(self._next, length))
                self._next += length
            if not self._asked:
                return b""
            self._block = memoryview(self._first_block())
        taken, self._block = self._block[:size], self._block[size:]
        return bytes(taken)

    def _first_block(self) -> bytes:
        """Return the bytes that answer the oldest request.

        If the server sends fewer bytes than requested, this method requests the rest, and later
        requests are smaller.
        """
        number, position, length = self._asked.popleft()
        while number not in self._answers:
            self._client._read_response()  # noqa: SLF001 - there is no public one
        answer = self._answers.pop(number)
        if isinstance(answer, Exception):
            raise answer
        if not answer:
            raise EOFError
        if len(answer) > length:
            raise SFTPError(f"{len(answer)} bytes to a read of {length}")
        if len(answer) < length:
            self._length = min(self._length, max(len(answer), _LEAST))
            places = range(position + len(answer), position + length, self._length)
            rest = [(at, min(self._length, position + length - at)) for at in places]
            self._asked.extendleft(self._request(*each) for each in reversed(rest))
        return answer

    def _request(self, position: int, length: int) -> tuple[int, int, int]:
        number = self._client._async_request(  # noqa: SLF001 - there is no public one
            self, CMD_READ, self._handle, int64(position), length
        )
        return number, position, length

    def _async_response(self, kind: int, message: Message, number: int) -> None:
        """Keep an answer; the client library calls this while any caller waits for an answer."""
        if kind == CMD_DATA:
            self._answers[number] = message.get_string()
        elif kind == CMD_STATUS:
            try:
                self._client._convert_status(message)  # noqa: SLF001 - there is no public one
            except (EOFError, OSError) as error:
                self._answers[number] = error
        else:
            self._answers[number] = SFTPError(f"an answer of kind {kind} to a read")


def _has_byte(handle: paramiko.SFTPFile, position: int) -> bool:
    """Return whether a file has a byte at a position; False also if the connection is lost."""
    try:
        return bool(_ReadAhead(handle.sftp, handle.handle, position, position + 1).read(1))
    except EOFError:
        return False
