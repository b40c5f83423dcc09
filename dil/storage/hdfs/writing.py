"""A stream that becomes a file: one request where it is small, one that goes on where it is not."""

from __future__ import annotations

import http.client
import io
import uuid
from contextlib import suppress
from urllib.parse import urlsplit

import requests

from dil.errors import WriteError
from dil.storage.hdfs.client import DATA_HEADERS, TIMEOUTS_S, FileState, WebHdfs
from dil.storage.hdfs.failures import NameTakenError, refusal, unreachable
from dil.storage.streams import PartWriter

PART_BYTES = 4 << 20
_TRIES = 3
_BROKEN = (OSError, http.client.HTTPException)


def write_hidden(client: WebHdfs, path: str, data: bytes) -> tuple[str, FileState]:
    """Write a file under a hidden name in the same folder; return its path and its state.

    Where an answer is lost, the state of that file is unknown. The next try uses another name.

    Raises:
        WriteError: HDFS refuses, or cannot be reached.
    """
    for left in reversed(range(_TRIES)):
        temporary = hidden_path(path)
        try:
            client.create(temporary, data)
            return temporary, whole(client, temporary, len(data))
        except FileNotFoundError:
            client.make_folder(folder_of(path))
        except BaseException as error:
            discard(client, temporary)
            if not left or not isinstance(error, WriteError):
                raise
    raise WriteError(
        f"{path}: its folder vanishes again and again", "Find out who deletes it, then run again."
    )


def folder_of(path: str) -> str:
    """Return the path of a file's folder."""
    return path.rpartition("/")[0]


def hidden_path(path: str) -> str:
    """Return a new path in the same folder, which readers skip."""
    return f"{folder_of(path)}/.{uuid.uuid4().hex}.tmp"


def discard(client: WebHdfs, path: str) -> None:
    """Delete what a failure may have left; where that fails too, it goes with its folder."""
    with suppress(WriteError, OSError):
        client.delete(path)


def whole(client: WebHdfs, path: str, size: int) -> FileState:
    """Return the state of a file that was written, if all of it is there.

    A data node ends the file when a connection breaks, and it looks like any other.

    Raises:
        WriteError: it is shorter or longer, or gone.
    """
    state = client.state(path)
    if state is None or state.size != size:
        found = "it is gone" if state is None else f"{state.size:,} arrived"
        raise WriteError(
            f"{path}: of {size:,} bytes that were written {found}",
            "Check the data nodes and the network, then run again: nothing was lost.",
        )
    return state


class HdfsFileWriter(PartWriter):
    """Writes a file that has a hidden name in the same folder until it is whole."""

    def __init__(self, client: WebHdfs, path: str, part_bytes: int = PART_BYTES) -> None:
        super().__init__(part_bytes)
        self._client = client
        self._path = path
        self._size = 0
        self._upload: _Upload | None = None

    def __del__(self) -> None:
        """Leave a file without end unnamed."""
        upload = getattr(self, "_upload", None)
        if upload is not None:
            upload.close()

    def _send(self, data: bytes) -> None:
        if self._upload is None:
            self._upload = _Upload(self._client, hidden_path(self._path))
        self._upload.send(data)
        self._size += len(data)

    def _end(self, data: bytes) -> None:
        temporary, state = self._ended(data)
        try:
            give_name(self._client, temporary, self._path, state)
        except NameTakenError:
            discard(self._client, temporary)
            raise WriteError(
                f"{self._path} exists already",
                "Another program wrote there; move it away, then run again.",
            ) from None

    def _ended(self, data: bytes) -> tuple[str, FileState]:
        if self._upload is None:
            return write_hidden(self._client, self._path, data)
        self._send(data)
        self._upload.end()
        return self._upload.path, whole(self._client, self._upload.path, self._size)

    def _drop(self) -> None:
        if self._upload is not None:
            self._upload.close()
            discard(self._client, self._upload.path)


def give_name(
    client: WebHdfs, temporary: str, path: str, state: FileState, *, over: bool = False
) -> None:
    """Rename a file that was written to the name that it is to have, in the place of one ``over``.

    Where an answer was lost, and the file is gone when it is asked again, the inode decides.

    Raises:
        NameTakenError: another one has it, and ours keeps the hidden one.
        WriteError: HDFS refuses.
    """
    try:
        client.rename(temporary, path, over=over)
    except FileNotFoundError:
        there = client.state(path)
        if there is None or there.identity != state.identity:
            raise WriteError(
                f"{temporary} vanished before it could become {path}",
                "Find out who deletes it, then run again.",
            ) from None


class _Upload:
    """A new file whose data is sent as it comes, in chunks of one request.

    Raises:
        WriteError: HDFS refuses, or cannot be reached.
    """

    def __init__(self, client: WebHdfs, path: str) -> None:
        self.path = path
        client.make_folder(folder_of(path))
        parts = urlsplit(client.data_address(path))
        self._server = f"{parts.scheme}://{parts.netloc}"
        self._connection = _connection(client, parts.scheme, parts.netloc)
        try:
            self._connection.putrequest(
                "PUT", f"{parts.path}?{parts.query}", skip_accept_encoding=True
            )
            self._connection.putheader("Transfer-Encoding", "chunked")
            for name, value in DATA_HEADERS.items():
                self._connection.putheader(name, value)
            self._connection.endheaders()
        except _BROKEN as error:
            self.close()
            raise unreachable(path, self._server, error) from None

    def send(self, data: bytes) -> None:
        """Send bytes."""
        if not data:  # an empty chunk would be the last
            return
        try:
            self._connection.send(b"%x\r\n" % len(data))
            self._connection.send(data)
            self._connection.send(b"\r\n")
        except _BROKEN as error:
            # The data node may have said why, before it closed the connection.
            with suppress(*_BROKEN):
                self._check()
            raise unreachable(self.path, self._server, error) from None

    def end(self) -> None:
        """End the file; it is whole and durable then."""
        try:
            self._connection.send(b"0\r\n\r\n")
            self._check()
        except _BROKEN as error:
            raise unreachable(self.path, self._server, error) from None
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection. The data node ends the file where it is."""
        self._connection.close()

    def _check(self) -> None:
        found = self._connection.getresponse()
        if found.status == http.client.CREATED:
            return
        answer = requests.Response()
        answer.status_code = found.status
        answer.raw = io.BytesIO(found.read())
        raise _refused(refusal(answer, self.path, self._server))


def _refused(error: Exception) -> Exception:
    """Return an error as one of writing: in the place of what is new nothing is missing or taken.

    FileNotFoundError is an OSError, which here would read as a broken connection.
    """
    if isinstance(error, WriteError):
        return error
    return WriteError(
        f"{error}: somebody else writes or deletes there ({type(error).__name__})",
        "Look who does, then run again.",
    )


def _connection(client: WebHdfs, scheme: str, authority: str) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(authority, timeout=TIMEOUTS_S[1])
    return http.client.HTTPSConnection(authority, timeout=TIMEOUTS_S[1], context=client.tls)
