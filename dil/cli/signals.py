"""SIGINT and SIGTERM end a run cleanly; a second one ends it at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from dil.errors import RunInterruptedError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn the first SIGINT or SIGTERM into ``RunInterruptedError`` in the main thread.

    Its exit code is 130 or 143. The second signal ends the process at once with that code and
    cleans up nothing; the next run does. A signal that is ignored stays ignored (``nohup``, a
    background job of a shell script). Outside the main thread nothing happens.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    handler = _Handler()
    for number, old in before.items():
        if old is not signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


class _Handler:
    """Counts; only the first signal may be answered by unwinding the stack."""

    def __init__(self) -> None:
        self._is_stopping = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._is_stopping:
            os._exit(128 + number)
        self._is_stopping = True
        raise RunInterruptedError(
            f"stopped by {signal.Signals(number).name}",
            "Run the job again: it goes on where this run stopped.",
            128 + number,
        )
