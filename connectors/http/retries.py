"""Decides how long to wait before a request is sent again, and when to give up."""

from __future__ import annotations

from collections.abc import Callable

from connectors.http.settings import RetryBudget


class RetryWaits:
    """The waits before retries of one request: 1, 2, 4 s and so on, jittered by a quarter.

    The seconds of the budget count from the first sending, including time-outs and slow answers.
    """

    def __init__(self, budget: RetryBudget, monotonic: Callable[[], float]) -> None:
        self._budget = budget
        self._monotonic = monotonic
        self._begun = monotonic()
        self._waited = 0.0
        self.done = 0

    def forgive(self, seconds: float) -> None:
        """Do not count a wait of ``seconds`` against the budget, because it was not for a retry."""
        self._begun += seconds

    def next(self, asked_s: float | None, chance: float) -> float | None:
        """Return the next wait in seconds, None if the budget is spent; ``chance`` is in [0, 1)."""
        wait = 2.0**self.done * (0.75 + chance / 2) if asked_s is None else asked_s
        # A clock that stops must not make the budget endless.
        spent = max(self._monotonic() - self._begun, self._waited)
        if self.done >= self._budget.attempts or spent + wait > self._budget.seconds:
            return None
        self.done += 1
        self._waited += wait
        return wait


def after_retries(number: int) -> str:
    """Return the end of a sentence about a request that was sent again; empty for no retry."""
    if not number:
        return ""
    return " after 1 retry" if number == 1 else f" after {number} retries"
