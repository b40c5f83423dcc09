"""Makes sessions of ``requests`` read all headers of HTTP answers, or refuse the answers.

An answer may also be given up because it trickles.
"""

from __future__ import annotations

import http.client
import io
import re
import socket
import time
from collections.abc import Callable
from typing import Any, ClassVar, cast

import requests
import urllib3
from requests.adapters import HTTPAdapter

_INTERIM = range(102, 200)  # 101 is final, and the library skips 100 itself.
# A line that the library reads: a header, the continuation of one, or the end of the headers.
_READABLE = re.compile(rb"[!-9;-~]*:|[ \t]|\r?\n")
_NAME_AND_BLANK = re.compile(rb"([!-9;-~]+)[ \t]+(?=:)")
_MIB = 1024 * 1024


class TrickleError(OSError):
    """An answer arrives so slowly that the wait is given up."""


class FramingError(http.client.HTTPException):
    """The headers of an answer do not say clearly where its body ends."""


class WaitLimit:
    """Limits the wait for each MiB of an answer to ``wait_s`` seconds; 0 means no limit."""

    def __init__(
        self, wait_s: float = 0.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.wait_s = wait_s
        self.monotonic = monotonic
        self._waited = 0.0
        self._got = 0

    def count(self, seconds: float, size: int) -> None:
        """Count a wait that brought ``size`` bytes.

        Raises:
            TrickleError: the wait for this MiB has been too long.
        """
        self._waited += seconds
        self._got += size
        if size and self.wait_s and self._waited > self.wait_s:
            raise TrickleError(
                f"{self._got} bytes in {self._waited:.0f} s of at most {self.wait_s:.0f} s a MiB"
            )
        if self._got >= _MIB:
            self._got, self._waited = 0, 0.0


class _TimedStream(io.RawIOBase):
    """The bytes of an answer as they arrive; its time-out limits the wait for the first one.

    Only here each packet can be timed: to the library, a line or a chunk that trickles is one read.
    """

    def __init__(self, raw: socket.SocketIO, wait_limit: WaitLimit) -> None:
        self._raw = raw
        self._has_begun = False
        self.wait_limit = wait_limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if not self._has_begun:
            self._has_begun = True
            return self._raw.readinto(buffer) or 0
        begun = self.wait_limit.monotonic()
        size = self._raw.readinto(buffer) or 0  # A socket that blocks never returns None.
        self.wait_limit.count(self.wait_limit.monotonic() - begun, size)
        return size

    def close(self) -> None:
        self._raw.close()
        super().close()


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


class FinalResponse(http.client.HTTPResponse):
    """The final response to a request, with all of its headers.

    The library accepts a connection that ends among the headers. If the length of the body is one
    of the lost headers, the response looks complete and empty; RFC 9112 section 8 calls it
    incomplete. The library also takes an interim response, such as 103 Early Hints, for the final
    one (RFC 9110 section 15.2). A response with two lengths ends nobody knows where (RFC 9112
    section 6.3). Chunks of another coding, which no request asks for, cannot be read. ``arriving``
    may give up a response that trickles.
    """

    def __init__(
        self, *args: Any, wait_limit: Callable[[], WaitLimit] = WaitLimit, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        raw = cast("socket.SocketIO", self.fp.detach())
        self.arriving = _TimedStream(raw, wait_limit())
        self.fp = io.BufferedReader(self.arriving)

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
            if not self.chunked:
                self._check_framing()
        finally:
            # If the first line is no status, the library has closed the stream and set None.
            if self.fp is not None:
                self.fp = stream

    def _check_framing(self) -> None:
        """Read chunks if any form of Transfer-Encoding names them; refuse what has no clear end.

        The library knows only the text ``chunked``, and would give the sizes of chunks as content
        behind ``chunked `` or ``identity, chunked``.
        """
        codings = self._members("Transfer-Encoding") - {"", "identity"}
        if codings == {"chunked"}:
            self.chunked, self.chunk_left, self.length = True, None, None
        elif any("chunked" in each for each in codings):
            raise FramingError("the response has an unknown transfer coding")
        elif len(self._members("Content-Length")) > 1:
            raise FramingError("the response has two lengths")

    def _members(self, name: str) -> set[str]:
        texts = self.headers.get_all(name, ())
        return {each.strip().lower() for text in texts for each in text.split(",")}


def limit_waits(answer: requests.Response, wait_limit: WaitLimit) -> None:
    """Limit the waits for the body of an answer that came over our pools."""
    response = answer.raw._original_response  # noqa: SLF001 - there is no other way to it
    cast("FinalResponse", response).arriving.wait_limit = wait_limit


class _AfterSending:
    """Reports a connection that ends before an answer as what it is, also behind a proxy.

    Before it raises, the library closes the connection, and so forgets that the proxy was reached.
    urllib3 would then blame the proxy, as if no request had been sent.
    """

    def getresponse(self) -> Any:
        """Return the answer; ProtocolError if the connection ended after the request was sent."""
        try:
            return super().getresponse()  # type: ignore[misc]
        except ConnectionError as error:
            raise urllib3.exceptions.ProtocolError("Connection aborted.", error) from error


class _Connection(_AfterSending, urllib3.connection.HTTPConnection):
    response_class = FinalResponse


class _TlsConnection(_AfterSending, urllib3.connection.HTTPSConnection):
    response_class = FinalResponse


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
