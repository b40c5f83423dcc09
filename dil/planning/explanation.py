"""Explains the arithmetic of each work unit's window as text for people."""

from __future__ import annotations

from datetime import timedelta

from dil.model.work_unit import Plan, Reason, Skip, WorkUnit
from dil.text.zones import find_zone, moment

_WHY = {
    Reason.NEW: "no record: the whole partition is read",
    Reason.BACKFILL: "backfill: history does not count, the whole partition is read",
}


def arithmetic(work_unit: WorkUnit, plan: Plan) -> str:
    """Return why a work unit is due and how its window was calculated, in lines.

    Dates are in the zone that partitions are cut in, with their offsets. If the whole partition is
    read because it never succeeded, the bounds of the window are not repeated. The unit's overall
    cutoff is named if it is larger than the work unit's own cutoff, because then it decided.
    """
    zone = find_zone(plan.zone)
    if work_unit.last_high is None or work_unit.cutoff is None:
        return _WHY.get(work_unit.reason, "never succeeded: the whole partition is read")
    start, end = moment(work_unit.partition.low, zone), moment(work_unit.high, zone)
    cutoff = moment(work_unit.cutoff, zone)
    lines = [
        f"partition {start} to {end}, {plan.zone}",
        f"last high {_shifted(work_unit.last_high, plan)} = cutoff {cutoff}",
    ]
    decides = f"cutoff {cutoff}"
    if work_unit.overall is not None and work_unit.overall > work_unit.cutoff:
        newest = work_unit.overall - plan.abstinent_ms + plan.grace_ms
        decides = f"overall cutoff {moment(work_unit.overall, zone)}"
        lines.append(f"newest high of the unit {_shifted(newest, plan)} = {decides}")
    if work_unit.low == max(work_unit.partition.low, work_unit.cutoff):
        low = moment(work_unit.low, zone)
        lines.append(f"low = max(start {start}, cutoff {cutoff}) = {low}, high = end {end}")
    else:
        lines.append(f"low = start {start}, because the window is replaced as a whole")
    if work_unit.reason is Reason.RETRY:
        lines.append("due: the last attempt failed, whatever the cutoff")
    else:
        lines.append(f"due: the partition's end {end} is after the {decides}")
    return "\n".join(lines)


def skip_reason(skip: Skip, plan: Plan) -> str:
    """Return a line that says why a candidate is not due, and which of the two cutoffs decided."""
    if skip.cutoff is None:
        return f"not due: {skip.why}"
    zone = find_zone(plan.zone)
    end = moment(skip.partition.high, zone)
    if skip.own_cutoff is not None and skip.partition.high <= skip.own_cutoff:
        held = f"its cutoff {moment(skip.own_cutoff, zone)}"
    else:
        held = f"its unit's overall cutoff {moment(skip.cutoff, zone)}"
    return f"not due: end {end} is not after {held}"


def period(ms: int) -> str:
    """Return a grace or abstinent period as an ISO 8601 duration of days, hours and so on."""
    span = timedelta(milliseconds=ms)
    hours, rest = divmod(span.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    fraction = f".{span.microseconds // 1000:03}" if span.microseconds else ""
    time = "".join(
        f"{value}{unit}"
        for value, unit in ((hours, "H"), (minutes, "M"), (f"{seconds}{fraction}", "S"))
        if value not in (0, "0")
    )
    return f"P{span.days}D" + (f"T{time}" if time else "")


def _shifted(high: int, plan: Plan) -> str:
    high_text = moment(high, find_zone(plan.zone))
    return f"{high_text} + abstinent {period(plan.abstinent_ms)} - grace {period(plan.grace_ms)}"
