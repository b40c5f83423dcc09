"""Makes sessions of ``requests`` read all headers of HTTP answers, or refuse the answers."""

from __future__ import annotations

import http.client
import io
import re
from typing import Any, ClassVar, cast

import requests
import urllib3
from requests.adapters import HTTPAdapter

_INTERIM = range(102, 200)  # 101 is final, and the library skips 100 itself.
# A line that the library reads: a header, the continuation of one, or the end of the headers.
_READABLE = re.compile(rb"[!-9;-~]*:|[ \t]|\r?\n")
_NAME_AND_BLANK = re.compile(rb"([!-9;-~]+)[ \t]+(?=:)")


class _Head:
    """The status line and the headers; a connection that ends among them is an error.

    At a line that is no header the library would stop, and all headers behind it would be lost: a
    length, a link to the next page. So such a line gets a colon, because the library skips a header
    without a name. A blank before a colon is removed (RFC 9112 section 5.1). The library would also
    break a line at a CR inside it; such a CR becomes a blank (section 2.2).
    """

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream
        self._has_status = False

    def readline(self, limit: int = -1) -> bytes:
        """Return the next line.

        Raises:
            RemoteDisconnected: the connection ended before the end of the line.
        """
        line = self._stream.readline(limit)
        if not line.endswith(b"\n") and (limit < 0 or len(line) < limit):
            raise http.client.RemoteDisconnected("the connection ended before the body")
        if not self._has_status:
            self._has_status = True
            return line
        line = line[:-2].replace(b"\r", b" ") + line[-2:]
        self._has_status = line not in {b"\r\n", b"\n"}  # A final status follows an interim one.
        if _READABLE.match(line):
            return line
        name = _NAME_AND_BLANK.match(line)
        return name[1] + line[name.end() :] if name else b":" + line

    def close(self) -> None:
        """Close the connection's stream."""
        self._stream.close()


class _FinalResponse(http.client.HTTPResponse):
    """The final response to a request, with all of its headers.

    The library accepts a connection that ends among the headers. If the length of the body is one
    of the lost headers, the response looks complete and empty; RFC 9112 section 8 calls it
    incomplete. The library also takes an interim response, such as 103 Early Hints, for the final
    one (RFC 9110 section 15.2). A response with two lengths ends nobody knows where (RFC 9112
    section 6.3).
    """

    def begin(self) -> None:
        """Read the status and the headers."""
        stream = self.fp
        self.fp = cast("io.BufferedReader", _Head(stream))
        try:
            super().begin()
            while self.status in _INTERIM:
                self.headers = None  # type: ignore[assignment] # as before a response begins
                super().begin()
            self.headers.defects.clear()  # Else urllib3 logs a traceback with the whole address.
            lengths = ",".join(self.headers.get_all("Content-Length", ())).split(",")
            if len({each.strip() for each in lengths}) > 1 and not self.chunked:
                raise http.client.HTTPException("the response has two lengths")
        finally:
            # If the first line is no status, the library has closed the stream and set None.
            if self.fp is not None:
                self.fp = stream


class _Connection(urllib3.connection.HTTPConnection):
    response_class = _FinalResponse


class _TlsConnection(urllib3.connection.HTTPSConnection):
    response_class = _FinalResponse


class WholeAnswersPool(urllib3.HTTPConnectionPool):
    """Connections to one server, which accept only answers with all of their headers."""

    ConnectionCls: type[urllib3.connection.HTTPConnection] = _Connection


class WholeAnswersTlsPool(urllib3.HTTPSConnectionPool):
    """The same over TLS."""

    ConnectionCls = _TlsConnection


class WholeAnswersAdapter(HTTPAdapter):
    """Sends the requests of a session over ``pool_classes``, also through a proxy."""

    pool_classes: ClassVar[dict[str, type[urllib3.HTTPConnectionPool]]] = {
        "http": WholeAnswersPool,
        "https": WholeAnswersTlsPool,
    }

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Make the pools."""
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = self.pool_classes

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        """Return the pools of connections through a proxy."""
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = self.pool_classes
        return manager


def refuse_torn_answers(session: requests.Session) -> None:
    """Make a session raise ConnectionError for an answer that breaks off among its headers."""
    for scheme in ("http://", "https://"):
        session.mount(scheme, WholeAnswersAdapter())
