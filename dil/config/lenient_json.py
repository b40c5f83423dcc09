"""JSON values of properties: strict JSON first, then what DIL's parser let pass, with a notice.

Source: behaviour.md B1.8, spec README 6 and 10.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dil.config.brackets import flow_text, keep_unknown_escapes
from dil.model.json import JsonValue, read_number

if TYPE_CHECKING:
    import yaml

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_TOO_DEEP = "its brackets are nested too deep"
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


class JsonError(ValueError):
    """Text that is no JSON, not even leniently; ``line`` counts from 0 inside the text."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason, line)
        self.reason = reason
        self.line = line


def parse(text: str) -> tuple[JsonValue, str]:
    """Return the value, and how the text differs from strict JSON (empty text if it does not).

    Numbers are exact: integers of any length, others as a Decimal that keeps its text.

    Raises:
        JsonError: neither strict nor lenient reading succeeds.
    """
    try:
        return _strict(text), ""
    except RecursionError as error:
        raise JsonError(_TOO_DEEP, 0) from error
    except ValueError as error:
        first = error
    kept = keep_unknown_escapes(text)
    if kept != text:
        try:
            return _strict(kept), "holds a backslash that JSON does not know; it was kept"
        except ValueError:
            pass
    if isinstance(first, _DuplicateError):
        raise JsonError(str(first), 0) from first
    reason, line = _reason(first)
    try:
        return _lenient(kept), f"is no strict JSON ({reason}); it was read leniently"
    except JsonError as error:
        raise JsonError(error.reason or reason, error.line if error.reason else line) from error
    except RecursionError as error:
        raise JsonError(_TOO_DEEP, 0) from error


class _DuplicateError(ValueError):
    pass


def _members(pairs: Sequence[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _DuplicateError(f'member "{twice}" is given twice')
    return members


def _no_constant(word: str) -> JsonValue:
    raise ValueError(f"{word} is no JSON")


def _strict(text: str) -> JsonValue:
    value: JsonValue = json.loads(
        text,
        parse_float=read_number,
        parse_int=read_number,
        parse_constant=_no_constant,
        object_pairs_hook=_members,
        # Line breaks inside strings come from values that are written over several lines.
        strict=False,
    )
    return value


def _reason(error: ValueError) -> tuple[str, int]:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg[:1].lower()}{error.msg[1:]}", error.lineno - 1
    return str(error), 0


def _lenient(text: str) -> JsonValue:
    import yaml

    flow = flow_text(text)
    try:
        if any(_is_yaml_only(event) for event in yaml.parse(flow, Loader=yaml.SafeLoader)):
            raise JsonError("", 0)
        node = yaml.compose(flow, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise JsonError("", 0) from error
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        raise JsonError("", 0)  # a mapping without brackets is YAML alone
    return from_node(node)


def _is_yaml_only(event: yaml.Event) -> bool:
    import yaml

    if isinstance(event, yaml.AliasEvent):
        return True
    return bool(getattr(event, "anchor", None) or getattr(event, "tag", None))


def from_node(node: yaml.Node | None) -> JsonValue:
    """Return the JSON value of a YAML node; only JSON's own words and numbers are not text.

    Raises:
        JsonError: a name without a value, a name that is no text, or one given twice.
    """
    import yaml

    if isinstance(node, yaml.SequenceNode):
        return [from_node(item) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return _mapping(node)
    if not isinstance(node, yaml.ScalarNode):
        raise JsonError("is empty", 0)
    return scalar(node.value) if node.style is None else str(node.value)


def _mapping(node: yaml.MappingNode) -> JsonValue:
    pairs: list[tuple[str, JsonValue]] = []
    for name, value in node.value:
        line = name.start_mark.line
        if not isinstance(name.value, str):
            raise JsonError("a name is no text", line)
        if value.value == "" and value.style is None:
            raise JsonError(f'"{name.value}" has no value', line)
        pairs.append((name.value, from_node(value)))
    try:
        return _members(pairs)
    except _DuplicateError as error:
        raise JsonError(str(error), node.start_mark.line) from error


def scalar(text: str) -> JsonValue:
    """Return what an unquoted word stands for: a number, true, false, null, or its text."""
    if text in _WORDS:
        return _WORDS[text]
    return read_number(text) if _NUMBER.fullmatch(text) else text
