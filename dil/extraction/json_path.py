"""Dot paths into JSON values (behaviour.md B9.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TypeVar

from dil.model.json import JsonValue
from dil.spi.extractor import MISSING, Missing

T = TypeVar("T")


def find(root: JsonValue, path: str) -> JsonValue | Missing:
    """Follow a dot path: names in objects, indexes in arrays; "" is the root.

    Index -1 is the last element. A missing segment means missing; it is never skipped. There is no
    escape for a dot.

    >>> find({"a": [{"b": None}]}, "a.0.b") is None
    True
    >>> find({"a": [{"b": 1}, {"b": 2}]}, "a.-1.b")
    2
    >>> find({"a": 1}, "x.a")
    MISSING
    """
    value = root
    for segment in path.split(".") if path else ():
        if isinstance(value, Mapping):
            if segment not in value:
                return MISSING
            value = value[segment]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            position = index(segment, len(value))
            if position is None:
                return MISSING
            value = value[position]
        else:
            return MISSING
    return value


def member_values(objects: Sequence[Mapping[str, T]], name: str) -> list[T | None]:
    """Return one member of many objects, None where it is missing; fast where none is missing."""
    try:
        return list(map(itemgetter(name), objects))
    except KeyError:
        return [value.get(name) for value in objects]


def index(segment: str, size: int) -> int | None:
    """Return which element of an array of ``size`` a path segment means, counted from 0.

    None when the segment is a name, or the array has no such element.
    """
    position = number(segment)
    if position is not None and position < 0:
        position += size
    return position if position is not None and 0 <= position < size else None


def number(segment: str) -> int | None:
    """Return a path segment as a number, below 0 from the end; None when it is a name."""
    digits = segment.removeprefix("-")
    return int(segment) if digits.isascii() and digits.isdigit() else None
