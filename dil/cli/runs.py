"""``dil runs``: what ran, what it left in staging, and how to be rid of that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from dil.cli.groups import SuggestingGroup
from dil.cli.invocation import real_clock
from dil.cli.job_command import JobCall, job_command
from dil.cli.state.opening import opened
from dil.cli.stdout import emit, emit_json, emit_json_array
from dil.errors import ConfigError

if TYPE_CHECKING:
    from dil.model.dataset import RunRecord
    from dil.model.job import Job
    from dil.runs import Leftover, Unfinished
    from dil.spi.state_store import StateStore


@click.group(cls=SuggestingGroup)
def runs() -> None:
    """Look at the runs of a job, and sweep what crashed ones left."""


@runs.command("list")
@job_command()
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=1), help="Only the newest N.", default=None
)
def list_runs(call: JobCall, *, limit: int | None) -> int:
    """List the runs of a job, newest first."""
    with opened(call) as (job, store):
        if call.as_json:
            emit_json_array(_run_json(run) for run in store.runs(limit=limit))
            emit("\n")
        else:
            _list_text(job, store, limit)
    return 0


@runs.command()
@job_command()
@click.argument("run_id", metavar="RUN_ID")
def show(call: JobCall, *, run_id: str) -> int:
    """Show one run, and what of it is still in staging."""
    with opened(call) as (job, store):
        from dil.runs import leftovers

        run = next((each for each in store.runs() if each.run_id == run_id), None)
        if run is None:
            raise ConfigError.single(
                "RUN_ID", f'"{run_id}" is no run of {job.name}', "`dil runs list` names them."
            )
        left = next((each for each in leftovers(job, store) if each.run_id == run_id), None)
    if call.as_json:
        emit_json(_run_json(run) | {"staging": None if left is None else _left_json(left)})
        return 0
    emit(f"{job.name}  run {run.run_id}\n")
    for name, value in _facts(run, job):
        emit(f"  {name:<11} {value}\n")
    emit(f"  {'staging':<11} {'swept' if left is None else _left_text(left)}\n")
    return 0


@runs.command()
@job_command()
@click.option("--yes", is_flag=True, help="Do it. Without it only the preview is shown.")
def clean(call: JobCall, *, yes: bool) -> int:
    """Delete what crashed runs left in staging; what they completed is then extracted again.

    Not needed in the ordinary way: the next run takes over what it can, and sweeps.
    """
    with opened(call) as (job, store):
        from dil.runs import clean as sweep
        from dil.runs import leased, leftovers

        found = leftovers(job, store)
        gone = 0
        if yes and found:
            with leased(job, store, "clean", real_clock) as lease:
                found = leftovers(job, store)
                gone = sweep(job, store, lease, found)
    if call.as_json:
        folders = [_left_json(each) for each in found]
        emit_json({"job": job.name, "cleaned": gone, "leftovers": folders})
    else:
        _clean_text(job, found, gone, is_done=yes)
    return 0


@runs.command()
@job_command()
@click.option("--yes", is_flag=True, help="Do it. Without it only the preview is shown.")
@click.option(
    "--without-lost",
    is_flag=True,
    help="Leave out the work units that lost staged files; they are read again.",
)
def finish(call: JobCall, *, yes: bool, without_lost: bool) -> int:
    """Finish a publish that was begun, also one whose staged files are gone.

    Not needed in the ordinary way: the next run finishes it first. That run stops with
    DIL-COMMIT-UNKNOWN when files are gone; restoring them is better than doing without.
    """
    with opened(call) as (job, store):
        from dil import runs as earlier

        found = earlier.unfinished(job, store)
        is_done = found is not None and yes and (without_lost or not found.lost)
        if is_done:
            with earlier.leased(job, store, "finish", real_clock) as lease:
                found = earlier.unfinished(job, store)
                if found is not None:
                    earlier.finish(job, store, lease, found)
    if call.as_json:
        emit_json({"job": job.name, "finished": is_done, **_unfinished_json(found)})
    else:
        _finish_text(job, found, is_done=is_done, needs_flag=not without_lost)
    return 0


def _unfinished_json(found: Unfinished | None) -> dict[str, object]:
    if found is None:
        return {"run_id": None, "files": 0, "lost": [], "lost_work_units": []}
    return {
        "run_id": found.intent.commit.run_id,
        "files": len(found.intent.commit.moves),
        "lost": [move.source for move in found.lost],
        "lost_work_units": list(found.lost_work_units),
    }


def _finish_text(job: Job, found: Unfinished | None, *, is_done: bool, needs_flag: bool) -> None:
    from dil.observe.progress import counted

    if found is None:
        emit(f"{job.name}  no publish is unfinished\n")
        return
    run_id, moves = found.intent.commit.run_id, len(found.intent.commit.moves)
    emit(f"{job.name}  run {run_id} began to publish {counted(moves, 'file')}\n")
    for move in found.lost:
        emit(f"  lost: {move.source}\n")
    if found.lost:
        units = counted(len(found.lost_work_units), "work unit")
        emit(f"  {units} would be left out and read again\n")
    if is_done:
        emit("finished\n")
    elif found.lost and needs_flag:
        emit("nothing was done; restore the files, or --without-lost --yes leaves them out\n")
    else:
        emit("nothing was done; --yes does it\n")


def _list_text(job: Job, store: StateStore, limit: int | None) -> None:
    from dil.text.zones import find_zone, moment

    zone = find_zone(job.planning.zone)
    emit(f"{job.name}  times in {job.planning.zone}\n\n")
    line = "{:<26} {:<29} {:<12} {:>13} {:>9}  {}\n"
    emit(line.format("run", "started", "status", "rows", "files", "staging"))
    count = 0
    for run in store.runs(limit=limit):
        count += 1
        started, staging = moment(run.started, zone), "kept" if run.staged else "swept"
        cells = (run.run_id, started, _status(run), f"{run.rows:,}", f"{run.files:,}", staging)
        if not emit(line.format(*cells)):
            return
    if not count:
        emit("no run has begun yet\n")


def _status(run: RunRecord) -> str:
    """Return the status; that of a run without an end is only known to its own process."""
    return "no end" if run.status == "running" else run.status


def _facts(run: RunRecord, job: Job) -> Iterator[tuple[str, str]]:
    from dil.text.zones import find_zone, moment

    zone = find_zone(job.planning.zone)
    yield "status", _status(run)
    yield "started", moment(run.started, zone)
    yield "planned for", moment(run.now, zone)
    yield "policy", run.policy
    yield "rows", f"{run.rows:,}"
    yield "files", f"{run.files:,}"
    yield "committed", "yes" if run.committed else "no"


def _run_json(run: RunRecord) -> dict[str, object]:
    return {
        "run_id": run.run_id,
        "started": run.started,
        "now": run.now,
        "status": run.status,
        "policy": run.policy,
        "rows": run.rows,
        "files": run.files,
        "committed": run.committed,
        "staged": run.staged,
    }


def _left_json(left: Leftover) -> dict[str, object]:
    return {
        "run_id": left.run_id,
        "folder": left.folder,
        "status": None if left.run is None else left.run.status,
        "planned": left.planned,
        "complete": left.complete,
        "bytes": left.bytes,
        "reusable": left.reusable,
    }


def _left_text(left: Leftover) -> str:
    from dil.observe.progress import counted

    work = f"{left.complete:,} of {counted(left.planned, 'work unit')} complete"
    fate = "of no use to the next run"
    if left.reusable:
        fate = "the next run takes them over where it can"
    return f"{work}, {left.bytes:,} bytes, {fate}: {left.folder}"


def _clean_text(job: Job, found: tuple[Leftover, ...], gone: int, *, is_done: bool) -> None:
    if not found:
        emit(f"{job.name}  nothing is left in staging\n")
        return
    for left in found:
        emit(f"  {left.run_id}  {_left_text(left)}\n")
    if not is_done:
        emit("nothing was deleted; --yes does it\n")
    elif gone == len(found):
        emit(f"{job.name}  swept {gone}\n")
    else:
        emit(f"{job.name}  swept {gone} of {len(found)}; the others are still being written\n")
