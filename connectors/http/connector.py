"""The HTTP connector; cheap to import, the client library is loaded by ``open``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from connectors.http.settings import METHODS, HttpSettings
from dil.errors import Problem
from dil.model.authentication import Authentication
from dil.model.properties import Properties
from dil.spi.connector import Connector, SessionContext

if TYPE_CHECKING:
    from connectors.http.session import HttpSession


class HttpConnector(Connector):
    """Reads with GET; one client, one connection pool for each attempt (behaviour.md B7)."""

    @classmethod
    def check(cls, properties: Properties) -> Iterable[Problem]:
        """Return problems of the URI, the method, the authentication and the key stores."""
        return [*_uri_problems(properties), *_request_problems(properties)]

    def open(self, context: SessionContext) -> HttpSession:
        """Return a session with a pool of its own; nothing is sent before the first request."""
        from connectors.http.session import HttpSession

        return HttpSession(HttpSettings.of(context.job))


def _uri_problems(properties: Properties) -> Iterable[Problem]:
    uri = properties.text("ms.source.uri")
    parts = urlsplit(uri)
    if uri.startswith("{{") or (parts.scheme.lower() in {"http", "https"} and parts.netloc):
        return
    yield Problem(
        properties.origin("ms.source.uri"),
        "ms.source.uri",
        "is no HTTP address",
        "It must begin with http:// or https:// and name a host.",
    )


def _request_problems(properties: Properties) -> Iterable[Problem]:
    method = properties.text("ms.http.request.method").upper() or "GET"
    if method not in METHODS:
        yield Problem(
            properties.origin("ms.http.request.method"),
            "ms.http.request.method",
            f'is "{method}", and this connector reads with {" or ".join(METHODS)} only',
        )
    authentication = properties["ms.authentication"]
    if (
        isinstance(authentication, Authentication)
        and authentication.token is None
        and properties.secret("source.conn.username") is None
    ):
        yield Problem(
            properties.origin("ms.authentication"),
            "ms.authentication",
            "has no token, and there is no source.conn.username",
            "Give a token, or source.conn.username and source.conn.password.",
        )
