"""Builds one request, with its login header, from the job, the current values and credentials.

See docs/http.md and rules G33 and S11.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from connectors.address import AddressError
from connectors.http.body_template import FORM, media_type_of, render_body
from connectors.http.section import AUTHENTICATION, HEADERS
from connectors.http.settings import IDEMPOTENT, WITH_BODY, HttpSettings, SessionEnvironment
from connectors.http.target import (
    RequestTarget,
    build_target,
    form_body,
    header_texts,
    is_allowed,
    is_same_origin,
    legal,
    origin_of,
    shown_uri,
    with_query,
)
from dil.errors import ConfigError, SourceContractError
from dil.model.authentication import Authentication
from dil.model.json import JsonValue, as_text, compact
from dil.model.secret import Secret, revealed
from dil.secrets import learn
from dil.sections.http import BODY
from dil.sections.source import URI
from dil.spi.connector import RequestValues
from dil.text.origins import refuse_other_origin
from dil.text.variables import Substituted, placeholders, substitute

_UNAUTHORIZED = 401
_JSON = "application/json; charset=UTF-8"
_CONTENT_TYPE = "Content-Type"
# Half of a surrogate pair: a code point that is no character.
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_PREFIXES = {"basic": "Basic ", "bearer": "Bearer ", "oauth": "OAuth ", "custom": ""}


class LoginHeader(NamedTuple):
    """The header by which a request logs in; ``name`` is empty if the request needs none.

    ``used`` are the variables in ``text``, ``missing`` are the variables without a value.
    """

    name: str = ""
    text: str = ""
    used: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request to send; ``shown`` names it in messages, without secrets.

    ``body`` is None for methods without a body. ``is_repeatable`` is true if the request may be
    sent again although the source may have done it. ``unknown`` are the placeholders without a
    value, by the place that contains them. ``has_row`` is true if the request sends a row.
    """

    method: str
    uri: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    shown: str
    is_repeatable: bool
    unknown: Mapping[str, frozenset[str]]
    has_row: bool = False


class Credentials:
    """The credentials that change during a session: authentication input, a grant's token.

    Fields of a renewed authentication input apply to all later requests. The session keeps only the
    last token; the coordinator hands out the valid token. ``has_grant`` is true if the job fetches
    tokens by a grant.
    """

    def __init__(self, settings: HttpSettings, environment: SessionEnvironment) -> None:
        authentication = settings.authentication
        self.has_grant = authentication is not None and authentication.is_fetched
        self._stale = frozenset(settings.statuses.pagination_error)
        self._environment = environment
        self._fields: Mapping[str, str] = {}
        self._token: Secret | None = None
        self._rejected: Secret | None = None

    def overlaid(self, values: RequestValues) -> RequestValues:
        """Return the values of a request, with renewed fields in place of old ones."""
        if not self._fields:
            return values
        sent = {
            name: value if name in values.given else self._fields.get(name, value)
            for name, value in values.parameters.items()
        }
        return replace(values, variables={**values.variables, **self._fields}, parameters=sent)

    def token(self) -> Secret | None:
        """Return the token to send; None for a job without a grant.

        Raises:
            AuthenticationError: no token can be fetched.
        """
        if not self.has_grant:
            return None
        self._token = self._environment.coordinator.credential(self._rejected)
        self._rejected = None
        return self._token

    def is_token_refused(self, status: int) -> bool:
        """Return whether an answer refuses the token of a grant."""
        return self.has_grant and status == _UNAUTHORIZED

    def reject_token(self) -> None:
        """Never send the last token again; the next request fetches another one."""
        self._rejected = self._token

    def is_input_stale(self, status: int) -> bool:
        """Return whether an answer means that the authentication input must be read again."""
        return self._environment.renewed is not None and status in self._stale

    def renew_input(self) -> None:
        """Read the authentication input again, and use its fields from now on."""
        if self._environment.renewed is not None:
            found = self._environment.renewed()
            for secret in found.values():
                learn(secret)  # No job file names this value, and no message may print it.
            self._fields = {name: secret.reveal() for name, secret in found.items()}


def build_outgoing(
    settings: HttpSettings, values: RequestValues, token: Secret | None = None
) -> OutgoingRequest:
    """Return the request for these values; build a new one for each sending, to sign it again.

    Args:
        settings: The settings of the job.
        values: The variables, the unused parameters, the row to send, and the address of the next
            page.
        token: The token of a grant, None for a job without a grant.

    Raises:
        ConfigError: the URI or the body as text needs a value that the request lacks, a header has
            a line break, the body has half of a surrogate pair, or values lead to another origin
            than that of the job's URI.
        SourceContractError: the next page is at another origin.
    """
    headers, used, missing = _headers(settings, values, token)
    has_body = settings.method in WITH_BODY
    kind = _header_text(headers, _CONTENT_TYPE)
    written = render_body(settings.body, kind, values.variables, settings.declared)
    target = build_target(
        settings.uri,
        values,
        encodes=settings.encodes,
        declared=settings.declared,
        consumed=used | written.used,
        appends=not has_body or bool(settings.body),
    )
    try:
        refuse_other_origin(settings.uri, target.uri, origin_of, settings.hosts)
    except AddressError as error:
        raise ConfigError.single(URI, error.what, error.fix) from None
    address = target
    if values.next_uri:
        address = _followed(values.next_uri, target, settings.hosts)

    body = None
    if settings.body:
        body = _in_utf_8(written, settings, values.variables)
    elif has_body:
        body = _body(headers, target.left, values.payload or {})
    uri = address.uri
    key = authentication_query(settings, values.variables)
    if key:  # The query's own member of such a name stays.
        there = {name for name, _ in parse_qsl(urlsplit(uri).query, keep_blank_values=True)}
        uri = with_query(uri, {name: text for name, text in key.items() if name not in there})
    return OutgoingRequest(
        method=settings.method,
        uri=uri,
        headers=headers,
        body=body,
        shown=f"{settings.method} {address.shown}",
        is_repeatable=_is_repeatable(settings, values),
        unknown={"ms.source.uri": target.unknown, "headers": missing},
        has_row=values.payload is not None,
    )


def authentication_header(
    settings: HttpSettings, variables: Mapping[str, JsonValue], token: Secret | None
) -> LoginHeader:
    """Return the header that ``ms.authentication`` adds; variables are replaced before encoding.

    Args:
        settings: The settings of the job.
        variables: Values for ``{{name}}``.
        token: The token that the coordinator gives for method oauth2; it is sent unchanged.
    """
    authentication = settings.authentication
    if authentication is None:
        return LoginHeader()
    match authentication.method:
        case "oauth2":
            return LoginHeader(authentication.header, f"Bearer {revealed(token)}")
        case "apikey":
            if authentication.location == "query":
                return LoginHeader()
            key = _key(authentication, variables)
            return LoginHeader(authentication.name, key.text, key.used, key.missing)
        case _:
            written = f"{revealed(settings.username)}:{revealed(settings.password)}"
            if authentication.token is not None:
                written = authentication.token.reveal()
            result = substitute(written, variables)
            text = result.text
            if authentication.encryption == "base64":
                text = base64.b64encode(text.encode()).decode("ascii")
            value = _PREFIXES[authentication.method] + text
            return LoginHeader(authentication.header, value, result.used, result.missing)


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


def _headers(
    settings: HttpSettings, values: RequestValues, token: Secret | None
) -> tuple[dict[str, str], frozenset[str], frozenset[str]]:
    """Return the headers, the variables that they use, and the variables without a value."""
    written = {name: revealed(value) for name, value in (settings.headers or {}).items()}
    giver = settings.credential_sources.giver
    texts, used, missing = header_texts(written, values.variables, partial(giver, HEADERS))
    login = authentication_header(settings, values.variables, token)
    if login.name:
        own = {login.name: login.text}
        added, _, _ = header_texts(own, {}, lambda _: giver(AUTHENTICATION, login.used))
        texts = _replaced(texts, login.name, added[login.name])
    if settings.idempotency_header and values.idempotency_key:
        texts = _replaced(texts, settings.idempotency_header, values.idempotency_key)
    if settings.method in WITH_BODY and not _header_text(texts, _CONTENT_TYPE):
        texts = _replaced(texts, _CONTENT_TYPE, _JSON)
    authentication = settings.authentication
    if authentication is not None and authentication.token is not None:
        # The variables in the token's template count as sent wherever the token goes.
        in_token = placeholders(authentication.token.reveal())
        used |= frozenset(in_token) & frozenset(values.variables)
    return texts, used | login.used, missing | login.missing


def _replaced(texts: Mapping[str, str], name: str, text: str) -> dict[str, str]:
    """Return the headers with ``name`` set; other headers of this name in any case are removed."""
    return {**{key: value for key, value in texts.items() if key.lower() != name.lower()},
            name: text}  # fmt: skip


def _header_text(texts: Mapping[str, str], name: str) -> str:
    return next((text for key, text in texts.items() if key.lower() == name.lower()), "")


def _body(
    headers: Mapping[str, str], left: Mapping[str, JsonValue], payload: Mapping[str, JsonValue]
) -> bytes:
    """Return unused parameters and payload in the Content-Type's form, else as JSON (rule G37).

    A member of the payload replaces a parameter of the same name. Text is UTF-8.
    """
    members = {**left, **payload}
    kind = media_type_of(_header_text(headers, _CONTENT_TYPE))
    if kind == FORM:
        return form_body(members).encode("ascii")
    # Half of a surrogate pair has no UTF-8 form, but JSON can write it.
    text = compact(members).encode("utf-8", "backslashreplace")
    return text + b"\n" if kind.endswith("ndjson") else text


def _in_utf_8(
    written: Substituted, settings: HttpSettings, variables: Mapping[str, JsonValue]
) -> bytes:
    """Return the bytes of a body that the job writes as text.

    Raises:
        ConfigError: a value has half of a surrogate pair, which has no form in UTF-8.
    """
    try:
        return written.text.encode()
    except UnicodeEncodeError:
        names = {
            name for name in written.used if _LONE_SURROGATE.search(as_text(variables.get(name)))
        }
        raise ConfigError.single(
            settings.credential_sources.giver(BODY, frozenset(names)),
            "gives the request's body half of a surrogate pair, which cannot be sent as text",
            "A text was cut inside a character, such as an emoji. Correct it where it comes from.",
        ) from None


def _is_repeatable(settings: HttpSettings, values: RequestValues) -> bool:
    """Return whether a request may be repeated although the source may have done it.

    A POST without a row to send counts as a query, which only reads.
    """
    return (
        settings.method in IDEMPOTENT
        or settings.repeats_unsafe
        or bool(settings.idempotency_header and values.idempotency_key)
        or (settings.method == "POST" and values.payload is None)
    )


def _followed(next_uri: str, own: RequestTarget, hosts: Iterable[str]) -> RequestTarget:
    """Return the address of the next page that an answer named, if it may get the credentials.

    Headers and credentials go only to the origin of the job's URI and to ``ms.source.uri.hosts``.
    """
    uri = legal(next_uri.partition("#")[0])
    shown = shown_uri(uri)
    if not is_same_origin(own.uri, uri) and not is_allowed(own.uri, uri, hosts):
        error = SourceContractError(
            f"{own.shown}: the answer names a next page at {shown}, which is another origin"
            " (scheme, host and port)",
            "DIL does not send the credentials there. If the source has moved, change"
            " ms.source.uri; if it has pages at that host, add the host to ms.source.uri.hosts; if"
            ' it is behind a proxy that it does not know, add "queryOnly": true to ms.pagination.',
        )
        error.is_unsent = True
        raise error
    return RequestTarget(uri, shown, own.unknown, own.left)


def _key(authentication: Authentication, variables: Mapping[str, JsonValue]) -> Substituted:
    return substitute(revealed(authentication.token), variables)
