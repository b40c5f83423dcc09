"""``ms.parameters``, and the rules of behaviour.md B6.2, B6.3 and B19, check 9."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, get_args

from dil.model.json import JsonValue
from dil.model.section import Scope, Section, ValueType, Written, prop
from dil.model.settings import Parameter, ParameterType
from dil.model.suggestions import ZONE_FIX, known_words
from dil.secrets import is_reference
from dil.spi.reading import (
    ShapeError,
    Surroundings,
    as_array,
    as_object,
    build,
    each,
    is_scalar,
)
from dil.text.zones import find_zone

_ISO = "yyyy-MM-dd'T'HH:mm:ssZZ"
_TYPES: tuple[str, ...] = get_args(ParameterType)


def _parameters(value: JsonValue, around: Surroundings) -> tuple[Parameter, ...]:
    """Return the declared parameters.

    Raises:
        ShapeError: any of them breaks a rule.
    """
    items = as_array(value)
    if not items:
        raise ShapeError(("is an empty array", "Leave the value out when there are none."))
    return each(items, lambda item, where: _parameter(item, where, around))


def _parameter(item: JsonValue, where: str, around: Surroundings) -> Parameter:
    members = dict(as_object(item, where))
    name = members.get("name")
    place = f'{where} "{name}"' if isinstance(name, str) else where
    kind = str(members.get("type") or "list").lower()
    if kind not in _TYPES:
        raise ShapeError((f'{place} is of the unknown type "{kind}"', known_words(kind, _TYPES)))
    members["type"] = kind
    checked: dict[str, object] = dict(members)
    if kind in _VALUES:
        checked["value"] = _VALUES[kind](members.get("value"), place, around)
    elif kind == "watermark":
        checked.update(_watermark(members, place, around))
    return build(Parameter, checked, where)


def _list_value(value: JsonValue, place: str, around: Surroundings) -> object:
    if isinstance(value, list):
        return tuple(_list_item(item, place, around) for item in value)
    return _list_item(value, place, around)


def _list_item(value: JsonValue, place: str, around: Surroundings) -> object:
    if not is_scalar(value):
        raise ShapeError(
            (f"{place} holds an array or object inside a list", "Use type jsonarray or jsonobject.")
        )
    if isinstance(value, str) and is_reference(value):
        return around.secret(value, place)
    return value


def _primitive_value(value: JsonValue, place: str, around: Surroundings) -> object:
    if value is None or not is_scalar(value):
        raise ShapeError(
            (
                f"{place} is of type primitive and has no number, boolean or text",
                'For example "value":100.',
            )
        )
    _refuse_secret(value, place)
    del around
    return value


def _array_value(value: JsonValue, place: str, around: Surroundings) -> object:
    del around
    return as_array(value, place)


def _object_value(value: JsonValue, place: str, around: Surroundings) -> object:
    del around
    return as_object(value, place)


def _nested_value(value: JsonValue, place: str, around: Surroundings) -> object:
    """Return the parameters inside one of type object: an array of them, or a single one."""
    items = [value] if isinstance(value, Mapping) else as_array(value, place)
    return each(items, lambda item, where: _parameter(item, f"{place}{where}", around))


_VALUES: Mapping[str, Callable[[JsonValue, str, Surroundings], object]] = {
    "list": _list_value,
    "primitive": _primitive_value,
    "jsonarray": _array_value,
    "jsonobject": _object_value,
    "object": _nested_value,
}


def _watermark(
    members: Mapping[str, JsonValue], place: str, around: Surroundings
) -> dict[str, object]:
    zone = str(members.get("timezone") or around.zone)
    try:
        find_zone(zone)
    except ValueError as error:
        raise ShapeError((f'{place} has the unknown time zone "{zone}"', ZONE_FIX)) from error
    if members.get("format") != "datetime":
        return {"timezone": zone}
    pattern = members.get("pattern")
    if str(pattern).lower() == "iso":
        return {"timezone": zone, "pattern": _ISO}
    _check_pattern(pattern, place)
    return {"timezone": zone}


def _check_pattern(pattern: JsonValue, place: str) -> None:
    if not isinstance(pattern, str) or not pattern:
        raise ShapeError(
            (f"{place} has format datetime and no pattern", 'For example "pattern":"yyyy-MM-dd".')
        )
    from dil.text.joda import compile_pattern  # few jobs have patterns
    from dil.text.joda_mistakes import pattern_fix

    try:
        compile_pattern(pattern)
    except ValueError as error:
        raise ShapeError((f"{place}: {error}", pattern_fix(pattern))) from error


def _refuse_secret(value: JsonValue, place: str) -> None:
    if isinstance(value, str) and is_reference(value):
        raise ShapeError(
            (f"{place} refers to a secret, which only type list can", "Use type list.")
        )


_EXAMPLE = """\
[
  {"name": "kind", "value": "order"},
  {"name": "mode", "type": "list", "value": ["everything", "changes"]},
  {"name": "key", "value": "env:API_KEY"},
  {"name": "verbose", "type": "primitive", "value": false},
  {"name": "since", "type": "watermark", "watermark": "system", "value": "low",
   "format": "datetime", "pattern": "yyyy-MM-dd'T'HH:mm:ssZZ", "timezone": "UTC"},
  {"name": "until", "type": "watermark", "watermark": "system", "value": "high",
   "format": "epoch-second"},
  {"name": "tmpRegion", "value": "region-{{region}}"},
  {"name": "filter", "type": "object", "value": [
    {"name": "region", "value": "{{tmpRegion}}"},
    {"name": "limit", "type": "primitive", "value": 10}]},
  {"name": "fields", "type": "jsonarray", "value": ["id", "amount"]},
  {"name": "sort", "type": "jsonobject", "value": {"by": "id"}},
  {"name": "cursor", "type": "session"},
  {"name": "offset", "type": "pagestart"},
  {"name": "size", "type": "pagesize"},
  {"name": "page", "type": "pageno"}]"""


@dataclass(frozen=True, slots=True)
class ParametersSection(Section):
    """What requests are made of."""

    parameters: Annotated[
        tuple[Parameter, ...], Written(ValueType.JSON_ARRAY, read=_parameters, reads_empty=True)
    ] = prop(
        "ms.parameters",
        "Request parameters in order; each is a variable as well. Names that start with `tmp` "
        "are never sent.",
        default=(),
        example=_EXAMPLE,
        variables=True,
        hidden_members="values of type list",
        scope=Scope.TASK,
    )
