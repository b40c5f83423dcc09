"""Prints the output of ``dil backfill``: plans, backfills, differences, previews of publishing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dil.cli.job_command import JobCall
from dil.cli.stdout import emit, emit_json
from dil.observe.logs import one_line
from dil.observe.plan_view import plan_json, plan_text
from dil.observe.progress import counted
from dil.planning.explanation import arithmetic, skip_reason
from dil.text.zones import find_zone, moment

if TYPE_CHECKING:
    from dil.model.job import Job
    from dil.model.work_unit import Plan
    from dil.operator.backfill.comparing import Difference
    from dil.operator.backfill.definition import BackfillDefinition
    from dil.operator.backfill.key_counts import KeyCounts
    from dil.operator.backfill.publication import Publication
    from dil.operator.backfill.status import BackfillStatus

_ROWS_SHOWN = 50
_LINE = "{:<24} {:<10} {:>12} {:>13}  {}\n"
_DIFFERENCE = "  {:<10} {:>13} {:>13} {:>11} {:>11} {:>11}  {}\n"


def show_plan(call: JobCall, job: Job, plan: Plan, known: BackfillDefinition | None) -> None:
    """Print the work units that a backfill would read, and the backfill that it would continue."""
    if call.as_json:
        emit_json(plan_json(plan, job) | {"backfill": None if known is None else known.id})
        return
    text = plan_text(
        plan,
        job,
        arithmetic=lambda unit: arithmetic(unit, plan),
        skip_reason=lambda skip: skip_reason(skip, plan),
    )
    emit(text)
    if plan.skipped:
        emit(f"  Work units that no run has read, left to the next run: {plan.skipped:,}.\n")
    if known is not None:
        emit(
            f"  Backfill {known.id} of this range is not published: without --plan the command "
            "continues it.\n"
        )


def status_json(status: BackfillStatus) -> dict[str, object]:
    """Return a backfill as JSON members; times are epoch milliseconds UTC."""
    definition = status.definition
    return {
        "job": definition.job,
        "backfill": definition.id,
        "status": status.phase.value,
        "created": definition.created,
        "from": definition.low,
        "to": definition.high,
        "units": list(definition.units),
        "work_units": {
            "planned": len(definition.plan.work_units),
            "read": len(status.done),
            "failed": len(status.failed),
        },
        "rows": status.rows,
        "act": status.act_id,
    }


def show_list(job: Job, found: Iterable[BackfillStatus]) -> None:
    """Print one line for each backfill."""
    zone = find_zone(job.planning.zone)
    emit(f"{job.name}  times in {job.planning.zone}\n\n")
    emit(_LINE.format("backfill", "status", "work units", "rows", "range"))
    count = 0
    for status in found:
        count += 1
        definition = status.definition
        units = f"{len(status.done):,}/{len(definition.plan.work_units):,}"
        window = f"{moment(definition.low, zone)} .. {moment(definition.high, zone)}"
        only = f", {len(definition.units):,} units" if definition.units else ""
        cells = (definition.id, status.phase, units, f"{status.rows:,}", f"{window}{only}")
        if not emit(_LINE.format(*cells)):
            return
    if not count:
        emit("no backfill is kept\n")


def difference_json(job: Job, found: Difference) -> dict[str, object]:
    """Return a comparison as JSON members; null means unknown."""
    definition = found.publication.status.definition
    return {
        "job": job.name,
        "backfill": definition.id,
        "status": found.publication.status.phase.value,
        "mode": found.publication.mode.value,
        "keys": list(found.keys),
        "work_units": [
            {
                "signature": each.work_unit.signature,
                "low": each.work_unit.low,
                "high": each.work_unit.high,
                "status": each.status,
                "before": each.before,
                "after": each.after,
                "by_key": _counts_json(each.by_key),
            }
            for each in found.work_units
        ],
        "total": _counts_json(found.total),
        "notes": list(found.notes),
    }


def _counts_json(counts: KeyCounts | None) -> dict[str, int] | None:
    if counts is None:
        return None
    return {
        "added": counts.added,
        "removed": counts.removed,
        "changed": counts.changed,
        "same": counts.same,
    }


def show_difference(job: Job, found: Difference) -> None:
    """Print a comparison for people."""
    status = found.publication.status
    emit(f"{job.name}  backfill {status.definition.id}  {status.phase}\n\n")
    emit(_DIFFERENCE.format("status", "rows now", "rows then", "added", "removed", "changed", ""))
    shown = found.work_units[:_ROWS_SHOWN]
    for each in shown:
        cells = (each.status, _count(each.before), _count(each.after), *_keyed(each.by_key))
        if not emit(_DIFFERENCE.format(*cells, one_line(each.work_unit.signature))):
            return
    if len(shown) < len(found.work_units):
        emit(f"  and {len(found.work_units) - len(shown):,} more (--json lists all)\n")
    if found.total is not None:
        keys = ", ".join(found.keys)
        emit(_DIFFERENCE.format("all", "", "", *_keyed(found.total), f"by {keys}"))
    for note in found.notes:
        emit(f"  {note}\n")


def _keyed(counts: KeyCounts | None) -> tuple[str, str, str]:
    if counts is None:
        return "-", "-", "-"
    return f"{counts.added:,}", f"{counts.removed:,}", f"{counts.changed:,}"


def _count(rows: int | None) -> str:
    return "-" if rows is None else f"{rows:,}"


def publication_json(found: Publication, *, act_id: str | None, is_done: bool) -> dict[str, object]:
    """Return the changes of a backfill's publication as JSON members."""
    status = found.status
    return {
        "job": status.definition.job,
        "verb": "publish",
        "backfill": status.definition.id,
        "applied": is_done,
        "act": act_id,
        "status": "published" if is_done else status.phase.value,
        "mode": found.mode.value,
        "work_units": [unit.signature for unit in found.work_units],
        "left_out": list(found.stale),
        "recovered": [entry.signature for entry in found.changed],
        "files": {
            "in": len(found.files),
            "rows": sum(file.rows for file in found.files),
            "out": len(found.removed),
            "rows_out": sum(file.rows for file in found.removed),
            "late_out": len(found.late),
        },
        "needs": list(found.needs),
        "refused": None if found.refusal is None or is_done else found.refusal.message,
    }


def show_publication(job: Job, found: Publication) -> None:
    """Print what publishing a backfill would change."""
    name = found.status.definition.id
    units = counted(len(found.work_units), "work unit")
    emit(f"{job.name}  publish backfill {name}  {units}, {found.mode.value}\n")
    rows = sum(file.rows for file in found.files)
    emit(f"  in: {counted(len(found.files), 'file')} with {counted(rows, 'row')}\n")
    if found.removed:
        rows = sum(file.rows for file in found.removed)
        emit(f"  out: {counted(len(found.removed), 'file')} with {counted(rows, 'row')}\n")
    if found.late:
        emit(
            f"  out: {counted(len(found.late), 'file')} of late rows beside the dataset; the "
            "backfill has these rows in the dataset\n"
        )
    if found.changed:
        emit(
            "  failed before, and counted as read from now on: "
            f"{counted(len(found.changed), 'work unit')}\n"
        )
    if found.stale:
        emit(
            "  left out, because they changed since the backfill began: "
            f"{counted(len(found.stale), 'work unit')}\n"
        )
    emit("  the watermark stays\n")
    if found.refusal is not None:
        why = f"{found.refusal.message}\n    {found.refusal.fix}".rstrip()
        emit(f"  cannot be published in this way: {why}\n")


def show_publication_end(
    call: JobCall, found: Publication, *, act_id: str | None, is_done: bool
) -> None:
    """Print how a publication ended."""
    if call.as_json:
        emit_json(publication_json(found, act_id=act_id, is_done=is_done))
    elif is_done:
        emit(f"done: {act_id}; `dil backfill undo` takes it back\n")
    elif act_id is not None:
        emit(f"published already: {act_id}; `dil backfill undo` takes it back\n")
    else:
        hint = "" if found.refusal is not None else "; --yes does it"
        emit(f"nothing was changed{hint}\n")


def show_undone(call: JobCall, status: BackfillStatus) -> None:
    """Print that a backfill was taken back already."""
    if call.as_json:
        emit_json(status_json(status))
    else:
        emit(f"undone already: {status.act_id}; `dil backfill publish` publishes it again\n")
