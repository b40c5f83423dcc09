"""Decides how long a request waits before it is sent again.

``Retry-After`` is RFC 9110, section 10.2.3. The ``RateLimit`` headers come from the drafts of the
IETF's httpapi group, the ``X-RateLimit-...`` headers from services that are older than these
drafts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus

from connectors.http.settings import RetryBudget
from dil.text.http_times import NUMBER, http_date_s, wait_s

_RESETS = ("RateLimit-Reset", "X-RateLimit-Reset", "X-Rate-Limit-Reset")
_REMAINING = ("RateLimit-Remaining", "X-RateLimit-Remaining", "X-Rate-Limit-Remaining")
_REMAINING_MEMBER = re.compile(r"(?:^|[;,\s])(?:r|remaining)\s*=\s*(\d+)")
_RESET_MEMBER = re.compile(r"(?:^|[;,\s])(?:t|reset)\s*=\s*(\d+)")
_SPENT = re.compile(r";\s*r\s*=\s*0+\b(?![.])")


def is_rate_limited(status: int, headers: Mapping[str, str]) -> bool:
    """Return whether a refusal means the source's rate limit, and not a fault of the request.

    Some services answer 403 for an exhausted limit; their headers then say that nothing remains, or
    how long to wait.
    """
    if status != HTTPStatus.FORBIDDEN:
        return status == HTTPStatus.TOO_MANY_REQUESTS
    return _remaining(headers) == 0 or wait_s(headers.get("Retry-After", ""), 0.0) is not None


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """Return the seconds that an answer asks to wait; None if it asks for no wait.

    ``Retry-After`` has precedence. The reset time of a limit counts unless the answer says that
    part of the limit remains. Times are compared with the source's clock if the answer has a
    ``Date``.

    Args:
        headers: The answer's headers, with names in any letter case.
        now_s: This machine's time in epoch seconds, for answers without ``Date``.
    """
    sent = http_date_s(headers.get("Date", ""))
    now = now_s if sent is None else sent
    asked = wait_s(headers.get("Retry-After", ""), now)
    if asked is None and not _remaining(headers):
        asked = _reset(headers, now)
    return asked


def _reset(headers: Mapping[str, str], now: float) -> float | None:
    for name in _RESETS:
        asked = wait_s(headers.get(name, ""), now)
        if asked is not None:
            return asked
    found = _RESET_MEMBER.search(_limit(headers))
    return None if found is None else wait_s(found[1], now)


def _remaining(headers: Mapping[str, str]) -> float | None:
    for name in _REMAINING:
        text = headers.get(name, "").strip()
        if NUMBER.fullmatch(text):
            return float(text)
    found = _REMAINING_MEMBER.search(_limit(headers))
    return None if found is None else float(found[1])


def _limit(headers: Mapping[str, str]) -> str:
    """Return the limit of ``RateLimit`` that counts: of several, the spent one that opens last.

    Members of a limit follow ``;``, and limits are separated by commas. In earlier drafts there is
    only one limit, whose members are separated by commas. If none is spent, the first one counts:
    its members come first in the text.
    """
    text = headers.get("RateLimit", "")
    spent = (each for each in text.split(",") if _SPENT.search(each))
    return max(spent, key=_opens, default=text)


def _opens(limit: str) -> float:
    found = _RESET_MEMBER.search(limit)
    return 0.0 if found is None else float(found[1])


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
