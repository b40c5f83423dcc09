"""Timelabels: their properties, and the schedule that names work units. See rules T3 to T10."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from dil.config import values as texts
from dil.config.findings import Findings
from dil.config.watermarks import WATERMARK, PlanningSection, instant
from dil.model.interval import HOUR_MS, MINUTE_MS
from dil.model.messages import quote
from dil.model.properties import Properties
from dil.model.section import ONE_OF, Bool, Section, Text, Zone, prop
from dil.model.timelabels import LabelClosing, LabelUnit, TimelabelSpec

SCHEDULE, EVERY, UNIT = "ms.timelabel.schedule", "ms.timelabel.every", "ms.timelabel.unit"
LABEL_ZONE, LABEL_COLUMN = "ms.timelabel.timezone", "ms.timelabel.column"
SPLIT = "ms.timelabel.split"
CATCHUP, FIRST_RUN = "ms.timelabel.catchup", "ms.timelabel.first.run"
CLOSE = "ms.timelabel.close"

_EVERY = re.compile(r"([0-9]{1,9})([mhd])")
_EVERY_MS = {"m": MINUTE_MS, "h": HOUR_MS, "d": 24 * HOUR_MS}
_EVERY_FIX = "Write whole minutes as an ISO duration such as PT90M, or as 90m, 6h or 1d."


@dataclass(frozen=True, slots=True)
class TimelabelsSection(Section):
    """The periods that give work units their labels, and the periods that a run reads."""

    schedule: Text = prop(
        SCHEDULE,
        "Cron expression of the job's schedule: five fields, or `@hourly`, `@daily`, "
        "`@weekly`, `@monthly`, `@yearly`. It starts no run; its periods give work units their "
        "labels.",
        default="",
    )
    every: Text = prop(
        EVERY,
        "In place of a cron expression: an interval of whole minutes, counted from 1970-01-01 "
        "UTC, such as `PT90M` or `90m`.",
        default="",
    )
    unit: Annotated[LabelUnit, ONE_OF] | None = prop(
        UNIT,
        "In place of both, for jobs without a schedule: the label is the start of the minute, "
        "hour, day or month in which the work unit begins.",
        default=None,
    )
    zone: Zone = prop(
        LABEL_ZONE,
        "Zone in which the cron expression or the unit is evaluated. Labels are always UTC.",
        default="UTC",
    )
    column: Text = prop(
        LABEL_COLUMN,
        "Column whose time splits rows among timelabels: timestamps, dates or epoch milliseconds. "
        "Unset: if files go into folders by timelabel and a work unit spans several timelabels, "
        "the column with the watermark's name, if the rows have one.",
        default="",
    )
    split: Annotated[Literal["none", "units"], ONE_OF] = prop(
        SPLIT,
        "Whether a work unit that spans several timelabels is split before it is read: `units` "
        "cuts it where a period ends. Unset: `units` if rows of an API go to a timeseries table "
        "and `ms.timelabel.column` names no column, else `none`.",
        default="none",
    )
    catches_up: Bool = prop(
        CATCHUP,
        "Whether a run reads periods in which no run took place. If false, a run reads only its "
        "own period and records the missed periods as SKIPPED; plan and run name them, and `dil "
        "backfill` reads them. A period in which a run took place stays due until it is read.",
        default=True,
    )
    first_run: Annotated[Literal["history", "period"], ONE_OF] = prop(
        FIRST_RUN,
        "What the first run reads: `history` is the whole range of the watermark, as in DIL; "
        "`period` is only the run's period, and later runs read no older period either.",
        default="history",
    )
    closing: Annotated[LabelClosing, ONE_OF] = prop(
        CLOSE,
        "Who closes a timelabel, which makes its rows final: with `auto` the run that completes "
        "it, with `manual` the command `dil timelabels close`. `ms.late.after.close` says what "
        "happens to rows that come later.",
        default=LabelClosing.NEVER,
        identity=False,
    )

    @property
    def is_set(self) -> bool:
        """Return whether a property defines the periods, so that work units have labels."""
        return bool(self.schedule or self.every or self.unit)


def require_labels(key: str, what: str, values: Properties, findings: Findings) -> None:
    """Refuse a property that needs timelabels if the job has none; ``what`` says its value."""
    if not values.section(TimelabelsSection).is_set:
        findings.problem(key, f"{what}, and the job has no timelabels", f"Set {SCHEDULE} too.")


def timelabels_section(values: Properties, findings: Findings) -> TimelabelSpec | None:
    """Return the schedule of labels, None if the job has none; problems become findings."""
    labels = values.section(TimelabelsSection)
    written = {SCHEDULE: labels.schedule, EVERY: labels.every, UNIT: labels.unit}
    given = [key for key, value in written.items() if value]
    if not given:
        what = "has no effect: there is no schedule"
        findings.unused((LABEL_ZONE,), what, f"Set {SCHEDULE} too.")
        for key in (LABEL_COLUMN, SPLIT, CATCHUP, FIRST_RUN, CLOSE):
            if key in values.explicit and findings.is_sound(key):
                findings.problem(
                    key,
                    f"is {quote(as_written(values[key]))}, and there is no schedule that cuts time "
                    "into periods",
                    f"Set {SCHEDULE} too.",
                )
        return None
    planning = values.section(PlanningSection)
    for key in given[1:]:
        findings.problem(key, f"is given, and so is {given[0]}", "Keep one of the two.")
    if labels.schedule:
        from dil.text.cron import CRON_FIX, CronError, parse_cron

        try:
            parse_cron(labels.schedule)
        except CronError as error:
            what = f"is {quote(labels.schedule)}, which {error}"
            findings.problem(SCHEDULE, what, CRON_FIX)
    spec = TimelabelSpec(
        schedule=labels.schedule,
        every_ms=_every(labels.every, findings),
        unit=labels.unit,
        zone=labels.zone,
        is_dated=planning.marks.is_dated or planning.partition != "none",
        column=labels.column,
    )
    if findings.is_sound(*given, LABEL_ZONE, WATERMARK):
        _note_zone(spec, values, planning, findings)
    return spec


def as_written(value: object) -> str:
    """Return a text or a truth value as a job file writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _every(text: str, findings: Findings) -> int:
    """Return the interval of the schedule in ms, from ``90m``, ``6h``, ``1d`` or an ISO duration.

    The result is 0 if none is set.
    """
    if not text:
        return 0
    short = _EVERY.fullmatch(text)
    try:
        length = int(short[1]) * _EVERY_MS[short[2]] if short else texts.duration_ms(text)
    except texts.ValueProblem as problem:
        findings.problem(EVERY, f"is {quote(text)}, which {problem.what}", _EVERY_FIX)
        return 0
    if length < MINUTE_MS or length % MINUTE_MS:
        what = f"is {quote(text)}, which is not one or more whole minutes"
        findings.problem(EVERY, what, _EVERY_FIX)
    return length


def _note_zone(
    spec: TimelabelSpec, values: Properties, planning: PlanningSection, findings: Findings
) -> None:
    """Add a notice if the zone has no effect, or cuts days elsewhere than the partitions."""
    if spec.every_ms:
        what = f"has no effect with {EVERY}, which counts from 1970-01-01 UTC"
        fix = f"Use {SCHEDULE} for a schedule that follows a zone's calendar."
        findings.unused((LABEL_ZONE,), what, fix)
        return
    if spec.unit is None:
        from dil.text.cron import Level, parse_cron

        has_days = parse_cron(spec.schedule).level >= Level.DAY
    else:
        has_days = spec.unit in {LabelUnit.DAY, LabelUnit.MONTH}
    cut_in = instant(planning.marks.start, planning.zone, end=False).zone
    are_days = has_days and planning.partition not in ("none", "hourly")
    is_chosen = LABEL_ZONE in values.explicit
    if are_days and not is_chosen and cut_in != spec.zone:
        findings.notice(
            SCHEDULE if spec.schedule else UNIT,
            f"is evaluated in {spec.zone}, and partitions are cut in {cut_in}: each work unit "
            "lies in two periods",
            f"Set {LABEL_ZONE}={cut_in}, or set it to {spec.zone} if that is meant.",
        )
