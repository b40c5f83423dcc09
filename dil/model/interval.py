"""Half-open stretches of time."""

from __future__ import annotations

import msgspec


class Interval(msgspec.Struct, frozen=True, order=True, gc=False):
    """``[low, high)`` in epoch milliseconds UTC."""

    low: int
    high: int

    @property
    def is_empty(self) -> bool:
        """Return whether no instant lies inside."""
        return self.low >= self.high
