"""What the property table says about one property, for people."""

from __future__ import annotations

from dil.config.deprecated import DEPRECATED, MISSPELLED
from dil.config.findings import suggestion
from dil.config.json_forms import form_of
from dil.config.property import Property, Support
from dil.config.table import TABLE, lookup
from dil.errors import ConfigError


def explain(name: str) -> str:
    """Return a few lines about a property, an alias of one, or an old key.

    Raises:
        ConfigError: nothing has that name; the nearest one is told.
    """
    entry = lookup(name)
    if entry is not None:
        lines = [*facts(entry), *_inside(entry.name)]
        return "\n".join([entry.name, *(f"    {line}" for line in lines)])
    replacement = DEPRECATED.get(name)
    if replacement is not None:
        target = replacement.use or "nothing: remove it"
        member = f", member {replacement.member}" if replacement.member else ""
        return f"{name}\n    An old key. Use {target}{member}."
    if name in MISSPELLED:
        return f"{name}\n    A misspelling. Use {MISSPELLED[name]}."
    raise ConfigError.single(name, "is no known property", suggestion(name, TABLE))


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


def _inside(name: str) -> list[str]:
    """Return the members of a JSON property and an example, nothing for others."""
    form = form_of(name)
    if form is None:
        return []
    lines = ["members:"]
    for member in form.members:
        facts = [member.value]
        facts += ["required"] if member.required else []
        facts += [f"default {member.default}"] if member.default else []
        lines.append(f"  {member.path} ({', '.join(facts)}): {member.meaning}")
    return [*lines, "example:", *(f"  {line}" for line in f"{name}={form.example}".splitlines())]


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
