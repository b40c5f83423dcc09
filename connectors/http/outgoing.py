"""One request, built from the job and the values of the moment (docs/http.md, rule G33)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import parse_qsl, urlsplit

from connectors.address import AddressError
from connectors.http.authentication import authentication_header, authentication_query
from connectors.http.origin import is_allowed, is_same_origin, origin_of
from connectors.http.section import AUTHENTICATION, HEADERS
from connectors.http.settings import IDEMPOTENT, HttpSettings
from connectors.http.target import (
    RequestTarget,
    build_target,
    form_body,
    header_texts,
    legal,
    shown_uri,
    with_query,
)
from dil.errors import ConfigError, SourceContractError
from dil.model.json import JsonValue, compact
from dil.model.secret import Secret
from dil.sections.source import URI
from dil.spi.connector import RequestValues
from dil.text.origins import refuse_other_origin
from dil.text.variables import placeholders

_FORM = "application/x-www-form-urlencoded"
_JSON = "application/json; charset=UTF-8"
_CONTENT_TYPE = "Content-Type"
_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request, ready to send; ``shown`` names it in messages, without secrets.

    ``body`` is None for methods that have none. ``is_repeatable`` says that it may be sent again
    when it is unknown whether it was done. ``unknown`` are the placeholders that have no
    value, by the place that has them. ``has_row`` says that it sends a row.
    """

    method: str
    uri: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    shown: str
    is_repeatable: bool
    unknown: Mapping[str, frozenset[str]]
    has_row: bool = False


def build_outgoing(
    settings: HttpSettings, values: RequestValues, token: Secret | None = None
) -> OutgoingRequest:
    """Return the request for these values; built anew for every sending, so that it is signed anew.

    Args:
        settings: What the job says.
        values: The variables, the left-overs, the row to send, the address to follow.
        token: The token of a grant, None for jobs without one.

    Raises:
        ConfigError: the URI needs a value that is not there, or a header has a line break.
        SourceContractError: the next page is at another origin.
        ConfigError: values lead to another origin than that of the job.
    """
    headers, used, missing = _headers(settings, values, token)
    has_body = settings.method in _WITH_BODY
    target = build_target(
        settings.uri,
        values,
        encodes=settings.encodes,
        declared=settings.declared,
        consumed=used,
        appends=not has_body,
    )
    try:
        refuse_other_origin(settings.uri, target.uri, origin_of, settings.hosts)
    except AddressError as error:
        raise ConfigError.single(URI, error.what, error.fix) from None
    address = target
    if values.next_uri:
        address = _followed(values.next_uri, target, settings.hosts)
    body = _body(headers, target.left, values.payload or {}) if has_body else None
    return OutgoingRequest(
        method=settings.method,
        uri=_with_key(address.uri, authentication_query(settings, values.variables)),
        headers=headers,
        body=body,
        shown=f"{settings.method} {address.shown}",
        is_repeatable=_is_repeatable(settings, values),
        unknown={"ms.source.uri": target.unknown, "headers": missing},
        has_row=values.payload is not None,
    )


def _headers(
    settings: HttpSettings, values: RequestValues, token: Secret | None
) -> tuple[dict[str, str], frozenset[str], frozenset[str]]:
    """Return the headers of a request, the variables they used, and those without a value."""
    written = {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in (settings.headers or {}).items()
    }
    giver = settings.credential_sources.giver
    texts, used, missing = header_texts(written, values.variables, partial(giver, HEADERS))
    name, text, auth_used, auth_missing = authentication_header(settings, values.variables, token)
    if name:
        added, _, _ = header_texts({name: text}, {}, lambda _: giver(AUTHENTICATION, auth_used))
        texts = _replaced(texts, name, added[name])
    if settings.idempotency_header and values.idempotency_key:
        texts = _replaced(texts, settings.idempotency_header, values.idempotency_key)
    if settings.method in _WITH_BODY and not _header(texts, _CONTENT_TYPE):
        texts = _replaced(texts, _CONTENT_TYPE, _JSON)
    return texts, used | auth_used | _used_in_key(settings, values), missing | auth_missing


def _used_in_key(settings: HttpSettings, values: RequestValues) -> frozenset[str]:
    """Return the variables in the written token, which count as sent wherever it goes."""
    authentication = settings.authentication
    if authentication is None or authentication.token is None:
        return frozenset()
    return frozenset(placeholders(authentication.token.reveal())) & frozenset(values.variables)


def _replaced(texts: Mapping[str, str], name: str, text: str) -> dict[str, str]:
    """Return headers with one more, which takes the place of those of its name in any case."""
    return {**{key: value for key, value in texts.items() if key.lower() != name.lower()},
            name: text}  # fmt: skip


def _header(texts: Mapping[str, str], name: str) -> str:
    return next((text for key, text in texts.items() if key.lower() == name.lower()), "")


def _body(
    headers: Mapping[str, str], left: Mapping[str, JsonValue], payload: Mapping[str, JsonValue]
) -> bytes:
    """Return left-overs and payload as the Content-Type asks: a form, else JSON (rule G37).

    A member of the payload wins over a parameter of its name. Text is UTF-8.
    """
    members = {**left, **payload}
    media_type = _header(headers, _CONTENT_TYPE).partition(";")[0].strip().lower()
    if media_type == _FORM:
        return form_body(members).encode("ascii")
    # Half of a surrogate pair has no UTF-8; JSON can still write it.
    return compact(members).encode("utf-8", "backslashreplace")


def _is_repeatable(settings: HttpSettings, values: RequestValues) -> bool:
    """Return whether a request may be repeated blindly.

    A POST without a row to send is taken for a query: it reads.
    """
    return (
        settings.method in IDEMPOTENT
        or settings.repeats_unsafe
        or bool(settings.idempotency_header and values.idempotency_key)
        or (settings.method == "POST" and values.payload is None)
    )


def _followed(next_uri: str, own: RequestTarget, hosts: Iterable[str]) -> RequestTarget:
    """Return the address that an answer named for its next page, when it may be trusted.

    Headers and credentials are for the origin of the job's own URI and for ``ms.source.uri.hosts``.
    """
    uri = legal(next_uri.partition("#")[0])
    shown = shown_uri(uri)
    if not is_same_origin(own.uri, uri) and not is_allowed(own.uri, uri, hosts):
        error = SourceContractError(
            f"{own.shown}: the next page is said to be at {shown}, which is another origin (scheme,"
            " host and port)",
            "Its credentials are not sent there. If the source has moved, change ms.source.uri; if"
            " it has pages at that host, allow it by ms.source.uri.hosts.",
        )
        error.is_unsent = True
        raise error
    return RequestTarget(uri, shown, own.unknown, own.left)


def _with_key(uri: str, key: Mapping[str, str]) -> str:
    """Add the credentials that go into the query, unless the address already holds the name."""
    if not key:
        return uri
    there = {name for name, _ in parse_qsl(urlsplit(uri).query, keep_blank_values=True)}
    return with_query(uri, {name: text for name, text in key.items() if name not in there})
