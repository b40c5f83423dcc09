"""Sections of properties: what their fields declare, and how entries become their values.

A section of sound values is made of them as they are read. Where one is wrong, or its type says
more than those of `dil.model.section`, pydantic validates the section as a whole; what it finds
wrong becomes one problem per property.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
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
    Blank,
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
    values = _plain_values(section, written, reader)
    if values is not None:
        return section(**values), ()
    from pydantic import ValidationError

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


def _plain_values(
    section: type[Section], written: Mapping[str, object], reader: Reader
) -> dict[str, object] | None:
    """Return the values of a section's fields, None where pydantic has to look at them.

    That is where one is wrong, or its type says more than those of `dil.model.section`. All others
    do without pydantic, whose import takes longer than reading a job file.
    """
    found: dict[str, object] = {}
    for name, field in _fields(cast("Any", section)).items():
        if name not in written:
            continue
        how, *constraints = field.marks
        try:
            value: Any = reader.value(how, field.kind, written[name])
        except Blank:
            continue
        except ValueError:
            return None
        for constraint in constraints:
            match constraint:
                case StandsFor():
                    value = constraint.meant(value)
                case Ge(ge=low) if value >= low:
                    pass
                case Le(le=high) if value <= high:
                    pass
                case _:
                    return None
        found[field.name] = value
    return found


@dataclass(frozen=True, slots=True)
class _Field:
    """A field's name, its type, and what annotates that: how it is written comes first."""

    name: str
    kind: object
    marks: tuple[Any, ...]


@cache
def _fields(section: type[Any]) -> Mapping[str, _Field]:
    hints = get_type_hints(section, include_extras=True)
    return {
        property_name(each): _Field(each.name, _plain(hints[each.name]), _marks(hints[each.name]))
        for each in fields(section)
    }


@cache
def _adapter(section: type[Any]) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(section)
