"""The one header of ``ms.authentication`` (behaviour.md B7.4)."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from connectors.http.settings import HttpSettings
from dil.model.json import JsonValue
from dil.model.secret import Secret
from dil.text.variables import substitute

_PREFIXES = {"basic": "Basic ", "bearer": "Bearer ", "oauth": "OAuth ", "custom": ""}


def authentication_header(
    settings: HttpSettings, variables: Mapping[str, JsonValue]
) -> tuple[str, str, frozenset[str], frozenset[str]]:
    """Return name and value of the header, the variables it used, and those without a value.

    Variables are replaced before encoding (D-84). The name is empty when nothing is configured.
    """
    authentication = settings.authentication
    if authentication is None:
        return "", "", frozenset(), frozenset()
    token = authentication.token
    written = f"{_text(settings.username)}:{_text(settings.password)}"
    result = substitute(token.reveal() if token is not None else written, variables)
    text = result.text
    if authentication.encryption == "base64":
        text = base64.b64encode(text.encode()).decode("ascii")
    return (
        authentication.header,
        _PREFIXES[authentication.method] + text,
        result.used,
        result.missing,
    )


def _text(secret: Secret | None) -> str:
    return "" if secret is None else secret.reveal()
