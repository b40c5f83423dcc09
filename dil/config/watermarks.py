"""``ms.watermark``: the time range and the units. Source: behaviour.md B3.1, B3.2, B4.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from dil.config.findings import Findings
from dil.config.lenient_json import JsonError, parse
from dil.model.job import PlanningSpec
from dil.model.json import JsonValue, as_text, compact
from dil.model.suggestions import suggestion
from dil.spi.reading import ShapeError, as_object, is_scalar
from dil.text.instants import INSTANT_FIX, Instant, InstantError, parse_instant

KEY = "ms.watermark"
# Only the form of a text is checked here; durations are counted from the run's own now.
_DEFAULT = PlanningSpec()
_ANY_NOW_MS = 1_577_865_600_000
_FAR_ZONE = "Pacific/Kiritimati"
_UNITS_FIX = 'Write "units":"a,b" or "units":[{"id":"a"}].'
MEMBERS = {
    "datetime": ("name", "type", "range"),
    "unit": ("name", "type", "units"),
}


@dataclass(slots=True)
class Watermarks:
    """What the property declares; fields are those of PlanningSpec.

    ``is_dated`` and ``has_units`` tell which of the two were declared. ``uses_default_zone``
    tells that an end of the range names no zone.
    """

    datetime_name: str = _DEFAULT.datetime_name
    start: str = _DEFAULT.start
    end: str = _DEFAULT.end
    unit_name: str = _DEFAULT.unit_name
    units: tuple[str, ...] = ("{}",)
    is_dated: bool = False
    has_units: bool = False
    uses_default_zone: bool = False


def read_watermarks(value: object, zone: str, findings: Findings) -> Watermarks:
    """Return the watermarks of a JSON array, None for none; what is wrong goes to findings."""
    found = Watermarks()
    for index, item in enumerate(value if isinstance(value, list) else []):
        try:
            _read_one(item, f"[{index}]", zone, found, findings)
        except ShapeError as error:
            for what, fix in error.findings:
                findings.problem(KEY, what, fix)
    return found


def instant(text: str, zone: str, *, end: bool) -> Instant:
    """Return any instant of a text, to learn whether its form is right.

    Raises:
        ShapeError: the text is no instant.
    """
    try:
        return parse_instant(text, now_ms=_ANY_NOW_MS, zone=zone, end=end)
    except InstantError as error:
        raise ShapeError((str(error), INSTANT_FIX)) from error


def names_no_zone(text: str) -> bool:
    """Tell whether the meaning of a valid text depends on the default zone."""
    return text != "-" and instant(text, _FAR_ZONE, end=True).zone == _FAR_ZONE


def _read_one(
    item: JsonValue, where: str, zone: str, found: Watermarks, findings: Findings
) -> None:
    members = as_object(item, where)
    kind = str(members.get("type", "")).lower()
    if kind not in MEMBERS:
        raise ShapeError(
            (
                f"{where} is neither of type datetime nor unit",
                'Write "type":"datetime" or "type":"unit".',
            )
        )
    name = members.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ShapeError((f"{where} has no name", "It becomes part of every signature."))
    for member in members:
        if member not in MEMBERS[kind]:
            hint = suggestion(member, MEMBERS[kind])
            fix = hint or f"Known members: {', '.join(MEMBERS[kind])}."
            findings.problem(KEY, f'{where} has the unknown member "{member}"', fix)
    if kind == "datetime":
        _read_range(members, name, where, zone, found)
    else:
        _read_units(members, name, where, found, findings)


def _read_range(
    members: Mapping[str, JsonValue], name: str, where: str, zone: str, found: Watermarks
) -> None:
    if found.is_dated:
        raise ShapeError((f"{where} is a second datetime watermark", "There can be one."))
    found.is_dated = True
    ends = as_object(members.get("range"), f"{where}.range")
    texts: list[str] = []
    findings: list[tuple[str, str]] = []
    for member in ("from", "to"):
        try:
            texts.append(_range_end(ends.get(member), zone, end=member == "to"))
        except ShapeError as error:
            place = f"{where}.range.{member}"
            findings.extend((f"{place}: {what}", fix) for what, fix in error.findings)
    if findings:
        raise ShapeError(*findings)
    found.datetime_name, (found.start, found.end) = name, texts
    found.uses_default_zone = any(names_no_zone(text) for text in texts)


def _range_end(text: JsonValue, zone: str, *, end: bool) -> str:
    if not isinstance(text, str):
        raise ShapeError(("needs a text", 'For example "2020-01-01".'))
    instant(text, zone, end=end)
    return text


def _read_units(
    members: Mapping[str, JsonValue], name: str, where: str, found: Watermarks, findings: Findings
) -> None:
    if found.has_units:
        raise ShapeError((f"{where} is a second unit watermark", "There can be one."))
    found.has_units = True
    listed = _unit_items(members.get("units"), name, where)
    texts = [compact(item) for item in listed]
    if len(set(texts)) < len(texts):
        findings.notice(KEY, f"{where} lists a unit more than once; the first counts")
    found.unit_name = name
    found.units = tuple(dict.fromkeys(texts))


def _unit_items(value: JsonValue, name: str, where: str) -> Sequence[Mapping[str, JsonValue]]:
    """Return the units as objects, in order."""
    listed = value
    if isinstance(value, str):
        if not value.strip().startswith("["):
            return _comma_items(value, name, where)
        try:
            listed, _ = parse(value)
        except JsonError as error:
            raise ShapeError((f"{where}.units is no JSON: {error.reason}", _UNITS_FIX)) from error
    if not isinstance(listed, list) or not listed:
        raise ShapeError((f"{where} has no units", _UNITS_FIX))
    if all(isinstance(item, Mapping) for item in listed):
        return [item for item in listed if isinstance(item, Mapping)]
    if any(item is None or not is_scalar(item) for item in listed):
        raise ShapeError((f"{where} mixes objects with other units, or has a null", _UNITS_FIX))
    # A number keeps its text: 1.0 is another unit than 1.
    return [{name: str(item) if isinstance(item, Decimal) else as_text(item)} for item in listed]


def _comma_items(text: str, name: str, where: str) -> Sequence[Mapping[str, JsonValue]]:
    items = [item.strip() for item in text.split(",")]
    while items and not items[-1]:
        items.pop()  # Java's split drops empty items at the end.
    if not items or not all(items):
        raise ShapeError((f"{where} has an empty unit", "Remove the comma, or name the unit."))
    return [{name: item} for item in items]
