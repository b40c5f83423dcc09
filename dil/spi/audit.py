"""The seam between sessions and the record of what they sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from dil.model.json import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class AuditedRequest:
    """One request as it is sent; the audit trail masks the job's secrets when it records it."""

    method: str
    uri: str = field(repr=False)
    parameters: Mapping[str, JsonValue] = field(default_factory=dict, repr=False)
    payload: JsonObject | None = field(default=None, repr=False)


class AuditTrail(Protocol):
    """Gets the requests of a session that audits its own requests, repeated ones too."""

    def sent(self, request: AuditedRequest) -> int:
        """Record a request before it is sent; return its number in the attempt, from 1.

        Raises:
            WriteError: the request cannot be recorded, but the job requires it: do not send it.
        """

    def answered(self, number: int, status: int, error: str = "") -> None:
        """Record the outcome of a request: the status of its answer, or the reason for none.

        Raises:
            WriteError: as in ``sent``.
        """


class NoAudit:
    """Records nothing: for jobs that ask for no audit."""

    def sent(self, request: AuditedRequest) -> int:
        """Take no note."""
        del request
        return 0

    def answered(self, number: int, status: int, error: str = "") -> None:
        """Take no note."""
