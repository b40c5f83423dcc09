"""Times in the headers of HTTP answers: points in time, and waits."""

from __future__ import annotations

import datetime as dt
import email.utils
import re

NUMBER = re.compile(r"\d{1,20}(?:\.\d{1,20})?", re.ASCII)
# A larger number cannot be seconds to wait: it is a time since 1970, in seconds or milliseconds.
_LEAST_EPOCH_S = 1e9
_LEAST_EPOCH_MS = 1e11
_FOR_EVER_S = 3_650 * 86_400.0


def http_date_s(text: str) -> float | None:
    """Return the epoch seconds of an HTTP date, None for another text.

    Source: RFC 9110, section 5.6.7. All dates are in UTC, also those that do not say it.

    >>> http_date_s("Thu, 01 Jan 1970 00:01:00 GMT"), http_date_s("Thu Jan  1 00:01:00 1970")
    (60.0, 60.0)
    >>> http_date_s("Thu, 01 Jan 99999999999 00:00:00 GMT")
    """
    try:
        time = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    return (time if time.tzinfo else time.replace(tzinfo=dt.UTC)).timestamp()


def wait_s(text: str, now_s: float) -> float | None:
    """Return the seconds to wait from ``now_s`` (epoch seconds), at least 0; None for other texts.

    The text is a number of seconds, or a point in time: as an HTTP date, as ISO 8601 with a zone,
    or since 1970 in seconds or milliseconds.

    >>> wait_s("30", 0.0), wait_s("Thu, 01 Jan 1970 00:01:00 GMT", 50.0), wait_s("soon", 0.0)
    (30.0, 10.0, None)
    """
    text = text.strip()
    if NUMBER.fullmatch(text):
        number = float(text)
        if number >= _LEAST_EPOCH_MS:
            number = number / 1000 - now_s
        elif number >= _LEAST_EPOCH_S:
            number -= now_s
    else:
        due = http_date_s(text)
        due = _iso_time_s(text) if due is None else due
        if due is None:
            return None
        number = due - now_s
    return min(max(number, 0.0), _FOR_EVER_S)


def _iso_time_s(text: str) -> float | None:
    """Return the epoch seconds of a time such as ``2024-03-05T06:00Z``, which Jira's resets are."""
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if time.tzinfo is None else time.timestamp()
