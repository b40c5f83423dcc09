"""A JSON Schema of ``.yaml`` job files for editors, generated from the property table.

The schema accepts every form that a job may write: quoted or not, flat or nested at the dots. It
refuses a value only if the form alone shows that the value is wrong. The schema requires no
property, because an inherited file may set the required properties. ``dil validate`` checks the
rest. Source: JSON Schema 2020-12, RFC 8259.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from dil.config.canonical import DEPRECATED
from dil.config.explaining import facts, old_key_text
from dil.config.property import JsonMember, Property, form_of
from dil.config.table import ALIASES, OWN_PREFIX, PLUGIN_PREFIX, TABLE
from dil.model.json import JsonObject, JsonValue
from dil.model.section import ValueType

SCALAR: JsonObject = {"type": ["string", "number", "boolean"]}
BOOL: list[JsonObject] = [
    {"type": "boolean"},
    {"type": "string", "pattern": "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"},
]
# The other member under which a job may write the name of a column.
_OTHER_NAMES = {"columnName": "name"}
_WORDS = re.compile(r"[A-Za-z0-9_-]+(?:, [A-Za-z0-9_-]+)+")
_ANY_NAME = "("
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_BLANK: JsonObject = {"$ref": "#/$defs/blank"}
_REFERENCE: JsonObject = {"$ref": "#/$defs/reference"}
_INCLUDE: JsonObject = {
    "description": "Another file to read, relative to this one; keys of this file win.",
    "type": "string",
}
_DURATION = r"^P(?=.)([0-9]+W)?([0-9]+D)?(T(?=.)([0-9.]+H)?([0-9.]+M)?([0-9.]+S)?)?$"
_OCTAL = r"^0?[0-7]{3,4}$"


def any_of(forms: Sequence[JsonObject]) -> JsonObject:
    """Return the schema of a value that has one of several forms."""
    return forms[0] if len(forms) == 1 else {"anyOf": list(forms)}


def text_of(pattern: str) -> JsonObject:
    """Return the schema of a text in which a pattern matches."""
    return {"type": "string", "pattern": pattern}


def listed(items: Sequence[JsonObject]) -> JsonObject:
    """Return the schema of an array."""
    return {"type": "array", "items": any_of(items)}


def whole_number(low: int | None = None, high: int | None = None) -> list[JsonObject]:
    """Return the forms of a whole number; the schema cannot check the bounds of a quoted number."""
    number: dict[str, JsonValue] = {"type": "integer"}
    if low is not None:
        number["minimum"] = low
    if high is not None:
        number["maximum"] = high
    return [number, text_of("^[+-]?[0-9]+$")]


def words(known: Iterable[str]) -> list[JsonObject]:
    """Return the forms of a word: as listed, for completion, or in another letter case."""
    listed_words = list(known)
    other_case = "|".join(
        "".join(
            f"[{letter.upper()}{letter.lower()}]" if letter.isalpha() else re.escape(letter)
            for letter in word
        )
        for word in listed_words
    )
    return [{"enum": list[JsonValue](listed_words)}, text_of(f"^({other_case})$")]


def members_schema(members: Sequence[JsonMember], prefix: str = "") -> JsonObject:
    """Return the JSON Schema of an object that has these members.

    The schema refuses other members, unless the object allows any name.
    """
    properties: dict[str, JsonValue] = {}
    required: list[JsonValue] = []
    others: JsonValue = False
    paths = {member.path for member in members}
    for member in members:
        name = member.path.removeprefix(prefix)
        # A name may hold a dot: the dot nests only if the part before it is a member.
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


def _value_schema(member: JsonMember, members: Sequence[JsonMember]) -> JsonObject:
    """Return the schema for a word of the reference that names a type."""
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


_LIST = [SCALAR, listed([SCALAR])]
_PLAIN: Mapping[ValueType, list[JsonObject]] = {
    ValueType.BOOL: BOOL,
    ValueType.LIST: _LIST,
    ValueType.CLASS_LIST: _LIST,
    ValueType.DATE_PATTERNS: _LIST,
    ValueType.DURATION: [text_of(_DURATION)],
    ValueType.OCTAL: [{"type": "integer", "minimum": 0, "maximum": 7777}, text_of(_OCTAL)],
}


def json_schema() -> JsonObject:
    """Return the JSON Schema of a job file: one definition per property, used flat and nested."""
    definitions: dict[str, JsonValue] = {
        "blank": {"description": "Takes the default.", "enum": [None, ""]},
        "reference": {
            "description": "Holds the value of another property, or of the environment.",
            "type": "string",
            "pattern": r"\$\{[^{}]+\}",
        },
    }
    definitions["include"] = _INCLUDE
    definitions.update({name: _property(entry) for name, entry in TABLE.items()})
    for alias, name in ALIASES.items():
        same = {"description": f"The same as {name}.", "$ref": f"#/$defs/{name}", "title": alias}
        definitions[alias] = same
    for name in (name for name in DEPRECATED if name not in TABLE):
        definitions[name] = {"description": old_key_text(name), "deprecated": True}
    tree = _node("", [name for name in definitions if name not in {"blank", "reference"}])
    head: JsonObject = {"$schema": _DIALECT, "title": "A job of DIL on Spark"}
    return {**head, **tree, "$defs": definitions}


def _node(prefix: str, names: Iterable[str]) -> JsonObject:
    """Return the schema of the object at a prefix; its keys may be flat or nested at their dots."""
    below = [name for name in names if name.startswith(prefix)]
    keys = {name.removeprefix(prefix): name for name in below}
    found: dict[str, JsonValue] = {key: {"$ref": f"#/$defs/{name}"} for key, name in keys.items()}
    for segment in dict.fromkeys(key.partition(".")[0] for key in keys if "." in key):
        if segment not in keys:
            found[segment] = _node(f"{prefix}{segment}.", below)
    return {"type": "object", **_others(prefix, names), "properties": found}


def _others(prefix: str, names: Iterable[str]) -> JsonObject:
    """Return the schema of an object's other keys: keys of plug-ins and of other programs."""
    if prefix == OWN_PREFIX:
        return {"additionalProperties": False, "patternProperties": {r"^x(\.|$)": True}}
    if prefix:
        return {"additionalProperties": not prefix.startswith(OWN_PREFIX)}
    own: JsonValue = [name for name in names if name.startswith(OWN_PREFIX)]
    plugins: JsonValue = {"pattern": rf"^{re.escape(PLUGIN_PREFIX)}"}
    foreign: JsonValue = {"not": {"pattern": rf"^{re.escape(OWN_PREFIX)}"}}
    return {"propertyNames": {"anyOf": [{"enum": own}, plugins, foreign]}}


def _property(entry: Property) -> JsonObject:
    schema: dict[str, JsonValue] = {
        "description": "\n".join(facts(entry)),
        **any_of([*_values(entry), _BLANK, _REFERENCE]),
    }
    if entry.default:
        schema["default"] = _typed(entry, entry.default)
    if form := form_of(entry):
        schema["examples"] = [json.loads(form.example)]
    return schema


def _values(entry: Property) -> list[JsonObject]:
    """Return the forms that a value of a property may have."""
    match entry.type:
        case ValueType.INT | ValueType.LONG:
            # A special number, such as 0 for no limit, may lie below the bounds.
            low = None if entry.low is None else min(entry.low, *entry.special, entry.low)
            return whole_number(low, entry.high)
        case ValueType.ENUM:
            # Some editors check with YAML 1.1, in which on and off are booleans.
            switch: list[JsonObject] = [{"type": "boolean"}] if "on" in entry.words else []
            return [*words(entry.words), *switch]
        case ValueType.JSON_OBJECT | ValueType.JSON_ARRAY | ValueType.WORD_OR_OBJECT:
            return _json(entry)
        case ValueType.DURATION_OR_OBJECT:
            return [text_of(_DURATION), {"type": "object"}, text_of(r"^\s*\{")]
        case _:
            return _PLAIN.get(entry.type, [SCALAR])


def _json(entry: Property) -> list[JsonObject]:
    form = form_of(entry)
    inside: JsonObject = {"type": "object"} if form is None else members_schema(form.members)
    if entry.type is ValueType.JSON_ARRAY:
        # Without members the type of the items is unknown.
        inside = listed([inside]) if form and form.members else {"type": "array"}
    text = text_of(r"^\s*\[" if entry.type is ValueType.JSON_ARRAY else r"^\s*\{")
    return [inside, text, *(words(entry.words) if entry.words else [])]


def _typed(entry: Property, text: str) -> JsonValue:
    match entry.type:
        case ValueType.INT | ValueType.LONG:
            return int(text)
        case ValueType.BOOL:
            return text == "true"
        case ValueType.JSON_OBJECT | ValueType.JSON_ARRAY:
            value: JsonValue = json.loads(text)
            return value
        case _:
            return text
