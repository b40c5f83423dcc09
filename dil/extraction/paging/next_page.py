"""What an answer itself says about the page after it: an address, or a flag.

Both are members of ``ms.pagination`` beside DIL's own: see ``dil.model.settings.Pagination``.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from urllib.parse import urljoin, urlsplit

from dil.errors import SourceContractError
from dil.extraction.excerpt import kind_of
from dil.extraction.paging.link_header import next_link
from dil.model.json import JsonValue
from dil.spi.connector import Response
from dil.spi.extractor import MISSING, Missing

LINK = "link"
HEADER = "header:"
_ENDS = frozenset({"", "false", "0", "no", "null"})

Lookup = Callable[[str], "JsonValue | Missing"]


def next_address(place: str, response: Response, lookup: Lookup) -> str:
    """Return the absolute address of the next page, empty when the answer names none.

    Relative references are resolved against the address that answered (RFC 3986, 5.2); an
    absolute one is returned byte for byte. Absent, null, false and empty text mean the end.

    Raises:
        SourceContractError: there is something else than text, or a relative reference in an
            answer without an address.
    """
    found = found_at(place, response, lookup)
    if isinstance(found, Missing) or found is None or found is False:
        return ""
    if not isinstance(found, str):
        raise SourceContractError(
            f'the next page at "{place}" is {kind_of(found)}, not an address',
            "Check `next` of ms.pagination; a token is followed by ms.session.key.field.",
        )
    address = found.strip()
    if not address or urlsplit(address).scheme:
        return address
    if not response.uri:
        raise SourceContractError(
            f'the next page at "{place}" is a relative address, and the answer has none itself',
            "This source cannot follow `next` of ms.pagination.",
        )
    return urljoin(response.uri, address)


def more_flag(place: str, response: Response, lookup: Lookup) -> bool | None:
    """Return what the flag says, None where the answer does not have it.

    false, 0, null and the texts ``false``, ``0``, ``no``, ``null`` and the empty one mean no, in
    any letter case; other texts and numbers mean yes.

    Raises:
        SourceContractError: there is an array or an object.
    """
    found = found_at(place, response, lookup)
    if isinstance(found, Missing):
        return None
    if found is None:
        return False
    if isinstance(found, str):
        return found.strip().lower() not in _ENDS
    if isinstance(found, bool | int | float | Decimal):
        return bool(found)
    raise SourceContractError(
        f'the flag at "{place}" is {kind_of(found)}, not true or false',
        "Check `more` of ms.pagination.",
    )


def has_place(place: str, response: Response, lookup: Lookup) -> bool:
    """Return whether an answer has a place at all, be it null or empty."""
    return not isinstance(found_at(place, response, lookup), Missing)


def found_at(place: str, response: Response, lookup: Lookup) -> JsonValue | Missing:
    """Return what an answer has at ``link``, ``header:<name>``, or a path in its body."""
    if place == LINK:
        links = response.header("Link")
        return MISSING if links is None else next_link(links)
    if place.startswith(HEADER):
        value = response.header(place.removeprefix(HEADER).strip())
        return MISSING if value is None else value
    return lookup(place)
