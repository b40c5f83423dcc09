"""Explains where an answer has its rows, if ``ms.data.field`` finds nothing or is not set."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

from dil.extraction.content import OMITTED_FIX
from dil.model.json import JsonValue
from dil.model.messages import listed, nearest_word, shortened
from dil.model.path import Missing, Path, Steps

_FIX = "Check ms.data.field; an error document may also look like this."
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY_OF_OBJECTS = re.compile(rb"\[\s*\{")
_PLAIN_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
# Usual names of the array of rows, and of the members next to it.
_ROWS = frozenset(
    {
        "data", "items", "results", "result", "records", "rows", "values", "entries", "objects",
        "list", "content", "hits", "elements", "value", "documents", "edges", "nodes",
    }
)  # fmt: skip
_BESIDE = re.compile(
    r"total|count|page|paging|pagination|next|prev|first|last|cursor|token|more|meta|link|offset"
    r"|limit|size|start|status|success|ok|object|url|href|request|version|time|error|warning|code"
    r"|message|kind|etag|@odata",
    re.IGNORECASE,
)


def missing_field(path: Path, lookup: Callable[[Steps], JsonValue | Missing]) -> tuple[str, str]:
    """Return the error and the advice for a response that has no value at a path.

    Args:
        path: The path; if it is a search, its steps lead to the searched value.
        lookup: Returns the value at steps; for no steps, the whole response.
    """
    steps = path.steps
    what = f'there is no "{path.text if path.is_place else path.shown(steps)}" in the response'
    is_null = False
    for depth in range(len(steps) - 1, -1, -1):
        level = lookup(steps[:depth])
        if isinstance(level, Missing):
            continue
        if level is None and depth:
            what += f'; "{path.shown(steps[:depth])}" is null'
            is_null = True
            continue
        root = "the response" if is_null else "it"
        place = f'"{path.shown(steps[:depth])}"' if depth else root
        if isinstance(level, list):
            return f"{what}; {place} is an array", _FIX
        if isinstance(level, dict):
            near = "" if is_null else nearest_word(str(steps[depth]), level)
            meant = path.shown((*steps[:depth], near, *steps[depth + 1 :]))
            omitted = "" if is_null else f" {OMITTED_FIX}"
            fix = f'Did you mean "{shortened(meant)}"? {_FIX}' if near else f"{_FIX}{omitted}"
            members = f"the members {listed(list(level))}" if level else "no members"
            return f"{what}; {place} has {members}", fix
        break
    return what, _FIX


def likely_rows(root: Mapping[str, msgspec.Raw]) -> str:
    """Return the path of the only array of objects in an answer, empty if it has none or several.

    The array is a member of the answer, or of one of its members.
    """
    found = list(_arrays(root))
    if not found:
        found = [
            f"{name}.{inner}"
            for name, value in root.items()
            if _PLAIN_NAME.fullmatch(name) and bytes(memoryview(value)[:1]) == b"{"
            for inner in _arrays(_MEMBERS.decode(value))
        ]
    return found[0] if len(found) == 1 else ""


def is_envelope(root: Mapping[str, msgspec.Raw], path: str) -> bool:
    """Return whether the names of an answer show that it carries rows and is no row itself."""
    first, _, inner = path.partition(".")
    if (inner or first).lower() in _ROWS:
        return True
    return all(_BESIDE.search(name) for name in root if name != first)


def note_of(path: str) -> str:
    """Return the note for the run's report about an array that was read as one row."""
    return (
        f'each answer became one row, but its "{path}" is an array of objects;'
        f" write ms.data.field={path} to make each object a row"
    )


def _arrays(members: Mapping[str, msgspec.Raw]) -> Iterator[str]:
    for name, value in members.items():
        if _PLAIN_NAME.fullmatch(name) and _ARRAY_OF_OBJECTS.match(memoryview(value)):
            yield name
