"""Limits how long a driver in C waits for a server, because such a call cannot be ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

Result = TypeVar("Result")


class SilentServerError(Exception):
    """The server did not answer in time; ``call`` is done when its driver's call has ended."""

    def __init__(self, call: Future[Any]) -> None:
        super().__init__()
        self.call = call


def within(seconds: float, call: Callable[[], Result]) -> Result:
    """Return the result of a driver's call; wait at most ``seconds`` for it, or without limit if 0.

    The call runs in a thread of its own, which stays behind if the time is over. Until the call has
    ended, the caller must neither use nor close the connection.

    Raises:
        SilentServerError: the time is over.
    """
    if not seconds:
        return call()
    answer: Future[Result] = Future()

    def ask() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
            answer.set_exception(error)

    # A daemon: a process that ends does not wait for the server.
    threading.Thread(target=ask, daemon=True, name="dil-silence").start()
    if not wait([answer], timeout=seconds).done:
        raise SilentServerError(answer)
    return answer.result()
