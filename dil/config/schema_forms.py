"""Pieces of JSON Schema: what a value may look like in a ``.yaml`` file.

Numbers and booleans may be written as texts, words in any letter case (spec README 22).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dil.config.json_forms import Member
from dil.model.json import JsonObject, JsonValue

SCALAR: JsonObject = {"type": ["string", "number", "boolean"]}
BOOL: list[JsonObject] = [
    {"type": "boolean"},
    {"type": "string", "pattern": "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"},
]
# The member that a column's name may be written under as well.
_OTHER_NAMES = {"columnName": "name"}
_WORDS = re.compile(r"[A-Za-z0-9_-]+(?:, [A-Za-z0-9_-]+)+")
_ANY_NAME = "("


def any_of(forms: Sequence[JsonObject]) -> JsonObject:
    """Return the schema of a value that has one of several forms."""
    return forms[0] if len(forms) == 1 else {"anyOf": list(forms)}


def text_of(pattern: str) -> JsonObject:
    """Return the schema of a text that holds a pattern."""
    return {"type": "string", "pattern": pattern}


def listed(items: Sequence[JsonObject]) -> JsonObject:
    """Return the schema of an array."""
    return {"type": "array", "items": any_of(items)}


def whole_number(low: int | None = None, high: int | None = None) -> list[JsonObject]:
    """Return the forms of a whole number; the bounds of a quoted one are not seen."""
    number: dict[str, JsonValue] = {"type": "integer"}
    if low is not None:
        number["minimum"] = low
    if high is not None:
        number["maximum"] = high
    return [number, text_of("^[+-]?[0-9]+$")]


def words(known: Iterable[str]) -> list[JsonObject]:
    """Return the forms of a word: as listed, for completion, or in another letter case."""
    listed_words = list(known)
    other_case = "|".join(map(_any_case, listed_words))
    return [{"enum": list[JsonValue](listed_words)}, text_of(f"^({other_case})$")]


def _any_case(word: str) -> str:
    return "".join(
        f"[{letter.upper()}{letter.lower()}]" if letter.isalpha() else re.escape(letter)
        for letter in word
    )


def members_schema(members: Sequence[Member], prefix: str = "") -> JsonObject:
    """Return the schema of an object from what the reference says of its members.

    Members other than those are refused, unless any name may stand there.
    """
    properties: dict[str, JsonValue] = {}
    required: list[JsonValue] = []
    others: JsonValue = False
    paths = {member.path for member in members}
    for member in members:
        name = member.path.removeprefix(prefix)
        # A name may hold a dot of its own: only where the part before it is a member, it nests.
        is_deeper = "." in name and prefix + name.rpartition(".")[0] in paths
        if not member.path.startswith(prefix) or is_deeper:
            continue
        schema: JsonObject = {
            "description": member.meaning,
            **_value_schema(member, members),
        }
        if name.startswith(_ANY_NAME):
            others = schema
            continue
        properties[name] = schema
        if name in _OTHER_NAMES:
            properties[_OTHER_NAMES[name]] = schema
        elif member.required:
            required.append(name)
    found: dict[str, JsonValue] = {"type": "object", "properties": properties}
    if required:
        found["required"] = required
    return {**found, "additionalProperties": others}


def _value_schema(member: Member, members: Sequence[Member]) -> JsonObject:
    """Return the schema of what a member's value is called in the reference."""
    value = member.value.removesuffix(", required")
    if value.startswith("object of"):
        return {"type": "object", "additionalProperties": SCALAR}
    if value == "object" or value.startswith("object,"):
        inside = members_schema(members, f"{member.path}.")
        return inside if value == "object" else any_of([inside, SCALAR])
    kind, array, items = value.partition("array of ")
    if array and not kind and "," not in items:
        return listed(_plain(items.removesuffix("s")) or [{}])
    return any_of(_plain(value) or [{}])


def _plain(value: str) -> list[JsonObject]:
    if value in {"text", "text, may be a secret"}:
        return [SCALAR, {"type": "null"}]
    if value == "whole number":
        return whole_number()
    if value == "true or false":
        return BOOL
    return words(value.split(", ")) if _WORDS.fullmatch(value) else []
