"""The properties of HTTP that only the connector reads, and the readers of their JSON.

See docs/http.md.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated
from urllib.parse import urlsplit

from annotated_types import Ge, Le

from dil.model.authentication import Authentication
from dil.model.json import JsonValue, as_text
from dil.model.secret import Secret, revealed
from dil.model.section import Int, Section, StandsFor, ValueType, Written, no_effect, prop
from dil.model.settings import HttpStatuses, HttpStatusReasons
from dil.sections.http import BODY
from dil.sections.reading import ReadContext, ShapeError, as_object, build, is_scalar, texts
from dil.storage.locations import PathError, local_path
from dil.text.variables import placeholders

AUTHENTICATION = "ms.authentication"
HEADERS = "ms.http.request.headers"
_SECRET_HEADER = re.compile(
    r"authorization|cookie|token|secret|passw|api-?key|signature", re.IGNORECASE
)
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


def _headers(value: JsonValue, around: ReadContext) -> dict[str, str | Secret]:
    headers: dict[str, str | Secret] = {}
    for name, item in as_object(value).items():
        if item is None or not is_scalar(item):
            raise ShapeError((f'header "{name}" has no text', "Write the header's value as text."))
        text = as_text(item)
        is_secret = around.is_reference(text) or _SECRET_HEADER.search(name)
        headers[name] = around.secret(text, f'header "{name}"') if is_secret else text
    return headers


def _body(text: str, around: ReadContext) -> str:
    if around.is_reference(text):
        what = "refers to a secret as a whole, and would be sent as it is written"
        fix = (
            "Write the body here, and its secrets as {{name}} of a parameter whose name begins with"
            ' tmp: {"name": "tmpPassword", "value": "env:PASSWORD"}.'
        )
        raise ShapeError((what, fix))
    return text


def _authentication(value: JsonValue, around: ReadContext) -> Authentication:
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


def _misplaced(settings: Authentication, given: Set[str]) -> Iterator[tuple[str, str]]:
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


def _missing(settings: Authentication, given: Set[str]) -> Iterator[tuple[str, str]]:
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


def _uri(settings: Authentication, given: Set[str]) -> Iterator[tuple[str, str]]:
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


_Headers = Annotated[
    dict[str, str | Secret],
    Written(
        ValueType.JSON_OBJECT,
        read=_headers,
        members=(("(a header's name)", "text, may be a secret", "Value of the header."),),
    ),
]
_Authentication = Annotated[Authentication, Written(ValueType.JSON_OBJECT, read=_authentication)]
_Statuses = Annotated[HttpStatuses, Written(ValueType.JSON_OBJECT)]
_Reasons = Annotated[HttpStatusReasons, Written(ValueType.JSON_OBJECT)]


@dataclass(frozen=True, slots=True)
class HttpSection(Section):
    """The properties of HTTP in a job."""

    headers: _Headers = prop(
        HEADERS,
        "Headers of every request, name to text. A value may be a secret.",
        default_factory=dict,
        variables=True,
        hidden_members="every value",
        example='{"Accept": "application/json", "x-region": "{{region}}", '
        '"x-api-key": "env:API_KEY"}',
    )
    authentication: _Authentication | None = prop(
        AUTHENTICATION,
        "How the job identifies itself. `method` basic, bearer, oauth or custom: one header with"
        " the `token`, or with user name and password. `apikey`: a header or a member of the"
        " query. `oauth2`: a token that DIL fetches inside the job and renews before it expires,"
        " once for all work units.",
        default=None,
        variables=True,
        hidden_members="token, clientSecret, refreshToken",
        example='{"method": "bearer", "encryption": "none", "token": "env:API_TOKEN"}',
    )
    body: Annotated[str, Written(ValueType.STRING, read=_body)] = prop(
        BODY,
        "Body of every request as text in UTF-8, for sources that take neither a JSON object nor a"
        " form: SOAP, SQL, lines of JSON. The header `Content-Type` names its type; if that is XML"
        " or JSON, values of variables are escaped. Parameters that the text does not use go to the"
        " query; one with a secret is a problem.",
        default="",
        variables=True,
        example="<list><after>{{after}}</after></list>",
    )
    statuses: _Statuses = prop(
        "ms.http.statuses",
        "Status codes that count as a `success`, a `warning` (no data, no failure) or an `error`,"
        " or that mean a stale token (`pagination_error`) or a spent `quota`. A member that is"
        " left out keeps its default.",
        default_factory=HttpStatuses,
        shown='{"success":[200,201,202],"pagination_error":[401]}',
        example='{"success": [200, 202], "warning": [404], "error": [204]}',
    )
    reasons: _Reasons = prop(
        "ms.http.status.reasons",
        "Reason phrases under `error` that make a successful status an error.",
        default_factory=HttpStatusReasons,
        example='{"error": ["Not Ready"]}',
    )
    pool_size: Annotated[Int, StandsFor({0: 50}), Ge(0), Le(500)] = prop(
        "ms.http.conn.max",
        "How many connections to each host a Spark task keeps open for its next requests. This"
        " does not limit the requests: `taskexecutor.threadpool.size` sets how many work units"
        " query a source at once.",
        default=50,
        identity=False,
    )
    pool_size_per_host: Annotated[Int, StandsFor({0: 20}), Ge(0), Le(200)] = no_effect(
        "ms.http.conn.per.route.max",
        "Connections of DIL's pool to one host. `taskexecutor.threadpool.size` sets how many work"
        " units query a source at once.",
        default=20,
    )
    connection_age_s: Annotated[Int, Ge(0)] = no_effect(
        "ms.http.conn.ttl.seconds",
        "Age at which DIL's pool closes a connection. Here a connection lasts as long as the "
        "Spark task that opened it, or until the server closes it.",
        default=10,
    )
    retries: Annotated[Int, Ge(0)] = prop(
        "ms.http.retry.max",
        "How often one request is sent again after 425, 429, 502, 503, 504 or a broken connection."
        " 0 switches this off. The source sets the waits (`Retry-After`, `RateLimit-Reset`), else"
        " they are 1, 2, 4 s and so on.",
        default=3,
        identity=False,
    )
    retry_s: Annotated[Int, Ge(0)] = prop(
        "ms.http.retry.max.seconds",
        "Longest time that the repetitions of one request may take together. If a source asks for"
        " a longer wait, its quota counts as spent: the run ends with DIL-QUOTA.",
        default=120,
        identity=False,
    )
    body_wait_s: Annotated[Int, Ge(0)] = prop(
        "ms.http.response.max.seconds",
        "Longest wait for the headers of an answer after their first byte, and for each MiB of its"
        " body, or for its rest, so that DIL gives up an answer that trickles. 0: no limit.",
        default=600,
        identity=False,
    )

    def templates(self) -> Iterator[tuple[str, str]]:
        """Yield the texts that may contain variables: the body, headers, and the token."""
        yield BODY, self.body
        for text in self.headers.values():
            yield HEADERS, revealed(text)
        if self.authentication is not None and self.authentication.token is not None:
            yield AUTHENTICATION, self.authentication.token.reveal()
