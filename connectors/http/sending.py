"""Sends one request once, and returns its answer or raises one of our errors."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

import requests
import urllib3

from connectors.http.client import Client, PlainRedirectError
from connectors.http.failures import connection_failure, may_have_been_done, unknown_outcome
from connectors.http.outgoing import OutgoingRequest
from connectors.http.settings import HttpSettings
from dil.errors import SourceError

_TIMEOUT_S = 60  # A request without a time-out could block a task for ever.
# Servers close idle connections, most of them after 2 to 75 s. A request that is sent at that
# moment gets no answer; if it must not be repeated, its row is in doubt.
_IDLE_S = 0.5
_PASSING = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    requests.exceptions.ContentDecodingError,
    urllib3.exceptions.HTTPError,
)


class Sender:
    """Sends each request once, over one pool of connections; one thread uses it at a time.

    A request that must not be repeated never goes over a connection that was idle for a while.
    Errors contain no message of the client library, because it may hold the whole address.
    """

    def __init__(
        self, settings: HttpSettings, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        tls = settings.tls
        self._timeout = (tls.connect_timeout_s or _TIMEOUT_S, tls.socket_timeout_s or _TIMEOUT_S)
        self._client = Client(settings)
        self._monotonic = monotonic
        self._idle_since = 0.0

    def forget(self) -> None:
        """Drop the cookies of earlier sessions, because the next session must not send them."""
        self._client.cookies.clear()

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def send(self, outgoing: OutgoingRequest) -> requests.Response:
        """Return the answer before its body is read; redirects are followed for GET only.

        If a redirect leads to another origin, nothing of the job is sent there: no credentials,
        cookies, headers or client certificate.

        Raises:
            TransientSourceError: no answer came; the request may be sent again.
            UnknownOutcomeError: no answer came, and sending the request again might do it twice.
            SourceError: the request cannot be sent, redirects do not end, or a redirect leads to an
                unencrypted address.
        """
        if outgoing.is_repeatable:
            return self._sent(outgoing)
        if self._monotonic() - self._idle_since >= _IDLE_S:
            self._client.close()  # The next request opens a new connection.
        try:
            return self._sent(outgoing)
        finally:
            self._idle_since = self._monotonic()

    def _sent(self, outgoing: OutgoingRequest) -> requests.Response:
        try:
            request = self._client.prepare_request(
                requests.Request(outgoing.method, outgoing.uri, data=outgoing.body)
            )
            request.url = outgoing.uri
            for name, text in outgoing.headers.items():
                request.headers[name] = cast("str", _wire(text))  # Bytes work as well as text.
            return self._client.send(
                request,
                stream=True,
                allow_redirects=outgoing.method == "GET",
                timeout=self._timeout,
                proxies=dict(self._client.proxies),
            )
        except PlainRedirectError as error:
            raise SourceError(
                f"{_shown(error, outgoing)}: a redirect leads from https to http",
                "DIL does not follow it: anybody on the way could change the rows. Set"
                " ms.source.uri to the https address of the target.",
            ) from None
        except requests.TooManyRedirects:
            raise SourceError(f"{outgoing.shown}: too many redirects") from None
        except _PASSING as error:
            failure = connection_failure(error, _shown(error, outgoing))
            if failure.retryable and may_have_been_done(error) and not outgoing.is_repeatable:
                raise unknown_outcome(failure.message) from None
            raise failure from None
        except (requests.RequestException, ValueError) as error:
            raise SourceError(
                f"{outgoing.shown}: the request cannot be sent ({type(error).__name__})",
                "Check ms.source.uri and ms.http.request.headers.",
            ) from None


def _shown(error: Exception, outgoing: OutgoingRequest) -> str:
    """Return the request without secrets, and the redirect's host if another host failed."""
    failed: object = getattr(error, "request", None)
    url = failed.url if isinstance(failed, requests.PreparedRequest) else None
    place = _host(url or outgoing.uri)
    if place == _host(outgoing.uri):
        return outgoing.shown
    return f"{outgoing.shown}, redirected to {place}"


def _host(uri: str) -> str:
    """Return host and port of an address, without user name and password."""
    return urlsplit(uri).netloc.rpartition("@")[2].lower()


def _wire(text: str) -> str | bytes:
    """Return a header value in the form to send: Latin-1 if it fits, else UTF-8."""
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")
    return text
