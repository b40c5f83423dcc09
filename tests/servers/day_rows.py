"""A source on a free loopback port that has for each day the rows that a test sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from tests.servers.in_thread import InThread

Rows = Sequence[Mapping[str, Any]]


class DayRows(InThread):
    """Answers ``/records?since=<epoch ms>`` with ``{"data": rows}`` of the day that begins there.

    ``days`` may be changed between requests; a day that is not in ``days`` has no rows. A value may
    be ``msgspec.Raw``: JSON that is sent unchanged.
    """

    def __init__(self, days: Mapping[int, Rows] | None = None) -> None:
        self.days: dict[int, Rows] = dict(days or {})
        source = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                since = int(parse_qs(urlsplit(self.path).query)["since"][0])
                body = msgspec.json.encode({"data": list(source.days.get(since, ()))})
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: object) -> None:
                """Keep the test's output quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
