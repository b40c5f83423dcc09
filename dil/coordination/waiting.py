"""The coordinator as connectors know it: asks the services, and does the waiting."""

from __future__ import annotations

from collections.abc import Callable

from dil.coordination.services import Services
from dil.model.secret import Secret

# A task that waits hours for its slot still hears within a minute that the quota is spent.
_LOOK_S = 30.0


class TaskCoordinator:
    """One task's coordinator; may be used from any thread of it."""

    def __init__(self, services: Services, sleep: Callable[[float], None]) -> None:
        self._services = services
        self._sleep = sleep

    def permit(self) -> float:
        """Wait until the job's rate allows one more request; return the seconds waited.

        After each wait the driver is asked again: it may have put all requests off meanwhile.

        Raises:
            QuotaError: no more requests in this run.
        """
        waited = 0.0
        ticket = self._services.ticket(None)
        while ticket.wait_s > 0:
            pause = min(ticket.wait_s, _LOOK_S)
            self._sleep(pause)
            waited += pause
            ticket = self._services.ticket(ticket)
        return waited

    def slow_down(self, seconds: float) -> None:
        """Hold back the requests of all tasks for so long."""
        self._services.slow_down(seconds)

    def quota_spent(self, why: str) -> None:
        """Let all tasks know that the source gives no more answers in this run."""
        self._services.quota_spent(why)

    def credential(self, rejected: Secret | None = None) -> Secret:
        """Return the token to send, renewed ahead of its expiry.

        Raises:
            AuthenticationError: no token is to be had.
            TransientSourceError: the driver or the giver of tokens does not answer.
        """
        return self._services.credential(rejected)

    def progress(self, *, requests: int, rows: int, size: int) -> None:
        """Report what this task did since the last report; ``size`` in bytes."""
        self._services.progress(requests, rows, size)
