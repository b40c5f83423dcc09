"""A stated fake of Google Cloud Storage: the part of its JSON API that files need, in memory.

Source: https://cloud.google.com/storage/docs/json_api/v1/objects, and "Resumable uploads" there.
Generations, the conditions on them, rewriting in steps, parts of 256 KiB, sessions that nobody
sees before they end, and refusals in the service's own words are as documented. Every request is
one atomic step, as in the service. There are no permissions; requests need a token if ``tokens`` is
set.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import threading
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.servers.in_thread import InThread

_OBJECT = re.compile(r"/storage/v1/b/([^/]+)/o/([^/]+)")
_REWRITE = re.compile(r"/storage/v1/b/([^/]+)/o/([^/]+)/rewriteTo/b/([^/]+)/o/([^/]+)")
_LIST = re.compile(r"/storage/v1/b/([^/]+)/o")
_UPLOAD = re.compile(r"/upload/storage/v1/b/([^/]+)/o")
_SPAN = re.compile(r"bytes (?:\*|(\d+)-(\d+))/(\*|\d+)")
_PART = 256 << 10
# The service sends this with the answers to uploads that have no body.
_EMPTY = {"Content-Type": "text/html; charset=UTF-8"}


class RefusedError(Exception):
    """A refusal as an answer: its status and the service's words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words


@dataclass
class Object:
    data: bytes
    generation: int
    updated: str
    about: dict[str, Any]

    def resource(self, name: str) -> dict[str, Any]:
        digest = base64.b64encode(hashlib.md5(self.data).digest()).decode()
        return {
            "name": name, "size": str(len(self.data)), "generation": str(self.generation),
            "updated": self.updated, "md5Hash": digest, **self.about,
        }  # fmt: skip


@dataclass
class Session:
    bucket: str
    name: str
    about: dict[str, Any]
    params: dict[str, str]
    data: bytearray = field(default_factory=bytearray)


class GcsServer(InThread):
    """Buckets of objects on a free loopback port, from ``with`` to its end.

    ``tokens`` are the accepted tokens, None accepts everybody. ``grant`` is the token that the
    address ``/token`` gives to every account, None refuses all accounts. ``denied`` are methods
    that are answered 403. ``rewrite_bytes`` is how much of an object one request rewrites.
    ``refusals`` are statuses for the next answers, each used once. ``requests`` are the methods and
    paths of the requests so far.
    """

    def __init__(self) -> None:
        self.buckets: dict[str, dict[str, Object]] = {}
        self.sessions: dict[str, Session] = {}
        self._ended: dict[str, dict[str, Any]] = {}
        self.tokens: frozenset[str] | None = None
        self.grant: str | None = None
        self.denied: frozenset[str] = frozenset()
        self.rewrite_bytes = sys.maxsize
        self.page = 1000
        self.refusals: list[int] = []
        self.requests: list[str] = []
        self.turn = threading.Lock()
        self._generation = 1_700_000_000_000_000
        self._rewrites: dict[str, int] = {}
        self._server = _Listener(("127.0.0.1", 0), _Handler)
        self._server.owner = self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body."""
        self.requests.append(f"{request.method} {request.path}")
        if self.refusals:
            raise RefusedError(self.refusals.pop(0), "We encountered an internal error.")
        if request.path == "/token":
            return self._grant()
        self._admit(request)
        if match := _REWRITE.fullmatch(request.path):
            return self._rewrite(request, *(unquote(part) for part in match.groups()))
        if match := _OBJECT.fullmatch(request.path):
            return self._object(request, unquote(match[1]), unquote(match[2]))
        if (match := _LIST.fullmatch(request.path)) and request.method == "GET":
            return _ok(self._list(self._bucket(match[1]), request.params))
        if match := _UPLOAD.fullmatch(request.path):
            return self._upload(request, match[1])
        raise RefusedError(404, "Not Found")

    def put(
        self, bucket: str, name: str, data: bytes, about: dict[str, Any] | None = None
    ) -> Object:
        """Write an object without a request."""
        self._generation += 1
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        made = Object(bytes(data), self._generation, stamp, about or {})
        self.buckets[bucket][name] = made
        return made

    def _admit(self, request: Request) -> None:
        if self.tokens is not None and request.token not in self.tokens:
            raise RefusedError(401, "Invalid Credentials")
        if request.method in self.denied:
            raise RefusedError(403, "dil@example.com does not have storage.objects access.")

    def _grant(self) -> tuple[int, dict[str, str], bytes]:
        """Answer as a token server does, RFC 6749 5."""
        if self.grant is None:
            return 400, {}, b'{"error":"invalid_grant","error_description":"Invalid signature."}'
        return _ok({"access_token": self.grant, "expires_in": 3600, "token_type": "Bearer"})

    def _bucket(self, name: str) -> dict[str, Object]:
        if name not in self.buckets:
            raise RefusedError(404, "The specified bucket does not exist.")
        return self.buckets[name]

    def _found(self, bucket: str, name: str) -> Object:
        found = self._bucket(bucket).get(name)
        if found is None:
            raise RefusedError(404, f"No such object: {bucket}/{name}")
        return found

    def _require(self, bucket: str, name: str, wanted: str | None) -> None:
        """Obey ``ifGenerationMatch``: 0 asks that there is no object."""
        found = self._bucket(bucket).get(name)
        if wanted is not None and int(wanted) != (found.generation if found else 0):
            raise RefusedError(
                412, "At least one of the pre-conditions you specified did not hold."
            )

    def _object(
        self, request: Request, bucket: str, name: str
    ) -> tuple[int, dict[str, str], bytes]:
        found = self._found(bucket, name)
        self._require(bucket, name, request.params.get("ifGenerationMatch"))
        if request.method == "DELETE":
            del self.buckets[bucket][name]
            return 204, {}, b""
        if request.params.get("alt") != "media":
            return _ok(found.resource(name))
        headers = {"X-Goog-Generation": str(found.generation)}
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
        if span is None:
            return 200, headers, found.data
        start, end = int(span[1]), min(int(span[2]), len(found.data) - 1)
        if start > end:
            raise RefusedError(416, "The requested range cannot be satisfied.")
        headers["Content-Range"] = f"bytes {start}-{end}/{len(found.data)}"
        return 206, headers, found.data[start : end + 1]

    def _list(self, bucket: dict[str, Object], params: dict[str, str]) -> dict[str, Any]:
        prefix, delimiter = params.get("prefix", ""), params.get("delimiter")
        names = sorted((n for n in bucket if n.startswith(prefix)), key=str.encode)
        entries: dict[str, Object | None] = {}
        for name in names:
            head, sign, _ = name[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            entries |= {f"{prefix}{head}{sign}": None} if sign else {name: bucket[name]}
        most = min(int(params.get("maxResults", self.page)), self.page)
        after = [n for n in entries if n.encode() > params.get("pageToken", "").encode()]
        shown = after[:most]
        page: dict[str, Any] = {"kind": "storage#objects"}
        if items := [each.resource(n) for n in shown if (each := entries[n])]:
            page["items"] = items
        if prefixes := [n for n in shown if entries[n] is None]:
            page["prefixes"] = prefixes
        if len(after) > most:
            page["nextPageToken"] = shown[-1]
        return page

    def _rewrite(
        self, request: Request, bucket: str, name: str, into: str, target: str
    ) -> tuple[int, dict[str, str], bytes]:
        source, params = self._found(bucket, name), request.params
        self._require(bucket, name, params.get("ifSourceGenerationMatch"))
        self._require(into, target, params.get("ifGenerationMatch"))
        token = params.get("rewriteToken") or uuid.uuid4().hex
        done = self._rewrites.get(token, 0) + self.rewrite_bytes
        if done < len(source.data):
            self._rewrites[token] = done
            return _ok({"done": False, "rewriteToken": token})
        made = self.put(into, target, source.data, json.loads(request.body or b"{}"))
        return _ok({"done": True, "resource": made.resource(target)})

    def _upload(self, request: Request, bucket: str) -> tuple[int, dict[str, str], bytes]:
        params = request.params
        self._bucket(bucket)
        if "upload_id" in params:
            return self._continue(request, params["upload_id"])
        if params["uploadType"] == "resumable":
            token = uuid.uuid4().hex
            about = json.loads(request.body or b"{}")
            self.sessions[token] = Session(bucket, params["name"], about, params)
            host = request.headers["Host"]
            place = f"http://{host}{request.path}?uploadType=resumable&upload_id={token}"
            return 200, {"Location": place, **_EMPTY}, b""
        head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
        first, _ = BytesParser().parsebytes(head + request.body).get_payload()
        about = json.loads(first.get_payload())
        # The parser decodes lines, but the content is the bytes between the boundaries.
        boundary = request.headers["Content-Type"].partition("boundary=")[2].encode()
        part = request.body.split(b"--" + boundary, 2)[2].rpartition(b"\r\n--" + boundary)[0]
        data = part.partition(b"\r\n\r\n")[2]
        self._require(bucket, about["name"], params.get("ifGenerationMatch"))
        if about.pop("md5Hash", None) not in (None, _md5(data)):
            raise RefusedError(400, "Provided MD5 hash does not match.")
        name = about.pop("name")
        return _ok(self.put(bucket, name, data, about).resource(name))

    def _continue(self, request: Request, token: str) -> tuple[int, dict[str, str], bytes]:
        session = self.sessions.get(token)
        if token in self._ended and request.method == "PUT":
            return _ok(self._ended[token])
        if session is None:
            raise RefusedError(404, "The upload session does not exist.")
        if request.method == "DELETE":
            del self.sessions[token]
            return 499, _EMPTY, b""
        start, _, total = _SPAN.fullmatch(request.headers["Content-Range"]).groups()
        if start is not None:
            if int(start) > len(session.data):
                raise RefusedError(503, "The offset is beyond what has been received.")
            fresh = request.body[len(session.data) - int(start) :]
            if total == "*" and (len(session.data) + len(fresh)) % _PART:
                fresh = fresh[: len(fresh) - (len(session.data) + len(fresh)) % _PART]
            session.data += fresh
        if total != "*" and len(session.data) == int(total):
            self._require(session.bucket, session.name, session.params.get("ifGenerationMatch"))
            del self.sessions[token]
            made = self.put(session.bucket, session.name, session.data, session.about)
            self._ended[token] = made.resource(session.name)
            return _ok(self._ended[token])
        there = {"Range": f"bytes=0-{len(session.data) - 1}"} if session.data else {}
        return 308, {**there, **_EMPTY}, b""


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    params: dict[str, str]
    headers: Any
    body: bytes

    @property
    def token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    owner: GcsServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = urlsplit(self.path)
        request = Request(
            self.command, parts.path, dict(parse_qsl(parts.query)), self.headers, body
        )
        owner = self.server.owner
        try:
            with owner.turn:
                status, headers, data = owner.answer(request)
        except RefusedError as error:
            status, headers = error.status, {}
            data = json.dumps({"error": {"code": status, "message": error.words}}).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _ok(about: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, json.dumps(about).encode()


def _md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data).digest()).decode()
