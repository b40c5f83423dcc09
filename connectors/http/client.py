"""Sends requests by ``requests`` with DIL's rules: exact targets, time-outs, redirects.

Nothing comes from the environment.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import urlsplit

import requests
import urllib3

from connectors.http.failures import (
    PLAIN_REDIRECT_FIX,
    connection_failure,
    may_have_been_done,
    unknown_outcome,
)
from connectors.http.outgoing import OutgoingRequest
from connectors.http.settings import HttpSettings
from connectors.http.target import is_same_origin
from connectors.http.tls import client_context
from dil import __version__
from dil.errors import SourceError
from dil.storage.whole_answers import (
    FinalResponse,
    WaitLimit,
    WholeAnswersAdapter,
    WholeAnswersPool,
    WholeAnswersTlsPool,
)

if TYPE_CHECKING:
    from dil.model.settings import TlsSettings

# The headers for another origin name only formats; they hold no secret or value of the job.
_BARE = {
    "Accept": "*/*",
    "Accept-Encoding": "gzip, deflate",
    "User-Agent": f"dil-spark/{__version__}",
}
_FORMAT = (
    r"(?:\*/\*|(?:application|text)/(?:\*|json|geo\+json|hal\+json|ld\+json|x-ndjson|csv|xml|html|plain"
    r"|zip|gzip|octet-stream|pdf))(?:\s*;\s*q=[01](?:\.[0-9])?)?"
)
_FORMATS = re.compile(rf"{_FORMAT}(?:\s*,\s*{_FORMAT})*")
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
_MAX_REDIRECTS = 50  # The limit of redirects in LinkedIn's DIL.


class PlainRedirectError(requests.RequestException):
    """A redirect from https to http, where anybody on the way could read and change the answer."""


class _ExactHttpPool(WholeAnswersPool):
    """Sends the target exactly as written: urllib3 would change ``%2c`` to ``%2C``, for example."""

    _target = ""
    wait_limit = staticmethod(WaitLimit)

    def _new_conn(self) -> Any:
        conn = super()._new_conn()
        # Not a method of the pool: urllib3 closes connections once nothing refers to their pool.
        conn.response_class = partial(FinalResponse, wait_limit=self.wait_limit)  # type: ignore[attr-defined]
        return conn

    def urlopen(self, method: str, url: str, *args: Any, **options: Any) -> Any:
        """Keep the exact target of a request, then send it; only one thread uses a session."""
        self._target = url
        return super().urlopen(method, url, *args, **options)

    def _make_request(self, conn: Any, method: str, url: str, *args: Any, **options: Any) -> Any:
        del url
        return super()._make_request(conn, method, self._target, *args, **options)


class _ExactHttpsPool(_ExactHttpPool, WholeAnswersTlsPool):
    """Sends the target exactly as written, over TLS."""

    # The first base class would choose connections without TLS.
    ConnectionCls = WholeAnswersTlsPool.ConnectionCls


class _Adapter(WholeAnswersAdapter):
    """Sends over our pools; trusts certifi's authorities unless ``trusts_only_context`` is true."""

    pool_classes: ClassVar[dict[str, type[urllib3.HTTPConnectionPool]]] = {
        "http": _ExactHttpPool,
        "https": _ExactHttpsPool,
    }

    def __init__(
        self,
        pool_size: int,
        context: ssl.SSLContext | None,
        wait_limit: Callable[[], WaitLimit],
        *,
        trusts_only_context: bool,
    ) -> None:
        self._wait_limit = wait_limit
        self._context = context
        self._trusts_only_context = trusts_only_context
        super().__init__(pool_connections=pool_size, pool_maxsize=pool_size, max_retries=0)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        if self._context is not None:
            options["ssl_context"] = self._context
        super().init_poolmanager(*args, **options)

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        if self._context is not None:
            options["ssl_context"] = options["proxy_ssl_context"] = self._context
        return super().proxy_manager_for(*args, **options)

    def get_connection_with_tls_context(self, *args: Any, **options: Any) -> Any:
        pool: Any = super().get_connection_with_tls_context(*args, **options)
        pool.wait_limit = self._wait_limit
        return pool

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """Verify certificates always; drop certifi's authorities if only the context is trusted.

        The library decides by the address alone, and would not verify an https proxy on the way to
        an http address.
        """
        if isinstance(conn, urllib3.HTTPSConnectionPool):
            url = f"https://{conn.host}"
        super().cert_verify(conn, url, verify, cert)  # type: ignore[no-untyped-call]
        if self._trusts_only_context and isinstance(conn, urllib3.HTTPSConnectionPool):
            conn.ca_certs = conn.ca_cert_dir = None


class Client(requests.Session):
    """A pool of connections for one attempt.

    A request that is redirected to another origin has only DIL's own headers about formats (and the
    job's ``Accept`` if that names well-known formats). Such a request has no credentials, no
    cookies, no other headers of the job and no client certificate. The client ignores proxies,
    certificates and passwords of the environment: the job file names all of them. The client checks
    certificates against the authorities of the system and of certifi, or against the trust store of
    ``ms.ssl`` alone. The client gives up answers that trickle: their headers, too.

    Raises:
        ConfigError: (when made) a store of ``ms.ssl`` cannot be read.
    """

    def __init__(
        self, settings: HttpSettings, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._asked = ""
        self._stranger: _Adapter | None = None
        self.trust_env = False
        self.max_redirects = _MAX_REDIRECTS
        self.headers.update({name: _BARE[name] for name in ("User-Agent", "Accept-Encoding")})
        self._bare = _bare(settings)
        if settings.proxy:
            self.proxies = {"http": settings.proxy, "https": settings.proxy}
        context = _context((settings.uri, settings.proxy), settings.tls)
        adapter = partial(
            _Adapter,
            settings.pool_size,
            wait_limit=partial(WaitLimit, settings.body_wait_s, monotonic),
            trusts_only_context=bool(settings.tls.trust_store_path),
        )
        for scheme in ("http://", "https://"):
            self.mount(scheme, adapter(context))
        if settings.tls.key_store_path:
            self._stranger = adapter(client_context(replace(settings.tls, key_store_path="")))

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Return the answer after all redirects; only the first origin gets our certificate."""
        if options.get("allow_redirects"):
            self._asked = request.url or ""
        return super().send(request, **options)

    def get_adapter(self, url: Any) -> Any:  # as requests has it
        """Return the adapter for an address; for other origins it has no client certificate."""
        if self._stranger is not None and self._asked and not is_same_origin(self._asked, url):
            return self._stranger
        return super().get_adapter(url)

    def resolve_redirects(
        self, *args: Any, yield_requests: bool = False, **options: Any
    ) -> Iterator[Any]:
        """Yield the answers of redirects.

        The library also makes the next request for a caller that follows no redirects. An error
        about its address would hide the answer to a row that was sent.
        """
        return iter(()) if yield_requests else super().resolve_redirects(*args, **options)

    def close(self) -> None:
        """Close all connections."""
        super().close()
        if self._stranger is not None:
            self._stranger.close()

    def rebuild_auth(
        self, prepared_request: requests.PreparedRequest, response: requests.Response
    ) -> None:
        """Remove the job's headers from a request that is redirected to another origin.

        Raises:
            PlainRedirectError: the redirect leads from https to http.
        """
        before, after = response.request.url or "", prepared_request.url or ""
        if before.lower().startswith("https:") and not after.lower().startswith("https:"):
            raise PlainRedirectError(request=prepared_request)
        if not is_same_origin(before, after):
            prepared_request.headers.clear()
            prepared_request.headers.update(self._bare)


def _bare(settings: HttpSettings) -> dict[str, str]:
    """Return the headers for another origin: DIL's own, and the job's Accept if it is harmless.

    A header's text may come from anywhere, such as a variable of the environment. Names of
    well-known formats contain no secret.
    """
    asked = (text for name, text in (settings.headers or {}).items() if name.lower() == "accept")
    known = (text for text in asked if isinstance(text, str) and _FORMATS.fullmatch(text))
    return {**_BARE, "Accept": next(known, _BARE["Accept"])}


def _context(addresses: Sequence[str], tls: TlsSettings) -> ssl.SSLContext | None:
    """Return the TLS context for https, None for the library's own.

    Loading the system's authorities takes time; a plain http source behind no proxy, or behind a
    plain one, saves this time.
    """
    is_plain = all(each.lower().startswith("http:") for each in addresses if each)
    if is_plain and not tls.trust_store_path and not tls.key_store_path:
        return None
    return client_context(tls)


class Sender:
    """Sends each request once, over one pool of connections; one thread uses it at a time.

    A request that must not be repeated never goes over a connection that was idle for a while.
    Errors contain no message of the client library, because it may hold the whole address.
    """

    def __init__(self, settings: HttpSettings, monotonic: Callable[[], float]) -> None:
        tls = settings.tls
        self._timeout = (tls.connect_timeout_s or _TIMEOUT_S, tls.socket_timeout_s or _TIMEOUT_S)
        self._client = Client(settings, monotonic)
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
            return self._send_once(outgoing)
        if self._monotonic() - self._idle_since >= _IDLE_S:
            self._client.close()  # The next request opens a new connection.
        try:
            return self._send_once(outgoing)
        finally:
            self._idle_since = self._monotonic()

    def _send_once(self, outgoing: OutgoingRequest) -> requests.Response:
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
                PLAIN_REDIRECT_FIX,
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
