"""Finds rate limits in a source's answer, and the time to wait.

``Retry-After`` is RFC 9110, section 10.2.3. The ``RateLimit`` headers come from the drafts of the
IETF's httpapi group, the ``X-RateLimit-...`` headers from services that are older than these
drafts.
"""

from __future__ import annotations

import datetime as dt
import email.utils
import re
from collections.abc import Mapping
from http import HTTPStatus

_RESETS = ("RateLimit-Reset", "X-RateLimit-Reset", "X-Rate-Limit-Reset")
_REMAINING = ("RateLimit-Remaining", "X-RateLimit-Remaining", "X-Rate-Limit-Remaining")
_REMAINING_MEMBER = re.compile(r"(?:^|[;,\s])(?:r|remaining)\s*=\s*(\d+)")
_RESET_MEMBER = re.compile(r"(?:^|[;,\s])(?:t|reset)\s*=\s*(\d+)")
_NUMBER = re.compile(r"\d{1,20}(?:\.\d{1,20})?", re.ASCII)
# A larger number cannot be seconds to wait: it is a time since 1970, in seconds or milliseconds.
_LEAST_EPOCH_S = 1e9
_LEAST_EPOCH_MS = 1e11
_FOR_EVER_S = 3_650 * 86_400.0


def is_rate_limited(status: int, headers: Mapping[str, str]) -> bool:
    """Return whether a refusal means the source's rate limit, and not a fault of the request.

    Some services answer 403 for an exhausted limit; their headers then say that nothing remains, or
    how long to wait.
    """
    if status != HTTPStatus.FORBIDDEN:
        return status == HTTPStatus.TOO_MANY_REQUESTS
    return _remaining(headers) == 0 or _delay(headers.get("Retry-After", ""), 0.0) is not None


def asked_wait(headers: Mapping[str, str], now_s: float) -> float | None:
    """Return the seconds that an answer asks to wait; None if it asks for no wait.

    ``Retry-After`` has precedence. The reset time of a limit counts unless the answer says that
    part of the limit remains. Times are compared with the source's clock if the answer has a
    ``Date``.

    Args:
        headers: The answer's headers, with names in any letter case.
        now_s: This machine's time in epoch seconds, for answers without ``Date``.
    """
    sent = _http_date(headers.get("Date", ""))
    now = now_s if sent is None else sent
    asked = _delay(headers.get("Retry-After", ""), now)
    if asked is None and not _remaining(headers):
        asked = _reset(headers, now)
    return asked


def _reset(headers: Mapping[str, str], now: float) -> float | None:
    for name in _RESETS:
        asked = _delay(headers.get(name, ""), now)
        if asked is not None:
            return asked
    found = _RESET_MEMBER.search(_limit(headers))
    return None if found is None else _delay(found[1], now)


def _remaining(headers: Mapping[str, str]) -> float | None:
    for name in _REMAINING:
        text = headers.get(name, "").strip()
        if _NUMBER.fullmatch(text):
            return float(text)
    found = _REMAINING_MEMBER.search(_limit(headers))
    return None if found is None else float(found[1])


def _limit(headers: Mapping[str, str]) -> str:
    """Return the limit of ``RateLimit`` that counts: of several, the spent one that opens last.

    Members of a limit follow ``;``, and limits are separated by commas. In earlier drafts there is
    only one limit, whose members are separated by commas.
    """
    text = headers.get("RateLimit", "")
    if ";" not in text:
        return text
    limits = text.split(",")
    spent = [each for each in limits if re.search(r";\s*r\s*=\s*0+\b(?![.])", each)]
    return max(spent, key=_opens) if spent else limits[0]


def _opens(limit: str) -> float:
    found = _RESET_MEMBER.search(limit)
    return 0.0 if found is None else float(found[1])


def _delay(text: str, now: float) -> float | None:
    """Return the seconds to wait from ``now``; the text is a number or a point in time."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        number = float(text)
        if number >= _LEAST_EPOCH_MS:
            number = number / 1000 - now
        elif number >= _LEAST_EPOCH_S:
            number -= now
    else:
        due = _http_date(text)
        due = _iso_time(text) if due is None else due
        if due is None:
            return None
        number = due - now
    return min(max(number, 0.0), _FOR_EVER_S)


def _iso_time(text: str) -> float | None:
    """Return the epoch seconds of a time such as ``2024-03-05T06:00Z``, which Jira's resets are."""
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if time.tzinfo is None else time.timestamp()


def _http_date(text: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError):
        return None
