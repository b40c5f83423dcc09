"""Decides what an answer means, in the order of docs/http.md, and when to send its request again.

``Retry-After`` is RFC 9110, section 10.2.3. The ``RateLimit`` headers come from the drafts of the
IETF's httpapi group, the ``X-RateLimit-...`` headers from services that are older than these
drafts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from http import HTTPStatus
from typing import TYPE_CHECKING

from connectors.http.settings import HttpSettings, RetryBudget
from dil.model.settings import HttpStatuses
from dil.text.http_times import NUMBER, http_date_s, wait_s

if TYPE_CHECKING:
    import requests

RETRIED = frozenset({425, 429, 502, 503, 504})
# These statuses say that the source did nothing. After 408 or another 5xx, the source may have done
# the request before it failed, or a server behind a gateway may have done it.
NOT_DONE = frozenset({425, 429, 503})
# Many receivers redirect after they have done a POST (303: RFC 9110 section 15.4.4; 302 by habit).
# Other redirects ask for the same request at another address.
REDIRECTS_WHEN_DONE = frozenset({302, 303})
_PASSING = frozenset({408, *RETRIED})
_REFUSED = frozenset({401, 403})
_SUCCESS = HttpStatuses().success
_REDIRECTS = range(300, 400)
_SERVER_ERRORS = range(500, 600)
_RESETS = ("RateLimit-Reset", "X-RateLimit-Reset", "X-Rate-Limit-Reset")
_REMAINING = ("RateLimit-Remaining", "X-RateLimit-Remaining", "X-Rate-Limit-Remaining")
_REMAINING_MEMBER = re.compile(r"(?:^|[;,\s])(?:r|remaining)\s*=\s*(\d+)")
_RESET_MEMBER = re.compile(r"(?:^|[;,\s])(?:t|reset)\s*=\s*(\d+)")
_SPENT = re.compile(r";\s*r\s*=\s*0+\b(?![.])")


class StatusVerdict(Enum):
    """The ways to treat an answer."""

    SUCCESS = "success"
    WARNING = "warning"
    AUTHENTICATION = "authentication"
    QUOTA = "quota"
    TRANSIENT = "transient"
    ERROR = "error"


def judge(answer: requests.Response, settings: HttpSettings, *, has_row: bool) -> StatusVerdict:
    """Return the verdict on an answer; a reason phrase must match exactly.

    ``error`` and ``warning`` take codes out of the default of ``success``, which nobody wrote; a
    job that lists codes of its own under ``success`` reads their answers. If the request sent a row
    (``has_row``), a code under ``error`` concerns the row.
    """
    code, statuses = answer.status_code, settings.statuses
    is_default = set(statuses.success) == set(_SUCCESS)
    is_moved = is_default and (code in statuses.error or code in statuses.warning)
    if code in statuses.success and not is_moved:
        is_error = (answer.reason or "") in settings.reasons.error
        return StatusVerdict.ERROR if is_error else StatusVerdict.SUCCESS
    if code in statuses.warning or (code < _REDIRECTS.start and code not in statuses.error):
        return StatusVerdict.WARNING
    if code in statuses.quota:
        return StatusVerdict.QUOTA
    if code in _REFUSED:  # An exhausted rate limit is not a failed login.
        is_limit = is_rate_limited(code, answer.headers)
        return StatusVerdict.TRANSIENT if is_limit else StatusVerdict.AUTHENTICATION
    if code in _PASSING or code in _SERVER_ERRORS:
        is_of_row = has_row and code in statuses.error
        return StatusVerdict.ERROR if is_of_row else StatusVerdict.TRANSIENT
    return StatusVerdict.ERROR


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
