"""Paths to places in documents: DIL's dot paths (behaviour.md B9.1), and JSONPath.

A text that is ``$`` or begins with ``$.`` or ``$[`` is JSONPath; every other one, such as ``$id``,
is a dot path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

from dil.errors import SourceContractError
from dil.model.json import JsonValue, compact
from dil.spi.extractor import MISSING, Missing

Step: TypeAlias = str | int
Steps: TypeAlias = tuple[Step, ...]


class Reach(Enum):
    """What a path means: the place of its steps, every child of that, or what a search finds."""

    PLACE = "place"
    CHILDREN = "children"
    SEARCH = "search"


class JsonPathError(ValueError):
    """A text begins as JSONPath and is none; ``position`` is that of a character, from 1."""

    def __init__(self, reason: str, position: int | None = None) -> None:
        super().__init__(reason, position)
        self.reason = reason
        self.position = position

    def __str__(self) -> str:
        return f"{self.reason} at character {self.position}" if self.position else self.reason


@dataclass(frozen=True, slots=True)
class Path:
    """A compiled path.

    ``steps`` lead from the root to one place. A name means the member of an object; where it is a
    number, and the value an array, an element, -1 being the last. An int means only an element.
    What a search finds lies at or below its steps.
    """

    text: str
    steps: Steps
    reach: Reach = Reach.PLACE

    @property
    def is_place(self) -> bool:
        """Tell whether the path can only ever mean one place."""
        return self.reach is Reach.PLACE

    @property
    def name(self) -> str:
        """Return the name of what is at the path, empty where it has none."""
        last = self.steps[-1] if self.is_place and self.steps else ""
        return last if isinstance(last, str) else ""

    def shown(self, steps: Steps) -> str:
        """Return other steps in the notation of this path."""
        if not is_jsonpath(self.text):
            return ".".join(map(str, steps))
        return "$" + "".join(map(_shown_step, steps))


def is_jsonpath(text: str) -> bool:
    """Tell whether a text is JSONPath, and not a dot path."""
    return text == "$" or text.startswith(("$.", "$["))


@lru_cache(maxsize=1024)
def compile_path(text: str) -> Path:
    """Return the path that a text means; the empty text is the root.

    Raises:
        JsonPathError: it begins as JSONPath and is none.
    """
    if not is_jsonpath(text):
        return Path(text, tuple(text.split(".")) if text else ())
    from dil.text.jsonpath import compile_jsonpath  # few jobs have JSONPath

    return compile_jsonpath(text)


def places(path: Path, root: JsonValue) -> list[Steps]:
    """Return the steps to each place that a path means; a document to search has no decimals."""
    if path.is_place:
        return [] if isinstance(follow(root, path.steps), Missing) else [path.steps]
    from dil.text.jsonpath import search

    return search(path.text, root)


def find(root: JsonValue, text: str) -> JsonValue | Missing:
    """Return the value at a path, MISSING where there is none.

    There is no escape for a dot in a dot path; JSONPath has one.

    >>> find({"a": [{"b": None}]}, "a.0.b") is None
    True
    >>> find({"a": [{"b": 1}, {"b": 2}]}, "a.-1.b")
    2
    >>> find({"a": 1}, "x.a")
    MISSING
    >>> find({"@odata.nextLink": "/2"}, "$['@odata.nextLink']")
    '/2'

    Raises:
        SourceContractError: a search finds different values.
    """
    path = compile_path(text)
    if path.is_place:
        return follow(root, path.steps)
    found = (follow(root, steps) for steps in places(path, _with_floats(root)))
    return only(path, [value for value in found if not isinstance(value, Missing)])


def name_of(text: str) -> str:
    """Return the name of the value at a path; a text that is no JSONPath is the name itself.

    Raises:
        JsonPathError: it begins as JSONPath and is none.
    """
    return compile_path(text).name if is_jsonpath(text) else text


def one_place(text: str) -> Steps:
    """Return the steps of a path of a document that is not searched, but followed.

    Raises:
        SourceContractError: it is JSONPath that may find several places.
    """
    path = compile_path(text)
    if not path.is_place:
        raise SourceContractError(
            f'"{text}" may find several places, and only JSON is searched',
            "Name one place, such as $.data.rows.",
        )
    return path.steps


def only(path: Path, values: Iterable[JsonValue]) -> JsonValue | Missing:
    """Return the one value that a path found, MISSING where it found none.

    Raises:
        SourceContractError: there are different ones.
    """
    different = {compact(value): value for value in values}
    if len(different) > 1:
        raise SourceContractError(
            f'"{path.text}" matches {len(different)} different values, and one is needed',
            "Write an expression that selects one of them.",
        )
    return next(iter(different.values()), MISSING)


def follow(root: JsonValue, steps: Steps) -> JsonValue | Missing:
    """Return the value at the end of steps; a missing one is never skipped."""
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
    """Return which element of an array of ``size`` a step means, counted from 0.

    None when the step is a name, or the array has no such element.
    """
    position = number(step)
    if position is not None and position < 0:
        position += size
    return position if position is not None and 0 <= position < size else None


def number(step: Step) -> int | None:
    """Return a step as a number, below 0 from the end; None when it is a name."""
    if isinstance(step, int):
        return step
    digits = step.removeprefix("-")
    return int(step) if digits.isascii() and digits.isdigit() else None


def _with_floats(value: JsonValue) -> JsonValue:
    """Return a document without decimals, which filters of JSONPath do not know for numbers."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Mapping):
        return {name: _with_floats(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_with_floats(item) for item in value]
    return value


def _shown_step(step: Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if step.isascii() and step.replace("-", "_").isidentifier():
        return f".{step}"
    escaped = step.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"
