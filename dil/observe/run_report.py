"""Turns the reports of a run's tasks into the run's report; pure."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from urllib.parse import unquote

from msgspec import UNSET

from dil.model.dataset import Commit, PublishedFile
from dil.model.job import Job, PublishMode
from dil.model.report import ReplacedRows, ReportedFailure, RunStatus, UnitCounts, UnitRun
from dil.model.task import Failure, TaskReport
from dil.model.work_unit import Plan, Reason, WorkUnit, unit_key_of
from dil.observe.plan_view import left_out_of, why_no_partition
from dil.observe.progress import counted

EQUAL_ROWS = (
    "ROWS MAY BE DOUBLED: work units of different windows began with the same rows, so the source"
    " may ignore the window; check which parameters of type watermark ms.parameters has, and their"
    " format"
)
CAPPED_PAGES = (
    "ROWS MAY BE MISSING: no page had more than {most} rows, although the job asks for {asked}; the"
    " source may cap its pages at {most}, and the rest of the rows was then not read; ask for a"
    " page size of {most}, or leave stopOnShortPage and the size in `initialvalues` out of"
    " ms.pagination: then the start grows by the rows that come"
)
NO_ROWS = "NO ROWS: "
# The numbers of rows at which sources usually cap their pages.
_USUAL_CAPS = frozenset({100, 200, 250, 500, 1_000, 2_000, 5_000, 10_000})
_UNIT_RUNS = 1_000
_ONE = "Run once with ms.publish.mode=replace to have one of them, or undo the change."


def unit_counts(planned: int, reports: Iterable[TaskReport]) -> UnitCounts:
    """Return counts of how planned work units ended; a work unit without a report never began."""
    kinds = Counter(_kind(report) for report in reports)
    return UnitCounts(
        planned=planned,
        succeeded=kinds["succeeded"],
        failed=kinds["failed"],
        adopted=kinds["adopted"],
        not_started=planned - kinds.total(),
    )


def failures(reports: Iterable[TaskReport], stopped: Failure | None) -> tuple[ReportedFailure, ...]:
    """Return the failures of work units, then the reason why other work units did not finish."""
    found = [
        ReportedFailure(
            report.signature,
            report.failure.code,
            report.failure.error,
            report.failure.fix,
            report.attempts,
            round(report.counters.seconds, 3),
        )
        for report in reports
        if report.failure is not None
    ]
    if stopped is not None:
        found.append(ReportedFailure(None, stopped.code, stopped.error, stopped.fix))
    return tuple(found)


def unit_runs(reports: Iterable[TaskReport]) -> tuple[UnitRun, ...]:
    """Return how at most 1,000 work units ended: first the failed ones, then the slowest."""
    chosen = heapq.nlargest(
        _UNIT_RUNS, reports, key=lambda each: (each.failure is not None, each.counters.seconds)
    )
    return tuple(
        UnitRun(
            each.signature,
            _kind(each),
            each.attempts,
            round(each.counters.seconds, 3),
            each.rows,
            each.counters.requests,
            "" if each.failure is None else each.failure.code,
        )
        for each in chosen
    )


def zero_rows(status: RunStatus, rows: int, usual: int | None, *, late: int = 0) -> tuple[str, ...]:
    """Return a warning if nothing was published, although earlier runs published rows.

    ``late`` counts the late rows that were left out or went to the side table. If there are any,
    the source still delivers, and no warning is due.
    """
    if rows or late or usual is None or status is RunStatus.FAILED:
        return ()
    return (
        f"{NO_ROWS}this run published nothing, but the last run with rows published "
        f"{counted(usual, 'row')}. Check the source; ms.work.unit.min.records=1 makes this a "
        "failure.",
    )


def nothing_due(plan: Plan, job: Job) -> str:
    """Return why a plan has no work units."""
    if plan.skipped:
        return f"nothing is due, up to date: {counted(plan.skipped, 'work unit')}"
    if not plan.partitions:
        return f"nothing is due: {why_no_partition(job.planning)}"
    if job.planning.of_source:
        return "nothing is due: the source has nothing to read"
    return "nothing is due: the activation input has no rows"


def nothing_new(waits: Sequence[str]) -> str:
    """Return why a derived dataset has nothing to do."""
    return f"nothing is due: {'; '.join(waits)}"


def taken(waits: Sequence[str]) -> tuple[str, ...]:
    """Return a note for inputs of a query that had nothing new, if other inputs had new rows."""
    return (f"not all inputs had new rows: {'; '.join(waits)}",) if waits else ()


def left_out(plan: Plan, *, is_recorded: bool) -> tuple[str, ...]:
    """Return notes that name the periods that a run leaves out, and say how to read them.

    Periods before the first run are named only until a first run succeeds.
    """
    found = left_out_of(plan if plan.cutoff is None else replace(plan, before_first=0))
    if found and plan.missed and not is_recorded:
        return (
            *found,
            "nothing was published, so the skipped work units are not recorded as skipped yet",
        )
    return found


def replaced_rows(commit: Commit, mode: PublishMode) -> ReplacedRows | None:
    """Return how many rows left and how many came; None if the publish mode replaces no rows.

    In files with rows of several work units, only rows of units that were read again count.
    """
    if mode not in (PublishMode.WINDOW_REPLACE, PublishMode.REPLACE):
        return None
    read = {each.signature for each in commit.run.outcomes if each.succeeded}

    def rows(files: Iterable[PublishedFile]) -> int:
        if mode is PublishMode.REPLACE:
            return sum(file.rows for file in files)
        units = (each for file in files for each in file.unit_rows)
        return sum(each.rows for each in units if each.signature in read)

    return ReplacedRows(rows(commit.removes), rows(move.target for move in commit.moves))


def no_progress(plan: Plan) -> tuple[str, ...]:
    """Return a warning if repeated readings fill the limit, so that new work units never run."""
    if not plan.left or any(unit.reason is not Reason.INCREMENTAL for unit in plan.work_units):
        return ()
    return (
        "NO PROGRESS: work units that were read before fill ms.work.unit.parallelism.max, so "
        f"{counted(plan.left, 'other due work unit')} must wait. Raise the limit, shorten the "
        "grace period, or set ms.abstinent.period.days: a unit is not read again for so many days.",
    )


def remainders(units: Sequence[WorkUnit]) -> tuple[str, ...]:
    """Return a note for unread remainders that are older than the rows of a backfill."""
    if not units:
        return ()
    return (
        f"this backfill is newer than the unread rest of {counted(len(units), 'work unit')}, for "
        f"example {units[0].signature}: that rest stays due, and the next ordinary run reads it",
    )


def failed_and_missing(signatures: Sequence[str]) -> tuple[str, ...]:
    """Return a note for files that failed and that no run tries again."""
    if not signatures:
        return ()
    return (
        "failed earlier, and not tried again, because the source has them no more, or only in "
        "another version: "
        f"{counted(len(signatures), 'file')}, for example {signatures[0]} (`dil state show "
        "--failed` lists them; `dil state forget --signature ...` ends this note)",
    )


def unchanged_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Return a note for timelabels that were read again without a change of rows."""
    if not labels:
        return ()
    return (
        "read again with the same rows, so not changed: "
        f"{counted(len(labels), 'timelabel')}, the newest {labels[-1]}",
    )


def foreign_files(uris: Sequence[str]) -> tuple[str, ...]:
    """Return a note for files that a replace deleted although no run had published them."""
    if not uris:
        return ()
    return (
        f"REPLACED {counted(len(uris), 'file')} that no run of this job had published, for example "
        f"{uris[0]}: ms.publish.mode=replace replaces all files in the dataset's folder",
    )


def forgotten(signatures: Sequence[str]) -> tuple[str, ...]:
    """Return a note for the work units that a replace of one run forgot."""
    if not signatures:
        return ()
    return (
        f"FORGOT {counted(len(signatures), 'work unit')}, for example {signatures[0]}: earlier runs"
        " had published their rows, this run replaced the dataset and did not read these work"
        " units, or not as far. The next runs read them again if they are in the range and units of"
        " the job",
    )


def unrecorded(signatures: Sequence[str]) -> tuple[str, ...]:
    """Return a note for work units of a run without state that runs with state read again."""
    if not signatures:
        return ()
    return (
        f"NOT RECORDED {counted(len(signatures), 'work unit')}, for example {signatures[0]}: this "
        "run kept no watermarks, so runs with state continue from the records of earlier runs, and "
        "the next one reads and appends these rows again. To read everything once and record it, "
        "run with ms.publish.mode=replace, and leave state.store.enabled=false out",
    )


def mixed_files(before: Iterable[PublishedFile], commit: Commit, base: str) -> tuple[str, ...]:
    """Return notes if live files have another format or layout than the new files.

    Args:
        before: The live files before the commit.
        commit: The published commit.
        base: The URI of the dataset's folder.
    """
    gone = {file.uri for file in commit.removes}
    stay = [file for file in before if file.uri not in gone and not file.is_dump]
    new = [move.target for move in commit.moves if not move.target.is_dump]
    if not (stay and new):
        return ()
    formats, layouts = {file.format for file in new}, {_apart(base, file.uri) for file in new}
    notes = []
    others = [file.format for file in stay if file.format not in formats]
    if others:
        notes.append(
            f"MIXED: {counted(len(others), 'live file')} of earlier runs in"
            f" {_listed(others).upper()}, and this run's in {_listed(formats).upper()}"
            " (writer.output.format): a reader that opens the folder as one format cannot read all "
            "of it."
            f" {_ONE}"
        )
    folders = [_apart(base, file.uri) for file in stay]
    apart = [columns for columns in folders if columns not in layouts]
    if apart:
        notes.append(
            f"MIXED: {counted(len(apart), 'live file')} of earlier runs in folders by"
            f" {_listed(apart)}, and this run's by {_listed(layouts)} (ms.publish.layout,"
            " ms.table.partition.fields): Spark and other readers do not read such a folder as one "
            "dataset."
            f" {_ONE}"
        )
    return tuple(notes)


def _apart(base: str, uri: str) -> str:
    """Return the columns in the folder names of a file."""
    folders = unquote(uri.removeprefix(base)).strip("/").split("/")[:-1]
    names = [folder.partition("=")[0] for folder in folders if "=" in folder]
    return "/".join(names) or "nothing"


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(set(words)))


def answer_notes(published: Iterable[TaskReport], folder: str) -> tuple[str, ...]:
    """Return a note for refused rows, and a note for rows that got a warning.

    Args:
        published: The reports of the work units that the run published.
        folder: Where refused rows are kept.
    """
    counts: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}
    for report in published:
        for each in report.answers:
            counts[each.is_kept][each.status] += each.rows
    refused, warned = counts[True], counts[False]
    notes = []
    if refused:
        notes.append(
            f"REFUSED ROWS: the receiver took {counted(refused.total(), 'row')} fewer than were "
            f"sent ({_by_status(refused)}); the refused rows are kept in {folder}"
        )
    if warned:
        notes.append(
            f"{counted(warned.total(), 'request')} with rows got an answer that the job counts as "
            f"a warning ({_by_status(warned)}): check at the receiver whether it took those rows"
        )
    return tuple(notes)


def _by_status(counts: Counter[int]) -> str:
    return ", ".join(f"status {status}: {rows:,}" for status, rows in sorted(counts.items()))


def task_notes(reports: Sequence[TaskReport]) -> tuple[str, ...]:
    """Return the tasks' notes, each note once, with the number of work units that gave it."""
    times = Counter(note for report in reports for note in report.notes)
    count = _units_with_equal_rows(reports)
    if count:
        times[EQUAL_ROWS] = count
    times.update(_capped_pages(reports))
    return tuple(f"{note} ({counted(count, 'work unit')})" for note, count in times.items())


def _units_with_equal_rows(reports: Sequence[TaskReport]) -> int:
    """Return how many work units of one unit and different windows began with the same rows."""
    windows: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for report in reports:
        if report.first_rows is not UNSET:
            begin = unit_key_of(report.signature), report.first_rows
            windows.setdefault(begin, []).append((report.low, report.high))
    return sum(len(found) for found in windows.values() if len(set(found)) > 1)


def _capped_pages(reports: Sequence[TaskReport]) -> list[str]:
    """Return a note for each work unit that had as many rows as a capped page, and none had more.

    A source of exactly so many rows cannot be distinguished from one that caps its pages.
    """
    most = max((report.counters.rows_read for report in reports), default=0)
    if most not in _USUAL_CAPS:
        return []
    return [
        CAPPED_PAGES.format(most=most, asked=report.short_of)
        for report in reports
        if report.short_of is not UNSET and report.counters.rows_read == most < report.short_of
    ]


def _kind(report: TaskReport) -> str:
    if report.adopted:
        return "adopted"
    return "succeeded" if report.failure is None else "failed"
