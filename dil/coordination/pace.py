"""Gives out slots, the times at which requests may be sent, one after the other.

A generic cell rate of burst one: slots are at least one interval apart, whichever tasks take them,
so that t seconds never hold more than t / interval + 1 slots. Unused slots are not saved up:
otherwise a source that counts by the minute would see the requests of two minutes in one minute.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ticket:
    """A slot, and the seconds until it comes; 0 means that a request may be sent now.

    ``slot`` is a time on the clock of the pace, ``round`` counts how often slots were postponed.
    """

    wait_s: float
    slot: float = 0.0
    round: int = 0


class Pace:
    """Gives out slots in the order of the requests for them; many threads may use it.

    Args:
        interval_s: Seconds between two slots; 0 for no limit.
        clock: Returns the seconds of a clock that never goes back.
    """

    def __init__(self, interval_s: float, clock: Callable[[], float]) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._lock = threading.Lock()
        self._next = clock()
        self._held_until = self._next
        self._round = 0

    def take(self) -> Ticket:
        """Take the next free slot and return it."""
        with self._lock:
            return self._taken()

    def again(self, ticket: Ticket) -> Ticket:
        """Return the ticket with the rest of its wait, or a new slot if slots were postponed."""
        with self._lock:
            if ticket.round != self._round:
                return self._taken()
            return Ticket(max(0.0, ticket.slot - self._clock()), ticket.slot, ticket.round)

    def hold(self, seconds: float) -> None:
        """Postpone every slot that has not come yet, until ``seconds`` from now.

        If a longer hold is in force already, nothing changes.
        """
        with self._lock:
            now = self._clock()
            until = now + seconds
            if seconds <= 0 or until <= self._held_until:
                return
            self._held_until = until
            # Slots until now may have been used; the last of them is less than one interval ago.
            self._next = max(until, now + self._interval_s)
            self._round += 1

    def _taken(self) -> Ticket:
        now = self._clock()
        slot = max(now, self._next)
        self._next = slot + self._interval_s
        return Ticket(slot - now, slot, self._round)
