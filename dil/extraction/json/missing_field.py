"""Explains why ``ms.data.field`` finds no value in a response, by names and never by values."""

from __future__ import annotations

from collections.abc import Callable

from dil.extraction.content import OMITTED_FIX
from dil.model.json import JsonValue
from dil.model.messages import listed, shortened
from dil.model.path import Missing, Path, Steps
from dil.model.suggestions import nearest_word

_FIX = "Check ms.data.field; an error document may also look like this."


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
