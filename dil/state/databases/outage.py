"""How long a state server that went away is waited for, in all calls of one store together.

A server that answered before may be starting again, so a call waits for it. The end of a run asks
the store several times: what the first of these calls waited in vain, the others do not wait again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

log = logging.getLogger(__name__)

# All waiting of one outage, in seconds. After that the server is left alone for half as long.
RESTART_S = 20.0
_PAUSE_S = 0.25

_is_patient: ContextVar[bool] = ContextVar("dil_state_is_patient", default=True)


@contextmanager
def without_waiting() -> Iterator[None]:
    """Make calls inside the block fail at once when the server is away.

    For what is tried again anyway, or does no harm undone; it uses up no time of the run.
    """
    token = _is_patient.set(False)
    try:
        yield
    finally:
        _is_patient.reset(token)


class Outage:
    """What one store knows about the absence of its server."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._was_there = False
        self._deadline: float | None = None
        self._failure: Exception | None = None

    def end(self) -> None:
        """Take note that the server answered."""
        if self._deadline is not None:
            log.info("the state store %s is back", self._place)
        self._was_there, self._deadline, self._failure = True, None, None

    def refuse(self) -> None:
        """Raise the last failure again while the server is left alone.

        It was waited for in vain a moment ago, and a host that is gone costs a time-out each time
        that it is asked.
        """
        if self._failure is not None and self._deadline is not None:
            if time.monotonic() < self._deadline + RESTART_S / 2:
                raise self._failure
            self._failure = None

    def pause(self, failure: Exception, text: str) -> bool:
        """Wait a moment and say whether to connect again; False when the time is used up.

        Args:
            failure: Why the server could not be reached, for ``refuse``.
            text: The same in words, on one line.
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
