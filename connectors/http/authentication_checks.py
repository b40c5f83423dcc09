"""What ``ms.authentication`` needs of other properties; imports no client library."""

from __future__ import annotations

from collections.abc import Iterator

from connectors.http.section import HttpSection
from dil.errors import Problem
from dil.model.properties import Properties

_KEY = "ms.authentication"
_USER, _PASSWORD = "source.conn.username", "source.conn.password"
_WRITTEN = frozenset({"basic", "bearer", "oauth", "custom"})


def authentication_problems(properties: Properties) -> Iterator[Problem]:
    """Yield what is missing for the method or the grant."""
    settings = properties.section(HttpSection).authentication
    if settings is None:
        return
    has_user = properties.secret(_USER) is not None
    has_password = properties.secret(_PASSWORD) is not None
    if settings.method in _WRITTEN and settings.token is None and not has_user:
        yield Problem(
            properties.origin(_KEY),
            _KEY,
            f"has no token, and there is no {_USER}",
            f"Give a token, or {_USER} and {_PASSWORD}.",
        )
    if settings.grant == "password" and not (has_user and has_password):
        yield Problem(
            properties.origin(_KEY),
            _KEY,
            f"has the grant password, and {_USER} or {_PASSWORD} is not set",
            "Set both: they are sent to tokenUri.",
        )
