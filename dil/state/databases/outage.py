"""Limits the wait for a state server that went away, over all calls of one store.

A server that answered before may be restarting, so a call waits for the server. One that accepted
writes before may have been replaced by a replica that does not do so yet. The end of a run calls
the store several times: if the first of these calls waited in vain, the others do not wait.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

log = logging.getLogger(__name__)

# The longest wait in one outage, in seconds. After it no connection is tried for half that time.
RESTART_S = 20.0
_PAUSE_S = 0.25

_is_patient: ContextVar[bool] = ContextVar("dil_state_is_patient", default=True)


@contextmanager
def without_waiting() -> Iterator[None]:
    """Make calls inside the block fail at once if the server is away.

    It is for work that is repeated anyway, or that may be skipped, and that should not delay a run.
    """
    token = _is_patient.set(False)
    try:
        yield
    finally:
        _is_patient.reset(token)


class Outage:
    """The state of one server's outage."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._was_there = False
        self._deadline: float | None = None
        self._failure: Exception | None = None

    def end(self) -> None:
        """Record that the server answered."""
        if self._deadline is not None:
            log.info("the state store %s is back", self._place)
        self._was_there, self._deadline, self._failure = True, None, None

    def refuse(self) -> None:
        """Raise the last failure again while no connection should be tried.

        A call has just waited for the server in vain, and each try to reach a dead host costs a
        time-out.
        """
        if self._failure is not None and self._deadline is not None:
            if time.monotonic() < self._deadline + RESTART_S / 2:
                raise self._failure
            self._failure = None

    def pause(self, failure: Exception, text: str) -> bool:
        """Wait a moment; return whether to connect again, False if the waiting time is used up.

        Args:
            failure: The error of the last try, for ``refuse``.
            text: The same error in words, on one line.
        """
        if not (self._was_there and _is_patient.get()):
            return False
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + RESTART_S
            log.warning(
                "waiting for the state store %s, up to %g s: %s", self._place, RESTART_S, text
            )
        if now >= self._deadline:
            self._deadline, self._failure = now, failure
            return False
        time.sleep(_PAUSE_S)
        return True
