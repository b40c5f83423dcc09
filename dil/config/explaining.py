"""Explains properties and groups, and finds properties by words of their texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dil.config.canonical import DEPRECATED, MISSPELLED
from dil.config.property import Group, Property, form_of, properties_of
from dil.config.table import ALIASES, GROUPS, PLUGIN_PREFIX, TABLE, group_of, lookup
from dil.errors import ConfigError
from dil.model.json import JsonObject, JsonValue
from dil.model.messages import property_suggestion, suggestion
from dil.model.section import Support, ValueType
from dil.spi import registry
from dil.spi.connector import PluginProperty
from dil.spi.registry import PluginKind, installed_classes

_SHOWN_NEAR = 12
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
_NO_PLUGIN = (
    "Names that begin with ms.x. belong to classes of your own. Give a job that names the class: "
    "dil explain NAME --job JOB.conf"
)


def explain(name: str) -> str:
    """Return the explanation of a property, an alias, an old key, or a group as text.

    Raises:
        ConfigError: nothing has that name; the facts of the error are similar names.
    """
    if group := _group(name):
        width = max(len(entry.name) for entry in group.properties)
        listed = [
            f"    {entry.name:<{width}}  {first_sentence(entry.meaning)}"
            for entry in group.properties
        ]
        return "\n".join([f"{group.slug}: {group.title}", *listed])
    entry = lookup(name)
    if entry is None:
        return f"{name}\n    {_old_text(name)}"
    lines = facts(entry)
    if known := known_classes(entry.name):
        lines.append(f"short names: {', '.join(known)}")
    if names := old_names(entry.name):
        lines.append(f"old names: {', '.join(names)}")
    form = form_of(entry)
    if form and form.members:
        lines.append("members:")
        for member in form.members:
            about = [member.value, *(["required"] if member.required else [])]
            about += [f"default {member.default}"] if member.default else []
            lines.append(f"  {member.path} ({', '.join(about)}): {member.meaning}")
    if shown := example(entry):
        lines += ["example:", *(f"  {line}" for line in shown.splitlines())]
    if near := related(entry.name):
        lines.append(f"related: {', '.join(near)}")
    lines.append(f"documented in: {_place(entry.name)}")
    return "\n".join([entry.name, *(f"    {line}" for line in lines)])


def first_sentence(meaning: str) -> str:
    """Return the first sentence of a property's meaning."""
    return f"{meaning.partition('. ')[0].rstrip('.')}."


def is_known(name: str) -> bool:
    """Return whether a property, an alias, an old key or a group has this name."""
    known = name in DEPRECATED or name in MISSPELLED or lookup(name) is not None
    return known or _group(name) is not None


def explained(name: str) -> JsonObject:
    """Return the explanation as JSON; absent facts are null or empty.

    Raises:
        ConfigError: nothing has that name; the facts of the error are similar names.
    """
    if group := _group(name):
        return _group_json(group)
    entry = lookup(name)
    if entry is None:
        meaning = _old_text(name)
        new = DEPRECATED[name].use if name in DEPRECATED else MISSPELLED[name]
        return {"property": name, "meaning": meaning, "replaced_by": new}
    form = form_of(entry)
    members: JsonValue = [
        {
            "member": each.path,
            "value": each.value,
            "default": each.default or None,
            "required": each.required,
            "meaning": each.meaning,
        }
        for each in (form.members if form else ())
    ]
    return {
        "property": entry.name,
        "group": group_of(entry.name).slug,
        "meaning": entry.meaning,
        "type": entry.type.value,
        "default": entry.default or None,
        "required": entry.required,
        "allowed": bounds(entry) or None,
        "words": entry.words,
        "short_names": known_classes(entry.name),
        "refused_words": entry.refused_words,
        "variables": entry.variables,
        "secret": secret_parts(entry) or None,
        "support": entry.support.value if entry.support is not Support.WORKS else "works",
        "aliases": entry.aliases,
        "old_names": old_names(entry.name),
        "members": members,
        "example": example(entry) or None,
        "related": related(entry.name),
        "documentation": _place(entry.name),
    }


def groups_text() -> str:
    """Return a list of all groups as text, with the command that shows one group."""
    width = max(len(group.slug) for group in GROUPS)
    lines = [f"{group.slug:<{width}}  {group.title} ({len(group.properties)})" for group in GROUPS]
    return "\n".join(
        [*lines, "", "dil explain GROUP lists a group, dil explain PROPERTY explains a property."]
    )


def groups_json() -> JsonObject:
    """Return all groups with the names of their properties."""
    return {"groups": [_group_json(group) for group in GROUPS]}


def known_classes(name: str) -> tuple[str, ...]:
    """Return the short names of the classes that a property takes, also of installed classes."""
    kind = TABLE[name].written.plugin
    return registry.names(PluginKind(kind)) if kind else ()


def old_key_text(name: str) -> str:
    """Return the sentence about an old key."""
    replacement = DEPRECATED[name]
    target = replacement.use or "nothing: remove it"
    member = f", member {replacement.member}" if replacement.member else ""
    return f"An old key. Use {target}{member}."


def facts(entry: Property) -> list[str]:
    """Return one line per fact: meaning, type, default, bounds, words, aliases, support."""
    labelled = {
        "type": entry.type.value,
        "default": entry.default or "none",
        "bounds": bounds(entry),
        "words": ", ".join(entry.words),
        "refused": ", ".join(entry.refused_words),
        "also written": ", ".join(entry.aliases),
        "may be a secret (ENC(...), env:NAME, file:PATH)": secret_parts(entry),
    }
    lines = [entry.meaning, *(f"{label}: {text}" for label, text in labelled.items() if text)]
    if entry.required:
        lines.append("required")
    if entry.variables:
        lines.append("{{name}} is replaced in it")
    if entry.support is not Support.WORKS:
        lines.append(entry.support.value)
    return lines


def secret_parts(entry: Property) -> str:
    """Return words for the part of a value that may be a secret; empty text if none may."""
    return "the value" if entry.secret else entry.hidden_members


def bounds(entry: Property) -> str:
    """Return the bounds of a number as text; empty if the property has no bounds of its own."""
    if entry.low is None and entry.high is None:
        return ""
    low = "" if entry.low is None else f"at least {entry.low}"
    high = "" if entry.high is None else f"at most {entry.high}"
    special = ", ".join(f"{given} means {meant}" for given, meant in entry.special.items())
    return ", ".join(part for part in (low, high, special) if part)


def _place(name: str) -> str:
    return f"docs/{REFERENCE}#{name}"


def _group(name: str) -> Group | None:
    return next((group for group in GROUPS if group.slug == name), None)


def _group_json(group: Group) -> JsonObject:
    names = [entry.name for entry in group.properties]
    return {"group": group.slug, "title": group.title, "properties": names}


def _old_text(name: str) -> str:
    """Return the text for an old or misspelt name.

    Raises:
        ConfigError: the name is no old key; the advice names similar properties.
    """
    if name in DEPRECATED:
        return old_key_text(name)
    if name in MISSPELLED:
        return f"A misspelling. Use {MISSPELLED[name]}."
    known = [*TABLE, *ALIASES, *DEPRECATED, *(group.slug for group in GROUPS)]
    fix = property_suggestion(name, known)
    if not fix:
        fix = "dil explain without a name lists all groups."
        if holding := [each for each in TABLE if name.lower() in each.lower()]:
            more = len(holding) - _SHOWN_NEAR
            others = f", and {more} more" if more > 0 else ""
            fix = f"These names contain it: {', '.join(holding[:_SHOWN_NEAR])}{others}."
    raise ConfigError.single(name, "is no known property", fix)


def old_names(name: str) -> tuple[str, ...]:
    """Return the old keys that are read as a property or a member of it."""
    return tuple(key for key, replacement in DEPRECATED.items() if replacement.use == name)


def related(name: str) -> tuple[str, ...]:
    """Return the properties that this property's text names, those that name it, and neighbours."""
    named = [each for each in _NAMED.findall(TABLE[name].meaning) if each in TABLE]
    naming = [entry.name for entry in TABLE.values() if f"`{name}`" in entry.meaning]
    found = dict.fromkeys([*named, *naming])
    stem = name.rpartition(".")[0]
    for entry in group_of(name).properties:
        if len(found) < _NEIGHBOURS and "." in stem and entry.name.startswith(f"{stem}."):
            found.setdefault(entry.name)
    return tuple(each for each in found if each != name)


def example(entry: Property) -> str:
    """Return a line of a job file as an example; empty if any text is possible."""
    if form := form_of(entry):
        return f"{entry.name}={form.example}"
    value = entry.example or entry.default
    value = value or (entry.words[0] if entry.words else _SAMPLES_BY_TYPE.get(entry.type, ""))
    if not value and entry.type in {ValueType.INT, ValueType.LONG}:
        value = str(entry.low or 1)
    # A backslash is doubled in a property file.
    escaped = value.replace("\\", "\\\\")
    return f"{entry.name}={escaped}" if value else ""


@dataclass(frozen=True, slots=True)
class Found:
    """A property outside the reference, or a property that a search found.

    ``whose`` names the class that declares the property, empty for a property of the reference.
    """

    name: str
    meaning: str
    default: str = ""
    whose: str = ""
    text: str = ""

    @property
    def line(self) -> str:
        """Return the first sentence of the property's meaning."""
        return first_sentence(self.meaning)

    def json(self) -> JsonObject:
        """Return the value as JSON members."""
        return {
            "property": self.name,
            "meaning": self.meaning,
            "default": self.default or None,
            "of": self.whose or None,
        }

    def __str__(self) -> str:
        facts = [self.meaning, f"default: {self.default or 'none'}", self.whose]
        return "\n".join([self.name, *(f"    {fact}" for fact in facts if fact)])


def elsewhere(name: str, classes: Iterable[type] = ()) -> Found | None:
    """Return a property that an installed plug-in, or one of these classes, declares.

    Raises:
        ConfigError: the name begins like a plug-in's, and no class declares it.
    """
    found = {each.name: each for each in _of_classes(classes)}
    if name not in found and name.startswith(PLUGIN_PREFIX):
        found |= {each.name: each for each in _of_classes(_installed())}
        if name not in found:
            known = suggestion(name, found)
            raise ConfigError.single(name, "is declared by no class", known or _NO_PLUGIN)
    return found.get(name)


def search(text: str, classes: Iterable[type] = ()) -> tuple[Found, ...]:
    """Return the properties with all words of a text; properties with matching names come first."""

    def has_words(searched: str) -> bool:
        return all(word in searched.lower() for word in text.lower().split())

    every = [*_of_reference(), *_of_classes((*classes, *_installed()))]
    found = dict.fromkeys(each for each in every if has_words(f"{each.name} {each.text}"))
    return tuple(sorted(found, key=lambda each: not has_words(each.name)))


def _of_reference() -> Iterator[Found]:
    for name, entry in TABLE.items():
        form = form_of(entry)
        members = (f"{each.path} {each.meaning}" for each in (form.members if form else ()))
        yield _found(entry, "", " ".join((*entry.aliases, *members, group_of(name).title)))


def _of_classes(classes: Iterable[type]) -> Iterator[Found]:
    for each in dict.fromkeys(classes):
        whose = f"of {each.__module__}:{each.__qualname__}"
        declared: Iterable[PluginProperty] = getattr(each, "properties", ())
        for one in declared:
            default = "" if one.default is None or one.secret else str(one.default)
            yield Found(one.name, one.meaning, default, whose, one.meaning)
        for section in getattr(each, "sections", ()):
            for entry in properties_of(section):
                if entry.name not in TABLE:
                    yield _found(entry, whose)


def _installed() -> Iterator[type]:
    for kind in PluginKind:
        yield from installed_classes(kind)


def _found(entry: Property, whose: str, more: str = "") -> Found:
    return Found(entry.name, entry.meaning, entry.default, whose, f"{entry.meaning} {more}")
