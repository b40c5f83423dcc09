"""What goes with a property: its group, old names, properties near it, an example."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dil.config.deprecated import DEPRECATED
from dil.config.json_forms import form_of
from dil.config.property import Group, Property
from dil.config.table import GROUPS, TABLE
from dil.model.section import ValueType

REFERENCE = "reference/properties.md"

_NAMED = re.compile(r"`([A-Za-z][\w.]*)`")
_NEIGHBOURS = 6
_SAMPLES_BY_TYPE: Mapping[ValueType, str] = {
    ValueType.BOOL: "true",
    ValueType.REGEX: ".*[.]csv",
    ValueType.DURATION: "P2D",
    ValueType.ZONE: "Europe/Paris",
    ValueType.CHARSET: "UTF-8",
    ValueType.OCTAL: "750",
    ValueType.DATE_PATTERNS: "yyyy-MM-dd'T'HH:mm:ssZZ",
}


def group_of(name: str) -> Group:
    """Return the group that holds a property of the table."""
    return next(group for group in GROUPS if TABLE[name] in group.properties)


def old_names(name: str) -> tuple[str, ...]:
    """Return the old keys that are read as a property or a member of it."""
    return tuple(key for key, replacement in DEPRECATED.items() if replacement.use == name)


def related(name: str) -> tuple[str, ...]:
    """Return the properties that this one's text names, those that name it, and neighbours."""
    named = [each for each in _NAMED.findall(TABLE[name].meaning) if each in TABLE]
    naming = [entry.name for entry in TABLE.values() if f"`{name}`" in entry.meaning]
    found = dict.fromkeys([*named, *naming])
    stem = name.rpartition(".")[0]
    for entry in group_of(name).properties:
        if len(found) < _NEIGHBOURS and "." in stem and entry.name.startswith(f"{stem}."):
            found.setdefault(entry.name)
    return tuple(each for each in found if each != name)


def example(entry: Property) -> str:
    """Return a line of a job file, empty text where every text would do."""
    if form := form_of(entry):
        return f"{entry.name}={form.example}"
    value = entry.example or entry.default
    value = value or (entry.words[0] if entry.words else _SAMPLES_BY_TYPE.get(entry.type, ""))
    if not value and entry.type in {ValueType.INT, ValueType.LONG}:
        value = str(entry.low or 1)
    # A backslash is doubled in a property file.
    escaped = value.replace("\\", "\\\\")
    return f"{entry.name}={escaped}" if value else ""
