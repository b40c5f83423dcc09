"""Turns what a run's tasks reported into the run's report; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from dil.model.job import Job
from dil.model.report import ReportedFailure, RunStatus, UnitCounts
from dil.model.task import Failure, TaskReport
from dil.model.work_unit import Plan, Reason, WorkUnit
from dil.observe.progress import counted


def unit_counts(planned: int, reports: Iterable[TaskReport]) -> UnitCounts:
    """Return how the planned work units ended; those without a report were not started."""
    kinds = Counter(_kind(report) for report in reports)
    return UnitCounts(
        planned=planned,
        succeeded=kinds["succeeded"],
        failed=kinds["failed"],
        adopted=kinds["adopted"],
        not_started=planned - kinds.total(),
    )


def failures(reports: Iterable[TaskReport], stopped: Failure | None) -> tuple[ReportedFailure, ...]:
    """Return each failed work unit's failure, and at the end why the others never finished."""
    found = [
        ReportedFailure(
            report.signature, report.failure.code, report.failure.error, report.failure.fix
        )
        for report in reports
        if report.failure is not None
    ]
    if stopped is not None:
        found.append(ReportedFailure(None, stopped.code, stopped.error, stopped.fix))
    return tuple(found)


def zero_rows(status: RunStatus, rows: int, usual: int | None) -> tuple[str, ...]:
    """Return a loud note when nothing was published where earlier runs published rows."""
    if rows or usual is None or status is RunStatus.FAILED:
        return ()
    return (
        "NO ROWS: this run published nothing, the last one that did published "
        f"{counted(usual, 'row')}. Look at the source; ms.work.unit.min.records=1 makes this a "
        "failure.",
    )


def nothing_due(plan: Plan, job: Job) -> str:
    """Return why a plan has no work units."""
    if plan.skipped:
        return f"nothing is due, up to date: {counted(plan.skipped, 'work unit')}"
    if not plan.partitions:
        return "nothing is due: the range is empty, its from is not before its to"
    if job.planning.of_source:
        return "nothing is due: the source has nothing to read"
    return "nothing is due: the activation input has no rows"


def no_progress(plan: Plan) -> tuple[str, ...]:
    """Return a note when readings again fill the limit, so that new work units never get a turn."""
    if not plan.left or any(unit.reason is not Reason.INCREMENTAL for unit in plan.work_units):
        return ()
    return (
        f"NO PROGRESS: the grace period alone fills ms.work.unit.parallelism.max, {plan.left} due "
        "work units wait behind it. Raise the limit or shorten the grace period.",
    )


def overtaken(rests: Sequence[WorkUnit]) -> tuple[str, ...]:
    """Return a note for work units whose rest is older than what a backfill published."""
    if not rests:
        return ()
    return (
        f"this backfill is newer than the unread rest of {counted(len(rests), 'work unit')}, for "
        f"example {rests[0].signature}: the rest is kept due, the next ordinary run reads it",
    )


def failed_and_gone(signatures: Sequence[str]) -> tuple[str, ...]:
    """Return a note for files that failed and that no run tries again."""
    if not signatures:
        return ()
    return (
        "failed earlier and not at the source any more, or only in another version: "
        f"{counted(len(signatures), 'file')}, for example {signatures[0]} (`dil state show "
        "--failed` lists them; `dil state forget --signature ...` ends this note)",
    )


def unlike_schemas(reports: Iterable[TaskReport]) -> tuple[str, ...]:
    """Return a note for each column that work units of this run wrote with unlike types."""
    kinds: dict[str, set[str]] = {}
    for report in reports:
        for line in report.schema.splitlines():
            name, _, kind = line.partition(": ")
            kinds.setdefault(name, set()).add(kind.removesuffix(" not null"))
    return tuple(
        f"column {name} has unlike types in this run's files: {', '.join(sorted(found))}. "
        "Give the columns of this job with ms.output.schema."
        for name, found in kinds.items()
        if len(found) > 1
    )


def task_notes(reports: Sequence[TaskReport]) -> tuple[str, ...]:
    """Return the tasks' notes, each once, with the number of work units that gave it."""
    times = Counter(note for report in reports for note in report.notes)
    return tuple(f"{note} ({counted(count, 'work unit')})" for note, count in times.items())


def _kind(report: TaskReport) -> str:
    if report.adopted:
        return "adopted"
    return "succeeded" if report.failure is None else "failed"
