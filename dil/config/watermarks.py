"""Watermarks and work units: their properties, and the JSON of a range and of its partitions.

See rules P2, P3, P8, P12 and P13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, TypeAlias

from annotated_types import Ge, Le

from dil.model.interval import SubRange
from dil.model.job import PlanningSpec
from dil.model.json import JsonValue, as_text, compact
from dil.model.messages import known_words
from dil.model.section import (
    Bool,
    Duration,
    Int,
    Long,
    Reported,
    Section,
    StandsFor,
    ValueType,
    Written,
    Zone,
    internal,
    no_effect,
    prop,
)
from dil.sections.reading import (
    Finding,
    ReadContext,
    ShapeError,
    as_array,
    as_object,
    is_scalar,
    unknown_members,
)
from dil.text.instants import INSTANT_FIX, Instant, InstantError, parse_instant
from dil.text.lenient_json import JsonError, parse

WATERMARK, PARTITION, ZONE = "ms.watermark", "ms.work.unit.partition", "ms.timezone"
GRACE, ABSTINENT = "ms.grace.period", "ms.abstinent.period"
WORDS = ("none", "hourly", "daily", "weekly", "monthly", "yearly")
MEMBERS = {
    "datetime": ("name", "type", "range"),
    "unit": ("name", "type", "units"),
}
Composite: TypeAlias = tuple[SubRange, ...]

# Only the form of a text is checked here; durations are counted from the run's own now.
_DEFAULT = PlanningSpec()
_ANY_NOW_MS = 1_577_865_600_000
_FAR_ZONE = "Pacific/Kiritimati"
_NOW = "-"
_ENDLESS_MS = 2**62
# What Java's String.trim removes: other blanks, such as the no-break space, belong to the unit.
_TRIMMED = "".join(map(chr, range(0x21)))
_UNITS_FIX = 'Write "units":"a,b" or "units":[{"id":"a"}].'


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The watermarks that ``ms.watermark`` declares; the fields are as in PlanningSpec.

    ``is_dated`` says that a range of time was declared, ``has_units`` that units were.
    ``uses_default_zone`` says that an end of the range names no zone.
    """

    datetime_name: str = _DEFAULT.datetime_name
    start: str = _DEFAULT.start
    end: str = _DEFAULT.end
    unit_name: str = _DEFAULT.unit_name
    units: tuple[str, ...] = ("{}",)
    is_dated: bool = False
    has_units: bool = False
    uses_default_zone: bool = False


def instant(text: str, zone: str, *, end: bool) -> Instant:
    """Return the instant of a text; a duration is counted from an arbitrary now.

    So callers can check the form, the zone and the order of texts; planning takes the run's now.

    Raises:
        ShapeError: the text is no instant.
    """
    try:
        return parse_instant(text, now_ms=_ANY_NOW_MS, zone=zone, end=end)
    except InstantError as error:
        raise ShapeError((str(error), INSTANT_FIX)) from error


def uses_default_zone(texts: Sequence[str]) -> bool:
    """Return whether the meaning of one of the valid texts depends on the default zone."""
    return any(
        text != _NOW and instant(text, _FAR_ZONE, end=True).zone == _FAR_ZONE for text in texts
    )


def _watermarks(value: JsonValue, around: ReadContext) -> Watermarks:
    found = Watermarks()
    kinds: set[str] = set()
    findings: list[Finding] = []
    for index, item in enumerate(as_array(value)):
        where = f"[{index}]"
        try:
            members = as_object(item, where)
            kind, name = _kind_and_name(members, where)
            findings += unknown_members(members, MEMBERS[kind], where)
            if kind in kinds:
                findings.append((f"{where} is a second {kind} watermark", "There can be one."))
                continue
            kinds.add(kind)
            if kind == "datetime":
                found = _with_range(found, name, members.get("range"), f"{where}.range", around)
                continue
            texts = [compact(unit) for unit in _unit_items(members.get("units"), name, where)]
            if len(set(texts)) < len(texts):
                around.notice(f"{where} lists a unit more than once; the first counts", "")
            units = tuple(dict.fromkeys(texts))
            found = replace(found, unit_name=name, units=units, has_units=True)
        except ShapeError as error:
            findings.extend(error.findings)
    if findings:
        raise ShapeError(*findings)
    return found


def _kind_and_name(members: Mapping[str, JsonValue], where: str) -> tuple[str, str]:
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
        raise ShapeError((f"{where} has no name", "Give it a `name`: signatures contain it."))
    return kind, name


def _with_range(
    found: Watermarks, name: str, value: JsonValue, where: str, around: ReadContext
) -> Watermarks:
    ends = as_object(value, where)
    texts: list[str] = []
    findings: list[Finding] = []
    for member in ("from", "to"):
        text = ends.get(member)
        if not isinstance(text, str):
            findings.append((f"{where}.{member}: needs a text", 'For example "2020-01-01".'))
            continue
        texts.append(text)
        try:
            instant(text, around.zone, end=member == "to")
        except ShapeError as error:
            findings.extend((f"{where}.{member}: {what}", fix) for what, fix in error.findings)
    if findings:
        raise ShapeError(*findings)
    start, end = texts
    return replace(
        found,
        datetime_name=name,
        start=start,
        end=end,
        is_dated=True,
        uses_default_zone=uses_default_zone(texts),
    )


def _unit_items(value: JsonValue, name: str, where: str) -> Sequence[Mapping[str, JsonValue]]:
    """Return the units as objects, in order."""
    listed = value
    if isinstance(value, str):
        if not value.strip().startswith("["):
            items = [item.strip(_TRIMMED) for item in value.split(",")]
            while items and not items[-1]:
                items.pop()  # Java's split drops empty items at the end.
            if not items or not all(items):
                fix = "Remove the comma, or name the unit."
                raise ShapeError((f"{where} has an empty unit", fix))
            return [{name: item} for item in items]
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


def _partition(value: JsonValue, around: ReadContext) -> str | Composite:
    if isinstance(value, str):
        return value  # It is one of the words.
    found: list[SubRange] = []
    spans: list[tuple[int, int, str]] = []
    findings: list[Finding] = []
    for word, ends in as_object(value).items():
        try:
            start, end = _ends(word, ends)
            low = instant(start, around.zone, end=False).ms
            high = _ENDLESS_MS if end == _NOW else instant(end, around.zone, end=False).ms
        except ShapeError as error:
            findings.extend((f"{word}: {what}", fix) for what, fix in error.findings)
            continue
        if low >= high:
            findings.append((f"{word}: from is not before to", "Swap them, or remove it."))
        found.append(SubRange(word.lower(), start, end))
        spans.append((low, high, word))
    for (_, high, word), (low, _, other) in pairwise(sorted(spans)):
        if low < high:
            what = f"has ranges that overlap: {word} and {other}"
            findings.append((what, "End one where the other starts."))
    if not value:
        findings.append(("is an empty object", f"Known values: {', '.join(WORDS)}."))
    if findings:
        raise ShapeError(*findings)
    return tuple(found)


def _ends(word: str, ends: JsonValue) -> tuple[str, str]:
    """Return from and to of the part of the range that a partition word cuts."""
    if word.lower() not in WORDS:
        raise ShapeError(("is no partition word", known_words(word, WORDS)))
    match ends:
        case [str() as start, str() as end]:
            if start.startswith("P") or end.startswith("P"):
                raise ShapeError(("takes no durations", "Write dates; the last `to` may be -."))
            return start, end
        case _:
            raise ShapeError(("needs two texts", 'Write ["2020-01-01","-"].'))


_Watermarks = Annotated[
    Watermarks,
    Written(
        ValueType.JSON_ARRAY,
        read=_watermarks,
        members=(
            ("name", "text, required", "Name of the watermark; part of every signature."),
            ("type", "datetime, unit", "At most one of each."),
            ("range", "object", "Required for a `datetime` watermark: the time range to read."),
            (
                "range.from",
                "text",
                "A date or time, or a duration counted back from now, such as `P30D` or `P1DT6H`.",
            ),
            ("range.to", "text", "The same; `-` is now, `P0D` the last midnight."),
            (
                "units",
                "comma list, array of texts, array of objects",
                "Required for a `unit` watermark. Text `a` under the name `id` is the unit "
                '`{"id":"a"}`; each member of a unit is a variable.',
            ),
        ),
    ),
]
_WATERMARK_EXAMPLE = """\
[
  {"name": "system", "type": "datetime", "range": {"from": "2024-01-01", "to": "P0D"}},
  {"name": "region", "type": "unit",
   "units": [{"region": "eu", "host": "a"}, {"region": "us", "host": "b"}]}]"""
_Partition = Annotated[
    str | Composite,
    Written(
        ValueType.WORD_OR_OBJECT,
        words=WORDS,
        read=_partition,
        members=(
            (
                "(a partition word)",
                "array of two dates",
                "From and to of the part of the range that is cut by this word; the last to may be "
                "`-`, which means no end.",
            ),
        ),
    ),
]


@dataclass(frozen=True, slots=True)
class PlanningSection(Section):
    """The range to read, how it is cut into work units, and the work units that a run takes."""

    marks: _Watermarks = prop(
        WATERMARK,
        "At most one `datetime` watermark with a range, and at most one `unit` watermark with a "
        "list. Without the first: 2019-01-01 to now; without the second: one unit `{}`.",
        default=Watermarks(),
        example=_WATERMARK_EXAMPLE,
    )
    zone: Zone = prop(
        ZONE,
        "Zone of every text and duration in watermarks and parameters that names none.",
        default="America/Los_Angeles",
    )
    partition: _Partition = prop(
        PARTITION,
        "How the time range is cut. An object such as "
        '`{"monthly":["2020-01-01","2024-01-01"],"daily":["2024-01-01","-"]}` cuts parts of the '
        "range differently.",
        default="none",
        example='{"monthly": ["2020-01-01", "2024-01-01"], "daily": ["2024-01-01", "-"]}',
    )
    reads_partial: Bool = prop(
        "ms.work.unit.partial.partition",
        "Whether a run reads a last partition that is shorter than its step.",
        default=True,
    )
    grace_days: Annotated[Int, Ge(0)] = prop(
        "ms.grace.period.days",
        "Days, of 24 hours each, before the last high watermark that are read again for late data.",
        default=0,
    )
    grace_ms: Duration | None = prop(
        GRACE,
        "The grace period as an ISO duration such as `PT6H`, in place of the days.",
        default=None,
    )
    abstinent_days: Annotated[Int, Ge(0)] = prop(
        "ms.abstinent.period.days",
        "Days, of 24 hours each, in which no run reads a work unit again after it was read.",
        default=0,
    )
    abstinent_ms: Duration | None = prop(
        ABSTINENT,
        "The abstinent period as an ISO duration such as `PT6H`, in place of the days.",
        default=None,
    )
    is_backfill: Bool = prop(
        "ms.backfill",
        "Plans the whole configured range, even the parts that were read before. The run counts as "
        "incremental; recorded watermarks are never lowered.",
        default=False,
        identity=False,
    )
    dynamic_full_load: Bool = prop(
        "ms.enable.dynamic.full.load",
        "Makes the first run of a job a full extract.",
        default=True,
    )
    max_units: Annotated[Int, StandsFor({0: 500}), Ge(-1), Le(5000)] = prop(
        "ms.work.unit.parallelism.max",
        "Most work units that one run takes; the rest waits for the next run. 0 means 500, -1 "
        "means no limit. `taskexecutor.threadpool.size` says how many run at once.",
        default=500,
        identity=False,
    )
    min_units: Annotated[Long, Ge(0)] = prop(
        "ms.work.unit.min.units",
        "Least number of planned work units; if there are fewer, the run fails before it reads "
        "any.",
        default=0,
        identity=False,
    )
    min_records: Annotated[Long, Ge(0)] = prop(
        "ms.work.unit.min.records",
        "Least number of rows that a work unit reads from the source; if there are fewer, it "
        "fails.",
        default=0,
    )
    pacing_s: Annotated[Int, Ge(0)] = prop(
        "ms.work.unit.pacing.seconds",
        "Seconds between the starts of work units: work unit i, counted from 0, sends its first "
        "request at planning time plus i times this, or later.",
        default=0,
        identity=False,
    )
    scheduling_starttime: Long = internal(
        "ms.work.unit.scheduling.starttime",
        "The earliest start of a paced work unit, in epoch milliseconds.",
        default=0,
    )
    watermark_groups: Annotated[object, Written(ValueType.JSON_ARRAY)] = internal(
        "ms.watermark.groups", "The names of both watermarks of a work unit."
    )
    activation_property: Annotated[object, Written(ValueType.JSON_OBJECT)] = internal(
        "ms.activation.property", "The work unit's unit together with its authentication fields."
    )
    payload_property: Annotated[object, Written(ValueType.JSON_ARRAY)] = internal(
        "ms.payload.property", "The payload entries of a work unit.", variables=True
    )
    aux_keys: Annotated[object, Written(ValueType.JSON_OBJECT)] = no_effect(
        "ms.aux.keys",
        "Rare switches of DIL's; work units without a range do not occur here.",
        default=None,
        reported=Reported.ALONE,
    )
