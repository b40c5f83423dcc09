"""A TCP proxy that breaks connections at a chosen moment of the conversation."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from types import TracebackType
from typing import Self


class CuttingProxy:
    """Passes bytes between clients and a server on loopback until it is told to break.

    Only one thing is armed at a time; ``cuts`` counts the connections that were broken.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0
        self._before: bytes | None = None
        self._after: bytes | None = None
        self._for_good = False
        self._closed = False
        self._flowing = threading.Event()
        self._flowing.set()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed = True
        self._flowing.set()
        self._thread.join(timeout=10)
        self._listener.close()

    def cut_before(self, request: bytes) -> None:
        """Break the connection that sends ``request`` next, before the server sees it."""
        self._before = request

    def cut_answer_after(self, request: bytes, *, for_good: bool = False) -> None:
        """Pass ``request`` on, and break the connection when its answer arrives.

        ``for_good`` refuses all connections from then on.
        """
        self._after, self._for_good = request, for_good

    def hang(self) -> None:
        """Keep connections open and pass nothing on."""
        self._flowing.clear()

    def go_on(self) -> None:
        self._flowing.set()

    def _accept(self) -> None:
        while not self._closed:
            with contextlib.suppress(OSError):
                client, _ = self._listener.accept()
                if self._for_good and self.cuts:
                    client.close()
                    continue
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._server_port)) as server:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(OSError):
                self._pass_on(client, server)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        is_doomed = False
        while not self._closed:
            ready, _, _ = select.select([client, server], [], [], 0.1)
            self._flowing.wait()
            for source in ready:
                data = source.recv(1 << 16)
                if not data:
                    return
                if source is client:
                    if self._before is not None and self._before in data:
                        self._before = None
                        self.cuts += 1
                        return
                    if self._after is not None and self._after in data:
                        self._after, is_doomed = None, True
                    server.sendall(data)
                elif is_doomed:
                    self.cuts += 1
                    return
                else:
                    client.sendall(data)
