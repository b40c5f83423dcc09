"""``{{name}}`` placeholders: finding and replacing them (rule G31)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dil.model.json import JsonValue, as_text

_PLACEHOLDER = re.compile(r"\{\{([A-Za-z0-9_.$-]+)\}\}")


@dataclass(frozen=True, slots=True)
class Substituted:
    """A text after replacement, the names that had a value, and the names that had none."""

    text: str
    used: frozenset[str]
    missing: frozenset[str]


def placeholders(text: str) -> tuple[str, ...]:
    """Return the names of all placeholders, each once, in order of first appearance.

    >>> placeholders("/{{b}}/{{a}}?x={{b}}&y={{not this}}")
    ('b', 'a')
    """
    return tuple(dict.fromkeys(_PLACEHOLDER.findall(text)))


def substitute(
    text: str, values: Mapping[str, JsonValue], encode: Callable[[str], str] | None = None
) -> Substituted:
    """Return a text with every placeholder that has a value replaced; other placeholders stay.

    Placeholders inside a value are not replaced. ``encode`` is applied to the text of
    each value (``dil.model.json.as_text``), never to ``text`` itself.

    >>> substitute("{{a}}-{{b}}", {"a": 5}).text
    '5-{{b}}'
    """
    used: set[str] = set()
    missing: set[str] = set()

    def replacement(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in values:
            missing.add(name)
            return match.group(0)
        used.add(name)
        value = as_text(values[name])
        return encode(value) if encode else value

    result = _PLACEHOLDER.sub(replacement, text)
    return Substituted(result, frozenset(used), frozenset(missing))
