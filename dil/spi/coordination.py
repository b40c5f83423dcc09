"""The tasks of one run share a rate, credentials and the end of a quota through the driver.

A connector calls the coordinator of its session, which may or may not be connected to the driver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from dil.model.secret import Secret


class Coordinator(Protocol):
    """The driver as a task sees it. Every method may be called from any thread of a task."""

    def permit(self) -> float:
        """Wait until the job's rate allows one more request; return the seconds waited.

        Raises:
            QuotaError: the job's budget of requests is spent, or another task found it spent.
        """

    def slow_down(self, seconds: float) -> None:
        """Hold back the requests of all tasks for some seconds, because the source asked for it."""

    def quota_spent(self, why: str) -> None:
        """Inform all tasks that the source gives no more answers in this run."""

    def credential(self, rejected: Secret | None = None) -> Secret:
        """Return the token to send, renewed ahead of its expiry, once for all tasks.

        Args:
            rejected: The token that the source has just refused; never returned again.

        Raises:
            AuthenticationError: no token can be got.
        """

    def progress(self, *, requests: int, rows: int, size: int) -> None:
        """Report the progress of this task since its last report; ``size`` in bytes.

        ``requests`` counts the calls of its sessions, without requests that were sent again.
        """


class CredentialSource(ABC):
    """Gets tokens on the driver; made by ``Connector.credentials``; never called twice at once."""

    @abstractmethod
    def fetch(self) -> Credential:
        """Return a new token.

        Raises:
            AuthenticationError: the grant was refused.
            TransientSourceError: no answer; trying again may help.
        """


class Credential:
    """A token, and how long it is valid in seconds from now, None if that is not known.

    ``margin_s`` is how many seconds before its end it is renewed; None: the driver decides.
    """

    __slots__ = ("lifetime_s", "margin_s", "token")

    def __init__(
        self, token: Secret, lifetime_s: float | None = None, margin_s: float | None = None
    ) -> None:
        self.token = token
        self.lifetime_s = lifetime_s
        self.margin_s = margin_s


class Uncoordinated:
    """The coordinator of a job that shares nothing: no limit, no token."""

    def permit(self) -> float:
        """Let every request pass at once."""
        return 0.0

    def slow_down(self, seconds: float) -> None:
        """Do nothing: a session waits by itself."""
        del seconds

    def quota_spent(self, why: str) -> None:
        """Do nothing: the task's own failure reports it."""
        del why

    def credential(self, rejected: Secret | None = None) -> Secret:
        """Refuse: there is no coordinator that fetches tokens."""
        del rejected
        raise AssertionError("this job has no source of credentials")

    def progress(self, *, requests: int, rows: int, size: int) -> None:
        """Do nothing: no driver collects progress."""
        del requests, rows, size
