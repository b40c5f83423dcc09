"""A TCP proxy that breaks connections, hangs, and lets a test act between two requests."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable
from typing import NoReturn, Self


class _CutError(OSError):
    """The proxy has to break a connection here."""


class MeddlingProxy:
    """Passes bytes between clients and a server on loopback, and meddles as a test asks.

    ``connections`` counts the opened connections, ``cuts`` the broken ones.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self.cuts = 0
        self.failures: list[Exception] = []
        self._limit: int | None = None
        self._times = 0
        self._acts: list[tuple[bytes, Callable[[], object]]] = []
        self._unanswered: bytes | None = None
        self._refuses_after_cut = False
        self._flowing = threading.Event()
        self._flowing.set()
        self._closed = False
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._flowing.set()
        self._thread.join(timeout=10)
        self._listener.close()

    def cut_after(self, size: int, *, times: int = 1) -> None:
        """Reset a connection after the server has answered more than ``size`` bytes on it."""
        self._limit, self._times = size, times

    def act_before(self, request: bytes, act: Callable[[], object]) -> None:
        """Call ``act`` once, before the proxy passes on the first request with these bytes."""
        self._acts.append((request, act))

    def cut_before(self, request: bytes) -> None:
        """Break the connection that sends ``request`` next, before the server sees it."""
        self.act_before(request, self._cut)

    def cut_answer_after(self, request: bytes, *, for_good: bool = False) -> None:
        """Pass ``request`` on, and break the connection when its answer arrives.

        If ``for_good`` is true, the proxy refuses all connections from then on.
        """
        self._unanswered, self._refuses_after_cut = request, for_good

    def hang(self) -> None:
        """Keep connections open and pass nothing on."""
        self._flowing.clear()

    def go_on(self) -> None:
        self._flowing.set()

    def _accept(self) -> None:
        while not self._closed:
            with contextlib.suppress(OSError):
                client, _ = self._listener.accept()
                if self._refuses_after_cut and self.cuts:
                    client.close()
                    continue
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
        is_doomed = False
        # Not select(): it fails for descriptors above 1023, which a process of many tests has.
        both = select.poll()
        sources = {each.fileno(): each for each in (client, server)}
        for number in sources:
            both.register(number, select.POLLIN)
        while not self._closed:
            ready = both.poll(100)
            self._flowing.wait()
            for source in (sources[number] for number, _ in ready):
                data = source.recv(1 << 14)
                if not data:
                    return
                if source is client:
                    self._act(data)
                    is_doomed = is_doomed or self._is_unanswered(data)
                    server.sendall(data)
                    continue
                answered += len(data)
                if is_doomed:
                    self._cut()
                if self._is_cut(answered):
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
                client.sendall(self.answer(data))

    def answer(self, data: bytes) -> bytes:
        """Return the bytes to pass on for the bytes of an answer; for subclasses."""
        return data

    def _act(self, data: bytes) -> None:
        with self._lock:
            due = [each for each in self._acts if each[0] in data]
            self._acts = [each for each in self._acts if each not in due]
        for _, act in due:
            try:
                act()
            except _CutError:
                raise
            except Exception as error:  # noqa: BLE001 - the test looks at it
                self.failures.append(error)

    def _is_unanswered(self, data: bytes) -> bool:
        if self._unanswered is None or self._unanswered not in data:
            return False
        self._unanswered = None
        return True

    def _cut(self) -> NoReturn:
        self.cuts += 1
        raise _CutError

    def _is_cut(self, answered: int) -> bool:
        with self._lock:
            if self._limit is None or answered <= self._limit or not self._times:
                return False
            self._times -= 1
            self.cuts += 1
            return True
