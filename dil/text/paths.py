"""Compiles paths to places in documents, and follows them (``dil.model.path``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache

from dil.errors import SourceContractError
from dil.model.json import JsonValue, compact
from dil.model.path import MISSING, Missing, Path, Step, Steps, is_jsonpath, number


@lru_cache(maxsize=1024)
def compile_path(text: str) -> Path:
    """Return the compiled path of a text; the empty text is the root.

    Raises:
        JsonPathError: the text begins like JSONPath but is no JSONPath.
    """
    if not is_jsonpath(text):
        return Path(text, tuple(text.split(".")) if text else ())
    from dil.text.jsonpath import compile_jsonpath  # few jobs have JSONPath

    return compile_jsonpath(text)


def places(path: Path, root: JsonValue) -> list[Steps]:
    """Return the steps to each place that a path finds; searches read decimals as floats."""
    if path.is_place:
        return [] if isinstance(follow(root, path.steps), Missing) else [path.steps]
    from dil.text.jsonpath import search

    return search(path.text, root)


def find(root: JsonValue, text: str) -> JsonValue | Missing:
    """Return the value at a path, MISSING if there is none.

    A dot path cannot name a member with a dot; JSONPath can.

    >>> find({"a": [{"b": None}]}, "a.0.b") is None
    True
    >>> find({"a": [{"b": 1}, {"b": 2}]}, "a.-1.b")
    2
    >>> find({"a": 1}, "x.a")
    MISSING
    >>> find({"@odata.nextLink": "/2"}, "$['@odata.nextLink']")
    '/2'

    Raises:
        SourceContractError: a search finds several unequal values.
    """
    path = compile_path(text)
    if path.is_place:
        return follow(root, path.steps)
    found = (follow(root, steps) for steps in places(path, _with_floats(root)))
    return only(path, [value for value in found if not isinstance(value, Missing)])


def name_of(text: str) -> str:
    """Return the name of the value at a path; a text that is no JSONPath is the name itself.

    Raises:
        JsonPathError: the text begins like JSONPath but is no JSONPath.
    """
    return compile_path(text).name if is_jsonpath(text) else text


def one_place(text: str) -> Steps:
    """Return the steps of a path to one place, for documents that cannot be searched.

    Raises:
        SourceContractError: the path is JSONPath that may find several places.
    """
    path = compile_path(text)
    if not path.is_place:
        raise SourceContractError(
            f'"{text}" may find several places, and only JSON is searched',
            "Name one place, such as $.data.rows.",
        )
    return path.steps


def only(path: Path, values: Iterable[JsonValue]) -> JsonValue | Missing:
    """Return the only value that a path found, MISSING if it found none.

    Raises:
        SourceContractError: the path found several unequal values.
    """
    different = {compact(value): value for value in values}
    if len(different) > 1:
        raise SourceContractError(
            f'"{path.text}" matches {len(different)} different values, and one is needed',
            "Write an expression that selects one of them.",
        )
    return next(iter(different.values()), MISSING)


def follow(root: JsonValue, steps: Steps) -> JsonValue | Missing:
    """Return the value that steps lead to, MISSING if any step leads to nothing."""
    value = root
    for step in steps:
        if isinstance(value, Mapping):
            if not isinstance(step, str) or step not in value:
                return MISSING
            value = value[step]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            position = index(step, len(value))
            if position is None:
                return MISSING
            value = value[position]
        else:
            return MISSING
    return value


def index(step: Step, size: int) -> int | None:
    """Return the index from 0 of the element that a step means in an array of ``size``.

    The result is None if the step is a name, or the array has no such element.
    """
    position = number(step)
    if position is not None and position < 0:
        position += size
    return position if position is not None and 0 <= position < size else None


def _with_floats(value: JsonValue) -> JsonValue:
    """Return a document with floats for decimals, which filters of JSONPath cannot compare."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Mapping):
        return {name: _with_floats(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_with_floats(item) for item in value]
    return value
