"""Times that the headers of answers give: the source's clock, and when to ask again."""

from __future__ import annotations

import math

from dil.spi.connector import Response
from dil.text.http_times import http_date_s, wait_s

SOURCE_BEHIND = (
    "the source's clock, by the header Date, had not reached the end of the window, so no run reads"
    " the rows that it writes until then; set the clocks right, let `to` end the window earlier, or"
    " read back by ms.grace.period"
)
# Date has whole seconds (RFC 9110, section 5.6.7), and servers may keep its text for a second.
_INEXACT_MS = 2000


def behind_ms(response: Response, high: int) -> int:
    """Return by how many ms the clock of an answer is behind ``high`` (epoch ms UTC), at least 0.

    The clock of an answer from a cache is its Date and Age (RFC 9111, section 4.2.3).

    >>> behind_ms(Response(None, {"Date": "Thu, 01 Jan 1970 00:01:00 GMT"}), 100_000)
    38000
    """
    sent, age = http_date_s(response.header("Date") or ""), response.header("Age") or "0"
    if sent is None or not (age.isascii() and age.isdecimal()):
        return 0
    return max(0, high - round(sent * 1000) - int(age[:9]) * 1000 - _INEXACT_MS)


def pause_s(response: Response) -> float:
    """Return how many seconds an answer asks to wait before the next request, 0 if it does not.

    A date in Retry-After (RFC 9110, section 10.2.3) is compared with the answer's own Date; without
    a Date, it asks for no wait.

    >>> pause_s(Response(None, {"Retry-After": "30"}))
    30.0
    """
    sent = http_date_s(response.header("Date") or "")
    return wait_s(response.header("Retry-After") or "", math.inf if sent is None else sent) or 0.0
