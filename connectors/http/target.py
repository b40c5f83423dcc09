"""Builds and compares addresses of requests; finds placeholders and unused parameters (G33 to G37).

The URI's own text stays unchanged byte for byte, except that characters forbidden in a request line
are percent-encoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote_plus, urlsplit

from connectors.address import AddressError
from dil.errors import ConfigError
from dil.model.json import JsonValue, as_text
from dil.model.messages import shortened
from dil.spi.connector import RequestValues
from dil.text.origins import HOSTS, NetworkOrigin, allows
from dil.text.variables import placeholders, substitute

# RFC 3986 section 2: unreserved and reserved characters, and "%" only before two hex digits.
_ILLEGAL = re.compile(r"[^A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]|%(?![0-9A-Fa-f]{2})")
_SHOWN_LENGTH = 100
_PORTS = {"http": 80, "https": 443}
_ENCODED = re.compile("https?%3A%2F%2F", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """An absolute URI to send; ``unknown`` are placeholders without a value.

    ``left`` are the parameters that neither URI nor headers used, and those that the source gave.
    ``shown`` is for messages: scheme, host, the path before substitution, the names of parameters.
    """

    uri: str = field(repr=False)
    shown: str
    unknown: frozenset[str]
    left: Mapping[str, JsonValue] = field(default_factory=dict, repr=False)


def form_encoded(text: str) -> str:
    """Return a text in the encoding of HTML forms: a blank is ``+``; ``. - * _`` stay (rule G36).

    >>> form_encoded("a b/c?d=e&f:é~*'()!")
    'a+b%2Fc%3Fd%3De%26f%3A%C3%A9%7E*%27%28%29%21'
    """
    return quote_plus(text, safe="*", errors="replace").replace("~", "%7E")


def _path_encoded(text: str) -> str:
    # In a path a plus is a plus: only forms, and so queries, have it for a blank.
    return form_encoded(text).replace("+", "%20")


def build_target(
    template: str,
    values: RequestValues,
    *,
    encodes: bool,
    declared: Collection[str],
    consumed: Collection[str] = (),
    appends: bool = True,
) -> RequestTarget:
    """Return the URI with its variables replaced, and the parameters that nothing used.

    Args:
        template: ``ms.source.uri``, which may hold placeholders.
        values: The evaluated variables and parameters of this request.
        encodes: Whether to encode values in the URI, for the path or for the query.
        declared: Names of all parameters. If one has no value, the query member that uses it is
            removed.
        consumed: Names that the headers use.
        appends: Whether to append the unused parameters to the query; else they are for the body.

    Raises:
        ConfigError: the URI uses a declared parameter without value outside its query.
    """
    absent = {n for n in placeholders(template) if n in declared and n not in values.variables}
    written, query = _without_absent(template.partition("#")[0], absent)
    path = substitute(written, values.variables, _path_encoded if encodes else None)
    members = substitute(query or "", values.variables, form_encoded if encodes else None)
    used = (path.used | members.used).union(consumed) - values.given
    left = {name: value for name, value in values.parameters.items() if name not in used}
    filled = path.text if query is None else f"{path.text}?{members.text}"
    uri = legal(with_query(filled, left if appends else {}))
    return RequestTarget(uri, _shown(written, query, left), path.missing | members.missing, left)


def legal(uri: str) -> str:
    """Return a URI with percent-encoded UTF-8 for characters that a request line forbids."""

    def percent_encoded(match: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in match.group().encode("utf-8", "replace"))

    return _ILLEGAL.sub(percent_encoded, uri)


def with_query(uri: str, members: Mapping[str, JsonValue]) -> str:
    """Return a URI with form-encoded members added at the end of its query, in order."""
    if not members:
        return uri
    added = form_body(members)
    if "?" not in uri:
        return f"{uri}?{added}"
    return f"{uri}{added}" if uri.endswith(("?", "&")) else f"{uri}&{added}"


def form_body(members: Mapping[str, JsonValue]) -> str:
    """Return members as HTML forms send them; arrays and objects as compact JSON (rule G37)."""
    return "&".join(
        f"{form_encoded(name)}={form_encoded(as_text(value))}" for name, value in members.items()
    )


def shown_uri(uri: str) -> str:
    """Return a URI that the source wrote, shortened for messages: without user and values.

    >>> shown_uri("https://u:p@h/x?cursor=abc&key=s3cret#top")
    'https://h/x (cursor, key)'
    """
    written, mark, query = uri.partition("#")[0].partition("?")
    return _shown(written, query if mark else None, {})


def header_texts(
    headers: Mapping[str, str],
    variables: Mapping[str, JsonValue],
    giver: Callable[[frozenset[str]], str],
) -> tuple[dict[str, str], frozenset[str], frozenset[str]]:
    """Return the headers with their variables replaced, and two sets of names of variables.

    The first set has the variables that have a value, the second the variables that have none.
    ``giver`` returns the property that gave some variables their values; errors name that property.

    Raises:
        ConfigError: a value would break out of its header line.
    """
    texts: dict[str, str] = {}
    used: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    for name, value in headers.items():
        result = substitute(value, variables)
        if _breaks(result.text):
            raise ConfigError.single(
                giver(frozenset(each for each in result.used if _breaks(variables[each]))),
                f'gives header "{name}" a value with a line break',
                "Remove the line break, which is often the end of a file or variable: a header is"
                " one line.",
            )
        texts[name] = result.text.strip()
        used |= result.used
        missing |= result.missing
    return texts, used, missing


def _breaks(value: JsonValue) -> bool:
    text = as_text(value)
    return "\r" in text or "\n" in text


def _without_absent(template: str, absent: Collection[str]) -> tuple[str, str | None]:
    """Return the URI up to its query, and the query without absent values (rule G27)."""
    written, mark, query = template.partition("?")
    for name in placeholders(written):
        if name in absent:
            raise ConfigError.single(
                "ms.source.uri",
                f"needs {{{{{name}}}}} in its path, which has no value in this request",
                "Give the parameter an initial value, or use it in the query.",
            )
    if not absent:
        return written, query if mark else None
    kept = [part for part in query.split("&") if not set(placeholders(part)) & set(absent)]
    return written, "&".join(kept) if kept else None


def _shown(written: str, query: str | None, left: Mapping[str, JsonValue]) -> str:
    """Return the URI for messages, without user info and values of parameters."""
    scheme, mark, rest = written.partition("://")
    if not mark:
        return written  # a variable alone, whose value is the address
    authority, slash, path = rest.partition("/")
    host = authority.rpartition("@")[2]
    names = [part.partition("=")[0] for part in (query or "").split("&") if part]
    shown = [name if not placeholders(name) else "..." for name in (*names, *map(legal, left))]
    return f"{scheme}://{host}{slash}{path}" + (f" ({', '.join(shown)})" if shown else "")


def origin_of(uri: str) -> NetworkOrigin:
    """Return the scheme, host and port of an address.

    Raises:
        AddressError: the text is no absolute HTTP address.
    """
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not parts.hostname:
        if _ENCODED.match(uri):
            raise AddressError(
                "is filled with a value that is a whole address, which is encoded",
                "ms.http.request.method=GET_XE puts values in as they are. List the host in"
                f" {HOSTS}.",
            )
        # The message has no user, no query, and no password that looks like a port.
        before, mark, rest = uri.partition("?")[0].rpartition("://")
        shown = shortened(f"{before}{mark}{rest.rpartition('@')[2]}", _SHOWN_LENGTH)
        raise AddressError(
            f'is filled with values to "{shown}", which is no HTTP address',
            "Values fill the path and the query: write http://host/ or https://host/ before them."
            f" {HOSTS} names further hosts that values may lead to.",
        )
    user = parts.netloc.rpartition("@")[0] or ()
    return NetworkOrigin(
        scheme, parts.hostname.lower(), None if port == _PORTS[scheme] else port, user
    )


def is_same_origin(before: str, after: str) -> bool:
    """Return whether credentials for one address may be sent to another address.

    The second address may have https instead of http if the host is the same and both ports are the
    default ports. User names in an address do not matter, because nothing sends them.
    """
    own, other = _without_user(before), _without_user(after)
    if own is None or other is None:
        return False
    return other in {
        own,
        *({NetworkOrigin("https", own.host)} if own == NetworkOrigin("http", own.host) else ()),
    }


def is_allowed(before: str, after: str, hosts: Iterable[str]) -> bool:
    """Return whether ``ms.source.uri.hosts`` allows the origin of an address."""
    own, other = _without_user(before), _without_user(after)
    return other is not None and any(allows(each, other, own) for each in hosts)


def _without_user(uri: str) -> NetworkOrigin | None:
    try:
        found = origin_of(uri)
    except AddressError:
        return None
    return NetworkOrigin(found.scheme, found.host, found.port)
