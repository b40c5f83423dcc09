"""Services of the driver for all tasks of a run: rate, budget, token, and the tasks' totals.

Connectors see them as a coordinator, which uses the services, and waits for slots.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dil.coordination.pace import Pace, Ticket
from dil.coordination.tokens import TokenKeeper
from dil.errors import AuthenticationError, QuotaError
from dil.model.job import Job
from dil.model.secret import Secret
from dil.sections.http import BUDGET, LimitsSection
from dil.spi.coordination import CredentialSource

_BUDGET_FIX = f"The next run continues; raise {BUDGET} to do more in one run."
_QUOTA_FIX = "The next run reads what is missing."
# So a task that waits hours for its slot learns within a minute that the quota is used up.
_LOOK_S = 30.0


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """A run's limits: seconds between requests, and requests in all; 0 means no limit.

    Repeated requests count, too: each repetition needs a permit.
    """

    interval_s: float = 0.0
    most_requests: int = 0

    @classmethod
    def of(cls, job: Job) -> RequestLimits:
        """Read the properties of a job."""
        limits = job.properties.section(LimitsSection)
        rate = limits.rate_limit
        return cls(rate.interval_s if rate else 0.0, limits.max_requests)

    def __bool__(self) -> bool:
        return bool(self.interval_s or self.most_requests)


@dataclass(frozen=True, slots=True)
class SharedTotals:
    """The totals of all tasks so far, without repeated requests; ``size`` in bytes."""

    requests: int = 0
    rows: int = 0
    size: int = 0


class Services(Protocol):
    """The driver's services for a task, in this process or over a connection to the driver."""

    def ticket(self, earlier: Ticket | None) -> Ticket:
        """Return the ticket for the next request; ``earlier`` is a ticket whose wait is over.

        Raises:
            QuotaError: this run may send no more requests.
        """

    def slow_down(self, seconds: float) -> None:
        """Hold back the requests of all tasks for ``seconds``."""

    def quota_spent(self, why: str) -> None:
        """Refuse every request from now on."""

    def spent(self) -> str:
        """Return why this run sends no more requests; empty while it sends them."""

    def credential(self, rejected: Secret | None) -> Secret:
        """Return the token to send.

        Raises:
            AuthenticationError: no token can be fetched.
        """

    def progress(self, requests: int, rows: int, size: int) -> None:
        """Add to the totals of all tasks."""


class RunServices:
    """The services themselves, on the driver or in a single process; many threads may use them.

    Args:
        limits: The limits of the run.
        source: Fetches tokens; None if the job needs none.
        clock: Returns the seconds of a clock that never goes back.
    """

    def __init__(
        self,
        limits: RequestLimits,
        source: CredentialSource | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._pace = Pace(limits.interval_s, clock)
        self._tokens = None if source is None else TokenKeeper(source, clock)
        self._lock = threading.Lock()
        self._granted = 0
        self._spent: QuotaError | None = None
        self._totals = SharedTotals()

    @property
    def granted(self) -> int:
        """Return the number of requests that were permitted so far."""
        return self._granted

    @property
    def totals(self) -> SharedTotals:
        """Return the totals that all tasks reported so far."""
        return self._totals

    def ticket(self, earlier: Ticket | None = None) -> Ticket:
        """Return the next slot, or an earlier slot with the rest of its wait.

        Raises:
            QuotaError: the budget is used up, or a task found the source's quota used up.
        """
        with self._lock:
            if earlier is None and self._spent is None:
                most = self._limits.most_requests
                if not most or self._granted < most:
                    self._granted += 1
                else:
                    noun = "request is" if most == 1 else "requests are"
                    what = f"the {most:,} {noun} sent that {BUDGET} allows one run"
                    self._spent = QuotaError(what, _BUDGET_FIX)
            if self._spent is not None:
                raise QuotaError(self._spent.message, self._spent.fix)
        return self._pace.take() if earlier is None else self._pace.again(earlier)

    def slow_down(self, seconds: float) -> None:
        """Hold back the requests of all tasks for ``seconds``."""
        self._pace.hold(seconds)

    def quota_spent(self, why: str) -> None:
        """Refuse every request from now on; the first reason is kept."""
        with self._lock:
            if self._spent is None:
                self._spent = QuotaError(why, _QUOTA_FIX)

    def spent(self) -> str:
        """Return why this run sends no more requests; empty while it sends them."""
        with self._lock:
            return "" if self._spent is None else self._spent.message

    def credential(self, rejected: Secret | None = None) -> Secret:
        """Return the token to send.

        Raises:
            AuthenticationError: no token can be fetched.
            TransientSourceError: the server of tokens did not answer; another try may help.
        """
        if self._tokens is None:
            raise AuthenticationError(
                "the connector asked for a token, and this job has no source of tokens",
                "Its class has to return one from credentials(job).",
            )
        return self._tokens.token(rejected)

    def progress(self, requests: int, rows: int, size: int) -> None:
        """Add to the totals of all tasks."""
        with self._lock:
            so_far = self._totals
            self._totals = SharedTotals(
                so_far.requests + requests, so_far.rows + rows, so_far.size + size
            )


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
