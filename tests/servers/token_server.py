"""An authorization server for tests: three grants, rotation, faults, and a log of forms.

In a test::

    with TokenServer(lifetime_s=3600, rotates=True) as server:
        server.replies.append((503, {}, b"later"))  # answered before anything else
        ...  # POST to server.url
        assert server.forms[-1]["grant_type"] == "refresh_token"

It knows the client ``dil`` with the secret ``client-s3cret``, the user ``ann`` with the password
``pass-w0rd``, and the refresh token ``refresh-0``. Tokens are ``access-1``, ``access-2`` and so on,
refresh tokens ``refresh-1`` and so on. If ``rotates`` is true, a refresh token is good for one use.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote_plus

from tests.servers.in_thread import InThread

CLIENT, CLIENT_SECRET = "dil", "client-s3cret"
USER, PASSWORD = "ann", "pass-w0rd"
FIRST_REFRESH = "refresh-0"

Reply = tuple[int, Mapping[str, str], bytes]


class TokenServer(InThread):
    """The server in a thread of this process, on a free loopback port.

    ``issued`` is called with each new access token before it is answered.
    """

    def __init__(
        self,
        *,
        lifetime_s: object = 3600,
        rotates: bool = False,
        issued: Callable[[str], None] = lambda token: None,
    ) -> None:
        self.lifetime_s = lifetime_s
        self.rotates = rotates
        self.issued = issued
        self.replies: list[Reply] = []
        self.forms: list[dict[str, str]] = []
        self.headers: list[Mapping[str, str]] = []
        self.refresh_token = FIRST_REFRESH
        self.tokens = 0
        self.lock = threading.Lock()
        self._server = _Server(self)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/token"

    def answer(self, form: dict[str, str], headers: Mapping[str, str]) -> Reply:
        with self.lock:
            self.forms.append(form)
            self.headers.append(headers)
            if self.replies:
                return self.replies.pop(0)
            refused = self._refused(form, headers)
            return _json(400, refused) if refused else _json(200, self._granted(form))

    def _refused(self, form: dict[str, str], headers: Mapping[str, str]) -> dict[str, str]:
        if _client(form, headers) != (CLIENT, CLIENT_SECRET):
            return {"error": "invalid_client", "error_description": "who is that?"}
        good = {
            "client_credentials": True,
            "password": (form.get("username"), form.get("password")) == (USER, PASSWORD),
            "refresh_token": form.get("refresh_token") == self.refresh_token,
        }.get(form.get("grant_type", ""))
        if good is None:
            return {"error": "unsupported_grant_type"}
        shown = form.get("refresh_token", form.get("password", ""))
        return {} if good else {"error": "invalid_grant", "error_description": f"no: {shown}"}

    def _granted(self, form: dict[str, str]) -> dict[str, object]:
        self.tokens += 1
        token = f"access-{self.tokens}"
        self.issued(token)
        found: dict[str, object] = {"access_token": token, "token_type": "Bearer"}
        if self.lifetime_s is not None:
            found["expires_in"] = self.lifetime_s
        if form["grant_type"] == "refresh_token" and self.rotates:
            self.refresh_token = f"refresh-{self.tokens}"
            found["refresh_token"] = self.refresh_token
        return found


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, owner: TokenServer) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - inherited name
        """Say nothing on stderr."""

    def do_POST(self) -> None:
        given = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        form = dict(parse_qsl(given, keep_blank_values=True))
        status, headers, body = self.server.owner.answer(form, dict(self.headers))
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _client(form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[str, str]:
    kind, _, text = headers.get("Authorization", "").partition(" ")
    if kind == "Basic":
        name, _, secret = base64.b64decode(text).decode().partition(":")
        return unquote_plus(name), unquote_plus(secret)
    return form.get("client_id", ""), form.get("client_secret", "")


def _json(status: int, members: Mapping[str, object]) -> Reply:
    return status, {"Content-Type": "application/json"}, json.dumps(members).encode()
