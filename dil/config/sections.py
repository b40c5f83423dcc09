"""Sections of properties: what their fields declare, and how entries become their values.

pydantic validates a section as a whole; what it finds wrong becomes one problem per property. The
adapter of a section is built when a job writes one of its properties: the others are defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from annotated_types import Ge, Le

from dil.config.property import Property
from dil.model.section import (
    Reader,
    Section,
    StandsFor,
    ValueType,
    Written,
    property_name,
    words_of,
)
from dil.spi.reading import inner_models

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

S = TypeVar("S", bound=Section)


def properties_of(section: type[Section]) -> tuple[Property, ...]:
    """Return what the fields of a section declare, in their order."""
    return _properties(cast("Any", section))


@cache
def _properties(section: type[Any]) -> tuple[Property, ...]:
    hints = get_type_hints(section, include_extras=True)
    return tuple(_property(each, hints[each.name]) for each in fields(section))


def _property(declared: Field[Any], hint: object) -> Property:
    facts = declared.metadata["json_schema_extra"]
    marks: dict[type, Any] = {type(mark): mark for mark in _marks(hint)}
    written: Written = marks[Written]
    return Property(
        name=property_name(declared),
        type=written.kind,
        meaning=declared.metadata["description"],
        default=facts["shown"] or _text(_default(declared)),
        required=facts["required"],
        low=marks[Ge].ge if Ge in marks else None,
        high=marks[Le].le if Le in marks else None,
        special=marks[StandsFor].numbers if StandsFor in marks else {},
        words=written.words or (words_of(_plain(hint)) if written.kind is ValueType.ENUM else ()),
        later_words=written.later_words,
        aliases=facts["aliases"],
        scope=facts["scope"],
        variables=facts["variables"],
        secret=written.secret,
        hidden_members=facts["hidden_members"],
        support=facts["support"],
        identity=facts["identity"],
        example=facts["example"],
        model=next(inner_models(_plain(hint)), None),
        members=written.members,
    )


def _marks(hint: object) -> tuple[object, ...]:
    """Return what annotates a type, or the type that may be None."""
    if get_origin(hint) is Annotated:
        return get_args(hint)[1:]
    return next((_marks(each) for each in get_args(hint) if get_origin(each) is Annotated), ())


def _plain(hint: object) -> object:
    """Return the type without what annotates it."""
    if get_origin(hint) is Annotated:
        return get_args(hint)[0]
    return next((_plain(each) for each in get_args(hint) if get_origin(each) is Annotated), hint)


def _default(declared: Field[Any]) -> object:
    if declared.default is not MISSING:
        return declared.default
    return None if declared.default_factory is MISSING else declared.default_factory()


def _text(value: object) -> str:
    """Return a default as it would be written; what is no plain value is not shown."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | str):
        return str(value)
    return ",".join(value) if isinstance(value, tuple) else ""


def validate(
    section: type[S],
    written: Mapping[str, object],
    reader: Reader,
    stand_ins: Mapping[str, object] = MappingProxyType({}),
) -> tuple[S, tuple[ErrorDetails, ...]]:
    """Return a section from the entries of its properties, and what is wrong with them.

    A property with a problem holds its stand-in, or else its default.
    """
    if not written:
        return section(), ()
    from pydantic import ValidationError  # as late as this: some jobs write none of a section

    adapter = _adapter(cast("Any", section))
    try:
        return cast("S", adapter.validate_python(written, context=reader)), ()
    except ValidationError as error:
        wrong = tuple(error.errors(include_url=False))
    bad = {each["loc"][0] for each in wrong}
    sound = {name: entry for name, entry in written.items() if name not in bad}
    sound |= {name: value for name, value in stand_ins.items() if name in bad}
    found, _ = validate(section, sound, reader)
    return found, wrong


@cache
def _adapter(section: type[Any]) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(section)
