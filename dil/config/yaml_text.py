"""The grammar of ``.yaml`` job files: the same keys, values as text, lists or objects.

Keys may be nested at their dots. Unquoted words stay text as written, so ``007`` and ``2020-01-01``
keep these texts. See rule F1.
"""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.config.table import TABLE, lookup
from dil.errors import Origin
from dil.model.json import as_text, compact
from dil.text.lenient_json import HALF_FIX, JsonError, from_node

_FIX = "Write one `key: value` per line, each key once; quote texts with special characters."
# Aliases of aliases can expand to more text than a machine has room for.
_MOST_CHARACTERS = 20_000_000


def parse(text: str, path: str, findings: Findings) -> Iterator[Entry]:
    """Yield the entries of a file in order."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        is_too_large = root is not None and _size(root, {}) > _MOST_CHARACTERS
    except RecursionError:
        what = "holds values that are nested too deep, or an alias inside the value that it names"
        findings.problem(
            "",
            what,
            "Nest the values less deeply, and use no alias inside its own value.",
            Origin(path),
        )
        return
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        reason = error.problem or "cannot be read"
        findings.problem("", f"is no YAML: {reason}", _FIX, Origin(path, line))
        return
    except yaml.YAMLError as error:
        findings.problem("", f"is no YAML: {error}", _FIX, Origin(path))
        return
    if root is None:
        return
    if is_too_large:
        what = f"has more than {_MOST_CHARACTERS:,} characters, with aliases written out"
        findings.problem("", what, "Write the values in place of aliases.", Origin(path))
        return
    if not isinstance(root, yaml.MappingNode):
        findings.problem("", "holds no properties", _FIX, Origin(path, 1))
        return
    yield from _entries("", root, path, findings)


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Return the number of characters of a node with its aliases written out.

    ``known`` has the results for earlier nodes.
    """
    if isinstance(node, yaml.ScalarNode):
        return 1 + len(node.value)
    if id(node) not in known:
        items = node.value
        if isinstance(node, yaml.MappingNode):
            items = [item for pair in node.value for item in pair]
        known[id(node)] = 1 + sum(_size(item, known) for item in items)
    return known[id(node)]


def _entries(prefix: str, node: yaml.MappingNode, path: str, findings: Findings) -> Iterator[Entry]:
    for name, value in node.value:
        origin = Origin(path, name.start_mark.line + 1)
        try:
            key = f"{prefix}{_whole(str(name.value))}"
        except UnicodeDecodeError:
            what = r"has a key that holds \u with half of a character"
            findings.problem("", what, HALF_FIX, origin)
            continue
        is_prefix = lookup(key) is None and any(name.startswith(f"{key}.") for name in TABLE)
        if is_prefix and isinstance(value, yaml.MappingNode):
            yield from _entries(f"{key}.", value, path, findings)
            continue
        try:
            yield Entry(key, _whole(_text(key, value)), origin)
        except JsonError as error:
            findings.problem(key, error.reason, _FIX, Origin(path, error.line + 1))
        except UnicodeDecodeError:
            what = r"has \u with half of a character"
            findings.problem(key, what, HALF_FIX, origin)


def _whole(text: str) -> str:
    """Return a text of YAML, which reads each half of a character written as two escapes alone.

    Raises:
        UnicodeDecodeError: the text has a half alone.
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _text(key: str, node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        is_null = node.style is None and node.value in {"", "~", "null"}
        return "" if is_null else str(node.value).strip()
    value = from_node(node)
    entry = lookup(key)
    if entry is not None and not entry.type.spans_lines and isinstance(value, list):
        return ",".join(as_text(item) for item in value)
    return compact(value)
