"""Adds a place to properties in advice: the file and line where the job sets the property."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from dil.errors import Origin
from dil.model.report import ReportedFailure

Places = Callable[[str], Origin | None]

# A name, with the value that follows it, so that both stay together. A name behind -D does not
# match: it is part of a command, which people copy unchanged.
_NAMED = re.compile(
    r"(?<![\w.])(?<!-D )"
    r"((?:ms|source|job|task|taskexecutor|writer|data|extract|state|converter|encrypt|fs)"
    r"(?:\.[A-Za-z0-9_]+)+)(?:=(?:\{[^{}]*\}|[^\s,;]*[\w\]}\"']))?"
)
# The properties of a source's request, for failures that name no property.
_ASKED_BY = ("ms.jdbc.statement", "ms.source.uri")
_OF_SOURCES = "DIL-SRC"


def with_places(text: str, places: Places) -> str:
    """Return the text with file and line after the first mention of each property that is set."""
    seen: set[str] = set()

    def located(found: re.Match[str]) -> str:
        name = found[1]
        origin = None if name in seen else places(name)
        seen.add(name)
        if origin is None or str(origin) in text:
            return found[0]
        return f"{found[0]} ({_place(name, origin)})"

    return _NAMED.sub(located, text)


def _place(name: str, origin: Origin) -> str:
    """Return the place of a property; the name is not said again if -D set it."""
    return "-D" if origin.path == f"-D {name}" else str(origin)


def located_advice(code: str, error: str, fix: str, places: Places) -> str:
    """Return the advice with the places of the properties that it names.

    If a failure of the source names no property, the advice gets the place of the request.
    """
    located = with_places(fix, places)
    if located != fix or not code.startswith(_OF_SOURCES) or with_places(error, places) != error:
        return located
    for name in _ASKED_BY:
        origin = places(name)
        if origin is not None and str(origin) not in f"{error} {fix}":
            end = "" if not fix or fix.endswith((".", "?", "!", ":")) else "."
            place = _place(name, origin)
            return f"{fix}{end} The request was made as {name} says ({place}).".strip()
    return located


def located_failures(
    failures: tuple[ReportedFailure, ...], places: Places
) -> tuple[ReportedFailure, ...]:
    """Return failures with the places of the properties that their advice names."""
    known: dict[tuple[str, str, str], str] = {}
    found = []
    for one in failures:
        cause = (one.code, one.error, one.fix)
        if cause not in known:
            known[cause] = located_advice(*cause, places)
        found.append(replace(one, fix=known[cause]))
    return tuple(found)
