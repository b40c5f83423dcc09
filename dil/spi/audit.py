"""The interface between sessions and the record of their requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from dil.model.json import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class AuditedRequest:
    """One request as the session sends it; the audit trail masks the job's secrets in it."""

    method: str
    uri: str = field(repr=False)
    parameters: Mapping[str, JsonValue] = field(default_factory=dict, repr=False)
    payload: JsonObject | None = field(default=None, repr=False)


class AuditTrail(Protocol):
    """Receives the requests of a session that audits its own requests, including repetitions."""

    def sent(self, request: AuditedRequest) -> int:
        """Record a request before it is sent; return its number in the attempt, from 1.

        Raises:
            WriteError: the request cannot be recorded, but the job requires a record: do not send
                it.
        """

    def answered(self, number: int, status: int, error: str = "") -> None:
        """Record the outcome of a request: the status of the answer, or why no answer came.

        Raises:
            WriteError: see ``sent``.
        """


class NoAudit:
    """Records nothing, for jobs without audit."""

    def sent(self, request: AuditedRequest) -> int:
        """Record nothing; return 0."""
        del request
        return 0

    def answered(self, number: int, status: int, error: str = "") -> None:
        """Record nothing."""
