"""``dil backfill diff`` and ``drop``."""

from __future__ import annotations

import click

from dil.cli.backfill import showing
from dil.cli.backfill.options import backfill_id_argument
from dil.cli.job_command import JobCall, job_command, now_option
from dil.cli.state.opening import opened
from dil.cli.stdout import emit, emit_json, results_only
from dil.operator.backfill import publishing
from dil.operator.backfill.comparing import compare
from dil.operator.backfill.definition import find_backfill
from dil.operator.backfill.publishing import drop as drop_backfill
from dil.operator.backfill.status import read_status
from dil.run.process import real_clock


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
        emit_json(showing.difference_json(job, found))
    else:
        showing.show_difference(job, found)
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
            drop_backfill(job, definition, real_clock)
    if call.as_json:
        emit_json(showing.status_json(status) | {"dropped": yes})
    else:
        showing.show_list(job, [status])
        emit(f"{'dropped' if yes else 'nothing was changed; --yes deletes the folder'}\n")
    return 0
