"""A ``requests`` session with DIL's rules: exact targets, time-outs, redirects, no environment."""

from __future__ import annotations

import re
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import requests
import urllib3

from connectors.http.origin import is_same_origin
from connectors.http.settings import HttpSettings
from connectors.http.tls import client_context
from dil import __version__
from dil.storage.whole_answers import (
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
_MAX_REDIRECTS = 50  # The limit of redirects in LinkedIn's DIL.


class PlainRedirectError(requests.RequestException):
    """A redirect from https to http, where anybody on the way could read and change the answer."""


class _ExactHttpPool(WholeAnswersPool):
    """Sends the target exactly as written: urllib3 would change ``%2c`` to ``%2C``, for example."""

    _target = ""

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
        self, pool_size: int, context: ssl.SSLContext | None, *, trusts_only_context: bool
    ) -> None:
        self._context = context
        self._trusts_only_context = trusts_only_context
        super().__init__(pool_connections=pool_size, pool_maxsize=pool_size, max_retries=0)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        if self._context is not None:
            options["ssl_context"] = self._context
        super().init_poolmanager(*args, **options)

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        if self._context is not None:
            options["ssl_context"] = self._context
        return super().proxy_manager_for(*args, **options)

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """Verify certificates always; drop certifi's authorities if only the context is trusted."""
        super().cert_verify(conn, url, verify, cert)  # type: ignore[no-untyped-call]
        if self._trusts_only_context and url.lower().startswith("https"):
            conn.ca_certs = conn.ca_cert_dir = None


class Client(requests.Session):
    """A pool of connections for one attempt.

    A request that is redirected to another origin has only DIL's own headers about formats (and the
    job's ``Accept`` if that names well-known formats). Such a request has no credentials, no
    cookies, no other headers of the job and no client certificate. The client ignores proxies,
    certificates and passwords of the environment: the job file names all of them. The client checks
    certificates against the authorities of the system and of certifi, or against the trust store of
    ``ms.ssl`` alone.

    Raises:
        ConfigError: (when made) a store of ``ms.ssl`` cannot be read.
    """

    def __init__(self, settings: HttpSettings) -> None:
        super().__init__()
        self._asked = ""
        self._stranger: _Adapter | None = None
        self.trust_env = False
        self.max_redirects = _MAX_REDIRECTS
        self.headers.update({name: _BARE[name] for name in ("User-Agent", "Accept-Encoding")})
        self._bare = _bare(settings)
        if settings.proxy:
            self.proxies = {"http": settings.proxy, "https": settings.proxy}
        context = _context(settings.uri, settings.tls)
        own_trust = bool(settings.tls.trust_store_path)
        for scheme in ("http://", "https://"):
            self.mount(scheme, _Adapter(settings.pool_size, context, trusts_only_context=own_trust))
        if settings.tls.key_store_path:
            unnamed = _context("https:", replace(settings.tls, key_store_path=""))
            self._stranger = _Adapter(settings.pool_size, unnamed, trusts_only_context=own_trust)

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


def _context(uri: str, tls: TlsSettings) -> ssl.SSLContext | None:
    """Return the TLS context for https, None for the library's own.

    Loading the system's authorities takes time; a plain http source saves this time.
    """
    is_plain = uri.lower().startswith("http:")
    if is_plain and not tls.trust_store_path and not tls.key_store_path:
        return None
    return client_context(tls)
