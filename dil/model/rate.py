"""The rate of requests that a source allows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most ``count`` requests in every ``seconds`` seconds; both are at least 1."""

    count: int
    seconds: int

    @property
    def interval_s(self) -> float:
        """Return the time from one request to the next, in seconds."""
        return self.seconds / self.count

    def __str__(self) -> str:
        return f"{self.count}/{self.seconds}s"
