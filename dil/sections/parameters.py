"""``ms.parameters``: the parameters of requests. See rules G34 and G35."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, get_args

from dil.model.json import JsonValue
from dil.model.messages import known_words
from dil.model.section import Section, ValueType, Written, prop
from dil.model.settings import Parameter, ParameterType
from dil.sections.grammars import check_written_pattern
from dil.sections.reading import (
    ReadContext,
    ShapeError,
    as_array,
    as_object,
    build,
    each,
    is_scalar,
)
from dil.text.zones import find_zone, zone_fix

PARAMETERS = "ms.parameters"
_ISO = "yyyy-MM-dd'T'HH:mm:ssZZ"
_TYPES: tuple[str, ...] = get_args(ParameterType)


def _parameters(value: JsonValue, around: ReadContext) -> tuple[Parameter, ...]:
    """Return the declared parameters.

    Raises:
        ShapeError: any of them breaks a rule.
    """
    items = as_array(value)
    if not items:
        raise ShapeError(("is an empty array", "Leave the value out if there are no parameters."))
    return each(items, lambda item, where: _parameter(item, where, around))


def _parameter(item: JsonValue, where: str, around: ReadContext) -> Parameter:
    members = dict(as_object(item, where))
    name = members.get("name")
    place = f'{where} "{name}"' if isinstance(name, str) else where
    kind = str(members.get("type") or "list").lower()
    if kind not in _TYPES:
        raise ShapeError((f'{place} is of the unknown type "{kind}"', known_words(kind, _TYPES)))
    given = members.get("value")
    checked: dict[str, object] = {**members, "type": kind}
    checked["value"] = _value(kind, given, place, around)
    if kind == "watermark":
        checked |= _watermark(members, place, around)
    return build(Parameter, checked, where)


def _value(kind: str, value: JsonValue, place: str, around: ReadContext) -> object:
    match kind:
        case "list" if isinstance(value, list):
            return tuple(_list_item(item, place, around) for item in value)
        case "list":
            return _list_item(value, place, around)
        case "primitive" if value is None or not is_scalar(value):
            what = f"{place} is of type primitive and has no number, boolean or text"
            raise ShapeError((what, 'For example "value":100.'))
        case "primitive" if isinstance(value, str) and around.is_reference(value):
            what = f"{place} refers to a secret, which only type list can"
            raise ShapeError((what, "Use type list."))
        case "jsonarray":
            return as_array(value, place)
        case "jsonobject":
            return as_object(value, place)
        case "object":  # an array of parameters, or a single one
            items = [value] if isinstance(value, Mapping) else as_array(value, place)
            return each(items, lambda item, where: _parameter(item, f"{place}{where}", around))
        case _:
            return value


def _list_item(value: JsonValue, place: str, around: ReadContext) -> object:
    if not is_scalar(value):
        what = f"{place} holds an array or object inside a list"
        raise ShapeError((what, "Use type jsonarray or jsonobject."))
    if isinstance(value, str) and around.is_reference(value):
        return around.secret(value, place)
    return value


def _watermark(
    members: Mapping[str, JsonValue], place: str, around: ReadContext
) -> dict[str, object]:
    zone = str(members.get("timezone") or around.zone)
    try:
        find_zone(zone)
    except ValueError as error:
        what = f'{place} has the unknown time zone "{zone}"'
        raise ShapeError((what, zone_fix(zone))) from error
    pattern = members.get("pattern")
    if members.get("format") != "datetime":
        return {"timezone": zone}
    if str(pattern).lower() == "iso":
        return {"timezone": zone, "pattern": _ISO}
    if not isinstance(pattern, str) or not pattern:
        what = f"{place} has format datetime and no pattern"
        raise ShapeError((what, 'For example "pattern":"yyyy-MM-dd".'))
    check_written_pattern(pattern, zone, place)
    return {"timezone": zone}


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
    """The parameters of requests."""

    parameters: Annotated[
        tuple[Parameter, ...], Written(ValueType.JSON_ARRAY, read=_parameters, reads_empty=True)
    ] = prop(
        PARAMETERS,
        "Request parameters in order; each is a variable as well. Names that start with `tmp` "
        "are never sent.",
        default=(),
        example=_EXAMPLE,
        variables=True,
        hidden_members="values of type list",
    )
