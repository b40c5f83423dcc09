"""A JSON object read as the model of its property: member by member, with all findings at once.

Numbers and booleans may be written as texts (spec README 22), words in any letter case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from msgspec import Meta
from msgspec.structs import FieldInfo, fields

from dil.config.findings import known_words, nearest, quote
from dil.model.json import JsonValue, as_text
from dil.model.secret import Secret
from dil.model.settings import EXACT, Setting

M = TypeVar("M", bound=Setting)
Finding = tuple[str, str]
_Inside = tuple[Any, ...]  # the types inside a type, as typing gives them

_LONGEST = 4000  # digits; the interpreter refuses longer numbers, or takes very long
_WHOLE = re.compile(rf"([+-]?[0-9]{{1,{_LONGEST}}})(?:\.0+)?")
_TRUE = frozenset({"true", "t", "yes", "y", "on", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "off", "0"})

_NO_TEXT = ("is no text", 'Write a text: "...".')
_NO_ARRAY = ("is no array", "Write [...].")
_NO_OBJECT = ("is no object", "Write {...}.")
_TOO_SMALL = ("is too small", "Write a larger number.")
_TOO_MANY = ("has too many items", "Write fewer items.")


def read_members(
    model: type[M], members: Mapping[str, object], where: str, findings: list[Finding]
) -> M | None:
    """Return the model of a JSON object, None where anything is wrong with it.

    Appends one finding (what, fix) per wrong, missing or unknown member: the known ones in the
    model's order, then the unknown ones as they are written. Findings repeat no value, but for
    words that are none of those allowed.
    """
    before = len(findings)
    found: dict[str, object] = {}
    known = {field.encode_name: field for field in _fields(model)}
    for name, field in known.items():
        place = _inside(where, name)
        if name in members:
            found[field.name] = _value(field.type, members[name], place, findings)
        elif field.required:
            findings.append((f'lacks the member "{place}"', f'Add "{name}".'))
    for name in members:
        if name not in known:
            fix = nearest(name, known, f"Known members: {', '.join(known)}.")
            findings.append((f'has an unknown member "{_inside(where, name)}"', fix))
    return None if len(findings) > before else model(**found)


@cache
def _fields(model: type[Setting]) -> tuple[FieldInfo, ...]:
    return fields(model)


def _inside(where: str, name: str) -> str:
    return f"{where}.{name}".lstrip(".")


def _value(kind: Any, value: object, place: str, findings: list[Finding]) -> object:  # noqa: ANN401
    """Return a value as its type says; one that cannot be read is a finding, and None."""
    if read := _COMPOSED.get(get_origin(kind)):
        return read(get_args(kind), value, place, findings)
    if kind in _PLAIN:
        read_plain, wrong = _PLAIN[kind]
        found = read_plain(value)
        if found is None:
            findings.append(_at(place, wrong))
        return found
    if kind is Any:
        return value
    if not isinstance(value, Mapping):
        findings.append(_at(place, _NO_OBJECT))
        return None
    return read_members(kind, value, place, findings)


def _at(place: str, wrong: Finding) -> Finding:
    what, fix = wrong
    return f"{place} {what}", fix


def _bounded(inside: _Inside, value: object, place: str, findings: list[Finding]) -> object:
    kind, bounds = inside
    if bounds is EXACT:
        return _exact_word(get_args(kind), value, place, findings)
    before = len(findings)
    found = _value(kind, value, place, findings)
    if len(findings) == before:
        findings.extend(_at(place, wrong) for wrong in _beyond(found, bounds))
    return found


def _beyond(value: Any, bounds: Meta) -> Iterator[Finding]:  # noqa: ANN401
    if bounds.ge is not None and value < bounds.ge:
        yield _TOO_SMALL
    if bounds.min_length is not None and len(value) < bounds.min_length:
        yield _NO_TEXT
    if bounds.max_length is not None and len(value) > bounds.max_length:
        yield _TOO_MANY


def _either(inside: _Inside, value: object, place: str, findings: list[Finding]) -> object:
    """Return null and secrets as they are where the type knows them; the first type says more."""
    if isinstance(value, Secret | None) and type(value) in inside:
        return value
    return _value(inside[0], value, place, findings)


def _word(words: _Inside, value: object, place: str, findings: list[Finding]) -> object:
    if isinstance(value, str) and value.lower() in words:
        return value.lower()
    return _exact_word(words, value, place, findings)


def _exact_word(words: _Inside, value: object, place: str, findings: list[Finding]) -> object:
    if value in words:
        return value
    text = as_text(cast("JsonValue", value))
    findings.append((f"{place} is {quote(text)}", known_words(text, words)))
    return None


def _array(inside: _Inside, value: object, place: str, findings: list[Finding]) -> object:
    if not isinstance(value, list | tuple):
        findings.append(_at(place, _NO_ARRAY))
        return ()
    return tuple(
        _value(inside[0], item, f"{place}[{index}]", findings) for index, item in enumerate(value)
    )


def _object(inside: _Inside, value: object, place: str, findings: list[Finding]) -> object:
    if not isinstance(value, Mapping):
        findings.append(_at(place, _NO_OBJECT))
        return {}
    return {
        name: _value(inside[1], item, f"{place}.{name}", findings) for name, item in value.items()
    }


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _secret(value: object) -> Secret | None:
    return value if isinstance(value, Secret) else None


def _written(value: object) -> str:
    if isinstance(value, Decimal) and value.adjusted() > _LONGEST:
        return ""  # 1e999999999 is no number of pages, and its digits fill the memory
    return as_text(cast("JsonValue", value))


def _whole(value: object) -> int | None:
    match = _WHOLE.fullmatch(_written(value).strip())
    return int(match[1]) if match else None


def _number(value: object) -> float | None:
    try:
        number = float(_written(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _flag(value: object) -> bool | None:
    word = _written(value).lower()
    return word in _TRUE if word in _TRUE or word in _FALSE else None


_COMPOSED: Mapping[object, Callable[[_Inside, object, str, list[Finding]], object]] = {
    Annotated: _bounded,
    Union: _either,
    UnionType: _either,
    Literal: _word,
    tuple: _array,
    dict: _object,
}
_PLAIN: Mapping[object, tuple[Callable[[object], object], Finding]] = {
    str: (_text, _NO_TEXT),
    Secret: (_secret, _NO_TEXT),
    int: (_whole, ("is no whole number", "Write a whole number.")),
    float: (_number, ("is no number", "Write a number.")),
    bool: (_flag, ("is neither true nor false", "Write true or false.")),
}
