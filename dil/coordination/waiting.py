"""The coordinator that connectors see: it uses the services, and waits for slots."""

from __future__ import annotations

from collections.abc import Callable

from dil.coordination.services import Services
from dil.model.secret import Secret

# So a task that waits hours for its slot learns within a minute that the quota is used up.
_LOOK_S = 30.0


class TaskCoordinator:
    """One task's coordinator; any thread of the task may use it."""

    def __init__(self, services: Services, sleep: Callable[[float], None]) -> None:
        self._services = services
        self._sleep = sleep

    def permit(self) -> float:
        """Wait until the job's rate allows one more request; return the seconds waited.

        After each wait the driver is asked again: it may have postponed all requests meanwhile.

        Raises:
            QuotaError: this run may send no more requests.
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
        """Hold back the requests of all tasks for ``seconds``."""
        self._services.slow_down(seconds)

    def quota_spent(self, why: str) -> None:
        """Report to all tasks that the source gives no more answers in this run."""
        self._services.quota_spent(why)

    def credential(self, rejected: Secret | None = None) -> Secret:
        """Return the token to send; the driver renews it before it expires.

        Raises:
            AuthenticationError: no token can be fetched.
            TransientSourceError: the driver or the server of tokens does not answer.
        """
        return self._services.credential(rejected)

    def progress(self, *, requests: int, rows: int, size: int) -> None:
        """Report the work of this task since the last report; ``size`` is in bytes."""
        self._services.progress(requests, rows, size)
