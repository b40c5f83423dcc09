"""What ``dil runs`` prints: runs, what they left in staging, a publish that is unfinished."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dil.cli.stdout import emit

if TYPE_CHECKING:
    from dil.model.dataset import Intent
    from dil.model.job import Job
    from dil.model.json import JsonObject
    from dil.run.run_history import BegunPublish, KnownRun, Leftover


def list_runs(job: Job, runs: Iterable[KnownRun]) -> None:
    """Print one line a run."""
    from dil.text.zones import find_zone, moment

    zone = find_zone(job.planning.zone)
    emit(f"{job.name}  times in {job.planning.zone}\n\n")
    line = "{:<26} {:<29} {:<12} {:>13} {:>9}  {}\n"
    emit(line.format("run", "started", "status", "rows", "files", "staging"))
    count = 0
    for run in runs:
        count += 1
        record = run.record
        started, staging = moment(record.started, zone), "kept" if record.staged else "swept"
        rows, files = f"{record.rows:,}", f"{record.files:,}"
        if not emit(line.format(record.run_id, started, run.status, rows, files, staging)):
            return
    if not count:
        emit("no run has begun yet\n")


def show_run(
    job: Job, run: KnownRun, left: Leftover | None, report: JsonObject | None = None
) -> None:
    """Print all about one run; of its report what the other lines do not say."""
    emit(f"{job.name}  run {run.record.run_id}\n")
    for name, value in _facts(run, job):
        emit(f"  {name:<11} {value}\n")
    emit(f"  {'staging':<11} {'swept' if left is None else _left_text(left, job)}\n")
    for name, value in _reported(report or {}):
        emit(f"  {name:<11} {value}\n")


def _reported(report: JsonObject) -> Iterator[tuple[str, str]]:
    from dil.observe.logs import one_line

    for name in ("seconds", "requests", "retries"):
        if report.get(name):
            yield name, str(report[name])
    failures, notes = report.get("failures"), report.get("notes")
    for failure in failures if isinstance(failures, list) else []:
        signature = failure["signature"] or "the run"
        yield "failure", one_line(f"{signature}: {failure['error']}  [{failure['code']}]")
    for note in notes if isinstance(notes, list) else []:
        yield "note", one_line(str(note))


def cleaned(job: Job, found: tuple[Leftover, ...], gone: int, *, is_done: bool) -> None:
    """Print what is left in staging, and what was swept of it."""
    if not found:
        emit(f"{job.name}  nothing is left in staging\n")
        return
    for left in found:
        emit(f"  {left.run_id}  {_left_text(left, job)}\n")
    if not is_done and any(left.run and left.run.holder for left in found):
        emit("nothing was deleted; nothing can be while a run is under way\n")
    elif not is_done:
        emit("nothing was deleted; --yes does it\n")
    elif gone == len(found):
        emit(f"{job.name}  swept {gone}\n")
    else:
        emit(f"{job.name}  swept {gone} of {len(found)}; the others are still being written\n")


def begun_publish_json(found: BegunPublish | None) -> dict[str, object]:
    """Return a publish that was begun and not finished."""
    if found is None:
        return {"run_id": None, "files": 0, "lost": [], "lost_work_units": []}
    return {
        "run_id": found.intent.commit.run_id,
        "files": len(found.intent.commit.moves),
        "lost": [move.source for move in found.lost],
        "lost_work_units": list(found.lost_work_units),
    }


def finished(job: Job, found: BegunPublish | None, *, is_done: bool, needs_flag: bool) -> None:
    """Print what became of a publish that was begun."""
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


def abandoned_json(job: Job, found: Intent | None, left: Intent | None) -> dict[str, object]:
    """Return a publish that was begun, and whether it was given up."""
    return {
        "job": job.name,
        "abandoned": left is not None,
        "run_id": None if found is None else found.commit.run_id,
        "files": 0 if found is None else len(found.commit.moves),
        "kept": 0 if left is None else len(left.commit.moves),
    }


def abandoned(job: Job, found: Intent | None, left: Intent | None) -> None:
    """Print a publish that was begun, and what became of it."""
    from dil.observe.progress import counted

    if found is None:
        emit(f"{job.name}  no publish is unfinished\n")
        return
    commit = found.commit
    emit(f"{job.name}  run {commit.run_id} began to publish {counted(len(commit.moves), 'file')}\n")
    if left is None:
        units = counted(len(commit.run.outcomes), "work unit")
        emit(f"  {units} would be read again, and its files deleted\n")
        emit("nothing was done; --yes does it\n")
    elif left.commit.moves:
        emit(f"given up; {counted(len(left.commit.moves), 'file')} stay, which readers see\n")
    else:
        emit("given up; the next run reads its work units again\n")


def run_json(run: KnownRun) -> dict[str, object]:
    """Return a run; ``holder`` is the process that is at it now."""
    record, holder = run.record, run.holder
    return {
        "run_id": record.run_id,
        "started": record.started,
        "now": record.now,
        "status": run.status,
        "policy": record.policy,
        "rows": record.rows,
        "files": record.files,
        "committed": record.committed,
        "staged": record.staged,
        "holder": None
        if holder is None
        else {"pid": holder.pid, "host": holder.host, "since": holder.since},
    }


def left_json(left: Leftover) -> dict[str, object]:
    """Return what a run left in staging."""
    return {
        "run_id": left.run_id,
        "folder": left.folder,
        "status": None if left.run is None else left.run.status,
        "planned": left.planned,
        "complete": left.complete,
        "bytes": left.bytes,
        "reusable": left.reusable,
    }


def _facts(run: KnownRun, job: Job) -> Iterator[tuple[str, str]]:
    from dil.text.zones import find_zone, moment

    zone, record = find_zone(job.planning.zone), run.record
    at_work = _at_work(run, job)
    yield "status", f"{run.status}, {at_work}" if at_work else run.status
    yield "started", moment(record.started, zone)
    yield "planned for", moment(record.now, zone)
    yield "policy", record.policy
    yield "rows", f"{record.rows:,}"
    yield "files", f"{record.files:,}"
    yield "committed", "yes" if record.committed else "no"


def _at_work(run: KnownRun | None, job: Job) -> str:
    """Return which process is at a run, nothing when none is."""
    from dil.text.zones import find_zone, moment

    if run is None or run.holder is None:
        return ""
    since = moment(run.holder.since, find_zone(job.planning.zone))
    return f"process {run.holder.pid} on {run.holder.host} since {since}"


def _left_text(left: Leftover, job: Job) -> str:
    from dil.observe.progress import counted

    if left.is_strange:
        return f"this job does not stage there, so it is only forgotten: {left.folder}"
    work = f"{left.complete:,} of {counted(left.planned, 'work unit')} complete"
    at_work = _at_work(left.run, job)
    if at_work:
        fate = f"is being run by {at_work}"
    elif left.reusable:
        fate = "the next run takes them over where it can"
    else:
        fate = "of no use to the next run"
    return f"{work}, {left.bytes:,} bytes, {fate}: {left.folder}"
