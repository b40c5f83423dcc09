"""A stated fake of HDFS's REST interface, over a real folder: LISTSTATUS, GETFILESTATUS, OPEN.

Source: Apache Hadoop 3, "WebHDFS REST API". The name node answers with JSON and sends OPEN on to
the data node by a redirect, as the real one does. RENAME is like RENAME of HttpFS, which knows no
``renameoptions``. CREATE gets no further than the redirect. The fake runs no Hadoop.
"""

from __future__ import annotations

import json
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.servers.in_thread import InThread

DELEGATION = "token-that-is-a-secret"
_NOT_FOUND = (404, "FileNotFoundException", "File does not exist")


class WebHdfs:
    """A name node and a data node on free loopback ports, from ``with`` to its end.

    ``users`` are the users that may read, None for everybody. ``refusals`` are the next answers,
    each used once: (status, exception, message). ``cuts`` are the numbers of bytes after which the
    data node drops the connection, each used once. ``requests`` are the operations with their
    paths. ``detours`` are hosts and ports to which OPEN is redirected before the data node, and
    ``data_refusals`` are the next answers of the data node, each used once. ``left_out`` is a
    member that answers about a file leave out. ``tls`` is for the name node, ``data_tls`` for the
    data node.
    """

    def __init__(
        self,
        folder: Path,
        *,
        tls: ssl.SSLContext | None = None,
        data_tls: ssl.SSLContext | None = None,
    ) -> None:
        self.folder = folder
        self.users: frozenset[str] | None = None
        self.refusals: list[tuple[int, str, str]] = []
        self.cuts: list[int] = []
        self.requests: list[str] = []
        self.detours: list[str] = []
        self.data_refusals: list[tuple[int, str, str]] = []
        self.left_out = ""
        self.data_protocol = "https" if data_tls else "http"
        self._servers = [_Server(self, _NameNode, tls), _Server(self, _DataNode, data_tls)]

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
        """Return the local path of a path of HDFS."""
        return self.folder / path.lstrip("/")


class _Server(InThread):
    def __init__(self, fake: WebHdfs, handler: type[_Handler], tls: ssl.SSLContext | None) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
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
            self.send(200, {"FileStatus": self.status(file, "")})
        elif operation == "LISTSTATUS":
            found = [self.status(each, each.name) for each in file.iterdir()]
            self.send(200, {"FileStatuses": {"FileStatus": found}})
        else:
            self.send_on(fake.detours.pop(0) if fake.detours else fake.data_node)

    def do_PUT(self) -> None:
        path, query = self.asked()
        self.fake.requests.append(f"{query['op']} {path}")
        if query["op"] == "MKDIRS":
            self.fake.file(path).mkdir(parents=True, exist_ok=True)
            self.send(200, {"boolean": True})
            return
        if query["op"] == "CREATE":
            self.send_on(self.fake.data_node)
            return
        if query["op"] != "RENAME":
            self.refuse(400, "UnsupportedOperationException", query["op"])
            return
        source, target = self.fake.file(path), self.fake.file(query["destination"])
        is_done = source.exists() and not target.exists()
        if is_done:
            source.rename(target)
        self.send(200, {"boolean": is_done})

    def send_on(self, data_node: str) -> None:
        """Redirect to the data node with a token, as a secure name node does."""
        address = f"{self.fake.data_protocol}://{data_node}/webhdfs/v1{quote(self.asked()[0])}"
        query = f"{urlsplit(self.path).query}&delegation={DELEGATION}"
        self.send(307, {}, Location=f"{address}?{query}")

    def status(self, file: Path, suffix: str) -> dict[str, Any]:
        found = _status(file, suffix)
        found.pop(self.fake.left_out, None)
        return found


class _DataNode(_Handler):
    def do_GET(self) -> None:
        path, query = self.asked()
        fake = self.fake
        file = fake.file(path)
        if fake.data_refusals:
            self.refuse(*fake.data_refusals.pop(0))
            return
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
