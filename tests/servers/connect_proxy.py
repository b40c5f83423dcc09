"""An HTTP proxy for tests that opens tunnels (CONNECT), always to one port of loopback."""

from __future__ import annotations

import contextlib
import http.client
import socket
import socketserver
import ssl
import threading
from base64 import b64decode
from http import HTTPStatus

from tests.servers.in_thread import InThread


class ConnectProxy(InThread):
    """Answers CONNECT with a tunnel to ``server_port``; ``asked`` are the requested targets.

    If ``status`` is not 200, the proxy refuses with that status. If ``in_one_packet`` is true, the
    first bytes of the server go in one packet with the answer to CONNECT. With a ``login`` of the
    form ``user:password``, the proxy refuses everybody else. With ``tls`` clients speak TLS to it.
    """

    def __init__(
        self,
        server_port: int,
        *,
        status: int = 200,
        in_one_packet: bool = False,
        login: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.server_port = server_port
        self.status = status
        self.in_one_packet = in_one_packet
        self.login = login
        self.asked: list[str] = []
        self._server = _Server(("127.0.0.1", 0), _Tunnel)
        self._server.proxy = self
        self._scheme = "https" if tls else "http"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    @property
    def url(self) -> str:
        """Return ``http://127.0.0.1:<port>``; with https if ``tls`` is given."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    proxy: ConnectProxy


class _Tunnel(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        """Read the request's head, then pass bytes on in both directions until both ends close."""
        method, target, _ = self.rfile.readline().decode("latin-1").split()
        head = http.client.parse_headers(self.rfile)
        proxy = self.server.proxy
        proxy.asked.append(target)
        status = proxy.status if method == "CONNECT" else HTTPStatus.METHOD_NOT_ALLOWED
        given = head.get("Proxy-Authorization", "Basic ").removeprefix("Basic ")
        if proxy.login and b64decode(given).decode() != proxy.login:
            status = HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
        if status != HTTPStatus.OK:
            self.wfile.write(f"HTTP/1.1 {status} Refused\r\nContent-Length: 0\r\n\r\n".encode())
            return
        with socket.create_connection(("127.0.0.1", proxy.server_port)) as there:
            first = there.recv(65536) if proxy.in_one_packet else b""
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n" + first)
            back = threading.Thread(target=_pass_on, args=(there, self.connection), daemon=True)
            back.start()
            _pass_on(self.connection, there)
            back.join(timeout=10)


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        finally:
            sink.shutdown(socket.SHUT_WR)
