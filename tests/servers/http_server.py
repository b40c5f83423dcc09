"""A real HTTP server for tests: paged rows, scripted replies, faults, and a log of requests.

In a test::

    with HttpServer(Dataset.generate(1000, units=("a", "b"))) as server:
        server.faults.append(Fault(kind="status", at=(2,), status=503))
        ...  # requests to server.url
        assert server.count("/records") == 11

As a process of its own, stopped by its pid (one JSON line ``{"url","port","pid"}`` on stdout)::

    python tests/servers/http_server.py --rows 1000 --units a,b [--lines FILE] [--port 0]

Endpoints (GET):
    /records   ?unit=U &since=MS &until=MS &limit=N and &cursor=C, &offset=N or &page=N (from 1)
               {"data":[...],"next":cursor|null,"offset":o,"limit":n,"page":p,"total":t}
    /units     {"data":[{"unit":"a"},...]}
    /lines     all rows of a unit as application/x-ndjson
    /log       the requests so far, {"requests":[{"path","query","headers","status"}]}
    others     scripted with ``server.script(path, replies)``, else 404
POST, PUT, PATCH and DELETE are answered like GET; ``requests`` has their bodies.
Endpoints (POST, for a server in another process): /_faults takes a JSON array of Fault members,
/_rows a JSON array of rows to add, /_reset forgets log, faults and counts.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit
from urllib.request import urlopen

if __name__ == "__main__":  # run as a script: make `tests.servers` importable
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.servers.in_thread import InThread
from tests.servers.rows import Dataset, UnitRows, encode
from tests.servers.waiting import wait_until

DEFAULT_LIMIT = 100


@dataclass(frozen=True)
class Reply:
    """One scripted answer. ``raw`` replaces everything and is followed by closing the socket."""

    body: bytes = b""
    status: int = 200
    reason: str | None = None
    content_type: str | None = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    raw: bytes | None = None


@dataclass(frozen=True)
class Fault:
    """A fault in answers to requests for ``path``.

    ``at`` has the numbers, from 1, of the requests to strike, among those that match ``path`` and
    ``where`` (query members); empty means all. Kinds: status (``status``, ``headers``), reset
    (before the answer), reset_body and short_body (half of the body, then a reset or a clean end),
    slow (``delay_s`` before the answer), held (no answer until ``released`` is set), content_type
    (``text``), body (``text`` instead of the rows), repeat_cursor (``next`` is the cursor of the
    request).
    """

    kind: str
    at: tuple[int, ...] = ()
    path: str = "/records"
    where: tuple[tuple[str, str], ...] = ()
    status: int = 500
    headers: tuple[tuple[str, str], ...] = ()
    text: str = "text/html"
    delay_s: float = 0.0
    released: threading.Event = field(default_factory=threading.Event, compare=False)


@dataclass(frozen=True)
class LoggedRequest:
    """A request as it came in; ``target`` is the raw request target."""

    method: str
    target: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]
    at: float
    body: bytes = b""


@dataclass
class ServerState:
    """Everything the handler reads and writes; guarded by ``lock``."""

    dataset: Dataset
    token: str | None = None
    compress: bool = False
    chunked: bool = False
    most: int | None = None
    faults: list[Fault] = field(default_factory=list)
    scripts: dict[str, list[Reply]] = field(default_factory=dict)
    log: list[LoggedRequest] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    matches: dict[Fault, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fault_for(self, path: str, query: Mapping[str, str]) -> Fault | None:
        """Count the request against each fault that it matches; return the first that strikes."""
        struck: Fault | None = None
        for fault in self.faults:
            if fault.path == path and all(query.get(k) == v for k, v in fault.where):
                number = self.matches[fault] = self.matches.get(fault, 0) + 1
                if struck is None and (not fault.at or number in fault.at):
                    struck = fault
        return struck

    def next_reply(self, path: str) -> Reply | None:
        """Return the next scripted reply of a path; the last one is repeated."""
        replies = self.scripts.get(path)
        if not replies:
            return None
        return replies.pop(0) if len(replies) > 1 else replies[0]


class _Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True

    def __init__(self, port: int, state: ServerState) -> None:
        self.state = state
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        """Count the connection, then answer it in a thread of its own."""
        with self.state.lock:
            self.state.connections += 1
            self.state.open_connections += 1
        super().process_request(request, client_address)  # type: ignore[arg-type]

    def process_request_thread(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        """Answer the requests of a connection until it is closed."""
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            with self.state.lock:
                self.state.open_connections -= 1

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients of these tests break connections on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - inherited name
        """Say nothing on stderr."""

    def do_GET(self) -> None:
        """Answer rows, a scripted reply, or a fault."""
        self._serve(b"")

    def do_HEAD(self) -> None:
        """Answer as GET does; scripted replies to HEAD have no body."""
        self._serve(b"")

    def do_PUT(self) -> None:
        """Answer as GET does, and keep the body in the log."""
        self._serve(self._given())

    def do_PATCH(self) -> None:
        """Answer as PUT does."""
        self.do_PUT()

    def do_DELETE(self) -> None:
        """Answer as PUT does."""
        self.do_PUT()

    def _given(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def _serve(self, body: bytes) -> None:
        state, parts = self.server.state, urlsplit(self.path)
        pairs = tuple(parse_qsl(parts.query, keep_blank_values=True))
        query = dict(pairs)
        if parts.path == "/log":
            self._send(Reply(encode({"requests": [_shown(entry) for entry in state.log]})))
            return
        with state.lock:
            state.log.append(
                LoggedRequest(
                    self.command,
                    self.path,
                    parts.path,
                    pairs,
                    dict(self.headers),
                    time.monotonic(),
                    body,
                )
            )
            fault = state.fault_for(parts.path, query)
            scripted = state.next_reply(parts.path)
        if state.token is not None and self.headers.get("Authorization") != f"Bearer {state.token}":
            self._send(Reply(b'{"error":"who are you?"}', 401))
            return
        self._answer(scripted or self._rows_reply(parts.path, query), fault, query)

    def do_POST(self) -> None:
        """Change the server from another process, or answer as GET does."""
        state, given = self.server.state, self._given()
        if not self.path.startswith("/_"):
            self._serve(given)
            return
        with state.lock:
            if self.path == "/_reset":
                state.log.clear()
                state.faults.clear()
                state.matches.clear()
            elif self.path == "/_faults":
                state.faults.extend(_fault(item) for item in json.loads(given))
            elif self.path == "/_rows":
                state.dataset.extend(json.loads(given))
            else:
                self._send(Reply(b"{}", 404))
                return
        self._send(Reply(b"{}"))

    def _rows_reply(self, path: str, query: Mapping[str, str]) -> Reply:
        dataset, most = self.server.state.dataset, self.server.state.most
        if path == "/records":
            return Reply(records_page(dataset.of(query.get("unit")), query, most))
        if path == "/units":
            return Reply(encode({"data": [{"unit": unit} for unit in dataset.units]}))
        if path == "/lines":
            lines = b"\n".join(dataset.of(query.get("unit")).encoded)
            return Reply(lines, content_type="application/x-ndjson")
        return Reply(b'{"error":"no such path"}', 404)

    def _answer(self, reply: Reply, fault: Fault | None, query: Mapping[str, str]) -> None:
        if fault is None:
            self._send(reply)
        elif fault.kind == "reset":
            self._reset()
        elif fault.kind in {"reset_body", "short_body"}:
            self._cut(reply, reset=fault.kind == "reset_body")
        else:
            if fault.kind == "held":
                fault.released.wait()
            time.sleep(fault.delay_s)
            self._send(changed(reply, fault, query))

    def _head(self, reply: Reply, length: str) -> bytes:
        reason = reply.reason
        if reason is None:
            reason = HTTPStatus(reply.status).phrase
        lines = [f"HTTP/1.1 {reply.status} {reason}", f"Date: {self.date_time_string()}", length]
        if reply.content_type is not None:
            lines.append(f"Content-Type: {reply.content_type}")
        lines.extend(f"{name}: {value}" for name, value in reply.headers)
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"

    def _send(self, reply: Reply) -> None:
        """Write head and body in one call: two small writes would wait for a delayed ACK."""
        if reply.raw is not None:
            self.wfile.write(reply.raw)
            self.close_connection = True
            return
        state, body = self.server.state, reply.body
        if state.compress and "gzip" in self.headers.get("Accept-Encoding", "") and body:
            body = gzip.compress(body, 1, mtime=0)
            packed = (*reply.headers, ("Content-Encoding", "gzip"))
            reply = Reply(body, reply.status, reply.reason, reply.content_type, packed)
        if state.chunked and body:
            head = self._head(reply, "Transfer-Encoding: chunked")
            self.wfile.write(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
            return
        self.wfile.write(self._head(reply, f"Content-Length: {len(body)}") + body)

    def _cut(self, reply: Reply, *, reset: bool) -> None:
        head = self._head(reply, f"Content-Length: {len(reply.body)}")
        self.wfile.write(head + reply.body[: len(reply.body) // 2])
        self.close_connection = True
        if reset:
            self._reset()

    def _reset(self) -> None:
        """Close with RST instead of FIN."""
        self.close_connection = True
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()


class HttpServer(InThread):
    """The server in a thread of this process, on a free loopback port."""

    def __init__(
        self,
        dataset: Dataset | None = None,
        *,
        port: int = 0,
        token: str | None = None,
        compress: bool = False,
        chunked: bool = False,
        most: int | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.state = ServerState(dataset or Dataset(), token, compress, chunked, most)
        self._server = _Server(port, self.state)
        self._scheme = "https" if tls else "http"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    @property
    def url(self) -> str:
        """Return ``http://127.0.0.1:<port>``; with https if ``tls`` is given."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    @property
    def dataset(self) -> Dataset:
        """Return the rows being served; ``extend`` adds to them."""
        return self.state.dataset

    @property
    def faults(self) -> list[Fault]:
        """Return the list of faults; append to it."""
        return self.state.faults

    @property
    def requests(self) -> list[LoggedRequest]:
        """Return the requests so far, without requests for /log."""
        return list(self.state.log)

    @property
    def connections(self) -> int:
        """Return how many connections were opened so far."""
        return self.state.connections

    def script(self, path: str, *replies: Reply) -> None:
        """Answer ``path`` with these replies in turn; the last one is repeated."""
        self.state.scripts[path] = list(replies)

    def settle(self) -> None:
        """Wait until the log has all requests of clients that have closed their connections."""
        with urlopen(f"{self.url}/log"):  # connections are taken in turn: this is the last one
            pass
        wait_until(lambda: self.state.open_connections == 0)

    def count(self, path: str, **query: str) -> int:
        """Return how many requests for ``path`` had these query members."""
        return sum(
            entry.path == path and query.items() <= dict(entry.query).items()
            for entry in self.requests
        )


def records_page(rows: UnitRows, query: Mapping[str, str], most: int | None = None) -> bytes:
    """Return one page of ``/records``; the cursor is the index of the next row, in hex.

    A page has at most ``most`` rows, whatever the query asks for.
    """
    low, high = rows.window(_number(query, "since"), _number(query, "until"))
    limit = _number(query, "limit") or DEFAULT_LIMIT
    limit = limit if most is None else min(limit, most)
    page = _number(query, "page")
    if query.get("cursor"):
        start = int(query["cursor"].removeprefix("c"), 16)
    elif page is not None:
        start = low + max(page - 1, 0) * limit
    else:
        start = low + (_number(query, "offset") or 0)
    end = min(start + limit, high)
    facts = encode(
        {
            "next": f"c{end:x}" if end < high else None,
            "offset": start - low,
            "limit": limit,
            "page": (start - low) // limit + 1,
            "total": high - low,
        }
    )
    return b'{"data":[' + b",".join(rows.encoded[start:end]) + b"]," + facts[1:]


def changed(reply: Reply, fault: Fault, query: Mapping[str, str]) -> Reply:
    """Return the reply that a fault sends in place of a reply."""
    match fault.kind:
        case "slow" | "held":
            return reply
        case "status":
            return Reply(b'{"error":"fault"}', fault.status, headers=fault.headers)
        case "content_type":
            return Reply(reply.body, content_type=fault.text)
        case "body":
            return Reply(fault.text.encode())
        case "repeat_cursor":
            page = json.loads(reply.body)
            return Reply(encode({**page, "next": query.get("cursor", page["next"])}))
        case _:
            raise ValueError(fault.kind)


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    return int(text) if text else None


def _fault(item: Mapping[str, object]) -> Fault:
    """Return a fault from JSON, where tuples are arrays."""
    pairs = {
        key: tuple(tuple(pair) if isinstance(pair, list) else pair for pair in value)
        if isinstance(value, list)
        else value
        for key, value in item.items()
    }
    return Fault(**pairs)  # type: ignore[arg-type]


def _shown(entry: LoggedRequest) -> dict[str, object]:
    return {
        "path": entry.path,
        "target": entry.target,
        "query": dict(entry.query),
        "headers": dict(entry.headers),
        "at": entry.at,
    }


def main(arguments: Sequence[str]) -> None:
    """Serve until killed; print one JSON line when ready."""
    parser = argparse.ArgumentParser(description="scripted HTTP source")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--rows", type=int, default=1000, help="rows for each unit")
    parser.add_argument("--units", default="u1", help="comma separated")
    parser.add_argument("--start-ms", type=int, default=1_577_836_800_000)
    parser.add_argument("--step-ms", type=int, default=60_000)
    parser.add_argument("--lines", type=Path, help="serve this JSON-lines file instead")
    parser.add_argument("--token", help="require Authorization: Bearer <token>")
    parser.add_argument("--compress", action="store_true")
    parser.add_argument("--faults", default="[]", help="JSON array of Fault members")
    options = parser.parse_args(arguments)
    dataset = (
        Dataset.from_lines(options.lines)
        if options.lines
        else Dataset.generate(
            options.rows,
            units=options.units.split(","),
            start_ms=options.start_ms,
            step_ms=options.step_ms,
        )
    )
    state = ServerState(dataset, options.token, options.compress)
    state.faults.extend(_fault(item) for item in json.loads(options.faults))
    server = _Server(options.port, state)
    port = server.server_port
    ready = {"url": f"http://127.0.0.1:{port}", "port": port, "pid": os.getpid()}
    print(json.dumps(ready), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
