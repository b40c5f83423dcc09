"""Decides what the status of an answer means, in the order of docs/http.md."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from connectors.http.settings import HttpSettings
from connectors.http.waits import is_rate_limited
from dil.model.settings import HttpStatuses

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
