"""Texts inside properties that have a grammar: paths, regular expressions, date patterns."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, TypeAlias

from dil.model.messages import REGEX_FIX
from dil.model.path import JsonPathError, Path, is_jsonpath
from dil.model.section import ValueType, Written
from dil.sections.reading import Finding, ReadContext, ShapeError
from dil.text.paths import compile_path

_SYNTAX = "Write names with other characters in quotes: $['a b'].c; `dil explain` shows the forms."
_INDEX = re.compile(r"\[(-?[0-9]+)\]")
# Annotations of OData, such as @odata.nextLink, are single names. Other names with an @ may have
# members: @graph of JSON-LD.
_ANNOTATION = re.compile(r"(?:(.+)\.)?(@(?:odata|microsoft)\..+)", re.IGNORECASE)
_NUMBER = re.compile(r"\.(-?[0-9]+)(?![^.])")
_SELECT = "Name one place, such as $.data.rows."


def anything(path: Path) -> str:
    """Return empty text: every path is accepted, with any number of values."""
    del path
    return ""


def one_place(path: Path) -> str:
    """Return why a path does not lead to exactly one place; empty text if it does."""
    return "" if path.is_place else "may find several places, but must find one"


def through_members(path: Path) -> str:
    """Return why a path does not lead to a value by members of records; empty text if it does."""
    if path.is_place and path.steps and all(isinstance(step, str) for step in path.steps):
        return ""
    return one_place(path) or "does not consist of names alone"


def path_problem(
    where: str, text: str, refusal: Callable[[Path], str] = anything
) -> Finding | None:
    """Return the problem of a JSONPath and its fix; None if the path is fine or no JSONPath.

    Args:
        where: The path's place inside the property, empty if it is the whole value.
        text: The path.
        refusal: Returns why a parsed path is not allowed there; empty text if it is allowed.
    """
    if not is_jsonpath(text):
        return None
    subject = f'{where} is "{text}"'.lstrip()
    try:
        what = refusal(compile_path(text))
    except JsonPathError as error:
        return f"{subject}, which is no JSONPath: {error}", _SYNTAX
    return (f"{subject}, which {what}", _SELECT) if what else None


def note_dot_path(where: str, text: str, around: ReadContext) -> None:
    """Give a notice about a dot path that names other places than its author means.

    An index in brackets is a part of the name, and a dot in an annotation of OData is not.
    """
    if is_jsonpath(text):
        return
    subject = f'{where} is "{text}"'.lstrip()
    if _INDEX.search(text):
        dotted = _INDEX.sub(r".\1", text).lstrip(".")
        around.notice(
            f"{subject}, and in a dot path brackets are a part of the name",
            f"To pick an element, write {dotted}.",
        )
    elif found := _ANNOTATION.fullmatch(text):
        above, name = found.groups()
        place = _NUMBER.sub(r"[\1]", f"$.{above}") if above else "$"
        around.notice(
            f"{subject}, and in a dot path each dot begins another name",
            f"Write {place}['{name}'].",
        )


def _path(text: str, around: ReadContext) -> str:
    if found := path_problem("", text):
        raise ShapeError(found)
    note_dot_path("", text, around)
    return text


DocumentPath: TypeAlias = Annotated[str, Written(ValueType.STRING, read=_path)]


def check_regex(pattern: str, where: str) -> None:
    """Refuse a text that is no Java regular expression.

    Raises:
        ShapeError: the text is not valid; the message begins with ``where``.
    """
    if error := regex_error(pattern):
        raise ShapeError((f"{where}: {error}", REGEX_FIX)) from error


def regex_error(pattern: str) -> ValueError | None:
    """Return why a text is no Java regular expression; None if it is one."""
    from dil.text.java_regex import compile_java  # few jobs have expressions

    try:
        compile_java(pattern)
    except ValueError as error:
        return error
    return None


def check_date_pattern(pattern: str, where: str) -> None:
    """Refuse a text that is no Joda pattern.

    Raises:
        ShapeError: the text is not valid; the message begins with ``where``.
    """
    if found := date_pattern_error(pattern):
        why, fix = found
        raise ShapeError((f"{where}: {why}", fix))


def check_written_pattern(pattern: str, zone: str, where: str) -> None:
    """Refuse a text that is no Joda pattern, or one that cannot write times of a zone.

    Raises:
        ShapeError: the text is not valid; the message begins with ``where``.
    """
    from dil.text.joda import compile_pattern  # few jobs have patterns
    from dil.text.joda_writing import UNWRITABLE_FIX

    check_date_pattern(pattern, where)
    if reason := compile_pattern(pattern).unwritable(zone):
        raise ShapeError((f"{where}: {reason}", UNWRITABLE_FIX))


def date_pattern_error(pattern: str) -> tuple[str, str] | None:
    """Return why a text is no Joda pattern, and the advice; None if it is one."""
    from dil.text.joda_mistakes import unreadable  # few jobs have patterns

    return unreadable(pattern)
