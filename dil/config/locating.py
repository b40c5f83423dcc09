"""Finds the line of the JSON member that a finding names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dil.config.entry import Entry
from dil.errors import Problem
from dil.text.lenient_json import flow_text, keep_unknown_escapes

if TYPE_CHECKING:
    import yaml

# How findings name a member: [0].formula.type, or formula.type, alone or in quotes.
_PATH = re.compile(r"(?:\[[0-9]+\]|(?<![\w.])[A-Za-z_][\w-]*)(?:\.[A-Za-z_][\w-]*|\[[0-9]+\])*")
_TOKEN = re.compile(rf'"([^"]*)"|({_PATH.pattern})')
_STEP = re.compile(r"\[([0-9]+)\]|([A-Za-z_][\w-]*)")
_QUOTED = re.compile(r'"([^"]*)"')
_NAMES = ("name", "columnName")


def located(problem: Problem, entries: Mapping[str, Entry]) -> Problem:
    """Return a finding with the line of the JSON member that it names.

    A finding that names no member, or has a line of its own already, is returned unchanged.
    """
    entry = entries.get(problem.key)
    if entry is None or problem.origin != entry.origin:
        return problem
    if not entry.breaks or entry.text.lstrip()[:1] not in {"[", "{"}:
        return problem
    # A text that has to be changed before it can be parsed has no lines: the offsets would shift.
    flow = flow_text(entry.text)
    if len(flow) != len(entry.text) or keep_unknown_escapes(entry.text) != entry.text:
        return problem
    import yaml

    try:
        root = yaml.compose(flow, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return problem
    mark = None if root is None else _mark(root, problem.what)
    return problem if mark is None else replace(problem, origin=entry.origin_at(mark.index))


def _mark(root: yaml.Node, what: str) -> yaml.Mark | None:
    """Return the place of the first member that a text names, or of a quoted value inside it."""
    for quoted, bare in _TOKEN.findall(what):
        name = quoted or bare
        found = (_PATH.fullmatch(name) and _by_path(root, name)) or _by_name(root, name)
        if found:
            return _quoted(found[0], _QUOTED.findall(what)) or found[1]
    return None


def _by_path(root: yaml.Node, path: str) -> tuple[yaml.Node, yaml.Mark] | None:
    """Return the deepest part of a path that exists; None if not even its first part exists."""
    node, found = root, None
    for index, name in _STEP.findall(path):
        step = _item(node, int(index)) if index else _member(node, name)
        if step is None:
            break
        node, found = step[0], step
    return found


def _item(node: yaml.Node, index: int) -> tuple[yaml.Node, yaml.Mark] | None:
    import yaml

    if not isinstance(node, yaml.SequenceNode) or index >= len(node.value):
        return None
    return node.value[index], node.value[index].start_mark


def _member(node: yaml.Node, name: str) -> tuple[yaml.Node, yaml.Mark] | None:
    import yaml

    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.value == name:
            return value, key.start_mark
    return None


def _by_name(root: yaml.Node, name: str) -> tuple[yaml.Node, yaml.Mark] | None:
    """Return the last item of an array that has a name, None if no item has it.

    If two items have the same name, the last one is wrong.
    """
    import yaml

    items = root.value if isinstance(root, yaml.SequenceNode) else []
    for item in reversed(items):
        for member in _NAMES:
            found = _member(item, member)
            if found is not None and found[0].value == name:
                return item, item.start_mark
    return None


def _quoted(node: yaml.Node, texts: list[str]) -> yaml.Mark | None:
    """Return the place of a value inside a node that equals a quoted text; names do not count."""
    for scalar in _values(node):
        if scalar.value in texts:
            return scalar.start_mark
    return None


def _values(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    import yaml

    if isinstance(node, yaml.ScalarNode):
        yield node
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _values(item)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value not in _NAMES:
                yield from _values(value)
