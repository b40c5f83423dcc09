"""``dil backfill list``: shows backfills as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from dil.cli.job_command import JobCall, job_command
from dil.cli.stdout import emit, emit_json, results_only
from dil.operator.backfill import definition
from dil.operator.backfill.status import read_status
from dil.run.process import real_clock
from dil.text.zones import find_zone, moment

if TYPE_CHECKING:
    from dil.model.job import Job
    from dil.operator.backfill.status import BackfillStatus

_LINE = "{:<24} {:<10} {:>12} {:>13}  {}\n"


@click.command("list")
@job_command()
def list_backfills(call: JobCall) -> int:
    """List the backfills of a job that were not dropped, newest first."""
    with results_only():
        job = call.job(secrets=False)
        kept = definition.list_backfills(job)
        found = [read_status(job, each, real_clock) for each in kept]
    if call.as_json:
        emit_json([status_json(each) for each in found])
    else:
        show_list(job, found)
    return 0


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
