"""Half-open stretches of time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """``[low, high)`` in epoch milliseconds UTC."""

    low: int
    high: int

    @property
    def is_empty(self) -> bool:
        """Tell whether no instant lies inside."""
        return self.low >= self.high
