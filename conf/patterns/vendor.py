"""Acme, an invented vendor: a small REST service on loopback that the jobs of this folder talk to.

    POST /oauth2/token            a form of grant_type refresh_token or client_credentials
    POST /v2/exports              begins an export: 202 {"location": "/v2/exports/<id>"}
    GET  /v2/exports/<id>         {"id", "state": "running" | "ready", "parts"}; ready at poll 3
    GET  /v2/exports/<id>/rows    ?limit=N&cursor=C: {"rows": [...], "paging": {"next", "total"}}
    GET  /v2/exports/<id>/file    all rows of an export as one gzipped CSV file
    GET  /files                   ?page=1&per_page=N: [{"path"}, ...] of a day's files
    GET  /files/<path>            one of them, gzipped CSV
    GET  /api/surveys             ?page=1&per_page=N: [...], empty after the last page
    GET  /api/surveys/<id>/answers
                                  ?since=T&until=T&offset=0&limit=N:
                                  {"answers": [...], "meta": {"total": N}}
    GET  /v1/conversions          ?offset=0&limit=N: what is to be sent today, as an array
    POST /v1/conversions:upload   {"conversions": [...]}: {"results": [{"clickId", "error"}]}
    GET  /v1/conversions:results  what became of all that was sent, as an array
    GET  /v3/items/changes        ?since=N&limit=N: {"results": [...], "last_seq": N}: the newest
                                  change of each item whose number is greater than N
    GET  /v3/customers            ?limit=N&starting_after=ID: {"data": [...], "has_more": bool}

The surveys, files, items and customers ask for user ``lake`` and its password, everything else for
a bearer token of /oauth2/token. There is an answer a day to each survey, at noon UTC, from
2023-01-01 on.

    python conf/patterns/vendor.py --port 8770

The first line on stdout is ``ready http://127.0.0.1:PORT``; SIGTERM ends the process.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import re
import signal
import sys
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType
from urllib.parse import parse_qsl, unquote, urlsplit

SECRET = "password"  # noqa: S105 - of a service that is invented
FIRST_DAY = datetime(2023, 1, 1, 12, tzinfo=UTC)
LAST_DAY = datetime(2024, 1, 31, 12, tzinfo=UTC)
POLLS = 3
SURVEYS = {"5": "draft", "17": "active", "28": "closed", "93": "active"}
CONTACTS = [
    {"id": f"c{number}", "email": f"{number}@acme.example", "updated": "2024-01-09T08:00:00+0000"}
    for number in range(2500)
]
CONVERSIONS = [
    {"account": "a1", "clickId": f"click-{number}", "value": number / 4} for number in range(450)
]
# Clicks that the vendor does not know: 4 % of all.
UNKNOWN = {f"click-{number}" for number in range(0, 450, 25)}

FILES = {
    f"outbound/sales_2024010{day}.csv.gz": "id,amount\n"
    + "".join(f"{day}-{number},{number / 100}\n" for number in range(1000))
    for day in range(5, 8)
}

CUSTOMERS = [{"id": f"cus_{number:04}", "name": f"Customer {number}"} for number in range(250)]

Answer = tuple[int, object]


def _first_changes() -> dict[str, dict[str, object]]:
    return {
        f"item-{number}": {"id": f"item-{number}", "seq": number, "doc": {"price": number / 2}}
        for number in range(1, 251)
    }


@dataclass(frozen=True, slots=True)
class Asked:
    """One request; ``form`` and ``sent`` are its body, as a form or as JSON."""

    method: str
    path: str
    query: dict[str, str]
    form: dict[str, str]
    sent: dict[str, object]
    authorization: str

    def number(self, name: str, default: int) -> int:
        """Return a member of the query."""
        return int(self.query.get(name, default))


@dataclass
class Acme:
    """What the vendor knows; ``asked`` are all requests, ``tokens`` those that are valid.

    ``user`` may read the surveys; ``end`` is the state in which exports end. ``changes`` are the
    newest change of each item, in the order of their numbers.
    """

    tokens: set[str] = field(default_factory=set)
    surveys: dict[str, str] = field(default_factory=lambda: dict(SURVEYS))
    user: str = "lake"
    end: str = "ready"
    files: dict[str, str] = field(default_factory=lambda: dict(FILES))
    changes: dict[str, dict[str, object]] = field(default_factory=_first_changes)
    polls: dict[str, int] = field(default_factory=dict)
    uploaded: list[dict[str, object]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, asked: Asked) -> Answer:
        """Answer a request: status and JSON body, or bytes."""
        with self.lock:
            self.asked.append(asked)
            for method, pattern, scheme, route in _ROUTES:
                found = pattern.fullmatch(asked.path)
                if method == asked.method and found:
                    if not self._knows(asked, scheme):
                        return 401, {"error": "wrong or missing credentials"}
                    return route(self, asked, *found.groups())
        return 404, {"error": "no such path"}

    def _knows(self, asked: Asked, scheme: str) -> bool:
        if not scheme:
            return True
        found, _, shown = asked.authorization.partition(" ")
        basic = base64.b64encode(f"{self.user}:{SECRET}".encode()).decode()
        return found == scheme and shown in ({basic} if scheme == "Basic" else self.tokens)

    def token(self, asked: Asked) -> Answer:
        """Give an access token."""
        form = asked.form
        is_fresh = form.get("grant_type") == "refresh_token"
        if form.get("client_secret") != SECRET or (
            is_fresh and form.get("refresh_token") != SECRET
        ):
            return 401, {"error": "invalid_client"}
        token = uuid.uuid4().hex
        self.tokens.add(token)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": 3600}

    def export(self, asked: Asked) -> Answer:
        """Begin an export."""
        if "filter" not in asked.sent:
            return 400, {"error": "what is to be exported?"}
        name = str(uuid.uuid4())
        self.polls[name] = 0
        return 202, {"location": f"/v2/exports/{name}"}

    def state(self, _asked: Asked, name: str) -> Answer:
        """Answer how far an export is."""
        if name not in self.polls:
            return 404, {"error": "no such export"}
        self.polls[name] += 1
        is_ready = self.polls[name] >= POLLS
        return 200, {"id": name, "state": self.end if is_ready else "running", "parts": 1}

    def file(self, _asked: Asked, name: str) -> Answer:
        """Give all of an export at once."""
        if name not in self.polls:
            return 404, {"error": "no such export"}
        lines = (f"{row['id']},{row['email']},{row['updated']}\n" for row in CONTACTS)
        return 200, gzip.compress(("id,email,updated\n" + "".join(lines)).encode(), mtime=0)

    def file_list(self, asked: Asked) -> Answer:
        """List the files."""
        size = asked.number("per_page", 100)
        start = (asked.number("page", 1) - 1) * size
        return 200, [{"path": path} for path in sorted(self.files)][start : start + size]

    def one_file(self, _asked: Asked, path: str) -> Answer:
        """Give one file."""
        text = self.files.get(unquote(path))
        if text is None:
            return 404, {"error": "no such file"}
        return 200, gzip.compress(text.encode(), mtime=0)

    def rows(self, asked: Asked, name: str) -> Answer:
        """Return a page of an export."""
        if self.polls.get(name, 0) < POLLS:
            return 409, {"error": "not ready"}
        start, limit = asked.number("cursor", 0), asked.number("limit", 100)
        end = start + limit
        following = str(end) if end < len(CONTACTS) else None
        paging = {"next": following, "total": len(CONTACTS)}
        return 200, {"rows": CONTACTS[start:end], "paging": paging}

    def listed(self, asked: Asked) -> Answer:
        """Return a page of the surveys."""
        size = asked.number("per_page", 100)
        start = (asked.number("page", 1) - 1) * size
        found = [{"id": name, "status": status} for name, status in self.surveys.items()]
        return 200, found[start : start + size]

    def answers(self, asked: Asked, survey: str) -> Answer:
        """Return a page of the answers to a survey in a period."""
        since = datetime.fromisoformat(asked.query["since"])
        until = datetime.fromisoformat(asked.query["until"])
        days = (FIRST_DAY + timedelta(days) for days in range((LAST_DAY - FIRST_DAY).days + 1))
        found = [_reply(survey, day) for day in days if since <= day < until]
        start, limit = asked.number("offset", 0), asked.number("limit", 100)
        return 200, {"answers": found[start : start + limit], "meta": {"total": len(found)}}

    def conversions(self, asked: Asked) -> Answer:
        """Return a page of what is to be sent."""
        start, limit = asked.number("offset", 0), asked.number("limit", 100)
        return 200, CONVERSIONS[start : start + limit]

    def upload(self, asked: Asked) -> Answer:
        """Take a batch of conversions; say of each what is wrong with it."""
        given = asked.sent.get("conversions")
        if not isinstance(given, list):
            return 400, {"error": "no conversions"}
        results = [{"clickId": each["clickId"], "error": _fault(each)} for each in given]
        self.uploaded.extend(results)
        return 200, {"results": results}

    def results(self, _asked: Asked) -> Answer:
        """Return what became of all that was sent."""
        return 200, self.uploaded

    def change(self, item: str, doc: object | None) -> None:
        """Change an item, or delete it if there is no document; the change gets the next number."""
        seq = max(int(str(each["seq"])) for each in self.changes.values()) + 1
        self.changes.pop(item, None)
        self.changes[item] = {"id": item, "seq": seq} | (
            {"deleted": True} if doc is None else {"doc": doc}
        )

    def changed(self, asked: Asked) -> Answer:
        """Return a page of the changes after a number."""
        since, limit = asked.number("since", 0), asked.number("limit", 25)
        found = [each for each in self.changes.values() if int(str(each["seq"])) > since][:limit]
        return 200, {"results": found, "last_seq": found[-1]["seq"] if found else since}

    def customers(self, asked: Asked) -> Answer:
        """Return a page of the customers, which begins after the one that the caller names."""
        after, limit = asked.query.get("starting_after", ""), asked.number("limit", 10)
        found = [each for each in CUSTOMERS if each["id"] > after]
        return 200, {"data": found[:limit], "has_more": len(found) > limit}


def _reply(survey: str, day: datetime) -> dict[str, object]:
    return {
        "answerId": f"{survey}-{day:%Y%m%d}",
        "submitted": day.isoformat(),
        "values": [{"question": "How was it?", "answer": "fine"}],
    }


def _fault(conversion: dict[str, str]) -> str | None:
    return "unknown click" if conversion["clickId"] in UNKNOWN else None


_Route = tuple[str, re.Pattern[str], str, Callable[..., Answer]]
_ROUTES: tuple[_Route, ...] = tuple(
    (method, re.compile(path), scheme, route)
    for method, path, scheme, route in (
        ("POST", "/oauth2/token", "", Acme.token),
        ("POST", "/v2/exports", "Bearer", Acme.export),
        ("GET", "/v2/exports/([0-9a-f-]+)", "Bearer", Acme.state),
        ("GET", "/v2/exports/([0-9a-f-]+)/rows", "Bearer", Acme.rows),
        ("GET", "/v2/exports/([0-9a-f-]+)/file", "Bearer", Acme.file),
        ("GET", "/files", "Basic", Acme.file_list),
        ("GET", "/files/(.+)", "Basic", Acme.one_file),
        ("GET", "/api/surveys", "Basic", Acme.listed),
        ("GET", "/api/surveys/([0-9]+)/answers", "Basic", Acme.answers),
        ("GET", "/v1/conversions", "Bearer", Acme.conversions),
        ("POST", "/v1/conversions:upload", "Bearer", Acme.upload),
        ("GET", "/v1/conversions:results", "Bearer", Acme.results),
        ("GET", "/v3/items/changes", "Basic", Acme.changed),
        ("GET", "/v3/customers", "Basic", Acme.customers),
    )
)


class Handler(BaseHTTPRequestHandler):
    """One connection; HTTP/1.1, so that callers may keep it open."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: VendorServer

    def do_GET(self) -> None:
        """Answer a question."""
        self._answer(b"")

    def do_POST(self) -> None:
        """Take what is sent."""
        self._answer(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
        """Say nothing: the terminal belongs to the jobs."""

    def _answer(self, body: bytes) -> None:
        address = urlsplit(self.path)
        is_json = "json" in self.headers.get("Content-Type", "")
        asked = Asked(
            method=self.command,
            path=address.path,
            query=dict(parse_qsl(address.query)),
            form={} if is_json else dict(parse_qsl(body.decode())),
            sent=json.loads(body) if is_json and body else {},
            authorization=self.headers.get("Authorization", ""),
        )
        status, answer = self.server.acme.answer(asked)
        is_file = isinstance(answer, bytes)
        text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/gzip" if is_file else "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


class VendorServer(ThreadingHTTPServer):
    """The vendor on one loopback port; port 0 takes a free one."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.acme = Acme()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore callers that went away; show everything else."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    parser = argparse.ArgumentParser(description="Serve an invented vendor on loopback.")
    parser.add_argument("--port", type=int, default=8770, help="0 takes a free port")
    server = VendorServer(parser.parse_args(arguments).port)
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
