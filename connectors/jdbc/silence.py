"""Runs calls of a driver in C beside the caller, because such a call cannot be ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def started(call: Callable[[], Result]) -> Future[Result]:
    """Start a driver's call in a thread of its own, and return its coming result.

    Until the call has ended, the caller must neither use nor close the connection.
    """
    answer: Future[Result] = Future()

    def ask() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
            answer.set_exception(error)

    # A daemon: a process that ends does not wait for the server.
    threading.Thread(target=ask, daemon=True, name="dil-silence").start()
    return answer
