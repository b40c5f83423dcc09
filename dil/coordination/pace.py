"""The times at which requests may be sent, handed out one after the other.

A generic cell rate of burst one: slots lie at least one interval apart, whoever takes them, so
that no stretch of t seconds holds more than t / interval + 1 of them. What was not used is not
saved up: a source that counts by the minute would see two minutes' worth in one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ticket:
    """A slot, and the seconds until it comes; 0 means go.

    ``slot`` is a time of the pace's own clock, ``round`` counts how often all slots were put off.
    """

    wait_s: float
    slot: float = 0.0
    round: int = 0


class Pace:
    """Hands out slots in the order in which they are asked for; used by many threads.

    Args:
        interval_s: Seconds between two slots; 0 for no limit.
        clock: Seconds of any clock that only goes forward.
    """

    def __init__(self, interval_s: float, clock: Callable[[], float]) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._lock = threading.Lock()
        self._next = clock()
        self._held_until = self._next
        self._round = 0

    def take(self) -> Ticket:
        """Return the next free slot; it is taken."""
        with self._lock:
            return self._taken()

    def again(self, ticket: Ticket) -> Ticket:
        """Return what is left to wait for a slot, or another slot where all were put off since."""
        with self._lock:
            if ticket.round != self._round:
                return self._taken()
            return Ticket(max(0.0, ticket.slot - self._clock()), ticket.slot, ticket.round)

    def hold(self, seconds: float) -> None:
        """Put off every slot that has not come yet, until ``seconds`` from now.

        A shorter hold than the one that is on changes nothing.
        """
        with self._lock:
            now = self._clock()
            until = now + seconds
            if seconds <= 0 or until <= self._held_until:
                return
            self._held_until = until
            # Slots up to now may have been used; the last of them is less than one interval ago.
            self._next = max(until, now + self._interval_s)
            self._round += 1

    def _taken(self) -> Ticket:
        now = self._clock()
        slot = max(now, self._next)
        self._next = slot + self._interval_s
        return Ticket(slot - now, slot, self._round)
