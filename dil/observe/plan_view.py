"""The plan of a run: JSON for machines (design.md section 5), a table for people."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING

from dil.model.json import compact
from dil.model.work_unit import Plan, Skip, WorkUnit, read_unit
from dil.observe.logs import one_line
from dil.observe.progress import counted
from dil.text.zones import find_zone, moment, to_local

if TYPE_CHECKING:
    from dil.model.job import Job

_SHOWN = 50
_LABELS_SHOWN = 8
_GAP = 2


def plan_json(plan: Plan, job: Job) -> dict[str, object]:
    """Return the plan as JSON members; every time is epoch milliseconds UTC.

    ``skips`` is there only when the plan was made with a full explanation, and then always;
    ``skipped_timelabels`` and ``before_first`` only where the run leaves out periods.
    """
    members: dict[str, object] = {
        "job": job.name,
        "now": plan.now,
        "zone": plan.zone,
        "full_extract": plan.full_extract,
        "cutoff": plan.cutoff,
        "work_units": [_unit_json(work_unit) for work_unit in plan.work_units],
        "skipped": plan.skipped,
        "left": plan.left,
    }
    if plan.missed:
        members["skipped_timelabels"] = labels_of(plan.missed)
    if plan.before_first:
        members["before_first"] = plan.before_first
    if plan.skips is not None:
        members["skips"] = [
            {
                "signature": skip.signature,
                "partition": {"low": skip.partition.low, "high": skip.partition.high},
                "unit": read_unit(skip.unit_json),
                "last_high": skip.last_high,
                "cutoff": skip.cutoff,
                "own_cutoff": skip.own_cutoff,
                "why": skip.why,
            }
            for skip in plan.skips
        ]
    return members


def _unit_json(work_unit: WorkUnit) -> dict[str, object]:
    return {
        "signature": work_unit.signature,
        "low": work_unit.low,
        "high": work_unit.high,
        "partition": {"low": work_unit.partition.low, "high": work_unit.partition.high},
        "unit": work_unit.unit,
        "timelabel": work_unit.timelabel,
        "reason": work_unit.reason.value,
        "last_high": work_unit.last_high,
        "cutoff": work_unit.cutoff,
        "overall_cutoff": work_unit.overall,
        "not_before": work_unit.not_before,
    }


def plan_text(
    plan: Plan,
    job: Job,
    *,
    arithmetic: Callable[[WorkUnit], str],
    skip_reason: Callable[[Skip], str],
    everything: bool = False,
) -> str:
    """Return the plan for people: a table of windows in the job's zone, and why each is due.

    Args:
        plan: What is due.
        job: Whose plan it is.
        arithmetic: The calculation that led to a work unit's window, in lines.
        skip_reason: Why a candidate is not due, in one line.
        everything: Show every work unit and every skip, not the first 50.
    """
    lines = [*_head(plan, job), *_due(plan, job, arithmetic, everything=everything)]
    if everything:
        lines += [_skip_line(skip, plan, skip_reason) for skip in plan.skips or ()]
    return "\n".join(lines) + "\n"


def _head(plan: Plan, job: Job) -> Iterator[str]:
    zone = find_zone(plan.zone)
    kind = "full extract" if plan.full_extract else "incremental"
    yield f"{job.name}  plan at {moment(plan.now, zone)}, times in {plan.zone}, {kind}"
    if plan.cutoff is not None:
        yield f"  cutoff {moment(plan.cutoff, zone)}: partitions that end after it are due"


def _due(
    plan: Plan, job: Job, arithmetic: Callable[[WorkUnit], str], *, everything: bool
) -> Iterator[str]:
    if plan.work_units:
        shown = plan.work_units if everything else plan.work_units[:_SHOWN]
        yield ""
        yield from _table(shown, find_zone(plan.zone), arithmetic)
        if len(shown) < len(plan.work_units):
            more = len(plan.work_units) - len(shown)
            yield f"... and {counted(more, 'more work unit')}; --all shows them"
        yield ""
    yield f"  {_sentence(plan, job)}"
    yield from (f"  {text}." for text in left_out_of(plan))


def left_out_of(plan: Plan) -> tuple[str, ...]:
    """Return a sentence for each kind of period that a run leaves out, without a full stop."""
    found = []
    if plan.missed:
        labels = labels_of(plan.missed)
        listed = labels if len(labels) <= _LABELS_SHOWN else [labels[0], "...", labels[-1]]
        low, high = plan.missed[0].partition.low, plan.missed[-1].partition.high
        found.append(
            f"skipped, for no run was there in their time (ms.timelabel.catchup=false): "
            f"{counted(len(labels), 'timelabel')}, {' '.join(listed)}, "
            f"{counted(len(plan.missed), 'work unit')}; once the run has published, `dil backfill "
            f"JOB.conf --from {_argument(low)} --to {_argument(high)}` reads them"
        )
    if plan.before_first:
        found.append(
            "left out, for they are older than the first run's period "
            f"(ms.timelabel.first.run=period): {counted(plan.before_first, 'work unit')}; "
            "ms.timelabel.first.run=history reads them"
        )
    return tuple(found)


def labels_of(work_units: Sequence[WorkUnit]) -> list[str]:
    """Return the timelabels of work units, each once, in order of time."""
    return sorted({unit.timelabel for unit in work_units if unit.timelabel})


def _argument(ms: int) -> str:
    return f"{to_local(ms, UTC).replace(tzinfo=None).isoformat()}Z"


def _skip_line(skip: Skip, plan: Plan, skip_reason: Callable[[Skip], str]) -> str:
    zone = find_zone(plan.zone)
    window = f"{moment(skip.partition.low, zone)} .. {moment(skip.partition.high, zone)}"
    return f"  {window}  {_unit_text(skip.unit_json)}  {one_line(skip_reason(skip))}"


def _sentence(plan: Plan, job: Job) -> str:
    if not plan.work_units and not plan.skipped and not plan.left:
        spec = job.planning
        if plan.partitions:
            where = "the source" if spec.of_source else "the activation input"
            return f"Nothing is due: {where} has no units."
        return f"Nothing is due: the range is empty, from {spec.start} is not before to {spec.end}."
    due = f"{len(plan.work_units):,} due" if plan.work_units else "Nothing is due"
    not_due = plan.skipped - len(plan.missed) - plan.before_first
    parts = [due, f"{not_due:,} not due (already done, or not yet)"]
    if plan.left:
        parts.append(f"{plan.left:,} more due beyond ms.work.unit.parallelism.max, left for later")
    return ", ".join(parts) + "."


def _table(
    work_units: Sequence[WorkUnit], zone: tzinfo, arithmetic: Callable[[WorkUnit], str]
) -> Iterator[str]:
    has_labels = any(work_unit.timelabel for work_unit in work_units)
    names = ["#", "reason", "from", "to (exclusive)", "unit", "why this window"]
    names[4:4] = ["timelabel"] if has_labels else []
    rows = [names]
    for number, work_unit in enumerate(work_units, 1):
        first, *more = arithmetic(work_unit).splitlines() or [""]
        cells = [
            str(number),
            work_unit.reason.value,
            moment(work_unit.low, zone),
            moment(work_unit.high, zone),
            *([work_unit.timelabel or ""] if has_labels else []),
            _unit_text(work_unit.unit_json),
        ]
        rows.append([*cells, one_line(first)])
        rows += [[*[""] * len(cells), one_line(line)] for line in more]
    yield from _aligned(rows)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as lines: the first column to the right, the others to the left.

    Lines are never folded: a terminal does that better than a table.
    """
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        padded = [" " * (widths[0] - _width(first)) + first]
        padded += [
            cell + " " * (width - _width(cell))
            for cell, width in zip(others, widths[1:], strict=True)
        ]
        yield (" " * _GAP).join(padded).rstrip()


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes: Chinese characters take two."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in {"W", "F"} for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _unit_text(unit_json: str) -> str:
    return "-" if unit_json == compact({}) else one_line(unit_json)
