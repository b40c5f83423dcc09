"""Writes files: a small file in one request, a large file in one request sent in chunks."""

from __future__ import annotations

import http.client
import io
import uuid
from contextlib import suppress
from urllib.parse import urlsplit

import requests

from dil.errors import WriteError
from dil.storage.hdfs.client import DATA_HEADERS, TIMEOUTS_S, FileState, WebHdfs
from dil.storage.hdfs.failures import refusal, unreachable
from dil.storage.hdfs.place import NameTakenError
from dil.storage.streams import PartWriter

PART_BYTES = 4 << 20
_TRIES = 3
_BROKEN = (OSError, http.client.HTTPException)


def write_hidden(client: WebHdfs, path: str, data: bytes) -> tuple[str, FileState]:
    """Write a file under a hidden name in the same folder; return its path and its state.

    If the answer is lost, the state of that file is unknown. The next try uses another name.

    Raises:
        WriteError: HDFS refuses to write, or cannot be reached.
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
        f"{path}: its folder was deleted repeatedly",
        "Find out which program deletes it, then run again.",
    )


def folder_of(path: str) -> str:
    """Return the path of the folder that contains a file."""
    return path.rpartition("/")[0]


def hidden_path(path: str) -> str:
    """Return a new path in the same folder; readers ignore files with this kind of name."""
    return f"{folder_of(path)}/.{uuid.uuid4().hex}.tmp"


def discard(client: WebHdfs, path: str) -> None:
    """Delete the file that a failure left; ignore errors.

    If the file cannot be deleted now, it is deleted later, together with its folder.
    """
    with suppress(WriteError, OSError):
        client.delete(path)


def whole(client: WebHdfs, path: str, size: int) -> FileState:
    """Return the state of a written file; raise if the file does not have its full size.

    A data node ends the file when a connection breaks, and the result looks like a whole file.

    Raises:
        WriteError: the file is shorter or longer, or does not exist.
    """
    state = client.state(path)
    if state is None or state.size != size:
        found = "it no longer exists" if state is None else f"{state.size:,} arrived"
        raise WriteError(
            f"{path}: of {size:,} written bytes {found}",
            "Check the data nodes and the network, then run again: nothing was lost.",
        )
    return state


class HdfsFileWriter(PartWriter):
    """Writes a file that has a hidden name in the same folder until it is complete."""

    def __init__(self, client: WebHdfs, path: str, part_bytes: int = PART_BYTES) -> None:
        super().__init__(part_bytes)
        self._client = client
        self._path = path
        self._size = 0
        self._upload: _Upload | None = None

    def __del__(self) -> None:
        """Leave an unfinished file without its final name."""
        upload = getattr(self, "_upload", None)
        if upload is not None:
            upload.close()

    def _send(self, data: bytes) -> None:
        if self._upload is None:
            self._upload = _Upload(self._client, hidden_path(self._path))
        self._upload.send(data)
        self._size += len(data)

    def _end(self, data: bytes) -> None:
        if self._upload is None:
            temporary, state = write_hidden(self._client, self._path, data)
        else:
            self._send(data)
            self._upload.end()
            temporary = self._upload.path
            state = whole(self._client, temporary, self._size)
        try:
            give_name(self._client, temporary, self._path, state)
        except NameTakenError:
            discard(self._client, temporary)
            raise WriteError(
                f"{self._path} exists already",
                "Another program wrote there; move that file away, then run again.",
            ) from None

    def _drop(self) -> None:
        if self._upload is not None:
            self._upload.close()
            discard(self._client, self._upload.path)


def give_name(
    client: WebHdfs, temporary: str, path: str, state: FileState, *, over: bool = False
) -> None:
    """Rename a written file to its final name; replace an existing file only if ``over`` is true.

    If an answer was lost and the hidden name is gone at the next try, the inode shows whether the
    target is this file.

    Raises:
        NameTakenError: another file has the name, and the written file keeps its hidden name.
        WriteError: HDFS refuses the rename.
    """
    try:
        client.rename(temporary, path, over=over)
    except FileNotFoundError:
        there = client.state(path)
        if there is None or there.identity != state.identity:
            raise WriteError(
                f"{temporary} vanished before it could become {path}",
                "Find out which program deletes it, then run again.",
            ) from None


class _Upload:
    """A new file whose data is sent in chunks of one request.

    Raises:
        WriteError: HDFS refuses to write, or cannot be reached.
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
        if not data:  # An empty chunk would end the request.
            return
        try:
            self._connection.send(b"%x\r\n" % len(data))
            self._connection.send(data)
            self._connection.send(b"\r\n")
        except _BROKEN as error:
            # The data node may have sent the reason before it closed the connection.
            with suppress(*_BROKEN):
                self._check()
            raise unreachable(self.path, self._server, error) from None

    def end(self) -> None:
        """End the file; after that it is complete and durable."""
        try:
            self._connection.send(b"0\r\n\r\n")
            self._check()
        except _BROKEN as error:
            raise unreachable(self.path, self._server, error) from None
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection; the data node ends the file there."""
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
    """Return the error of a refused upload as a WriteError.

    A new file cannot be missing, and no other file can have its name. So if HDFS says so, another
    program interferes. A FileNotFoundError must not be raised here: it is an OSError, and callers
    would take it for a broken connection.
    """
    if isinstance(error, WriteError):
        return error
    return WriteError(
        f"{error}: another program writes or deletes there ({type(error).__name__})",
        "Find out which program it is, then run again.",
    )


def _connection(client: WebHdfs, scheme: str, authority: str) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(authority, timeout=TIMEOUTS_S[1])
    return http.client.HTTPSConnection(authority, timeout=TIMEOUTS_S[1], context=client.tls)
