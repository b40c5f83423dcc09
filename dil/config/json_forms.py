"""What stands inside each JSON property: its members and an example, for the reference.

Types and defaults come from the models that read the values, words from the table of meanings
here; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from msgspec import NODEFAULT
from msgspec.structs import FieldInfo, fields

from dil.config.json_examples import EXAMPLES
from dil.config.json_meanings import MEANINGS, WITHOUT_MODEL
from dil.model.authentication import Authentication
from dil.model.csv_settings import CsvSettings
from dil.model.json import compact
from dil.model.s3_settings import S3Settings
from dil.model.secret import Secret
from dil.model.settings import (
    DerivedField,
    HttpStatuses,
    HttpStatusReasons,
    Pagination,
    Parameter,
    SchemaCleansing,
    SecondaryInput,
    SessionKeyField,
    Setting,
    TlsSettings,
)
from dil.model.validation_attributes import ValidationAttributes

_MODELS: Mapping[str, type[Setting]] = {
    "ms.parameters": Parameter,
    "ms.pagination": Pagination,
    "ms.session.key.field": SessionKeyField,
    "ms.derived.fields": DerivedField,
    "ms.authentication": Authentication,
    "ms.http.statuses": HttpStatuses,
    "ms.http.status.reasons": HttpStatusReasons,
    "ms.ssl": TlsSettings,
    "ms.source.s3.parameters": S3Settings,
    "ms.csv": CsvSettings,
    "ms.schema.cleansing": SchemaCleansing,
    "ms.secondary.input": SecondaryInput,
    "ms.validation.attributes": ValidationAttributes,
}
# Left out, another property counts and not the model's default.
_FROM_THE_JOB = {"timezone"}
_PLAIN: Mapping[object, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Secret: "text, may be a secret",
    Any: "depends on type",
}


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a JSON object; ``path`` has a dot for each level, ``default`` is JSON."""

    path: str
    value: str
    meaning: str
    default: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class JsonForm:
    """The members of a JSON property, and an example of it as it stands in a job file."""

    members: tuple[Member, ...]
    example: str


def form_of(name: str) -> JsonForm | None:
    """Return what stands inside a property, None for one that is no JSON or not read yet."""
    if name not in EXAMPLES:
        return None
    model = _MODELS.get(name)
    if model is not None:
        return JsonForm(tuple(_members(model, MEANINGS[name])), EXAMPLES[name])
    members = (Member(path, value, text) for path, value, text in WITHOUT_MODEL[name])
    return JsonForm(tuple(members), EXAMPLES[name])


def _members(
    model: type[Setting], meanings: Mapping[str, str], prefix: str = ""
) -> Iterator[Member]:
    for field in fields(model):
        path = f"{prefix}{field.encode_name}"
        inner = _inner_model(field.type)
        has_default = inner is None and path not in _FROM_THE_JOB
        default = _default(field) if has_default else ""
        yield Member(path, _value_text(field.type), meanings[path], default, field.required)
        if inner is not None:
            yield from _members(inner, meanings, f"{path}.")


def _default(field: FieldInfo) -> str:
    """Return the JSON of a member's default, empty text for none, null and what is empty."""
    value = "" if field.default is NODEFAULT else field.default
    return "" if value in (None, "", ()) else compact(value)


def _value_text(annotation: object) -> str:
    """Return the type of a member in words."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if _inner_model(annotation) is not None:
        return "object"
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(str(word) for word in inside)
    if origin is dict:
        return "object of texts"
    # A tuple of one type, a union with None, or Annotated: the first says it.
    first = _value_text(inside[0])
    return f"array of {first}s" if origin is tuple else first


def _inner_model(annotation: object) -> type[Setting] | None:
    for each in (annotation, *get_args(annotation)):
        if isinstance(each, type) and issubclass(each, Setting):
            return each
    return None
