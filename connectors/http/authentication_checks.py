"""Checks the other properties that ``ms.authentication`` needs; imports no client library."""

from __future__ import annotations

from collections.abc import Iterator

from connectors.http.section import AUTHENTICATION, HttpSection
from dil.errors import Problem
from dil.model.properties import Properties
from dil.sections.source import PASSWORD, USER, SourceSection

_WRITTEN = frozenset({"basic", "bearer", "oauth", "custom"})


def authentication_problems(properties: Properties) -> Iterator[Problem]:
    """Yield a problem for each property that the method or the grant needs and the job lacks."""
    settings = properties.section(HttpSection).authentication
    if settings is None:
        return
    source = properties.section(SourceSection)
    has_user, has_password = source.username is not None, source.password is not None
    if settings.method in _WRITTEN and settings.token is None and not has_user:
        yield Problem(
            properties.origin(AUTHENTICATION),
            AUTHENTICATION,
            f"has no token, and there is no {USER}",
            f"Add a token, or set {USER} and {PASSWORD}.",
        )
    if settings.grant == "password" and not (has_user and has_password):
        yield Problem(
            properties.origin(AUTHENTICATION),
            AUTHENTICATION,
            f"has the grant password, and {USER} or {PASSWORD} is not set",
            "Set both: they are sent to tokenUri.",
        )
