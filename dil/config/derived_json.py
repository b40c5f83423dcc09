"""``ms.derived.fields``: the rules of behaviour.md B10, B19 check 7."""

from __future__ import annotations

import re

from dil.model.json import JsonValue
from dil.model.settings import DerivedField, Formula
from dil.model.suggestions import DATE_PATTERN_FIX, REGEX_FIX, ZONE_FIX
from dil.spi.reading import (
    ShapeError,
    Surroundings,
    as_array,
    as_object,
    build,
    each,
    texts,
)
from dil.text.zones import find_zone

_CLOCK = re.compile(r"CURRENTDATE|P[0-9]+D", re.IGNORECASE)


def derived_fields(value: JsonValue, around: Surroundings) -> tuple[DerivedField, ...]:
    """Return the derived fields in order.

    Raises:
        ShapeError: any of them breaks a rule, or two have one name.
    """
    del around
    found = each(as_array(value), _derived_field)
    names = [field.name.lower() for field in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ShapeError((f'defines "{twice[0]}" more than once', "Names ignore letter case."))
    return found


def _derived_field(item: JsonValue, where: str) -> DerivedField:
    written = as_object(item, where)
    members: dict[str, object] = dict(written)
    if "formula" in written:
        members["formula"] = texts(as_object(written["formula"], f"{where}.formula"))
    field = build(DerivedField, members, where)
    place = f'{where} "{field.name}"'
    if _CLOCK.fullmatch(field.formula.source) and field.formula.type != "epoc":
        raise ShapeError(
            (f"{place} takes {field.formula.source}, which only type epoc can", "Use type epoc.")
        )
    _CHECKS.get(field.formula.type, _nothing)(field.formula, place)
    return field


def _nothing(formula: Formula, place: str) -> None:
    del formula, place


def _epoc(formula: Formula, place: str) -> None:
    try:
        if formula.timezone:
            find_zone(formula.timezone)
    except ValueError as error:
        raise ShapeError((f"{place}: {error}", ZONE_FIX)) from error
    try:
        if formula.format and formula.format.lower() != "iso":
            from dil.text.joda import compile_pattern  # few jobs have patterns

            compile_pattern(formula.format)
    except ValueError as error:
        raise ShapeError((f"{place}: {error}", DATE_PATTERN_FIX)) from error


def _regexp(formula: Formula, place: str) -> None:
    from dil.text.java_regex import compile_java

    try:
        compile_java(formula.format or "(.*)")
    except ValueError as error:
        raise ShapeError((f"{place}: {error}", REGEX_FIX)) from error


_CHECKS = {"epoc": _epoc, "regexp": _regexp}
