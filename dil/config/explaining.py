"""What the property table says about one property or group, for people and machines."""

from __future__ import annotations

from collections.abc import Mapping

from dil.config.deprecated import DEPRECATED, MISSPELLED
from dil.config.json_forms import Member, form_of
from dil.config.property import Group, Property
from dil.config.relations import REFERENCE, example, group_of, old_names, related
from dil.config.table import ALIASES, GROUPS, TABLE, lookup
from dil.errors import ConfigError
from dil.model.json import JsonObject, JsonValue
from dil.model.section import Support
from dil.model.suggestions import suggestion

_SHOWN_NEAR = 12


def explain(name: str) -> str:
    """Return what there is to say about a property, an alias of one, an old key, or a group.

    Raises:
        ConfigError: nothing has that name; the nearest ones are told.
    """
    if group := _group(name):
        return _group_text(group)
    entry = lookup(name)
    if entry is None:
        return f"{name}\n    {_old_text(name)}"
    lines = [*facts(entry), *_old_names(entry), *_inside(entry), *_around(entry)]
    return "\n".join([entry.name, *(f"    {line}" for line in lines)])


def explained(name: str) -> JsonObject:
    """Return the same as JSON; absent facts are null or empty.

    Raises:
        ConfigError: nothing has that name; the nearest ones are told.
    """
    if group := _group(name):
        return _group_json(group)
    entry = lookup(name)
    if entry is None:
        return {"property": name, "meaning": _old_text(name), "replaced_by": _use(name)}
    form = form_of(entry)
    members: JsonValue = [_member_json(each) for each in form.members] if form else []
    return {
        "property": entry.name,
        "group": group_of(entry.name).slug,
        "meaning": entry.meaning,
        "type": entry.type.value,
        "default": entry.default or None,
        "required": entry.required,
        "allowed": bounds(entry) or None,
        "words": entry.words,
        "words_not_supported_yet": entry.later_words,
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
    """Return all groups, and how to see what is in one."""
    width = max(len(group.slug) for group in GROUPS)
    lines = [f"{group.slug:<{width}}  {group.title} ({len(group.properties)})" for group in GROUPS]
    return "\n".join(
        [*lines, "", "dil explain GROUP lists a group, dil explain PROPERTY tells all."]
    )


def groups_json() -> JsonObject:
    """Return all groups with the names of their properties."""
    return {"groups": [_group_json(group) for group in GROUPS]}


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
        "not supported yet": ", ".join(entry.later_words),
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
    """Return which part of the value may be a secret, empty text for none."""
    return "the value" if entry.secret else entry.hidden_members


def bounds(entry: Property) -> str:
    """Return the bounds of a number as text, empty text when it has none of its own."""
    if entry.low is None and entry.high is None:
        return ""
    low = "" if entry.low is None else f"at least {entry.low}"
    high = "" if entry.high is None else f"at most {entry.high}"
    special = ", ".join(f"{given} stands for {meant}" for given, meant in entry.special.items())
    return ", ".join(part for part in (low, high, special) if part)


def _old_names(entry: Property) -> list[str]:
    names = old_names(entry.name)
    return [f"old names: {', '.join(names)}"] if names else []


def _inside(entry: Property) -> list[str]:
    """Return the members of a JSON property and an example."""
    form = form_of(entry)
    lines = ["members:"] if form and form.members else []
    for member in form.members if form else ():
        told = [member.value]
        told += ["required"] if member.required else []
        told += [f"default {member.default}"] if member.default else []
        lines.append(f"  {member.path} ({', '.join(told)}): {member.meaning}")
    shown = example(entry).splitlines()
    return [*lines, "example:", *(f"  {line}" for line in shown)] if shown else lines


def _around(entry: Property) -> list[str]:
    near = related(entry.name)
    lines = [f"related: {', '.join(near)}"] if near else []
    return [*lines, f"documented in: {_place(entry.name)}"]


def _place(name: str) -> str:
    return f"docs/{REFERENCE}#{name}"


def _group(name: str) -> Group | None:
    return next((group for group in GROUPS if group.slug == name), None)


def _group_text(group: Group) -> str:
    width = max(len(entry.name) for entry in group.properties)
    lines = [f"    {entry.name:<{width}}  {_first(entry)}" for entry in group.properties]
    return "\n".join([f"{group.slug}: {group.title}", *lines])


def _first(entry: Property) -> str:
    """Return the first sentence of a meaning."""
    return f"{entry.meaning.partition('. ')[0].rstrip('.')}."


def _group_json(group: Group) -> JsonObject:
    names = [entry.name for entry in group.properties]
    return {"group": group.slug, "title": group.title, "properties": names}


def _member_json(member: Member) -> Mapping[str, JsonValue]:
    return {
        "member": member.path,
        "value": member.value,
        "default": member.default or None,
        "required": member.required,
        "meaning": member.meaning,
    }


def _use(name: str) -> str | None:
    return DEPRECATED[name].use if name in DEPRECATED else MISSPELLED.get(name)


def _old_text(name: str) -> str:
    """Return what to say of a name that is no property.

    Raises:
        ConfigError: it is no old key either.
    """
    if name in DEPRECATED:
        return old_key_text(name)
    if name in MISSPELLED:
        return f"A misspelling. Use {MISSPELLED[name]}."
    raise ConfigError.single(name, "is no known property", _near(name))


def _near(name: str) -> str:
    known = [*TABLE, *ALIASES, *DEPRECATED, *(group.slug for group in GROUPS)]
    if hint := suggestion(name, known):
        return hint
    holding = [each for each in TABLE if name.lower() in each.lower()]
    if holding:
        shown, more = ", ".join(holding[:_SHOWN_NEAR]), len(holding) - _SHOWN_NEAR
        others = f", and {more} more" if more > 0 else ""
        return f"These hold it: {shown}{others}."
    return "dil explain without a name lists what there is."
