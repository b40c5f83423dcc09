"""Several calls of a filesystem at a time, where each waits for a network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Event, Lock, Thread
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")
# How long, in seconds, an interruption waits for the calls that are under way.
_GRACE_S = 5.0


class MaybeRemote(Protocol):
    """Something that is asked over a network, or is not."""

    @property
    def parallel_requests(self) -> int:
        """How many requests are worth sending at a time."""


def call_each(place: MaybeRemote, act: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return what ``act`` makes of each item, in their order.

    On a place that is far away up to ``parallel_requests`` calls are under way at a time. None
    begins after one has failed, or after this thread was interrupted. Those under way come to their
    end first, so that none is once this has returned or raised; only a signal is not kept waiting
    for long, and leaves them as it would leave a request that the service has got.

    Raises:
        Exception: what the first of the items that failed raised.
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
        # Daemons: where a signal ends the process it need not wait for a network that hangs.
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
            except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
                self._failures[number] = error
                self._stopped.set()
