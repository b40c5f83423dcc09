"""A JSON Schema of ``.yaml`` job files for editors, generated from the property table.

It accepts whatever a job may write, quoted or not, flat or nested at the dots, and refuses what
cannot be right by its form alone. Required properties are not asked for: an inherited file may set
them. ``dil validate`` checks the rest. Source: JSON Schema 2020-12, RFC 8259.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from dil.config.deprecated import DEPRECATED
from dil.config.explaining import facts, old_key_text
from dil.config.json_forms import form_of
from dil.config.property import Property
from dil.config.schema_forms import (
    BOOL,
    SCALAR,
    any_of,
    listed,
    members_schema,
    text_of,
    whole_number,
    words,
)
from dil.config.table import ALIASES, OWN_PREFIX, PLUGIN_PREFIX, TABLE
from dil.model.json import JsonObject, JsonValue
from dil.model.section import ValueType

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_BLANK: JsonObject = {"$ref": "#/$defs/blank"}
_REFERENCE: JsonObject = {"$ref": "#/$defs/reference"}
_INCLUDE: JsonObject = {
    "description": "Another file to read, relative to this one; keys of this file win.",
    "type": "string",
}
_DURATION = r"^P(?=.)([0-9]+W)?([0-9]+D)?(T(?=.)([0-9.]+H)?([0-9.]+M)?([0-9.]+S)?)?$"
_OCTAL = r"^0?[0-7]{3,4}$"
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
    """Return the schema: one definition per property, used flat and nested."""
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
    definitions.update({alias: _alias(alias, name) for alias, name in ALIASES.items()})
    definitions.update({name: _old_key(name) for name in DEPRECATED if name not in TABLE})
    tree = _node("", [name for name in definitions if name not in {"blank", "reference"}])
    head: JsonObject = {"$schema": _DIALECT, "title": "A job of DIL on Spark"}
    return {**head, **tree, "$defs": definitions}


def _node(prefix: str, names: Iterable[str]) -> JsonObject:
    """Return the object at a prefix: every key below it, flat, and those nested at their dots."""
    below = [name for name in names if name.startswith(prefix)]
    keys = {name.removeprefix(prefix): name for name in below}
    found: dict[str, JsonValue] = {key: {"$ref": f"#/$defs/{name}"} for key, name in keys.items()}
    for segment in dict.fromkeys(key.partition(".")[0] for key in keys if "." in key):
        if segment not in keys:
            found[segment] = _node(f"{prefix}{segment}.", below)
    return {"type": "object", **_others(prefix, names), "properties": found}


def _others(prefix: str, names: Iterable[str]) -> JsonObject:
    """Return what else may stand in an object: keys of others and of plug-ins, no other of ours."""
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


def _alias(alias: str, name: str) -> JsonObject:
    return {"description": f"The same as {name}.", "$ref": f"#/$defs/{name}", "title": alias}


def _old_key(name: str) -> JsonObject:
    return {"description": old_key_text(name), "deprecated": True}


def _values(entry: Property) -> list[JsonObject]:
    """Return the forms that a value of a property may have."""
    match entry.type:
        case ValueType.INT | ValueType.LONG:
            return whole_number(_least(entry), entry.high)
        case ValueType.ENUM:
            # on and off are booleans in YAML 1.1, with which some editors check.
            switch: list[JsonObject] = [{"type": "boolean"}] if "on" in entry.words else []
            return [*words(entry.words), *switch]
        case ValueType.JSON_OBJECT | ValueType.JSON_ARRAY | ValueType.WORD_OR_OBJECT:
            return _json(entry)
        case _:
            return _PLAIN.get(entry.type, [SCALAR])


def _least(entry: Property) -> int | None:
    """Return the least number that may be written; some stand for another."""
    return entry.low if entry.low is None else min(entry.low, *entry.special, entry.low)


def _json(entry: Property) -> list[JsonObject]:
    form = form_of(entry)
    inside: JsonObject = {"type": "object"} if form is None else members_schema(form.members)
    if entry.type is ValueType.JSON_ARRAY:
        # Without members nothing is known of the items.
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
