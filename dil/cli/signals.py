"""Lets SIGINT and SIGTERM end a run cleanly, and a second signal end it at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STOPPING = b"stopping before the next micro-batch; a second signal cuts one that runs\n"


class Interruption(KeyboardInterrupt):
    """A signal asked the process to end; ``exit_code`` is 128 + the signal's number.

    This is no ``Exception``, on purpose: some libraries turn any ``Exception`` into an error of
    their own (py4j makes it a network error), and must not swallow this.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn the first SIGINT or SIGTERM into ``Interruption`` in the main thread.

    The exit code is 130 or 143. The second signal ends the process at once with that code and
    cleans up nothing; the next run cleans up. A signal that is ignored stays ignored (``nohup``, a
    background job of a shell script). Outside the main thread nothing happens.
    """
    with _handled_by(_Handler()):
        yield


class Stop:
    """Says whether a signal asked the stream to end."""

    def __init__(self) -> None:
        self._is_asked = False

    def __call__(self) -> bool:
        """Return whether a signal came."""
        return self._is_asked

    def note(self) -> bool:
        """Record a signal; return whether it is the first signal."""
        is_first, self._is_asked = not self._is_asked, True
        return is_first


@contextlib.contextmanager
def stoppable() -> Iterator[Stop]:
    """Let the first SIGINT or SIGTERM end a stream between two micro-batches.

    The second signal raises ``Interruption``, which stops the micro-batch; the third signal ends
    the process at once. Use this inside ``interruptible``, whose handlers it replaces.
    """
    stop, inner = Stop(), _Handler()

    def handler(number: int, frame: FrameType | None) -> None:
        if stop.note():
            with contextlib.suppress(OSError):  # a log call may be interrupted
                os.write(2, _STOPPING)
        else:
            inner(number, frame)

    with _handled_by(handler):
        yield stop


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle signals that are not ignored, in the main thread; do nothing in other threads."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    found = {number: signal.getsignal(number) for number in _SIGNALS}
    # None: a handler that Python did not set and cannot restore.
    before = {number: old for number, old in found.items() if old not in {None, signal.SIG_IGN}}
    for number in before:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


class _Handler:
    """Counts signals; only the first may unwind the stack."""

    def __init__(self) -> None:
        self._is_stopping = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._is_stopping:
            os._exit(128 + number)
        self._is_stopping = True
        raise Interruption(number)
