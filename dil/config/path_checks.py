"""Checks of JSONPath: that it parses, and finds what its property needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from dil.config.findings import Findings
from dil.model.path import JsonPathError, Path, is_jsonpath
from dil.model.properties import Properties
from dil.model.settings import Pagination, SessionKeyField
from dil.model.validation_attributes import ValidationAttributes
from dil.text.paths import compile_path

_SYNTAX = "Write names with other characters in quotes: $['a b'].c; `dil explain` shows the forms."
_SELECT = "Name one place, such as $.data.rows."


def anything(path: Path) -> str:
    """Refuse nothing: a path may lead anywhere, and find any number of values."""
    del path
    return ""


Named: TypeAlias = tuple[str, str]
"""Where in its property a path stands, empty for all of it, and the path."""


def check_paths(values: Properties, findings: Findings) -> None:
    """Check the JSONPath of every property that names places in documents."""
    for key, named, refusal in _PLACES:
        for where, text in named(values[key]) if findings.is_sound(key) else ():
            if found := path_problem(where, text, refusal):
                findings.problem(key, *found)


def path_problem(
    where: str, text: str, refusal: Callable[[Path], str] = anything
) -> tuple[str, str] | None:
    """Return what is wrong with a path if it is JSONPath, and what to write; None if it is fine.

    Args:
        where: Where in its property it stands.
        text: The path.
        refusal: Tells why a path that parses cannot stand there, empty text if it can.
    """
    if not is_jsonpath(text):
        return None
    subject = f'{where} is "{text}"'.lstrip()
    try:
        what = refusal(compile_path(text))
    except JsonPathError as error:
        return f"{subject}, which is no JSONPath: {error}", _SYNTAX
    return (f"{subject}, which {what}", _SELECT) if what else None


def one_place(path: Path) -> str:
    """Tell why a path does not lead to one place, empty text if it does."""
    return "" if path.is_place else "may find several places, and one is needed"


def through_members(path: Path) -> str:
    """Tell why a path does not lead through members of records to a value."""
    if path.is_place and path.steps and all(isinstance(step, str) for step in path.steps):
        return ""
    return one_place(path) or "does not lead through names alone"


def _itself(value: object) -> Iterator[Named]:
    if isinstance(value, str):
        yield "", value


def _of_pagination(value: object) -> Iterator[Named]:
    if isinstance(value, Pagination):
        yield from ((f"fields[{index}]", text.strip()) for index, text in enumerate(value.fields))
        yield "next", value.next
        yield "more", value.more


def _of_session(value: object) -> Iterator[Named]:
    if isinstance(value, SessionKeyField):
        yield "name", value.name


def _error_column(value: object) -> Iterator[Named]:
    if isinstance(value, ValidationAttributes) and value.error_column:
        yield "errorColumn", value.error_column


# A property, the paths in it, and why one of them cannot stand there (empty text: it can).
_PLACES: tuple[tuple[str, Callable[[object], Iterator[Named]], Callable[[Path], str]], ...] = (
    ("ms.total.count.field", _itself, anything),
    ("ms.session.key.field", _of_session, anything),
    ("ms.pagination", _of_pagination, anything),
    ("ms.validation.attributes", _error_column, one_place),
)
