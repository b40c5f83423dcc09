"""The driver's services as a task uses them, and what replaces them if the driver is lost."""

from __future__ import annotations

import logging
import multiprocessing
import socket
import threading
import time
from multiprocessing.connection import Connection

import msgspec

from dil.coordination import wire
from dil.coordination.pace import Ticket
from dil.coordination.services import RequestLimits, RunServices
from dil.errors import TransientSourceError
from dil.model.secret import Secret
from dil.model.task import CoordinatorAddress
from dil.secrets import learn
from dil.sections.http import BUDGET

log = logging.getLogger(__name__)
_CONNECT_S = 10.0
_ANSWER_S = 30.0
# The driver may be fetching a token, with several tries.
_TOKEN_S = 300.0
_GONE = (OSError, EOFError, ValueError, multiprocessing.AuthenticationError, msgspec.MsgspecError)
_FIX = (
    "Executors must reach the driver's host (spark.driver.host) on any port; check firewalls "
    "between them."
)


class DriverServices:
    """Uses the driver over one connection, which the first question opens; any thread may use it.

    If the driver does not answer, this task continues alone at its share of the rate, logs that
    once, and sends no further questions; ``is_lost`` is then true. Tokens and budgets cannot be
    replaced: their methods fail.
    """

    def __init__(self, address: CoordinatorAddress, limits: RequestLimits) -> None:
        self._address = address
        self._limits = limits
        share = RequestLimits(limits.interval_s * address.tasks)
        self._alone = RunServices(share, clock=time.monotonic)
        self._connection: Connection | None = None
        self.is_lost = False
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._drop()

    def ticket(self, earlier: Ticket | None) -> Ticket:
        """Return the ticket for the next request.

        Raises:
            QuotaError: this run may send no more requests.
            TransientSourceError: the driver does not answer, and the job has a budget.
        """
        was_lost = self.is_lost
        answer = self._ask(wire.AskTicket(earlier))
        if isinstance(answer, wire.GiveTicket):
            return answer.ticket
        if self._limits.most_requests:
            raise self._unreachable(f"{BUDGET} cannot be kept")
        # The driver's tickets have the time of the driver's clock, which is not this machine's.
        return self._alone.ticket(earlier if was_lost else None)

    def slow_down(self, seconds: float) -> None:
        """Hold back the requests of all tasks, or only of this task if the driver is lost."""
        if self._ask(wire.TellSlowDown(seconds)) is None:
            self._alone.slow_down(seconds)

    def quota_spent(self, why: str) -> None:
        """Refuse all requests of all tasks, or only of this task if the driver is lost."""
        if self._ask(wire.TellQuotaSpent(why)) is None:
            self._alone.quota_spent(why)

    def spent(self) -> str:
        """Return why this run may send no more requests; empty while it may send requests."""
        answer = self._ask(wire.AskSpent())
        return answer.why if isinstance(answer, wire.GiveSpent) else self._alone.spent()

    def credential(self, rejected: Secret | None) -> Secret:
        """Return the token to send; from now on this process masks it.

        Raises:
            AuthenticationError: no token can be fetched.
            TransientSourceError: the driver does not answer.
        """
        key = self._address.key
        sealed = None if rejected is None else wire.seal(rejected, key)
        answer = self._ask(wire.AskCredential(sealed), _TOKEN_S)
        if not isinstance(answer, wire.GiveCredential):
            raise self._unreachable("there is no token to send")
        token = wire.unseal(answer.token, key)
        learn(token)
        return token

    def progress(self, requests: int, rows: int, size: int) -> None:
        """Add to the totals of all tasks."""
        self._ask(wire.TellProgress(requests, rows, size))

    def _ask(self, question: wire.Question, patience_s: float = _ANSWER_S) -> wire.Answer | None:
        """Return the driver's answer, None if it does not answer.

        Raises:
            DilError: the driver answered with an error.
        """
        with self._lock:
            answer = None if self.is_lost else self._exchange(question, patience_s)
        if isinstance(answer, wire.Refused):
            raise wire.error_of(answer)
        return answer

    def _exchange(self, question: wire.Question, patience_s: float) -> wire.Answer | None:
        try:
            if self._connection is None:
                place = (self._address.host, self._address.port)
                link = socket.create_connection(place, _CONNECT_S)
                link.settimeout(None)
                self._connection = wire.greet(link, self._address.key, as_server=False)
            connection = self._connection
            wire.send(connection, question)
            if not connection.poll(patience_s):
                raise TimeoutError(f"no answer in {patience_s:.0f} s")
            return wire.answer(connection)
        except _GONE as error:
            self._drop()
            self.is_lost = True
            log.warning(
                "the driver does not answer at %s (%s); this work unit continues alone, at 1/%d of "
                "the job's rate", self._place, type(error).__name__, self._address.tasks,
            )  # fmt: skip
            return None

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _place(self) -> str:
        return f"{self._address.host}:{self._address.port}"

    def _unreachable(self, consequence: str) -> TransientSourceError:
        return TransientSourceError(
            f"the driver does not answer at {self._place}, so that {consequence}", _FIX
        )
