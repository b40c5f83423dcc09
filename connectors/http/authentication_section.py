"""Reads ``ms.authentication`` into a frozen model, and checks its members (docs/http.md)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlsplit

from dil.model.authentication import Authentication
from dil.model.json import JsonValue, as_text
from dil.sections.reading import ReadContext, ShapeError, as_object, build, is_scalar, texts
from dil.storage.locations import PathError, local_path
from dil.text.variables import placeholders

Finding = tuple[str, str]

_SECRETS = ("token", "clientSecret", "refreshToken")
_SECRET_NAME = re.compile(r"secret|passw|token|key|assertion", re.IGNORECASE)
_DIL = frozenset({"method", "encryption", "header", "token"})
_OAUTH2 = frozenset(
    {
        "method", "encryption", "header", "grant", "tokenUri", "clientId", "clientSecret",
        "clientAuthentication", "scope", "audience", "parameters", "expiryMarginSeconds",
    }
)  # fmt: skip
_MEMBERS: Mapping[str, frozenset[str]] = {
    "basic": _DIL,
    "bearer": _DIL,
    "oauth": _DIL,
    "custom": _DIL,
    "apikey": frozenset({"method", "encryption", "token", "name", "in"}),
    "oauth2": _OAUTH2 | {"refreshToken", "refreshTokenFile"},
}
_REFRESH_ONLY = ("refreshToken", "refreshTokenFile")
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "client_credentials": ("tokenUri", "clientId", "clientSecret"),
    "refresh_token": ("tokenUri",),
    "password": ("tokenUri",),
}


def authentication(value: JsonValue, around: ReadContext) -> Authentication:
    """Return the model of ``ms.authentication``.

    Raises:
        ShapeError: a member is wrong, missing or unknown, or does not go with the method or the
            grant.
    """
    written = as_object(value)
    members: dict[str, object] = dict(written)
    if members.get("encryption") == "":  # as LinkedIn's DIL documents it for custom
        members["encryption"] = "none"
    plain = texts(written)
    for name in _SECRETS:
        text = plain.get(name)
        if isinstance(text, str):
            members[name] = around.secret(text, name) if text else None
    client = plain.get("clientId")
    if isinstance(client, str):
        members["clientId"] = (
            around.secret(client, "clientId") if around.is_reference(client) else client
        )
    if isinstance(written.get("parameters"), Mapping):
        members["parameters"] = _form_members(as_object(written["parameters"]), around)
    settings = build(Authentication, members)
    given = {name for name, item in written.items() if item not in (None, "")}
    given |= {"encryption"} & set(written)  # also if it is the empty text
    findings = [*_misplaced(settings, given), *_missing(settings, given), *_uri(settings, given)]
    if findings:
        raise ShapeError(*findings)
    file = ""
    if settings.refresh_token_file:
        try:  # A relative path starts at the job file's folder.
            file = str(local_path(settings.refresh_token_file, around.folder))
        except PathError as error:
            raise ShapeError((f"refreshTokenFile {error}", "Name a local file.")) from None
    return replace(settings, refresh_token_file=file)


def _form_members(members: Mapping[str, JsonValue], around: ReadContext) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, item in members.items():
        if item is None or not is_scalar(item):
            raise ShapeError((f'parameters: "{name}" has no text', "Write its value as text."))
        text = as_text(item)
        is_secret = around.is_reference(text) or _SECRET_NAME.search(name)
        found[name] = around.secret(text, f'parameters: "{name}"') if is_secret else text
    return found


def _misplaced(settings: Authentication, given: Set[str]) -> Iterator[Finding]:
    """Yield the members that would have no effect, because the method or the grant lacks them."""
    allowed = _MEMBERS[settings.method]
    for name in sorted(given - allowed):
        known = ", ".join(sorted(allowed))
        yield f'has "{name}", which method {settings.method} does not use', f"Members: {known}."
    if settings.method == "oauth2" and settings.grant not in (None, "refresh_token"):
        for name in _REFRESH_ONLY:
            if name in given:
                yield (
                    f'has "{name}", which grant {settings.grant} does not use',
                    'Leave it out, or write "grant":"refresh_token".',
                )
    if settings.method in {"apikey", "oauth2"} and settings.encryption != "none":
        yield f"encryption does not go with method {settings.method}", "Leave encryption out."


def _missing(settings: Authentication, given: Set[str]) -> Iterator[Finding]:
    wanted: tuple[str, ...] = () if settings.method in {"apikey", "oauth2"} else ("encryption",)
    if settings.method == "apikey":
        wanted = ("name", "token")
    elif settings.method == "oauth2":
        wanted = ("grant",) if settings.grant is None else _REQUIRED[settings.grant]
    for name in wanted:
        if name not in given:
            yield f'lacks the member "{name}"', f'Add "{name}".'
    if settings.grant == "refresh_token" and not given & set(_REFRESH_ONLY):
        yield (
            'has neither "refreshToken" nor "refreshTokenFile"',
            "Add a refresh token, or name the file that holds it.",
        )
    if "clientSecret" in given and not given & {"clientId"} and "clientId" not in wanted:
        yield 'has "clientSecret" and no "clientId"', 'Add "clientId".'


def _uri(settings: Authentication, given: Set[str]) -> Iterator[Finding]:
    """Yield the problems of the token address, because secrets are sent to it."""
    if "tokenUri" not in given or not settings.is_fetched:
        return
    scheme, host = "", ""  # They stay empty if the text is no URI, or holds a user.
    with suppress(ValueError):
        parts = urlsplit(settings.token_uri)
        if parts.hostname and "@" not in parts.netloc:
            scheme, host = parts.scheme.lower(), parts.hostname.lower()
    if not host or scheme not in {"http", "https"}:
        yield "tokenUri is no HTTP address", "Write https://host/path, without user or password."
    elif placeholders(settings.token_uri):
        yield (
            "tokenUri holds {{variables}}",
            "One token serves all work units: write the address without variables.",
        )
    elif scheme == "http" and not _is_loopback(host):
        yield (
            "tokenUri begins with http://, which would send the client's secret unencrypted",
            "Use https://; plain http is allowed for this machine (localhost) only.",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
