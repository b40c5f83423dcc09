"""Makes sessions of ``requests`` refuse HTTP answers that break off among their headers."""

from __future__ import annotations

import http.client
import io
from typing import Any, ClassVar, cast

import requests
import urllib3
from requests.adapters import HTTPAdapter

_INTERIM = range(102, 200)  # 101 is final, and the library skips 100 itself.


class _Head:
    """The status line and the headers; a connection that ends among them is an error."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream

    def readline(self, limit: int = -1) -> bytes:
        """Return the next line.

        Raises:
            RemoteDisconnected: the connection ended before the end of the line.
        """
        line = self._stream.readline(limit)
        if not line.endswith(b"\n") and (limit < 0 or len(line) < limit):
            raise http.client.RemoteDisconnected("the connection ended before the body")
        return line

    def close(self) -> None:
        """Close the connection's stream."""
        self._stream.close()


class _FinalResponse(http.client.HTTPResponse):
    """The final response to a request, with all of its headers.

    The library accepts a connection that ends among the headers. If the length of the body is one
    of the lost headers, the response looks complete and empty; RFC 9112 section 8 calls it
    incomplete. The library also takes an interim response, such as 103 Early Hints, for the final
    one (RFC 9110 section 15.2).
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
