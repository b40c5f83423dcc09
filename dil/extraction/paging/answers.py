"""Reads the parts of an answer that steer paging: next page, flag, session key, total, page, time.

The members of ``ms.pagination`` for address and flag are additions to LinkedIn's DIL: see
``dil.model.settings.Pagination``. Source: RFC 8288. See rules G26 to G29.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from dil.errors import SourceContractError
from dil.extraction.excerpt import kind_of
from dil.extraction.failed_answers import NO, Lookup
from dil.model.json import JsonValue, as_text
from dil.model.path import MISSING, Missing, is_jsonpath
from dil.spi.connector import Response
from dil.text.http_times import http_date_s, wait_s

if TYPE_CHECKING:
    import pyarrow as pa


LINK = "link"
HEADER = "header:"

_TARGET = re.compile(r"[\s,]*<([^>]*)>")
# A parameter: its name, and a value that is a token or a quoted string, or none at all.
_PARAMETER = re.compile(
    r"""\s*;\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?"""
)
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
_ESCAPED = re.compile(r"\\(.)")
# Date has whole seconds (RFC 9110, section 5.6.7), and servers may keep its text for a second.
_INEXACT_MS = 2000


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The session key of one response (rule G27).

    Patterns are compared with ``text``; JSON null, and a header with the text ``null``, have the
    text ``null`` but are no cursor.
    ``is_there`` is true if the response has the key, even if it is null or empty.
    """

    text: str = ""
    is_null: bool = False
    is_there: bool = field(default=False, compare=False)

    @property
    def cursor(self) -> str:
        """Return the text to send with the next request, empty if there is none."""
        return "" if self.is_null else self.text

    @classmethod
    def of(cls, value: JsonValue) -> SessionKey:
        """Return the session key of a JSON value."""
        if value is None:
            return cls("null", is_null=True, is_there=True)
        return cls(as_text(value), is_there=True)

    @classmethod
    def of_members(cls, value: JsonValue) -> SessionKey:
        """Return the session key of an object of which each member is sent (rule G27).

        The order of the members does not count. An object without values is no cursor, and neither
        is an empty array, which is how PHP writes an empty object.

        Raises:
            SourceContractError: the value is no object.
        """
        if isinstance(value, Mapping):
            members = {name: value[name] for name in sorted(value) if value[name] is not None}
            return cls.of(members or None)
        if value in (None, "", []):
            return cls.of(None)
        raise SourceContractError(
            f"the session key is {kind_of(value)}, and its parameter has the format members, which"
            " sends the members of an object",
            "Check the path in ms.session.key.field. Without `format` the key is sent as text.",
        )


@dataclass(frozen=True, slots=True)
class EchoedPage:
    """The page values that a response states for its own page; None for missing values."""

    start: int | None = None
    size: int | None = None
    number: int | None = None


def next_address(place: str, response: Response, lookup: Lookup, *, query_only: bool) -> str:
    """Return the absolute address of the next page, empty if the answer names none.

    A relative reference is resolved against the address that answered (RFC 3986, 5.2); an absolute
    address is returned byte for byte. A value that is absent, null, false or empty means the end.
    If ``query_only`` is true, only the query comes from the value.

    Raises:
        SourceContractError: the value is no text or no address, or it is a relative reference in an
            answer without an address, or its query is wanted and it has none.
    """
    found = found_at(place, response, lookup)
    if isinstance(found, Missing) or found is None or found is False:
        return ""
    if not isinstance(found, str):
        raise SourceContractError(
            f'the next page at "{place}" is {kind_of(found)}, not an address',
            "Check `next` of ms.pagination; if the source gives a token, use ms.session.key.field.",
        )
    address = found.strip()
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise SourceContractError(
            f'the next page at "{place}" is not an address: {error}',
            "Check `next` of ms.pagination.",
        ) from None
    if not address or (parts.scheme and not query_only):
        return address
    if not response.uri:
        raise SourceContractError(
            f'the next page at "{place}" is a relative address, and the answer has no address',
            "Leave out `next` of ms.pagination: it cannot be followed for this source.",
        )
    if not query_only:
        return urljoin(response.uri, address)
    if not parts.query and "=" in address and "/" not in address:
        raise SourceContractError(
            f'the next page at "{place}" is a query without "?" before it, not an address',
            "Leave `next` out of ms.pagination, and page by numbers or a cursor: give"
            " `initialvalues`, or ms.session.key.field.",
        )
    if not parts.query:
        raise SourceContractError(
            f'the next page at "{place}" is an address without a query',
            "Leave `queryOnly` out of ms.pagination: the pages of this source differ in the path.",
        )
    return urlsplit(response.uri)._replace(query=parts.query, fragment="").geturl()


def more_flag(place: str, response: Response, lookup: Lookup) -> bool | None:
    """Return whether the flag says that there are more pages, None if the answer lacks the flag.

    false, 0, null, the empty text, and the texts ``false``, ``0``, ``no`` and ``null`` in any
    letter case mean no; other texts and numbers mean yes.

    Raises:
        SourceContractError: the flag is an array or an object.
    """
    found = found_at(place, response, lookup)
    if isinstance(found, Missing):
        return None
    if found is None:
        return False
    if isinstance(found, str):
        return found.strip().lower() not in NO
    if isinstance(found, bool | int | float | Decimal):
        return bool(found)
    raise SourceContractError(
        f'the flag at "{place}" is {kind_of(found)}, not true or false',
        "Check `more` of ms.pagination.",
    )


def has_place(place: str, response: Response, lookup: Lookup) -> bool:
    """Return whether an answer has the place, even if its value is null or empty."""
    return not isinstance(found_at(place, response, lookup), Missing)


def found_at(place: str, response: Response, lookup: Lookup) -> JsonValue | Missing:
    """Return an answer's value at ``link``, ``header:<name>``, or a path in its body."""
    if place == LINK:
        links = response.header("Link")
        return MISSING if links is None else next_link(links)
    if place.startswith(HEADER):
        value = response.header(place.removeprefix(HEADER).strip())
        return MISSING if value is None else value
    return lookup(place)


def total_count(found: JsonValue | Missing, previous: JsonValue, path: str) -> JsonValue:
    """Return the total count after a page: the page's total, or ``previous`` if it has none.

    Raises:
        SourceContractError: the value exists, and is neither a number nor the text of a whole
            number (rule G26).
    """
    if isinstance(found, Missing):
        return previous
    if isinstance(found, str) and _WHOLE.fullmatch(found.strip()):
        return int(found)
    if isinstance(found, bool) or not isinstance(found, int | float | Decimal):
        raise SourceContractError(
            f'the total count at "{path}" is {kind_of(found)}, not a number',
            "Check ms.total.count.field; leave it out if the source gives no total.",
        )
    return found


def page_integer(found: JsonValue | Missing, path: str) -> int | None:
    """Return a page value of a response as an integer, None if it is missing or null.

    Raises:
        SourceContractError: the value is neither a whole number nor the text of a whole number.
    """
    if isinstance(found, Missing) or found is None:
        return None
    text = as_text(found)
    if isinstance(found, bool) or not re.fullmatch(r"-?[0-9]{1,400}", text):
        raise SourceContractError(
            f'the page value at "{path}" is {kind_of(found)}, not a whole number',
            "Check `fields` of ms.pagination.",
        )
    return int(text)


def echoed_page(fields: Iterable[str], lookup: Lookup) -> EchoedPage:
    """Return the page values at the places of start, size and number; an empty place has none.

    It raises the error of ``page_integer``.
    """
    paths = [name.strip() for name in (*fields, "", "", "")]
    found = [page_integer(lookup(path), path) if path else None for path in paths]
    return EchoedPage(found[0], found[1], found[2])


def session_key(
    name: str, response: Response, lookup: Lookup, *, is_members: bool = False
) -> SessionKey:
    """Return the session key of a response (rule G27), from its body, else from its headers.

    If the body is an array, the values at a dot path in each object are joined with ``|``.
    JSONPath is applied to the whole body, and never names a header.
    """
    found = lookup(name)
    if not isinstance(found, Missing):
        return SessionKey.of_members(found) if is_members else SessionKey.of(found)
    if is_members or is_jsonpath(name):
        return SessionKey()
    parts = list(_element_keys(name, lookup))
    if parts:
        return SessionKey("|".join(parts), is_there=True)
    header = response.header(name)
    # Salesforce ends a bulk query with the header `Sforce-Locator: null`.
    return SessionKey(header or "", is_null=header == "null", is_there=header is not None)


def _element_keys(name: str, lookup: Lookup) -> Iterator[str]:
    """Yield the key's text from each element if the body is an array."""
    position = 0
    while not isinstance(lookup(str(position)), Missing):
        found = lookup(f"{position}.{name}")
        if not isinstance(found, Missing):
            yield SessionKey.of(found).text
        position += 1


def next_link(header: str) -> str | None:
    """Return the address of the first link whose relation is ``next``, None if there is none.

    A link may have several relations, in any letter case. Links about something else than the
    answer (``anchor``) do not count. Links after a malformed link are not read.

    >>> next_link('<?page=3>; rel="prev next", </>; rel=first')
    '?page=3'
    """
    for target, parameters in _links(header):
        relations = parameters.get("rel", "").lower().split()
        if "next" in relations and "anchor" not in parameters:
            return target
    return None


def _links(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each target with its parameters; the first of repeated parameters counts."""
    position = 0
    while (link := _TARGET.match(header, position)) is not None:
        position = link.end()
        parameters: dict[str, str] = {}
        while (found := _PARAMETER.match(header, position)) is not None:
            position = found.end()
            name, quoted, token = found.groups()
            value = _ESCAPED.sub(r"\1", quoted) if quoted is not None else token or ""
            parameters.setdefault(name.lower(), value)
        yield link[1].strip(), parameters


def behind_ms(response: Response, high: int) -> int:
    """Return by how many ms the clock of an answer is behind ``high`` (epoch ms UTC), at least 0.

    The clock of an answer from a cache is its Date and Age (RFC 9111, section 4.2.3).

    >>> behind_ms(Response(None, {"Date": "Thu, 01 Jan 1970 00:01:00 GMT"}), 100_000)
    38000
    """
    sent, age = http_date_s(response.header("Date") or ""), response.header("Age") or "0"
    if sent is None or not (age.isascii() and age.isdecimal()):
        return 0
    return max(0, high - round(sent * 1000) - int(age[:9]) * 1000 - _INEXACT_MS)


def pause_s(response: Response) -> float:
    """Return how many seconds an answer asks to wait before the next request, 0 if it does not.

    A date in Retry-After (RFC 9110, section 10.2.3) is compared with the answer's own Date; without
    a Date, it asks for no wait.

    >>> pause_s(Response(None, {"Retry-After": "30"}))
    30.0
    """
    sent = http_date_s(response.header("Date") or "")
    return wait_s(response.header("Retry-After") or "", math.inf if sent is None else sent) or 0.0


class LastRow:
    """Keeps the newest row of a page and answers look-ups from its columns."""

    def __init__(self) -> None:
        self._row: pa.RecordBatch | None = None

    def see(self, batch: pa.RecordBatch) -> None:
        """Keep the last row of a batch; a batch without rows changes nothing."""
        if batch.num_rows:
            self._row = batch.slice(batch.num_rows - 1)

    def lookup(self, name: str) -> JsonValue | Missing:
        """Return a column's value; times are text in ISO 8601, with all digits.

        For several names, separated by commas, the result is an array of the columns' values.

        Raises:
            SourceContractError: the column holds bytes, a list or a structure.
        """
        import pyarrow as pa

        if self._row is None:
            return MISSING
        if name not in self._row.schema.names:
            return self._several(name) if "," in name else MISSING
        column = self._row.column(name)
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.string())
        value = column[0].as_py()
        if value is not None and not isinstance(value, bool | int | float | str | Decimal):
            raise SourceContractError(
                f'the column "{name}" is of type {column.type}: it cannot lead to the next page',
                "Name a column of numbers, text or times in ms.session.key.field.",
            )
        return value

    def _several(self, names: str) -> JsonValue | Missing:
        values: list[JsonValue] = []
        for name in names.split(","):
            value = self.lookup(name.strip())
            if isinstance(value, Missing):
                return MISSING
            values.append(value)
        return values
