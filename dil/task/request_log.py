"""Logs the requests of a run in full, with secrets masked part by part, also as curl lines."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from dil.errors import DilError
from dil.observe.logs import MASKED
from dil.observe.request_view import curl_line, masked_view
from dil.spi.connector import RequestValues, Session

log = logging.getLogger(__name__)


def request_log(
    clean: Callable[[str], str], *, shows_curl: bool
) -> Callable[[Session, RequestValues], None]:
    """Return the function that logs requests if -v is given or curl lines are shown.

    ``clean`` masks secrets. The log would mask the rest of a line behind a credential, so the parts
    of a request are masked one by one.
    """
    level = logging.INFO if shows_curl else logging.DEBUG

    def write(session: Session, values: RequestValues) -> None:
        if not log.isEnabledFor(level):
            return
        with suppress(DilError):  # sending the request raises the same error
            view = session.describe(values)
            if view is None:
                return
            shown = masked_view(view, clean)
            log.log(level, "request: %s", shown.line, extra=MASKED)
            if shows_curl and (line := curl_line(shown)):
                log.log(level, "%s", line, extra=MASKED)

    return write
