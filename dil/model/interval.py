"""Half-open stretches of time, and lengths of time in milliseconds."""

from __future__ import annotations

import msgspec

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


class Interval(msgspec.Struct, frozen=True, order=True, gc=False):
    """``[low, high)`` in epoch milliseconds UTC."""

    low: int
    high: int

    @property
    def is_empty(self) -> bool:
        """Return whether no instant lies inside."""
        return self.low >= self.high
