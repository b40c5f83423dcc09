"""JSONPath by jsonpath-ng, with the selectors of RFC 9535; loaded only if a job has such a path.

Source: RFC 9535; jsonpath-ng 1.16, ``jsonpath_ng.ext``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import cast

from jsonpath_ng import (
    Child,
    DatumInContext,
    Descendants,
    Fields,
    Index,
    JSONPath,
    Root,
    Slice,
    Wildcard,
    exceptions,
)
from jsonpath_ng.ext.filter import Expression, Filter
from jsonpath_ng.ext.parser import parse
from jsonpath_ng.ext.string import DefintionInvalid

from dil.model.json import JsonValue
from dil.model.path import JsonPathError, Path, Reach, Step, Steps, number

# The parts that select places of a document. Other parts calculate, sort, or climb up.
_SELECTORS = (Root, Child, Descendants, Fields, Index, Slice, Wildcard, Filter)
_AT = re.compile(r"\b(?:at (\d+):|line (\d+), col )(\d+)")
_WHAT = re.compile(r"near token (.+) \(\S+\)|Unexpected character: (.)")


def compile_jsonpath(text: str) -> Path:
    """Return the path of an expression.

    Raises:
        JsonPathError: the text is no JSONPath, or does more than select places.
    """
    nodes = list(_chain(_parsed(text)))
    steps: list[Step] = []
    for node in nodes[1:]:
        step = _step(node)
        if step is None:
            break
        steps.append(step)
    rest = nodes[1 + len(steps) :]
    if not rest:
        return Path(text, tuple(steps))
    is_children = len(rest) == 1 and isinstance(rest[0], Wildcard)
    return Path(text, tuple(steps), Reach.CHILDREN if is_children else Reach.SEARCH)


def search(text: str, root: JsonValue) -> list[Steps]:
    """Return the steps to each place that an expression selects, in the order of selection."""
    return [_steps_to(found) for found in _parsed(text).find(root)]


@lru_cache(maxsize=256)
def _parsed(text: str) -> JSONPath:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # refused below, or still allowed
            expression = parse(text)
    except (exceptions.JSONPathError, DefintionInvalid) as error:
        raise _unreadable(text, str(error)) from None
    # Filters may calculate values to compare, but the expression itself may only select.
    nodes = [expression]
    while nodes:
        node = nodes.pop()
        if isinstance(node, Filter):
            _check_patterns(node)
        elif isinstance(node, Child | Descendants):
            nodes += [node.left, node.right]
        elif not isinstance(node, _SELECTORS):
            name = type(node).__name__.strip("_").lower()
            raise JsonPathError(f"it asks for {name}, and a path only selects places of a document")
    return expression


def _unreadable(text: str, message: str) -> JsonPathError:
    """Return the parser's error in our words, with the position from 1."""
    found = _WHAT.search(message)
    if found is None:
        if "end of string" in message:
            return JsonPathError("it ends too early", len(text))
        return JsonPathError(message)
    place = _AT.search(message)
    what = f"{found[1] or found[2]!s} is not expected"
    if place is None:
        return JsonPathError(what)
    lines = text.split("\n")[: int(place[1] or place[2]) - 1]
    return JsonPathError(what, sum(len(line) + 1 for line in lines) + int(place[3]) + 1)


def _check_patterns(node: object) -> None:
    """Refuse a bad regular expression behind ``=~`` anywhere in a filter."""
    if isinstance(node, Expression) and node.op == "=~":
        try:
            re.compile(node.value)
        except re.error as error:
            raise JsonPathError(f"{node.value} is no regular expression: {error}") from None
    if isinstance(node, JSONPath):
        for value in vars(node).values():
            for each in value if isinstance(value, list) else [value]:
                _check_patterns(each)


def _chain(expression: JSONPath) -> Iterator[JSONPath]:
    """Yield the parts of an expression from its root on; descendants are one part."""
    if isinstance(expression, Child):
        yield from _chain(expression.left)
        yield from _chain(expression.right)
    elif isinstance(expression, Descendants):
        yield from _chain(expression.left)
        yield expression
    else:
        yield expression


def _step(node: JSONPath) -> Step | None:
    """Return the step of a selector of one place, None for other selectors."""
    if isinstance(node, Index) and len(node.indices) == 1:
        return node.indices[0]
    # In a dot path a name that is a number could mean an element, too.
    if isinstance(node, Fields) and len(node.fields) == 1 and number(node.fields[0]) is None:
        return node.fields[0]
    return None


def _steps_to(found: DatumInContext) -> Steps:
    steps: list[Step] = []
    at: DatumInContext = found
    while at.context is not None:
        # The path to a match has one name or one number at each level.
        steps += at.path.fields if isinstance(at.path, Fields) else cast("Index", at.path).indices
        at = at.context
    return tuple(reversed(steps))
