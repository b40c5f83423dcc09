"""The session key of a response: a cursor or a status (behaviour.md B8.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dil.extraction.paging.rules import SessionKey
from dil.model.json import JsonValue
from dil.model.path import is_jsonpath
from dil.spi.connector import Response
from dil.spi.extractor import Missing


def session_key(
    name: str, response: Response, lookup: Callable[[str], JsonValue | Missing]
) -> SessionKey:
    """Find the session key of a response (B8.4): JSON path before response header.

    In a body that is an array a dot path is collected from each object and joined with ``|``;
    JSONPath means what it says, and no header.
    """
    found = lookup(name)
    if not isinstance(found, Missing):
        return SessionKey.of(found)
    if is_jsonpath(name):
        return SessionKey()
    parts = list(_element_keys(name, lookup))
    if parts:
        return SessionKey("|".join(parts), is_there=True)
    header = response.header(name)
    return SessionKey(header or "", is_there=header is not None)


def _element_keys(name: str, lookup: Callable[[str], JsonValue | Missing]) -> Iterator[str]:
    """Yield the key's text from each element of a body that is an array."""
    position = 0
    while not isinstance(lookup(str(position)), Missing):
        found = lookup(f"{position}.{name}")
        if not isinstance(found, Missing):
            yield SessionKey.of(found).text
        position += 1
