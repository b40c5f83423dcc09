"""The members of each JSON property and an example of its value, for the reference.

Types, defaults and meanings come from the models that read the values. A property that is read
without a model declares its members itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from dil.config.property import Property
from dil.model.json import compact
from dil.model.members import Setting
from dil.model.secret import Secret
from dil.sections.reading import inner_models, json_name

_PLAIN: Mapping[object, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Secret: "text, may be a secret",
    Any: "depends on type",
}


@dataclass(frozen=True, slots=True)
class JsonMember:
    """One member of a JSON object; ``path`` has a dot for each level, ``default`` is JSON."""

    path: str
    value: str
    meaning: str
    default: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class JsonForm:
    """The members of a JSON property, and an example as a job file writes it."""

    members: tuple[JsonMember, ...]
    example: str


def form_of(entry: Property) -> JsonForm | None:
    """Return the JSON form of a property; None if the property is not JSON or has no example."""
    if not entry.type.spans_lines or not entry.example:
        return None
    if entry.model is not None:
        return JsonForm(tuple(_members(entry.model)), entry.example)
    return JsonForm(tuple(JsonMember(*each) for each in entry.members), entry.example)


def _members(model: type[Setting], prefix: str = "") -> Iterator[JsonMember]:
    types = get_type_hints(model)
    for field in fields(model):
        path = f"{prefix}{json_name(field)}"
        inner = next(inner_models(types[field.name]), None)
        default = "" if inner else _default(field)
        is_required = field.default is MISSING and field.default_factory is MISSING
        meaning = field.metadata["description"]
        yield JsonMember(path, _value_text(types[field.name]), meaning, default, is_required)
        if inner is not None:
            yield from _members(inner, f"{path}.")


def _default(field: Field[Any]) -> str:
    """Return a member's default as JSON; empty text if the default is missing, null or empty."""
    is_shown = field.metadata["json_schema_extra"]["is_default_shown"]
    if field.default in (MISSING, None, "", ()) or not is_shown:
        return ""
    return compact(field.default)


def _value_text(annotation: object) -> str:
    """Return the type of a member in words."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if next(inner_models(annotation), None) is not None:
        return "object"
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(str(word) for word in inside)
    if origin is dict:
        return "object of texts"
    # The first argument of a tuple, of a union with None, or of Annotated is the type.
    first = _value_text(inside[0])
    return f"array of {first}s" if origin is tuple else first
