"""Offers the services on a port of the driver, with one thread for each connected task."""

from __future__ import annotations

import logging
import multiprocessing
import secrets
import socket
import threading
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

import msgspec

from dil.coordination import wire
from dil.coordination.services import RunServices
from dil.errors import DilError, ExecutionError
from dil.model.task import CoordinatorAddress

log = logging.getLogger(__name__)
_KEY_BYTES = 32
_BACKLOG = 512
_BREATH_S = 0.2
# The most callers that have not proved the key; each holds a thread for ten seconds at most.
_MOST_STRANGERS = 128


class CoordinatorServer:
    """Listens from its creation until it is closed; runs on the driver.

    Args:
        services: The services that answer.
        host: The address to listen at; a free port is used.
        reached_at: The host name by which tasks reach this machine; by default ``host``.
        tasks: The number of tasks that run at once.

    Raises:
        ExecutionError: this machine cannot listen at that address.
    """

    def __init__(
        self, services: RunServices, host: str, reached_at: str = "", tasks: int = 1
    ) -> None:
        self._services = services
        self._key = secrets.token_bytes(_KEY_BYTES)
        self._open: set[Connection] = set()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._strangers = threading.BoundedSemaphore(_MOST_STRANGERS)
        self._listener = _listening(host)
        self.address = CoordinatorAddress(
            reached_at or host, self._listener.getsockname()[1], self._key, max(1, tasks)
        )
        self._acceptor = threading.Thread(target=self._accept, daemon=True, name="dil-coordinator")
        self._acceptor.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and end every connection; may be called twice."""
        if self._closing.is_set():
            return
        self._closing.set()
        try:
            # On some systems nothing but a connection wakes a thread that waits in accept.
            socket.create_connection(self._listener.getsockname()[:2], timeout=1).close()
            self._acceptor.join()
        except OSError as error:
            log.debug("the coordinator's listener did not wake: %s", error)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                _hang_up(connection)

    def _accept(self) -> None:
        while not self._closing.is_set():
            if not self._strangers.acquire(timeout=_BREATH_S):
                continue  # further callers wait in the backlog
            try:
                link, _ = self._listener.accept()
            except OSError as error:  # out of descriptors, or the caller closed at once
                self._strangers.release()
                log.debug("the coordinator lost a caller: %s", error)
                self._closing.wait(_BREATH_S)
                continue
            if self._closing.is_set():
                link.close()
                return
            threading.Thread(
                target=self._serve, args=(link,), daemon=True, name="dil-coordinator-task"
            ).start()

    def _serve(self, link: socket.socket) -> None:
        """Answer one task until it closes the connection."""
        try:
            connection = wire.greet(link, self._key, as_server=True)
        except (OSError, EOFError, multiprocessing.AuthenticationError) as error:
            log.debug("a caller of the coordinator was turned away: %s", type(error).__name__)
            return
        finally:
            self._strangers.release()
        with self._lock:
            self._open.add(connection)
        try:
            while not self._closing.is_set():
                question = wire.question(connection)
                answer: wire.Answer
                try:
                    answer = self._answer(question)
                except DilError as error:
                    answer = wire.refusal(error)
                wire.send(connection, answer)
        except (OSError, EOFError, ValueError, msgspec.MsgspecError) as error:
            log.debug("a task hung up: %s", type(error).__name__)
        finally:
            with self._lock:
                self._open.discard(connection)
                connection.close()

    def _answer(self, question: wire.Question) -> wire.Answer:
        match question:
            case wire.AskTicket(earlier):
                return wire.GiveTicket(self._services.ticket(earlier))
            case wire.AskSpent():
                return wire.GiveSpent(self._services.spent())
            case wire.AskCredential(sealed):
                rejected = None if sealed is None else wire.unseal(sealed, self._key)
                return wire.GiveCredential(
                    wire.seal(self._services.credential(rejected), self._key)
                )
            case wire.TellSlowDown(seconds):
                self._services.slow_down(seconds)
            case wire.TellQuotaSpent(why):
                self._services.quota_spent(why)
            case wire.TellProgress(requests, rows, size):
                self._services.progress(requests, rows, size)
        return wire.Done()


def _listening(host: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, 0), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ExecutionError(
            f"the driver cannot listen at {host or 'any address'} for its tasks: {error}",
            "Set spark.driver.bindAddress to an address of the driver's machine.",
        ) from error


def _hang_up(connection: Connection) -> None:
    """Wake the thread that reads from a connection; that thread closes it."""
    with socket.socket(fileno=connection.fileno()) as link:
        try:
            link.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            log.debug("a task was gone already: %s", error)
        finally:
            link.detach()
