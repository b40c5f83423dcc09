"""Makes the header, or the query member, that ``ms.authentication`` adds (docs/http.md)."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from connectors.http.settings import HttpSettings
from dil.model.authentication import Authentication
from dil.model.json import JsonValue
from dil.model.secret import Secret
from dil.text.variables import Substituted, substitute

Header = tuple[str, str, frozenset[str], frozenset[str]]

_PREFIXES = {"basic": "Basic ", "bearer": "Bearer ", "oauth": "OAuth ", "custom": ""}
_NOTHING: Header = ("", "", frozenset(), frozenset())


def authentication_header(
    settings: HttpSettings, variables: Mapping[str, JsonValue], token: Secret | None = None
) -> Header:
    """Return name and value of the header, the variables it uses, and the variables without value.

    Variables are replaced before encoding. The name is empty if the method adds no header.

    Args:
        settings: The settings of the job.
        variables: Values for ``{{name}}``.
        token: The token that the coordinator gives for method oauth2; it is sent unchanged.
    """
    authentication = settings.authentication
    if authentication is None:
        return _NOTHING
    match authentication.method:
        case "oauth2":
            text = f"Bearer {_text(token)}"
            return authentication.header, text, frozenset(), frozenset()
        case "apikey":
            if authentication.location == "query":
                return _NOTHING
            key = _key(authentication, variables)
            return authentication.name, key.text, key.used, key.missing
        case _:
            return _written(settings, authentication, variables)


def authentication_query(
    settings: HttpSettings, variables: Mapping[str, JsonValue]
) -> Mapping[str, str]:
    """Return the members to add to the query of every request; messages must not show them."""
    authentication = settings.authentication
    if authentication is None or authentication.method != "apikey":
        return {}
    if authentication.location != "query":
        return {}
    return {authentication.name: _key(authentication, variables).text}


def _written(
    settings: HttpSettings, authentication: Authentication, variables: Mapping[str, JsonValue]
) -> Header:
    """Return what ``authentication_header`` returns, for basic, bearer, oauth and custom."""
    token = authentication.token
    written = f"{_text(settings.username)}:{_text(settings.password)}"
    result = substitute(written if token is None else token.reveal(), variables)
    text = result.text
    if authentication.encryption == "base64":
        text = base64.b64encode(text.encode()).decode("ascii")
    value = _PREFIXES[authentication.method] + text
    return authentication.header, value, result.used, result.missing


def _key(authentication: Authentication, variables: Mapping[str, JsonValue]) -> Substituted:
    return substitute(_text(authentication.token), variables)


def _text(secret: Secret | None) -> str:
    return "" if secret is None else secret.reveal()
