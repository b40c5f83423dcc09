"""The facts about a property, from the field of a section that declares it, and its JSON form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, cast, get_args, get_origin, get_type_hints

from annotated_types import Ge, Le

from dil.model.json import compact
from dil.model.members import Setting
from dil.model.secret import Secret
from dil.model.section import (
    MemberText,
    Reported,
    Section,
    StandsFor,
    Support,
    ValueType,
    Written,
    property_name,
    words_of,
)
from dil.sections.reading import inner_models, json_name

JsonModel: TypeAlias = type[Setting]


@dataclass(frozen=True, slots=True)
class Property:
    """One entry of the property table.

    ``field`` is the field of the section that holds the value, ``kind`` is the type of this field
    without annotations, and ``written`` says how the property's text is read. ``is_constrained``
    says that the type has more constraints, which only pydantic checks.

    ``default`` is text as a job file would write it, empty if there is no default. ``low`` and
    ``high`` are inclusive bounds of a number; ``special`` maps a special number to the number that
    it means. ``words`` are the allowed words of an enum, read in any letter case; ``refused_words``
    are values that Gobblin allows and DIL refuses. ``aliases`` are other spellings with the same
    meaning. ``variables`` says that ``{{name}}`` is replaced in the value. ``secret`` says that the
    whole value is a secret; ``hidden_members`` are the secret members of a JSON value. ``identity``
    says that the value decides what is extracted or how it is written, so it is part of the job's
    digest. ``reported`` says how a run reports that it has no effect. ``example`` is a value as a
    job file writes it. ``model`` describes the members of a JSON value. Without a model,
    ``members`` has their paths, values and meanings.
    """

    name: str
    field: str
    kind: object
    written: Written
    is_constrained: bool
    meaning: str
    default: str
    required: bool
    low: int | None
    high: int | None
    special: Mapping[int, int]
    words: tuple[str, ...]
    aliases: tuple[str, ...]
    variables: bool
    hidden_members: str
    support: Support
    reported: Reported
    identity: bool
    example: str
    model: JsonModel | None

    @property
    def type(self) -> ValueType:
        """Return the type by which the text is read."""
        return self.written.kind

    @property
    def refused_words(self) -> tuple[str, ...]:
        """Return the values that Gobblin allows and DIL refuses."""
        return self.written.refused_words

    @property
    def secret(self) -> bool:
        """Return whether the whole value is a secret."""
        return self.written.secret

    @property
    def members(self) -> tuple[MemberText, ...]:
        """Return the members of a JSON value that has no model."""
        return self.written.members


@dataclass(frozen=True, slots=True)
class Group:
    """Properties that belong together; one section of the reference."""

    slug: str
    title: str
    properties: tuple[Property, ...]
    sections: tuple[type[Section], ...] = ()


def properties_of(section: type[Section]) -> tuple[Property, ...]:
    """Return the properties that a section's fields declare, in their order."""
    return tuple(properties_by_name(section).values())


def properties_by_name(section: type[Section]) -> Mapping[str, Property]:
    """Return the properties that a section's fields declare, by their names."""
    return _properties(cast("Any", section))


def names_of(*sections: type[Section]) -> frozenset[str]:
    """Return the names of all properties of some sections."""
    return frozenset(property_name(each) for section in sections for each in fields(section))


@cache
def _properties(section: type[Any]) -> Mapping[str, Property]:
    hints = get_type_hints(section, include_extras=True)
    declared = (_property(each, hints[each.name]) for each in fields(section))
    return {each.name: each for each in declared}


def _property(declared: Field[Any], hint: object) -> Property:
    # A type that may be None contains the annotated type.
    inner = (each for each in get_args(hint) if get_origin(each) is Annotated)
    annotated = hint if get_origin(hint) is Annotated else next(inner)
    kind, *marks = get_args(annotated)
    by_type: dict[type, Any] = {type(mark): mark for mark in marks}
    written: Written = by_type[Written]
    facts = declared.metadata["json_schema_extra"]
    words = words_of(kind) if written.kind is ValueType.ENUM else ()
    return Property(
        name=property_name(declared),
        field=declared.name,
        kind=kind,
        written=written,
        is_constrained=not by_type.keys() <= {Written, Ge, Le, StandsFor},
        meaning=declared.metadata["description"],
        default=facts["shown"] or _text_of_default(declared),
        required=facts["required"],
        low=by_type[Ge].ge if Ge in by_type else None,
        high=by_type[Le].le if Le in by_type else None,
        special=by_type[StandsFor].numbers if StandsFor in by_type else {},
        words=written.words or words,
        aliases=facts["aliases"],
        variables=facts["variables"],
        hidden_members=facts["hidden_members"],
        support=facts["support"],
        reported=facts["reported"],
        identity=facts["identity"],
        example=facts["example"],
        model=next(inner_models(kind), None),
    )


def _text_of_default(declared: Field[Any]) -> str:
    """Return a default as a job file would write it; empty text if it is not a plain value."""
    value = declared.default
    if value is MISSING and declared.default_factory is not MISSING:
        value = declared.default_factory()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | str):
        return str(value)
    return ",".join(value) if isinstance(value, tuple) else ""


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
    """Return the JSON form of a property; None if the property is not JSON or has no example.

    Types, defaults and meanings come from the model that reads the value. A property that is read
    without a model declares its members itself.
    """
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
