"""Makes several calls to a filesystem at a time if each waits for a network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Event, Lock, Thread
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")
# The seconds that an interruption waits for calls that have begun.
_GRACE_S = 5.0


class MaybeRemote(Protocol):
    """An object that may send its requests over a network."""

    @property
    def parallel_requests(self) -> int:
        """Return the useful number of requests to send at a time."""


def call_each(place: MaybeRemote, act: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return the result of ``act`` for each item, in the items' order.

    For a remote place up to ``parallel_requests`` calls run at a time. After a call has failed, or
    this thread was interrupted, no other call begins. Calls that have begun are finished first, so
    that no call runs after this function has returned or raised. After a signal this function waits
    for some seconds only. Then calls may still run, just as a service may still carry out a request
    that it has received.

    Raises:
        Exception: the error of the first item that failed.
    """
    waiting = list(items)
    width = min(place.parallel_requests, len(waiting))
    if width <= 1:
        return [act(item) for item in waiting]
    return _Calls(act, waiting).made(width)


class _Calls(Generic[T, R]):
    """Calls that threads take one by one, in order."""

    def __init__(self, act: Callable[[T], R], items: list[T]) -> None:
        self._act = act
        self._items = items
        self._results: dict[int, R] = {}
        self._failures: dict[int, BaseException] = {}
        self._stopped = Event()
        self._numbers = iter(range(len(items)))
        self._lock = Lock()

    def made(self, width: int) -> list[R]:
        # The threads are daemons, so that a process ended by a signal need not wait for a network
        # that hangs.
        threads = [Thread(target=self._work, daemon=True) for _ in range(width)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:
            self._stopped.set()
            end = time.monotonic() + _GRACE_S
            for thread in threads:
                if thread.ident is not None:
                    thread.join(max(end - time.monotonic(), 0))
            raise
        if self._failures:
            raise self._failures[min(self._failures)]
        return [self._results[number] for number in range(len(self._items))]

    def _work(self) -> None:
        while not self._stopped.is_set():
            with self._lock:
                number = next(self._numbers, None)
            if number is None:
                return
            try:
                self._results[number] = self._act(self._items[number])
            except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
                self._failures[number] = error
                self._stopped.set()
