"""A small REST service over loopback that serves the demo's records, page by page.

    GET  /v1/flights?origin=EWR&since=T&until=T&limit=N&cursor=C   cursor pages
         {"flights": [...], "paging": {"returned": N, "next": C or null}}
         since and until are times of flights; with &by=arrival those at which they arrived
    GET  /v1/airports?offset=0&limit=N                             offset pages
         {"airports": [...], "total": 1458}
    GET  /v1/airlines?page=1&per_page=N                            page numbers
         [...], an empty array after the last page
    GET  /admin/clock, POST /admin/clock {"now": T}                what the service takes for now

T is ISO 8601 with offset. Every request needs ``Authorization: Bearer <token>``. Flights come in
the order in which they arrived at the service, not by time, and only those that have arrived by
its clock. A cursor belongs to one query and stays valid while new flights arrive.

    DEMO_TOKEN=secret python conf/demo/server.py --port 8765 --now 2013-01-12T09:00:00-05:00

The first line on stdout is ``ready http://127.0.0.1:PORT``; SIGTERM ends the process.
"""

from __future__ import annotations

import argparse
import base64
import hmac
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType
from urllib.parse import parse_qs, urlsplit

from feed import Record, epoch_ms, load_flights, read_lines

MAX_LIMIT = 1000
DEFAULT_NOW = "2013-01-12T09:00:00-05:00"
Query = dict[str, str]


class BadRequestError(ValueError):
    """The caller asked for something that the service does not have."""


@dataclass(frozen=True, slots=True)
class FlightQuery:
    """The parsed query of ``/v1/flights``; ``position`` counts records of the origin."""

    origin: str
    since: int
    until: int
    limit: int
    position: int
    by_arrival: bool = False


class Service:
    """The records and the clock; safe to be asked by several threads."""

    def __init__(self, now: int, token: str) -> None:
        self._lock = threading.Lock()
        self._now = now
        self._token = token.encode()
        self._flights: dict[str, list[Record]] = {}
        for record in load_flights():
            self._flights.setdefault(record.origin, []).append(record)
        self._airports = read_lines("airports")
        self._airlines = read_lines("airlines")

    @property
    def now(self) -> int:
        """Return what the service takes for now, epoch ms UTC."""
        with self._lock:
            return self._now

    def set_now(self, now: int) -> None:
        """Move the clock; records that have arrived by then become visible."""
        with self._lock:
            self._now = now

    def knows(self, authorization: str) -> bool:
        """Return whether an Authorization header carries the token."""
        return hmac.compare_digest(authorization.encode(), b"Bearer " + self._token)

    def flights(self, query: Query) -> bytes:
        """Return one page of flights in order of arrival."""
        wanted = _flight_query(query, self._flights)
        records = self._flights[wanted.origin]
        now = self.now
        page: list[bytes] = []
        position = wanted.position
        while position < len(records) and records[position].arrival <= now:
            if len(page) == wanted.limit:
                break
            record = records[position]
            at = record.arrival if wanted.by_arrival else record.event
            if wanted.since <= at < wanted.until:
                page.append(record.line)
            position += 1
        more = position < len(records) and records[position].arrival <= now
        cursor = _cursor(wanted, position) if more else None
        tail = json.dumps({"returned": len(page), "next": cursor})
        return b'{"flights":[%s],"paging":%s}' % (b",".join(page), tail.encode())

    def airports(self, query: Query) -> bytes:
        """Return one page of airports by offset, and how many there are."""
        offset, limit = _number(query, "offset", 0), _limit(query, "limit")
        page = self._airports[offset : offset + limit]
        return b'{"airports":[%s],"total":%d}' % (b",".join(page), len(self._airports))

    def airlines(self, query: Query) -> bytes:
        """Return one page of airlines; the first page is number 1."""
        page, limit = _number(query, "page", 1), _limit(query, "per_page")
        if page < 1:
            raise BadRequestError("page begins at 1")
        return b"[%s]" % b",".join(self._airlines[(page - 1) * limit : page * limit])

    def clock(self, _query: Query) -> bytes:
        """Return the clock."""
        return json.dumps({"now": self.now}).encode()


def _flight_query(query: Query, origins: dict[str, list[Record]]) -> FlightQuery:
    origin = query.get("origin", "")
    if origin not in origins:
        raise BadRequestError(f"origin must be one of {', '.join(sorted(origins))}")
    since, until = _time(query, "since"), _time(query, "until")
    by = query.get("by", "event")
    if by not in {"event", "arrival"}:
        raise BadRequestError("by must be event or arrival")
    limit, by_arrival = _limit(query, "limit"), by == "arrival"
    wanted = FlightQuery(origin, since, until, limit, 0, by_arrival)
    if "cursor" not in query:
        return wanted
    head, _, position = _opened(query["cursor"]).rpartition("|")
    if head != _cursor_head(wanted) or not position.isdigit():
        raise BadRequestError("cursor belongs to another query")
    return FlightQuery(origin, since, until, limit, int(position), by_arrival)


def _cursor_head(query: FlightQuery) -> str:
    return f"{query.origin}|{query.since}|{query.until}|{query.by_arrival}"


def _cursor(query: FlightQuery, position: int) -> str:
    return base64.urlsafe_b64encode(f"{_cursor_head(query)}|{position}".encode()).decode()


def _opened(cursor: str) -> str:
    try:
        return base64.urlsafe_b64decode(cursor.encode()).decode()
    except ValueError as error:
        raise BadRequestError("cursor is not one of ours") from error


def _time(query: Query, name: str) -> int:
    try:
        return epoch_ms(query[name])
    except (KeyError, ValueError) as error:
        raise BadRequestError(f"{name} must be ISO 8601 with an offset") from error


def _number(query: Query, name: str, default: int) -> int:
    text = query.get(name, str(default))
    if not text.isdigit():
        raise BadRequestError(f"{name} must be a whole number")
    return int(text)


def _limit(query: Query, name: str) -> int:
    limit = _number(query, name, 100)
    if not 1 <= limit <= MAX_LIMIT:
        raise BadRequestError(f"{name} must be between 1 and {MAX_LIMIT}")
    return limit


class Handler(BaseHTTPRequestHandler):
    """One connection; HTTP/1.1, so that callers may keep it open."""

    protocol_version = "HTTP/1.1"
    server: DemoServer

    def do_GET(self) -> None:
        """Answer one page."""
        service = self.server.service
        routes: dict[str, Callable[[Query], bytes]] = {
            "/v1/flights": service.flights,
            "/v1/airports": service.airports,
            "/v1/airlines": service.airlines,
            "/admin/clock": service.clock,
        }
        self._answer(routes)

    def do_POST(self) -> None:
        """Move the clock."""
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self._answer({"/admin/clock": lambda _query: self._move_clock(body)})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
        """Say nothing: the demo's output belongs to the job."""

    def _move_clock(self, body: bytes) -> bytes:
        try:
            now = epoch_ms(json.loads(body)["now"])
        except (ValueError, KeyError, TypeError) as error:
            raise BadRequestError('send {"now": ISO 8601 with offset}') from error
        self.server.service.set_now(now)
        return self.server.service.clock({})

    def _answer(self, routes: dict[str, Callable[[Query], bytes]]) -> None:
        address = urlsplit(self.path)
        route = routes.get(address.path)
        if not self.server.service.knows(self.headers.get("Authorization", "")):
            self._send(HTTPStatus.UNAUTHORIZED, b'{"error":"wrong or missing bearer token"}')
        elif route is None:
            self._send(HTTPStatus.NOT_FOUND, b'{"error":"no such path"}')
        else:
            values = parse_qs(address.query, keep_blank_values=True)
            try:
                body = route({name: texts[-1] for name, texts in values.items()})
            except BadRequestError as error:
                self._send(HTTPStatus.BAD_REQUEST, json.dumps({"error": str(error)}).encode())
            else:
                self._send(HTTPStatus.OK, body)

    def _send(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=UTF-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class DemoServer(ThreadingHTTPServer):
    """The service on one loopback port; port 0 takes a free one."""

    daemon_threads = True

    def __init__(self, port: int, service: Service) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.service = service

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore callers that went away; show everything else."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    parser = argparse.ArgumentParser(description="Serve the demo's records on loopback.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    parser.add_argument("--now", type=epoch_ms, default=DEFAULT_NOW, help="the service's clock")
    options = parser.parse_args(arguments)
    token = os.environ.get("DEMO_TOKEN", "")  # noqa: TID251 - a program of its own
    if not token:
        sys.stderr.write("set DEMO_TOKEN to the token that callers must send\n")
        return 2
    server = DemoServer(options.port, Service(options.now, token))
    signal.signal(signal.SIGTERM, _stop)
    sys.stdout.write(f"ready http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()
    return 0


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
