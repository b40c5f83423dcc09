"""``ms.event.*`` and ``ms.late.*``: the event time of rows, its watermark, and late rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge, Le

from dil.config.findings import Findings
from dil.config.values import ValueProblem, duration_ms, share
from dil.model.event_time import MAX_BOUND_MS, AdaptiveBound, EventTimeSpec, Strategy
from dil.model.interval import DAY_MS
from dil.model.json import JsonValue, as_text
from dil.model.members import MemberError, ReadBy, Setting, Whole, member
from dil.model.properties import Properties
from dil.model.section import ONE_OF, Duration, Int, Section, Text, ValueType, Written, prop
from dil.sections.reading import Finding, ReadContext, ShapeError, as_object, build

EVENT_COLUMN = "ms.event.column"
STRATEGY, DELAY = "ms.event.watermark", "ms.event.delay"
PARTITION_COLUMN, IDLE = "ms.event.partition.column", "ms.event.idle.timeout"
POLICY = "ms.event.multi.policy"
LATE_ACTION, AFTER_CLOSE = "ms.late.action", "ms.late.after.close"

_BOUND = AdaptiveBound()
# One length for all partitions, or a length for each by name.
Delay: TypeAlias = int | Mapping[str, int]

_LENGTH_FIX = "Write milliseconds, or an ISO duration of days and smaller units, such as PT30S."


def _length(value: object) -> int:
    """Return the length in ms that a number or an ISO duration means."""
    if isinstance(value, str) and not value.strip().isdecimal():
        try:
            return duration_ms(value.strip())
        except ValueProblem as problem:
            raise MemberError(problem.what, problem.fix) from problem
    text = "" if isinstance(value, bool) or value is None else as_text(value)  # type: ignore[arg-type] # JSON
    if not text.strip().isdecimal():
        raise MemberError("is no length of time", _LENGTH_FIX)
    return int(text)


def _quantile(value: object) -> Fraction:
    try:
        return share(as_text(value), "0.95")  # type: ignore[arg-type] # JSON
    except ValueProblem as problem:
        raise MemberError(problem.what, problem.fix) from problem


def _margin(value: object) -> tuple[int, int]:
    match value:
        case [int() as rows, length] if rows >= 1 and not isinstance(rows, bool):
            return rows, _length(length)
        case _:
            fix = "Write [rows, milliseconds], such as [250, 604800000]."
            raise MemberError("is no margin", fix)


Length: TypeAlias = Annotated[int, ReadBy(_length)]


@dataclass(frozen=True, slots=True)
class Adaptive(Setting):
    """The value of ``ms.event.adaptive``."""

    window: Annotated[Whole, Ge(1)] = member(
        "Number of the last rows of a partition whose delays count.", default=_BOUND.window
    )
    quantile: Annotated[Fraction, ReadBy(_quantile)] = member(
        "Share of these rows whose delays are within the bound; its rank is exact.",
        default=_BOUND.quantile,
        is_default_shown=False,
    )
    min: Length = member("The least bound, in ms or as an ISO duration.", default=_BOUND.low_ms)
    max: Length = member("The largest bound, at most 7 days.", default=_BOUND.high_ms)
    margins: tuple[Annotated[tuple[int, int], ReadBy(_margin)], ...] = member(
        "Margins to add to the quantile while a partition has had few rows, each [up to rows, ms], "
        "rows ascending.",
        default=_BOUND.margins,
    )


_LENGTH_TEXT = "milliseconds or ISO duration"
_WORDS = {
    "window": "whole number",
    "quantile": "number",
    "min": _LENGTH_TEXT,
    "max": _LENGTH_TEXT,
    "margins": f"array of [rows, {_LENGTH_TEXT}]",
}
_MEMBERS = tuple(
    (each.name, _WORDS[each.name], each.metadata["description"]) for each in fields(Adaptive)
)


def _adaptive(value: JsonValue, _around: ReadContext) -> AdaptiveBound:
    asked = build(Adaptive, as_object(value))
    found: list[Finding] = []
    if asked.max > MAX_BOUND_MS:
        found.append(("max is above 7 days", "Write at most 604800000, or P7D."))
    if asked.min > asked.max:
        found.append(("min is above max", "Write a smaller min."))
    if any(first >= second for (first, _), (second, _) in pairwise(asked.margins)):
        found.append(("margins are not in ascending order of rows", "Sort them."))
    if found:
        raise ShapeError(*found)
    return AdaptiveBound(asked.window, asked.quantile, asked.min, asked.max, asked.margins)


def _delay(value: JsonValue | int, _around: ReadContext) -> Delay:
    """Return one delay in ms, or one for each stream (partition)."""
    if isinstance(value, int):
        return value
    found: list[Finding] = []
    delays: dict[str, int] = {}
    for name, length in as_object(value).items():
        try:
            delays[name] = _length(length)
        except MemberError as error:
            found.append((f'"{name}" {error.what}', error.fix))
    if not delays and not found:
        found.append(("names no partition", 'Write {"name": "PT10S"}, or one duration for all.'))
    if found:
        raise ShapeError(*found)
    return delays


@dataclass(frozen=True, slots=True)
class EventTimeSection(Section):
    """The event time of rows, its watermark, and late rows."""

    column: Text = prop(
        EVENT_COLUMN,
        "Column of the time at which the event of a row happened: a timestamp, a date or epoch "
        "milliseconds; or a JSONPath of it.",
        default="",
    )
    strategy: Annotated[Strategy, ONE_OF] = prop(
        STRATEGY,
        "How the event-time watermark follows the rows. `fixed_delay` is the largest time less "
        "`ms.event.delay`, as in Spark; `bounded` is the same for each partition, as in Flink; "
        "`adaptive` measures how late rows come; `source_180ms` assumes 180 ms; `system_time` is "
        "the time of the commit less the delay; `manual` is set by an operator.",
        default=Strategy.NONE,
    )
    delay: Annotated[Delay | None, Written(ValueType.DURATION_OR_OBJECT, read=_delay)] = prop(
        DELAY,
        "How far behind the largest time the watermark stays: an ISO duration such as `PT10M`, or "
        "an object with one for each partition. The named partitions are known from the start: "
        "under the policy `min` a named partition without rows holds the watermark back.",
        default=None,
        example='{"north": "PT10S", "south": "PT5M"}',
    )
    stream_column: Text = prop(
        PARTITION_COLUMN,
        "Column that names the partition of a row, such as a device: each partition has its own "
        "watermark, and the least of these counts. Unset: all rows are in one partition.",
        default="",
    )
    idle_ms: Duration | None = prop(
        IDLE,
        "How long the watermark waits for a partition without rows. Unset: one "
        "planned run without rows.",
        default=None,
    )
    policy: Annotated[Literal["min", "max"], ONE_OF] = prop(
        POLICY,
        "Which of the partitions' watermarks counts under `fixed_delay`.",
        default="min",
    )
    order: Annotated[Literal["batch", "arrival"], ONE_OF] = prop(
        "ms.event.order",
        "Whether the rows of a batch are in the order of their arrival, so that `adaptive` may "
        "measure by it.",
        default="batch",
    )
    warmup: Annotated[Literal["hold", "ignore"], ONE_OF] = prop(
        "ms.event.warmup",
        "Whether a partition that has had too few rows to be measured holds the watermark back.",
        default="hold",
    )
    most_streams: Annotated[Int, Ge(1), Le(1_000_000)] = prop(
        "ms.event.partitions.max",
        "Most partitions; more are refused, because the state keeps each of them.",
        default=1000,
    )
    nulls: Annotated[Literal["keep", "reject", "ingest_time"], ONE_OF] = prop(
        "ms.event.null",
        "What happens to a row without event time: `keep` keeps it, and it is never late; `reject` "
        "refuses it; `ingest_time` gives it the time of the commit.",
        default="keep",
    )
    max_future_ms: Duration = prop(
        "ms.event.max.future",
        "How far ahead of now an event time may be; later rows are refused and move no watermark.",
        default=DAY_MS,
        shown="P1D",
    )
    adaptive: Annotated[
        AdaptiveBound, Written(ValueType.JSON_OBJECT, read=_adaptive, members=_MEMBERS)
    ] = prop(
        "ms.event.adaptive",
        "The numbers of the adaptive strategy; members that are left out have their defaults. "
        "Numbers are milliseconds, texts ISO durations.",
        default=_BOUND,
        shown='{"window":5000,"quantile":0.95,"min":50,"max":604800000,'
        '"margins":[[250,604800000],[500,30000],[750,10000],[1000,1000]]}',
        example='{"window": 5000, "quantile": 0.95, "min": 50, "max": "P7D"}',
    )
    late_action: Annotated[Literal["flag", "side_table", "drop", "fail"], ONE_OF] | None = prop(
        LATE_ACTION,
        "What happens to late rows: `flag` marks them in the columns `_late` and `_lateness_ms`, "
        "`side_table` publishes them beside the dataset, `drop` leaves them out, `fail` fails "
        "their work unit. Unset: late rows are published like all other rows, and only counted.",
        default=None,
    )
    boundary: Annotated[Literal["exclusive", "inclusive"], ONE_OF] = prop(
        "ms.late.boundary",
        "Whether a row at the watermark itself is late; `inclusive` is as in Spark.",
        default="exclusive",
    )
    lag: Annotated[Int, Ge(0), Le(1)] = prop(
        "ms.late.lag",
        "Age of the watermark that decides which rows are late, in batches before the last one; 1 "
        "is as in Spark.",
        default=0,
    )
    after_close: Annotated[Literal["side_table", "reopen", "reject"], ONE_OF] = prop(
        AFTER_CLOSE,
        "What happens to rows for a closed timelabel: `side_table` publishes them beside "
        "the dataset, `reopen` publishes them in the dataset and closes the label again, `reject` "
        "leaves them out.",
        default="side_table",
    )


def event_time_section(values: Properties, findings: Findings) -> EventTimeSpec:
    """Return the settings of event time; contradictions become findings."""
    section = values.section(EventTimeSection)
    _check_delay(section, findings)
    is_fixed = section.strategy is Strategy.FIXED_DELAY
    if section.policy == "max" and not is_fixed:
        fix = f"Leave it out, or set {STRATEGY}=fixed_delay."
        findings.problem(POLICY, f"is max, and {STRATEGY} is {section.strategy}", fix)
    if section.idle_ms is not None and (is_fixed or not section.strategy.keeps_streams):
        findings.notice(IDLE, f"has no effect with {STRATEGY}={section.strategy}", "Leave it out.")
    delay = section.delay
    return EventTimeSpec(
        strategy=section.strategy,
        column=section.column,
        delay_ms=delay if isinstance(delay, int) else None,
        delays_ms=delay if isinstance(delay, Mapping) else {},
        stream_column=section.stream_column,
        idle_ms=section.idle_ms,
        takes_max=section.policy == "max",
        in_arrival_order=section.order == "arrival",
        holds_in_warmup=section.warmup == "hold",
        most_streams=section.most_streams,
        nulls=section.nulls,
        max_future_ms=section.max_future_ms,
        adaptive=section.adaptive,
        late_action=section.late_action or "",
        is_inclusive=section.boundary == "inclusive",
        lags=section.lag == 1,
    )


def _check_delay(section: EventTimeSection, findings: Findings) -> None:
    """Refuse a watermark without the delay that it needs, or with delays of unknown streams."""
    if not findings.is_sound(DELAY, STRATEGY):
        return
    strategy, delay = section.strategy, section.delay
    if delay is None:
        if strategy.needs_delay:
            fix = f"Set {DELAY}, such as PT10M; PT0S for none."
            findings.problem(DELAY, f"is not set, and {STRATEGY} is {strategy}", fix)
        return
    if isinstance(delay, Mapping):
        if strategy is Strategy.SYSTEM_TIME:
            what = f"names partitions, and {STRATEGY} is system_time, which has none"
            findings.problem(DELAY, what, "Write one duration.")
        elif not section.stream_column:
            what = "names partitions, and no column says which partition a row is of"
            findings.problem(DELAY, what, f"Set {PARTITION_COLUMN}, or write one duration.")
    if not strategy.needs_delay:
        findings.notice(DELAY, f"has no effect with {STRATEGY}={strategy}", "Leave it out.")
