"""Makes several calls to a filesystem at a time if each waits for a network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Event, Lock, Thread
from typing import Protocol, TypeVar

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
    results: dict[int, R] = {}
    failures: dict[int, BaseException] = {}
    stopped, lock = Event(), Lock()
    numbers = iter(range(len(waiting)))

    def work() -> None:
        while not stopped.is_set():
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            try:
                results[number] = act(waiting[number])
            except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
                failures[number] = error
                stopped.set()

    # The threads are daemons, so that a process ended by a signal need not wait for a network that
    # hangs.
    _run([Thread(target=work, daemon=True) for _ in range(width)], stopped)
    if failures:
        raise failures[min(failures)]
    return [results[number] for number in range(len(waiting))]


def _run(threads: list[Thread], stopped: Event) -> None:
    """Start threads and wait for their ends; if this thread is interrupted, only for seconds."""
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        stopped.set()
        end = time.monotonic() + _GRACE_S
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(end - time.monotonic(), 0))
        raise
