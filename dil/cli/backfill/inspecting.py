"""``dil backfill diff`` and ``drop``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dil.cli.backfill import backfill_id_argument
from dil.cli.backfill.listing import show_list, status_json
from dil.cli.job_command import JobCall, job_command, now_option
from dil.cli.state.opening import opened
from dil.cli.stdout import emit, emit_json, emit_lines, results_only
from dil.observe.logs import one_line
from dil.operator.backfill import publishing
from dil.operator.backfill.comparing import compare
from dil.operator.backfill.definition import find_backfill
from dil.operator.backfill.status import read_status
from dil.run.process import real_clock

if TYPE_CHECKING:
    from dil.model.job import Job
    from dil.operator.backfill.comparing import Difference
    from dil.operator.backfill.key_counts import KeyCounts

_ROWS_SHOWN = 50
_DIFFERENCE = "  {:<10} {:>13} {:>13} {:>11} {:>11} {:>11}  {}\n"


@click.command()
@job_command()
@now_option
@backfill_id_argument
@click.option("--rows-only", is_flag=True, help="Count rows; do not read them.")
def diff(call: JobCall, *, now: str | None, backfill_id: str, rows_only: bool) -> int:
    """Count the rows of each work unit, as they are and as they would be.

    If extract.primary.key.fields is set, also count how many keys would come, go and change.
    """
    now_ms = call.invocation.now(now)
    with opened(call) as (job, store):
        definition = find_backfill(job, backfill_id)
        with publishing.open_session(
            job, store, definition, now_ms=now_ms, clock=real_clock, is_dry_run=True
        ) as session:
            found = compare(session, definition, by_key=not rows_only)
    if call.as_json:
        emit_json(_difference_json(job, found))
    else:
        _show_difference(job, found)
    return 0


@click.command()
@job_command()
@backfill_id_argument
@click.option("--yes", is_flag=True, help="Act. Without it only the preview is shown.")
def drop(call: JobCall, *, backfill_id: str, yes: bool) -> int:
    """Delete the folder of a backfill; published rows stay, and can still be taken back."""
    with results_only():
        job = call.job(secrets=False)
        definition = find_backfill(job, backfill_id)
        status = read_status(job, definition, real_clock)
        if yes:
            publishing.drop(job, definition, real_clock)
    if call.as_json:
        emit_json(status_json(status) | {"dropped": yes})
    else:
        show_list(job, [status])
        emit(f"{'dropped' if yes else 'nothing was changed; --yes deletes the folder'}\n")
    return 0


def _difference_json(job: Job, found: Difference) -> dict[str, object]:
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


def _show_difference(job: Job, found: Difference) -> None:
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
    emit_lines(f"  {note}" for note in found.notes)


def _keyed(counts: KeyCounts | None) -> tuple[str, str, str]:
    if counts is None:
        return "-", "-", "-"
    return f"{counts.added:,}", f"{counts.removed:,}", f"{counts.changed:,}"


def _count(rows: int | None) -> str:
    return "-" if rows is None else f"{rows:,}"
