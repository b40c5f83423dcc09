"""Prints the output of ``dil runs``: runs, their staged files, an unfinished publish."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dil.cli.stdout import emit
from dil.observe.logs import one_line
from dil.observe.progress import counted, human_seconds
from dil.run.kept_report import KeptOutcome, KeptReport, KeptUnitRuns
from dil.state.work_units.signatures import begin_of
from dil.text.zones import find_zone, iso, moment

if TYPE_CHECKING:
    from dil.model.dataset import Intent
    from dil.model.job import Job
    from dil.operator.run_history import DoubtfulPublish, KnownRun, Leftover, RecordedPublish


_UNITS_SHOWN = 20


def list_runs(
    job: Job, runs: Iterable[KnownRun], outcomes: Mapping[str, KeptOutcome], *, stream: str = ""
) -> None:
    """Print one line for each run, with its duration and its failure codes if they were kept.

    If all runs are micro-batches of one stream, ``stream`` is the run id of that stream.
    """
    zone = find_zone(job.planning.zone)
    whose = f"micro-batches of the stream {stream}, " if stream else ""
    emit(f"{job.name}  {whose}times in {job.planning.zone}\n\n")
    line = "{:<26} {:<29} {:>9} {:<12} {:>13} {:>9}  {:<7}  {}"
    heads = ("run", "started", "took", "status", "rows", "files", "staging", "notes")
    head = f"{line.format(*heads)}\n"
    for run in runs:
        record = run.record
        started, staging = moment(record.started, zone), "not swept" if record.staged else "swept"
        rows, files = f"{record.rows:,}", f"{record.files:,}"
        outcome = outcomes.get(record.run_id, KeptOutcome())
        took = "-" if outcome.seconds is None else human_seconds(outcome.seconds)
        batch, beside = outcome.batch, outcome.rows_beside
        notes = [] if batch is None else [f"micro-batch {batch.number} ({batch.epoch})"]
        notes += [f"{counted(beside, 'row')} beside the dataset"] if beside else []
        notes += outcome.codes
        cells = (record.run_id, started, took, run.status, rows, files, staging, ", ".join(notes))
        if not emit(f"{head}{line.format(*cells).rstrip()}\n"):
            return
        head = ""
    if head:
        emit("no run has begun yet\n")


def show_run(
    job: Job, run: KnownRun, left: Leftover | None, report: KeptReport | None = None
) -> None:
    """Print one run, and those lines of its report that say something new."""
    zone, record, at_work = find_zone(job.planning.zone), run.record, _at_work(run, job)
    facts = [
        ("status", f"{run.status}, {at_work}" if at_work else run.status),
        ("started", moment(record.started, zone)),
        ("planned for", moment(record.now, zone)),
        ("policy", record.policy),
        ("rows", f"{record.rows:,}"),
        ("files", f"{record.files:,}"),
        ("committed", "yes" if record.committed else "no"),
        ("staging", "swept" if left is None else _left_text(left, job)),
    ]
    if report is not None:
        counts = {"seconds": report.seconds, "requests": report.requests, "retries": report.retries}
        facts += [(name, str(count)) for name, count in counts.items() if count]
        for failure in report.failures:
            begins = begin_of(failure.signature or "") if job.planning.is_dated else ""
            place = replace(failure, begins=begins).place
            facts.append(("failure", one_line(f"{place}: {failure.error}  [{failure.code}]")))
            facts += [("", one_line(failure.fix))] if failure.fix else []
        facts += [("note", one_line(note)) for note in report.notes]
    emit(f"{job.name}  run {record.run_id}\n")
    for name, value in facts:
        emit(f"  {name:<11} {value}\n")


def show_work_units(kept: KeptUnitRuns) -> None:
    """Print how work units ended: failed ones first, then the slowest."""
    if not kept.units:
        return
    line = "{:<10} {:>8} {:>9} {:>13}  {}\n"
    emit("\n" + line.format("outcome", "attempts", "took", "rows", "work unit"))
    for each in kept.units[:_UNITS_SHOWN]:
        rows, took = f"{each.rows:,}", human_seconds(each.seconds)
        cells = (each.outcome, each.attempts, took, rows, one_line(each.signature))
        if not emit(line.format(*cells)):
            return
    more = kept.left_out + len(kept.units[_UNITS_SHOWN:])
    if more:
        emit(f"and {counted(more, 'more work unit')}, none of them slower; --json has more\n")


def cleaned(job: Job, found: tuple[Leftover, ...], gone: int, *, is_done: bool) -> None:
    """Print which files are left in staging, and which were deleted."""
    if not found:
        emit(f"{job.name}  nothing is left in staging\n")
        return
    for left in found:
        emit(f"  {left.run_id}  {_left_text(left, job)}\n")
    if not is_done and any(left.run and left.run.holder for left in found):
        emit("nothing was deleted: a run is active, and may need the files\n")
    elif not is_done:
        emit("nothing was deleted; --yes does it\n")
    elif gone == len(found):
        emit(f"{job.name}  swept {gone}\n")
    else:
        emit(f"{job.name}  swept {gone} of {len(found)}; runs still write the others\n")


def recorded_publish_json(found: RecordedPublish | None) -> dict[str, object]:
    """Return an unfinished publish as JSON members."""
    if found is None:
        return {"run_id": None, "files": 0, "lost": [], "lost_work_units": [], "left_out": None}
    left = found.left_out
    return {
        "run_id": found.intent.commit.run_id,
        "files": len(found.intent.commit.moves),
        "lost": [move.source for move in found.lost],
        "lost_work_units": list(found.lost_work_units),
        "left_out": None
        if left is None
        else {
            "work_units": list(left.work_units),
            "kept": [file.uri for file in left.kept],
            "deleted": [file.uri for file in left.deleted],
            "all": left.is_all,
        },
    }


def finished(job: Job, found: RecordedPublish | None, *, is_done: bool, needs_flag: bool) -> None:
    """Print the unfinished publish, or how it was finished."""
    if found is None:
        emit(f"{job.name}  no publish is unfinished\n")
        return
    run_id, moves = found.intent.commit.run_id, len(found.intent.commit.moves)
    emit(f"{job.name}  run {run_id} began to publish {counted(moves, 'file')}\n")
    for move in found.lost:
        emit(f"  lost: {move.source}\n")
    for line in _left_out_lines(found):
        emit(f"  {line}\n")
    if is_done:
        emit("finished\n")
    elif found.lost and needs_flag:
        emit("nothing was done; restore the files, or leave them out with --without-lost --yes\n")
    else:
        emit("nothing was done; --yes does it\n")


def _left_out_lines(found: RecordedPublish) -> Iterator[str]:
    """Yield lines about results that the publish would leave out, and about their other files."""
    left = found.left_out
    if left is None:
        return
    is_act = found.intent.commit.act is not None
    units = counted(len(left.work_units), "work unit")
    fate = "would stay as they are" if is_act else "would be left out and read again"
    yield f"{units} {fate}: they lost a file, or share a file with work units that did"
    for files, place in (
        (left.kept, "would go back to their earlier places"),
        (left.deleted, "would be deleted"),
    ):
        if files:
            rows = counted(sum(file.rows for file in files), "row")
            yield f"{counted(len(files), 'other file')} of these work units, with {rows}, {place}"
    if left.is_all:
        again = "it can be asked for again" if is_act else "no work unit of it counts as read"
        yield f"nothing of the publish would be left: {again}"


def abandoned_json(
    job: Job, found: DoubtfulPublish | None, left: Intent | None
) -> dict[str, object]:
    """Return an unfinished publish as JSON members, and whether it was given up."""
    return {
        "job": job.name,
        "abandoned": left is not None,
        "run_id": None if found is None else found.intent.commit.run_id,
        "files": 0 if found is None else len(found.intent.commit.moves),
        "kept": 0 if left is None else len(left.commit.moves),
        "visible": found is not None and found.has_landed,
        "problem": None if found is None or not found.problem else found.problem,
    }


def abandoned(job: Job, found: DoubtfulPublish | None, left: Intent | None) -> None:
    """Print an unfinished publish, and whether it was given up."""
    if found is None:
        emit(f"{job.name}  no publish is unfinished\n")
        return
    commit = found.intent.commit
    files = counted(len(commit.moves), "file")
    emit(f"{job.name}  run {commit.run_id} began to publish {files}\n")
    if found.problem:
        emit(f"  {found.problem}; the following was found in the dataset and in staging\n")
    if left is None and found.has_landed:
        units = counted(sum(each.succeeded for each in commit.run.outcomes), "work unit")
        emit(f"  readers see its rows: they would stay, and {units} would be recorded as read\n")
    elif left is None:
        units = counted(len(commit.run.outcomes), "work unit") if commit.run.outcomes else ""
        emit(f"  {units or 'its work units'} would be read again, and its files deleted\n")
    if left is None:
        emit("nothing was done; --yes does it\n")
    elif left.commit.moves:
        emit(f"given up; {counted(len(left.commit.moves), 'file')} that readers see stay\n")
    else:
        emit("given up; the next run reads its work units again\n")


def outcome_json(run: KnownRun, outcomes: Mapping[str, KeptOutcome]) -> dict[str, object]:
    """Return the duration of a run, the number of its failures, and their codes."""
    kept = outcomes.get(run.record.run_id, KeptOutcome())
    stream = {} if kept.batch is None else {"stream": dict(kept.batch.members())}
    beside = {"rows_beside": kept.rows_beside} if kept.rows_beside else {}
    return {
        "seconds": kept.seconds,
        "failures": kept.failures,
        "codes": list(kept.codes),
        **beside,
        **stream,
    }


def run_json(run: KnownRun) -> dict[str, object]:
    """Return a run as JSON members; ``holder`` is the process that runs it now."""
    record, holder = run.record, run.holder
    return {
        "run_id": record.run_id,
        "started": record.started,
        "now": record.now,
        "started_iso": iso(record.started),
        "now_iso": iso(record.now),
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
    """Return the staged files of a run as JSON members."""
    return {
        "run_id": left.run_id,
        "folder": left.folder,
        "status": None if left.run is None else left.run.status,
        "planned": left.planned,
        "complete": left.complete,
        "bytes": left.bytes,
        "reusable": left.reusable,
    }


def _at_work(run: KnownRun | None, job: Job) -> str:
    """Return a text that names the process of a run; empty if no process runs it."""
    if run is None or run.holder is None:
        return ""
    since = moment(run.holder.since, find_zone(job.planning.zone))
    return f"process {run.holder.pid} on {run.holder.host} since {since}"


def _left_text(left: Leftover, job: Job) -> str:
    if left.is_strange:
        return (
            "this job does not use that folder for staging, so only the record is forgotten: "
            f"{left.folder}"
        )
    work = f"{left.complete:,} of {counted(left.planned, 'work unit')} complete"
    at_work = _at_work(left.run, job)
    if at_work:
        fate = f"run by {at_work}"
    elif left.reusable:
        fate = "the next run adopts them if it can"
    else:
        fate = "the next run cannot use them"
    return f"{work}, {left.bytes:,} bytes, {fate}: {left.folder}"
