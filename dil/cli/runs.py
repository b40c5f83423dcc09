"""``dil runs``: lists runs and their staged files; deletes staged files, finishes publishes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

import click

from dil.cli import runs_showing as showing
from dil.cli.groups import JobGroup
from dil.cli.job_command import JobCall, job_command
from dil.cli.state.opening import opened
from dil.cli.stdout import emit, emit_json, emit_json_array
from dil.errors import ConfigError
from dil.operator import run_history
from dil.run.exit_codes import INVALID
from dil.run.kept_report import kept_outcomes, kept_report, kept_unit_runs
from dil.run.lease import leased
from dil.run.process import real_clock

if TYPE_CHECKING:
    from dil.model.job import Job
    from dil.operator.run_history import RecordedPublish
    from dil.spi.state_store import StateStore


class _RunsGroup(JobGroup):
    """Lists runs if no command is given."""

    shown = "list"


@click.group(cls=_RunsGroup)
def runs() -> None:
    """Look at the runs of a job, and clean up after crashed runs.

    `dil runs JOB.conf` is `list`.
    """


@runs.command("list")
@job_command()
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=1), help="Show the newest N runs.", default=None
)
def list_runs(call: JobCall, *, limit: int | None) -> int:
    """List the runs of a job, newest first."""
    with opened(call) as (job, store):
        found, outcomes = run_history.known_runs(store, limit=limit), kept_outcomes(store)
        if call.as_json:
            emit_json_array(
                showing.run_json(run) | showing.outcome_json(run, outcomes) for run in found
            )
            emit("\n")
        else:
            showing.list_runs(job, found, outcomes)
    return 0


@runs.command()
@job_command()
@click.argument("run_id", metavar="RUN_ID")
def show(call: JobCall, *, run_id: str) -> int:
    """Show one run, and its files that are still in staging.

    Given the id of a stream's summary, list its micro-batches.
    """
    with opened(call) as (job, store):
        run = next(
            (each for each in run_history.known_runs(store) if each.record.run_id == run_id), None
        )
        if run is None:
            return _show_stream(call, job, store, run_id)
        left = next(
            (each for each in run_history.leftovers(job, store) if each.run_id == run_id), None
        )
        report, units = kept_report(store, run_id), kept_unit_runs(store, run_id)
    if call.as_json:
        staging = None if left is None else showing.left_json(left)
        facts = {
            "staging": staging,
            "report": None if report is None else report.members,
            "work_units": units.members(),
            "work_units_left_out": units.left_out,
        }
        emit_json(showing.run_json(run) | facts)
    else:
        showing.show_run(job, run, left, report)
        showing.show_work_units(units)
    return 0


def _show_stream(call: JobCall, job: Job, store: StateStore, run_id: str) -> int:
    """Show the micro-batches of a stream by the id of its report.

    Raises:
        ConfigError: no run and no kept micro-batch has this id.
    """
    outcomes = kept_outcomes(store)
    own = {each for each, kept in outcomes.items() if kept.stream == run_id}
    if not own:
        raise ConfigError.single(
            "RUN_ID", f'"{run_id}" is no run of {job.name}', "`dil runs list` names them."
        )
    batches = [each for each in run_history.known_runs(store) if each.record.run_id in own]
    if call.as_json:
        found = [showing.run_json(run) | showing.outcome_json(run, outcomes) for run in batches]
        emit_json({"run_id": run_id, "micro_batches": found})
    else:
        showing.list_runs(job, batches, outcomes, stream=run_id)
    return 0


@runs.command(short_help="Delete files that crashed runs left in staging.")
@job_command()
@click.option("--yes", is_flag=True, help="Do it. Without it only the preview is shown.")
def clean(call: JobCall, *, yes: bool) -> int:
    """Delete files that crashed runs left in staging; their work units are read again.

    Usually not needed: the next run adopts complete work units, and deletes the rest.
    """
    with opened(call) as (job, store):
        found = run_history.leftovers(job, store)
        gone = 0
        if yes and found:
            with leased(job, store, "clean", real_clock) as lease:
                found = run_history.leftovers(job, store)
                gone = run_history.clean(job, store, lease, found)
    if call.as_json:
        folders = [showing.left_json(each) for each in found]
        emit_json({"job": job.name, "cleaned": gone, "leftovers": folders})
    else:
        showing.cleaned(job, found, gone, is_done=yes)
    return 0


@runs.command(short_help="Finish a publish that was begun.")
@job_command()
@click.option("--yes", is_flag=True, help="Do it. Without it only the preview is shown.")
@click.option(
    "--without-lost",
    is_flag=True,
    help="Leave out work units that lost staged files; they are read again.",
)
def finish(call: JobCall, *, yes: bool, without_lost: bool) -> int:
    """Finish a publish that was begun, also one whose staged files are gone.

    Usually not needed: the next run finishes the publish first. If files are gone, that run stops
    with DIL-COMMIT-UNKNOWN; it is better to restore the files than to leave them out. The exit code
    is 2 if --yes is given but --without-lost is needed.
    """
    with opened(call) as (job, store):

        def is_agreed(found: RecordedPublish | None) -> TypeGuard[RecordedPublish]:
            return found is not None and yes and (without_lost or not found.lost)

        found = run_history.recorded_publish(job, store)
        is_done = False
        if is_agreed(found):
            with leased(job, store, "finish", real_clock) as lease:
                # Checked again under the lease: meanwhile files may be lost, or a run finished the
                # publish.
                found = run_history.recorded_publish(job, store)
                if is_agreed(found):
                    run_history.finish_publish(job, store, lease, found)
                    is_done = True
    if call.as_json:
        emit_json({"job": job.name, "finished": is_done, **showing.recorded_publish_json(found)})
    else:
        showing.finished(job, found, is_done=is_done, needs_flag=not without_lost)
    return INVALID if yes and found is not None and not is_done else 0


@runs.command(short_help="Give up a publish that was begun.")
@job_command()
@click.option("--yes", is_flag=True, help="Do it. Without it only the preview is shown.")
def abandon(call: JobCall, *, yes: bool) -> int:
    """Give up a publish that was begun and cannot be finished; its work units are read again.

    Use it if `dil runs finish` cannot help: a file name is impossible, or the record was changed or
    cannot be read by this release. Nothing outside of the job's folders is changed. Rows that
    readers already see stay and are recorded.
    """
    with opened(call) as (job, store):
        found = run_history.doubtful_publish(job, store, real_clock())
        left = None
        if found is not None and yes:
            with leased(job, store, "abandon", real_clock) as lease:
                found = run_history.doubtful_publish(job, store, real_clock())
                if found is not None:
                    left = run_history.abandon_publish(job, store, lease, found)
    if call.as_json:
        emit_json(showing.abandoned_json(job, found, left))
    else:
        showing.abandoned(job, found, left)
    return 0
