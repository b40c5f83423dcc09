"""A TCP proxy that cuts answers short, and lets a test act between two requests."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self


class MeddlingProxy:
    """Passes bytes between clients and a server on loopback, and meddles as it is told.

    ``connections`` counts those that were opened, ``cuts`` those that were broken.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self.cuts = 0
        self._limit: int | None = None
        self._times = 0
        self._acts: list[tuple[bytes, Callable[[], object]]] = []
        self._closed = False
        self._lock = threading.Lock()
        self.failures: list[Exception] = []

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
        self._thread.join(timeout=10)
        self._listener.close()

    def cut_after(self, size: int, *, times: int = 1) -> None:
        """Reset connections once the server has answered more than ``size`` bytes on them."""
        self._limit, self._times = size, times

    def act_before(self, request: bytes, act: Callable[[], object]) -> None:
        """Call ``act`` once, before the first request that holds these bytes is passed on."""
        self._acts.append((request, act))

    def _accept(self) -> None:
        while not self._closed:
            with contextlib.suppress(OSError):
                client, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            server = socket.create_connection(("127.0.0.1", self._server_port))
            with server:
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._pass_on(client, server)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        answered = 0
        while not self._closed:
            ready, _, _ = select.select([client, server], [], [], 0.1)
            for source in ready:
                data = source.recv(1 << 14)
                if not data:
                    return
                if source is client:
                    self._act(data)
                    server.sendall(data)
                    continue
                answered += len(data)
                if self._is_cut(answered):
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
                client.sendall(self.answer(data))

    def answer(self, data: bytes) -> bytes:
        """Return what is passed on of an answer; for subclasses."""
        return data

    def _act(self, data: bytes) -> None:
        with self._lock:
            due = [each for each in self._acts if each[0] in data]
            self._acts = [each for each in self._acts if each not in due]
        for _, act in due:
            try:
                act()
            except Exception as error:  # noqa: BLE001 - the test looks at it
                self.failures.append(error)

    def _is_cut(self, answered: int) -> bool:
        with self._lock:
            if self._limit is None or answered <= self._limit or not self._times:
                return False
            self._times -= 1
            self.cuts += 1
            return True
