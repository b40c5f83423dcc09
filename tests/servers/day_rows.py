"""A source on a free loopback port that answers each day with the rows a test wrote down."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

Rows = Sequence[Mapping[str, Any]]


class DayRows:
    """Answers ``/records?since=<epoch ms>`` with ``{"data": rows}`` of the day that begins there.

    ``days`` may be changed between requests; a day that is not in it has no rows.
    """

    def __init__(self, days: Mapping[int, Rows] | None = None) -> None:
        self.days: dict[int, Rows] = dict(days or {})
        source = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                since = int(parse_qs(urlsplit(self.path).query)["since"][0])
                body = json.dumps({"data": list(source.days.get(since, ()))}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: object) -> None:
                """Keep the test's output quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
