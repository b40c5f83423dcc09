"""The tasks of one run share a rate limit, credentials and the end of a quota through the driver.

A connector calls the coordinator of its session; the coordinator may or may not be connected to the
driver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from dil.model.secret import Secret


class Coordinator(Protocol):
    """The driver from a task's view; any thread of the task may call any method."""

    def permit(self) -> float:
        """Wait until the job's rate allows one more request; return the seconds waited.

        Raises:
            QuotaError: the job's budget of requests is spent, or another task found the source's
                quota spent.
        """

    def slow_down(self, seconds: float) -> None:
        """Hold back the requests of all tasks for some seconds, because the source asked for it."""

    def quota_spent(self, why: str) -> None:
        """Inform all tasks that the source gives no more answers during this run."""

    def credential(self, rejected: Secret | None = None) -> Secret:
        """Return the token to send; the driver renews it before it expires, once for all tasks.

        Args:
            rejected: The token that the source has just refused; it is never returned again.

        Raises:
            AuthenticationError: no token can be fetched.
        """

    def progress(self, *, requests: int, rows: int, size: int) -> None:
        """Report the progress of this task since its last report; ``size`` is in bytes.

        ``requests`` counts the calls of its sessions, without requests that were sent again.
        """


class CredentialSource(ABC):
    """Fetches tokens on the driver, one call at a time; ``Connector.credentials`` returns it."""

    @abstractmethod
    def fetch(self) -> Credential:
        """Return a new token.

        Raises:
            AuthenticationError: the server refused the grant.
            TransientSourceError: the server did not answer; trying again may help.
        """


class Credential:
    """A token, and its lifetime in seconds from now, None if unknown.

    The driver renews the token ``margin_s`` seconds before its end; None lets the driver decide.
    """

    __slots__ = ("lifetime_s", "margin_s", "token")

    def __init__(
        self, token: Secret, lifetime_s: float | None = None, margin_s: float | None = None
    ) -> None:
        self.token = token
        self.lifetime_s = lifetime_s
        self.margin_s = margin_s


class Uncoordinated:
    """The coordinator of a job that shares nothing: it has no limit and no token."""

    def permit(self) -> float:
        """Return 0: every request may be sent at once."""
        return 0.0

    def slow_down(self, seconds: float) -> None:
        """Do nothing: a session waits by itself."""
        del seconds

    def quota_spent(self, why: str) -> None:
        """Do nothing: the task's own failure reports it."""
        del why

    def credential(self, rejected: Secret | None = None) -> Secret:
        """Raise, because no coordinator fetches tokens."""
        del rejected
        raise AssertionError("this job has no source of credentials")

    def progress(self, *, requests: int, rows: int, size: int) -> None:
        """Do nothing: no driver collects progress."""
        del requests, rows, size
