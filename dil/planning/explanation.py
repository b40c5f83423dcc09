"""The arithmetic behind each work unit's window, as text for people."""

from __future__ import annotations

from datetime import timedelta

from dil.model.work_unit import Plan, Reason, Skip, WorkUnit
from dil.text.zones import find_zone, moment

_WHY = {
    Reason.NEW: "no record: the whole partition is read",
    Reason.BACKFILL: "backfill: history is not looked at, the whole partition is read",
    Reason.INCREMENTAL: "due: the partition's end is after the cutoff",
}


def arithmetic(work_unit: WorkUnit, plan: Plan) -> str:
    """Return why a work unit is due and how its window was calculated, in lines.

    Dates are in the zone that partitions are cut in, with their offsets. The partition is named
    only where the window is not all of it.
    """
    zone = find_zone(plan.zone)
    start, end = moment(work_unit.partition.low, zone), moment(work_unit.high, zone)
    lines = [] if work_unit.low == work_unit.partition.low else [f"partition {start} to {end}"]
    if work_unit.last_high is None or work_unit.cutoff is None:
        lines.append(_WHY.get(work_unit.reason, "never succeeded: the whole partition is read"))
        return "\n".join(lines)
    lines.append(_cutoff_line(work_unit.last_high, work_unit.cutoff, plan))
    low = moment(work_unit.low, zone)
    if work_unit.low == max(work_unit.partition.low, work_unit.cutoff):
        cutoff = moment(work_unit.cutoff, zone)
        lines.append(f"low = max(start {start}, cutoff {cutoff}) = {low}")
    else:
        lines.append(f"low = start {low}, because the window is replaced as a whole")
    lines.append(_WHY.get(work_unit.reason, "due: the last attempt failed, whatever the cutoff"))
    return "\n".join(lines)


def skip_reason(skip: Skip, plan: Plan) -> str:
    """Return in one line why a candidate is not due."""
    if skip.cutoff is None:
        return f"not due: {skip.why}"
    zone = find_zone(plan.zone)
    end, cutoff = moment(skip.partition.high, zone), moment(skip.cutoff, zone)
    return f"not due: end {end} is not after the cutoff {cutoff}"


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


def _cutoff_line(last_high: int, cutoff: int, plan: Plan) -> str:
    zone = find_zone(plan.zone)
    return (
        f"last high {moment(last_high, zone)} + abstinent {period(plan.abstinent_ms)} "
        f"- grace {period(plan.grace_ms)} = cutoff {moment(cutoff, zone)}"
    )
