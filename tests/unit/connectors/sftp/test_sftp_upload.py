"""How a file gets its name on a server: whole, over an older one, and without leftovers."""

from __future__ import annotations

import errno
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from connectors.files.payload import PayloadFile
from connectors.sftp.address import SftpHost
from connectors.sftp.upload import put
from dil.errors import AuthenticationError, DilError, SourceError, TransientSourceError


class Handle(io.BytesIO):
    """A file that appears with each byte, as on a server."""

    def __init__(self, client: Client, path: str) -> None:
        super().__init__()
        self.client, self.path = client, path

    def set_pipelined(self, pipelined: bool) -> None:
        assert pipelined

    def write(self, data: Any) -> int:
        found = self.client.files[self.path] + bytes(data)
        self.client.files[self.path] = found[: self.client.room]
        return len(data)


@dataclass
class Client:
    """A server with these files; renames fail in turn with ``failures``, None for success."""

    files: dict[str, bytes]
    room: int | None = None
    extension: OSError | None = None
    failures: list[OSError | None] = field(default_factory=list)
    server: SftpHost = SftpHost("sftp.test", 22)  # noqa: RUF009 - frozen

    def client(self) -> Client:
        return self

    def open(self, path: str, mode: str) -> Handle:
        assert mode == "wx", "no file of another writer is written into"
        self.files[path] = b""
        return Handle(self, path)

    def stat(self, path: str) -> Client:
        self.st_size = len(self.files[path])
        return self

    def posix_rename(self, source: str, target: str) -> None:
        if self.extension is not None:
            raise self.extension
        self.files[target] = self.files.pop(source)

    def rename(self, source: str, target: str) -> None:
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        if source not in self.files:
            raise FileNotFoundError(errno.ENOENT, source)
        assert target not in self.files, "the protocol renames over no file"
        self.files[target] = self.files.pop(source)

    def remove(self, path: str) -> None:
        del self.files[path]


UNKNOWN = OSError("Operation unsupported")  # a status of the protocol without a number
DENIED = OSError(errno.EACCES, "denied")


def sent(client: Client, folder: Path) -> None:
    path = folder / "rows.csv"
    path.write_bytes(b"new rows")
    found = put(client, PayloadFile(str(path), "rows.csv"), "/in")  # type: ignore[arg-type]
    assert (found["path"], found["size"]) == ("/in/rows.csv", 8)


@pytest.mark.parametrize("extension", [None, UNKNOWN])
@pytest.mark.parametrize("before", [{}, {"/in/rows.csv": b"old"}])
def test_the_new_file_alone_is_there_afterwards(
    tmp_path: Path, before: dict[str, bytes], extension: OSError | None
) -> None:
    client = Client(dict(before), extension=extension)
    sent(client, tmp_path)
    assert client.files == {"/in/rows.csv": b"new rows"}


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        ({"room": 3}, TransientSourceError),
        ({"extension": DENIED}, AuthenticationError),
        ({"extension": UNKNOWN, "failures": [DENIED]}, AuthenticationError),
        ({"extension": UNKNOWN, "failures": [None, OSError("Failure")]}, SourceError),
    ],
    ids=["no room", "no right", "no right to move away", "no right to take its place"],
)
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, problem: dict[str, Any], error: type[DilError]
) -> None:
    client = Client({"/in/rows.csv": b"old"}, **problem)
    with pytest.raises(error):
        sent(client, tmp_path)
    assert client.files == {"/in/rows.csv": b"old"}
