"""``ms.timelabel.*`` to the schedule that names work units. Source: timelabels.md 2."""

from __future__ import annotations

import re
from dataclasses import replace

from dil.config import values as texts
from dil.config.findings import Findings, quote
from dil.config.property import ValueType
from dil.config.table import TABLE
from dil.config.watermarks import KEY as WATERMARK
from dil.config.watermarks import Watermarks, instant
from dil.model.properties import Properties
from dil.model.timelabels import LabelUnit, TimelabelSpec
from dil.text.instants import HOUR_MS, MINUTE_MS

SCHEDULE, EVERY, UNIT = "ms.timelabel.schedule", "ms.timelabel.every", "ms.timelabel.unit"
ZONE, COLUMN = "ms.timelabel.timezone", "ms.timelabel.column"
SPLIT = "ms.timelabel.split"
CATCHUP, FIRST_RUN = "ms.timelabel.catchup", "ms.timelabel.first.run"

_EVERY = re.compile(r"([0-9]{1,9})([mhd])")
_EVERY_MS = {"m": MINUTE_MS, "h": HOUR_MS, "d": 24 * HOUR_MS}
_EVERY_FIX = "Write whole minutes as an ISO duration such as PT90M, or as 90m, 6h or 1d."


def timelabels_section(
    values: Properties, marks: Watermarks, findings: Findings
) -> TimelabelSpec | None:
    """Return the schedule of labels, None where none is set; what is wrong goes to findings."""
    given = [key for key in (SCHEDULE, EVERY, UNIT) if values.text(key)]
    if not given:
        if ZONE in values.explicit:
            findings.notice(ZONE, "has no effect: there is no schedule", f"Set {SCHEDULE} too.")
        for key in (COLUMN, SPLIT, CATCHUP, FIRST_RUN):
            if key in values.explicit:
                findings.problem(
                    key,
                    f"is {quote(as_written(values[key]))}, and there is no schedule that cuts time "
                    "into periods",
                    f"Set {SCHEDULE} too.",
                )
        return None
    for key in given[1:]:
        findings.problem(key, f"is given, and so is {given[0]}", "Keep one of the two.")
    spec = TimelabelSpec(
        schedule=_schedule(values.text(SCHEDULE), findings),
        every_ms=_every(values.text(EVERY), findings),
        unit=LabelUnit(values.text(UNIT)) if UNIT in given else None,
        zone=values.text(ZONE),
        is_dated=marks.is_dated or values["ms.work.unit.partition"] != "none",
        column=values.text(COLUMN),
    )
    if findings.is_sound(*given, ZONE, WATERMARK):
        _note_zone(spec, values, marks, findings)
    return spec


def as_written(value: object) -> str:
    """Return a text or a truth value as it stands in a job file."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _schedule(text: str, findings: Findings) -> str:
    if text:
        from dil.text.cron import CRON_FIX, CronError, parse_cron

        try:
            parse_cron(text)
        except CronError as error:
            findings.problem(SCHEDULE, f"is {quote(text)}, which {error}", CRON_FIX)
    return text


def _every(text: str, findings: Findings) -> int:
    """Return the interval in ms, 0 for none."""
    if not text:
        return 0
    try:
        length = _length_ms(text)
    except texts.ValueProblem as problem:
        findings.problem(EVERY, f"is {quote(text)}, which {problem.what}", _EVERY_FIX)
        return 0
    if length < MINUTE_MS or length % MINUTE_MS:
        findings.problem(
            EVERY, f"is {quote(text)}, which is not one or more whole minutes", _EVERY_FIX
        )
    return length


def _length_ms(text: str) -> int:
    """Return the milliseconds of ``90m``, ``6h``, ``1d`` or an ISO duration."""
    short = _EVERY.fullmatch(text)
    if short:
        return int(short[1]) * _EVERY_MS[short[2]]
    length = texts.parse(replace(TABLE[EVERY], type=ValueType.DURATION), text)
    return length if isinstance(length, int) else 0


def _note_zone(
    spec: TimelabelSpec, values: Properties, marks: Watermarks, findings: Findings
) -> None:
    """Say where the zone counts for nothing, or cuts days elsewhere than partitions are cut."""
    if spec.every_ms:
        if ZONE in values.explicit:
            findings.notice(
                ZONE,
                f"has no effect with {EVERY}, which counts from 1970-01-01 UTC",
                f"Use {SCHEDULE} for a schedule that follows a zone's calendar.",
            )
        return
    cut_in = instant(marks.start, values.text("ms.timezone"), end=False).zone
    is_of_days = values["ms.work.unit.partition"] not in ("none", "hourly") and _has_days(spec)
    if ZONE not in values.explicit and is_of_days and cut_in != spec.zone:
        findings.notice(
            SCHEDULE if spec.schedule else UNIT,
            f"is evaluated in {spec.zone}, and partitions are cut in {cut_in}: each work unit "
            "lies in two periods",
            f"Set {ZONE}={cut_in}; or to {spec.zone}, where that is meant.",
        )


def _has_days(spec: TimelabelSpec) -> bool:
    """Tell whether the periods are days or longer."""
    if spec.unit is not None:
        return spec.unit in {LabelUnit.DAY, LabelUnit.MONTH}
    from dil.text.cron import Level, parse_cron

    return parse_cron(spec.schedule).level >= Level.DAY
