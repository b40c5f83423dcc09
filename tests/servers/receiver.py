"""A receiver of rows over HTTP: keeps accepted rows, can recognise repeated keys, can refuse.

Egress jobs send rows to the receiver; tests look at the received requests and the kept rows.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.servers.in_thread import InThread

KEY = "Idempotency-Key"


@dataclass(frozen=True)
class Got:
    """One request as it came in."""

    method: str
    body: Mapping[str, Any]
    key: str | None


@dataclass
class Receiver(InThread):
    """The rows that were taken, and settings for the answers to rows.

    ``statuses`` has the status for rows by id, 200 if absent; rows with another status than 200,
    201, 202 or 204 are not taken. ``on_row`` is called before a row is answered. If
    ``honours_keys`` is true, a known key gets its first answer again, and its row is not taken
    again.
    """

    honours_keys: bool = False
    statuses: dict[object, int] = field(default_factory=dict)
    on_row: Callable[[Mapping[str, Any]], None] = lambda body: None
    got: list[Got] = field(default_factory=list)
    taken: list[Mapping[str, Any]] = field(default_factory=list)
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """Return ``http://127.0.0.1:<port>``."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def ids(self) -> list[object]:
        """Return the ids of the rows that were taken, in order."""
        return [row.get("id") for row in self.taken]

    def answer(self, method: str, body: Mapping[str, Any], key: str | None) -> tuple[int, bytes]:
        """Take a row, or refuse it; return the status and the body of the answer."""
        with self.lock:
            self.got.append(Got(method, body, key))
            if self.honours_keys and key in self.answers:
                return self.answers[key]
            status = self.statuses.get(body.get("id"), 200)
            if status in {200, 201, 202, 204}:
                self.taken.append(body)
            text = {"ok": body.get("id")} if status < 300 else {"error": f"no {body.get('id')}"}
            answer = (status, b"" if status == 204 else json.dumps({"data": [text]}).encode())
            if self.honours_keys and key:
                self.answers[key] = answer
        self.on_row(body)
        return answer


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - inherited name
            """Say nothing on stderr."""

        def do_POST(self) -> None:
            """Take the body as a row."""
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
            status, text = receiver.answer(self.command, body, self.headers.get(KEY))
            self.send_response(status)
            if text:
                self.send_header("Content-Type", "application/json")
            if status != 204:
                self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_PUT(self) -> None:
            """Take the body as a row."""
            self.do_POST()

    return Handler
