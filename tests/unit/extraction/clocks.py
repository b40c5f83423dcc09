"""Clocks of a walk through pages that only tests move."""

from __future__ import annotations

from dataclasses import dataclass, field


class Instant:
    """Time that does not pass."""

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing waits here")


@dataclass
class Clock:
    """Time that passes only by sleeping, and by ``request_s`` for each request."""

    now: float = 1000.0
    request_s: float = 0.0
    slept: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
