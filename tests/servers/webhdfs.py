"""A stated fake of HDFS's REST interface, over a real folder: LISTSTATUS, GETFILESTATUS, OPEN.

Source: Apache Hadoop 3, "WebHDFS REST API". The name node answers with JSON and sends OPEN on to
the data node by a redirect, as the real one does. No Hadoop is behind it.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.servers.in_thread import InThread

_NOT_FOUND = (404, "FileNotFoundException", "File does not exist")


class WebHdfs:
    """A name node and a data node on free loopback ports, from ``with`` to its end.

    ``users`` are those that may read, None for everybody. ``refusals`` are answered first, each
    once: (status, exception, message). ``cuts`` are the numbers of bytes after which the data node
    drops the connection, each once. ``requests`` are the operations with their paths.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.users: frozenset[str] | None = None
        self.refusals: list[tuple[int, str, str]] = []
        self.cuts: list[int] = []
        self.requests: list[str] = []
        self._servers = [_Server(self, kind) for kind in (_NameNode, _DataNode)]

    @property
    def authority(self) -> str:
        """Return the name node's host and port."""
        return f"127.0.0.1:{self._servers[0].port}"

    @property
    def data_node(self) -> str:
        """Return the data node's host and port."""
        return f"127.0.0.1:{self._servers[1].port}"

    def __enter__(self) -> Self:
        for server in self._servers:
            server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.__exit__()

    def file(self, path: str) -> Path:
        """Return where a path of HDFS is."""
        return self.folder / path.lstrip("/")


class _Server(InThread):
    def __init__(self, fake: WebHdfs, handler: type[_Handler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.fake = fake  # type: ignore[attr-defined]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def fake(self) -> WebHdfs:
        return self.server.fake  # type: ignore[attr-defined,no-any-return]

    def log_message(self, *args: object) -> None:
        """Keep quiet."""

    def asked(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        return unquote(parts.path).removeprefix("/webhdfs/v1") or "/", query

    def send(self, status: int, answer: object, **headers: str) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status: int, kind: str, message: str) -> None:
        found = {"exception": kind, "javaClassName": f"org.apache.{kind}", "message": message}
        self.send(status, {"RemoteException": found})


class _NameNode(_Handler):
    def do_GET(self) -> None:
        path, query = self.asked()
        operation, fake = query["op"], self.fake
        fake.requests.append(f"{operation} {path}")
        file = fake.file(path)
        if fake.refusals:
            self.refuse(*fake.refusals.pop(0))
        elif fake.users is not None and query.get("user.name") not in fake.users:
            self.refuse(403, "AccessControlException", "Permission denied: inode=secret")
        elif not file.exists():
            self.refuse(*_NOT_FOUND)
        elif operation == "GETFILESTATUS":
            self.send(200, {"FileStatus": _status(file, "")})
        elif operation == "LISTSTATUS":
            found = [_status(each, each.name) for each in file.iterdir()]
            self.send(200, {"FileStatuses": {"FileStatus": found}})
        else:
            where = f"http://{fake.data_node}/webhdfs/v1{quote(path)}?{urlsplit(self.path).query}"
            self.send(307, {}, Location=where)


class _DataNode(_Handler):
    def do_GET(self) -> None:
        path, query = self.asked()
        fake = self.fake
        file = fake.file(path)
        if not file.exists():
            self.refuse(*_NOT_FOUND)
            return
        data = file.read_bytes()[int(query["offset"]) :]
        sent = data[: fake.cuts.pop(0)] if fake.cuts else data
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(sent)
        self.close_connection = sent is not data


def _status(file: Path, suffix: str) -> dict[str, Any]:
    state = file.stat()
    is_folder = file.is_dir()
    return {
        "pathSuffix": suffix,
        "type": "DIRECTORY" if is_folder else "FILE",
        "length": 0 if is_folder else state.st_size,
        "modificationTime": state.st_mtime_ns // 1_000_000,
        "fileId": state.st_ino,
        "owner": "hdfs",
        "permission": "755",
    }
