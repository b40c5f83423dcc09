"""Compares origins of HTTP addresses (RFC 6454), to decide which address gets the credentials."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from connectors.address import AddressError
from dil.model.messages import shortened
from dil.text.origins import HOSTS, NetworkOrigin, allows

_SHOWN = 100
_PORTS = {"http": 80, "https": 443}
_ENCODED = re.compile("https?%3A%2F%2F", re.IGNORECASE)


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
        shown = shortened(f"{before}{mark}{rest.rpartition('@')[2]}", _SHOWN)
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
