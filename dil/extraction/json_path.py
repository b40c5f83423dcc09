"""Dot paths into JSON values (behaviour.md B9.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TypeVar

from dil.model.json import JsonValue
from dil.spi.extractor import MISSING, Missing

T = TypeVar("T")


def find(root: JsonValue, path: str) -> JsonValue | Missing:
    """Follow a dot path: names in objects, non-negative indexes in arrays; "" is the root.

    A missing segment means missing; it is never skipped. There is no escape for a dot.

    >>> find({"a": [{"b": None}]}, "a.0.b") is None
    True
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
            position = index(segment)
            if position is None or position >= len(value):
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


def index(segment: str) -> int | None:
    """Return the array index that a path segment means, None when it is a name."""
    return int(segment) if segment.isascii() and segment.isdigit() else None
