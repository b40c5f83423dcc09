"""``dil backfill list``."""

from __future__ import annotations

import click

from dil.cli.backfill import showing
from dil.cli.job_command import JobCall, job_command
from dil.cli.stdout import emit_json, results_only
from dil.operator.backfill import definition
from dil.operator.backfill.status import read_status
from dil.run.process import real_clock


@click.command("list")
@job_command()
def list_backfills(call: JobCall) -> int:
    """List the backfills of a job that were not dropped, newest first."""
    with results_only():
        job = call.job(secrets=False)
        kept = definition.list_backfills(job)
        found = [read_status(job, each, real_clock) for each in kept]
    if call.as_json:
        emit_json([showing.status_json(each) for each in found])
    else:
        showing.show_list(job, found)
    return 0
