"""Publish: make visible what the commit policy allows, after the intent is recorded."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dil import publishing
from dil.execution.executor import Execution
from dil.execution.stages import Stages
from dil.model.dataset import Commit, PublishedFile
from dil.model.event_report import EventSummary
from dil.model.grace import ProbeRest
from dil.model.job import CommitPolicy, Job, PublishMode, QueryMode
from dil.model.json import JsonObject
from dil.model.report import MergedRows, RunStatus
from dil.model.stream import STREAM
from dil.model.task import TaskReport
from dil.model.work_unit import Plan
from dil.observe import run_report
from dil.observe.progress import counted
from dil.reshaping import Reshaping, reshape
from dil.run import event_time
from dil.run.active_run import ActiveRun
from dil.run.books import rejected_notes, side_table_notes, with_books
from dil.run.plan import PlannedRun

if TYPE_CHECKING:
    from dil.run.queries.slices import PlannedQuery

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ResultsToPublish:
    """The results that a run publishes.

    Attributes:
        run_id: Of the run that planned it.
        now: Its now, epoch ms UTC.
        full_extract: Whether it read without history.
        finished: The work units that ran or were adopted.
        unfinished: The others of its plan.
        is_whole: Whether it has all rows that the source has.
        grace_ms: How far back the next run reads what was read; None for as far as the job says.
        query: What it took of the inputs of a derived dataset, None where a source is read.
    """

    run_id: str
    now: int
    full_extract: bool
    finished: Sequence[publishing.Finished]
    unfinished: publishing.UnfinishedUnits
    is_whole: bool = False
    grace_ms: int | None = None
    query: PlannedQuery | None = None


@dataclass(frozen=True, slots=True)
class Visible:
    """Results that readers see, but that state does not know yet.

    Attributes:
        results: The results to publish.
        commit: The changes to record in state.
        output_dir: Folder of the new files.
        files: URIs of the new files; none for rows of a database (rule U23).
        failed: Reports by signature of work units whose rows did not fit the dataset.
        notes: Sentences for people.
        merged: The counts of a merge, None where it was not counted.
        events: The new event time, None for a job without event column.
    """

    results: ResultsToPublish
    commit: Commit
    output_dir: str
    files: tuple[str, ...]
    failed: Mapping[str, TaskReport]
    notes: tuple[str, ...]
    merged: MergedRows | None = None
    events: EventSummary | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """How a run's work units ended, and which results readers see.

    Attributes:
        status: The verdict on the run.
        reports: Of all work units that ran or were adopted.
        visible: None where the commit policy lets nothing be published.
    """

    status: RunStatus
    reports: tuple[TaskReport, ...]
    visible: Visible | None = None

    @property
    def good(self) -> tuple[TaskReport, ...]:
        """Return the reports of the work units whose rows readers see."""
        if self.visible is None:
            return ()
        return tuple(report for report in self.reports if report.failure is None)

    @property
    def rows(self) -> int:
        """Return how many rows became visible."""
        return sum(report.rows for report in self.good)

    @property
    def files(self) -> tuple[str, ...]:
        """Return the URIs of the files that became visible."""
        return () if self.visible is None else self.visible.files


def publish(run: ActiveRun, planned: PlannedRun, executed: Execution) -> Published:
    """Make visible what the commit policy allows.

    Raises:
        DilError: nothing is visible, or the next run finishes what was begun.
    """
    job, plan, reports = run.job, planned.plan, executed.reports
    status = _verdict(job, plan, reports)
    if status is RunStatus.FAILED and not _publishes_beside_failures(job):
        return Published(status, reports)
    visible = publish_results(run, _results(run, planned, reports))
    settled = tuple(visible.failed.get(report.signature, report) for report in reports)
    return Published(_verdict(job, plan, settled), settled, visible)


def _results(
    run: ActiveRun, planned: PlannedRun, reports: Sequence[TaskReport]
) -> ResultsToPublish:
    plan, by_signature = planned.plan, {report.signature: report for report in reports}
    return ResultsToPublish(
        run.run_id,
        plan.now,
        plan.full_extract,
        tuple(
            publishing.Finished(unit, by_signature[unit.signature])
            for unit in plan.work_units
            if unit.signature in by_signature
        ),
        publishing.unfinished_units(
            planned.staged_plan, by_signature, "the run was stopped before this work unit began"
        ),
        is_whole=run.options.plan is None and _is_whole(run.job, plan, reports),
        grace_ms=plan.grace_ms,
        query=planned.query,
    )


def publish_results(run: ActiveRun, results: ResultsToPublish) -> Visible:
    """Bring results into the form of the dataset and make them visible.

    Raises:
        DilError: nothing is visible, or the next run finishes the publish.
    """
    job, spec = run.job, run.job.publishing
    target = _target(run, results)
    shaped = reshape(
        Reshaping(
            job,
            target,
            results.now,
            results.is_whole,
            Stages(run.executors, run.options.stage_bytes),
            keeps_others=_publishes_beside_failures(job),
            event_times=event_time.times_of_merged(job),
        ),
        (*results.finished, *results.unfinished.failed),
        run.files,
    )
    good = [each.report for each in shaped.finished if each.report.failure is None]
    left = _where_it_stopped(results)
    events = event_time.step(job, run.store, results.now, good, results.grace_ms, left)
    commit = publishing.decide(job, target, shaped, run.files)
    commit = replace(commit, checkpoints={**events.checkpoints, **_stream(run, results)})
    grace = job.planning.grace_ms if results.grace_ms is None else results.grace_ms
    if job.planning.grace.is_measured:
        grace = max(grace, job.planning.grace.high_ms)  # a probe may follow
    commit, rejected = with_books(job, run.store, shaped, commit, grace)
    if results.query is not None:
        from dil.run.queries.committing import with_query  # few jobs have inputs

        commit = with_query(run, results.query, commit)
    publishing.make_visible(run.store, run.lease, commit, spec, run.files, run.destination)
    reports = [each.report for each in shaped.finished]
    return Visible(
        results,
        commit,
        target.output_dir,
        tuple(move.target.uri for move in commit.moves) if spec.keeps_files else (),
        {report.signature: report for report in reports if report.failure is not None},
        (
            *run_report.unchanged_labels(publishing.unchanged_labels(shaped.finished, commit)),
            *rejected_notes(rejected),
            *side_table_notes(good),
            *_file_notes(run, target, commit),
        ),
        _merged(run, shaped, commit),
        events.summary,
    )


def _where_it_stopped(results: ResultsToPublish) -> ProbeRest | None:
    """Return where a run stopped that did not read all that was due."""
    low = results.unfinished.low
    if low is None:
        return None
    read = (each.work_unit for each in results.finished)
    units = [each.unit_key for each in read if each.partition.low == low]
    return ProbeRest(low, units[-1] if units else "")


def _stream(run: ActiveRun, results: ResultsToPublish) -> Mapping[str, JsonObject]:
    """Return which micro-batch publishes these results; nothing for those of an earlier run."""
    if run.batch is None or results.run_id != run.run_id:
        return {}
    return {STREAM: run.batch.members()}


def _merged(
    run: ActiveRun, shaped: publishing.PublishableResults, commit: Commit
) -> MergedRows | None:
    """Return the counts of a merge, here or in a database."""
    if not run.destination.merges:
        return shaped.merged
    return run.destination.merged if commit.moves or commit.removes else None


def _target(run: ActiveRun, results: ResultsToPublish) -> publishing.PublishTarget:
    """Return where results go, and what is there now."""
    spec, files = run.job.publishing, run.files
    live = run.destination.live()
    untracked = publishing.untracked_files(spec, live, files)
    publishing.refuse_unlisted(spec, untracked)
    read = (each.work_unit.signature for each in results.finished if each.report.failure is None)
    publishing.refuse_rewritten(run.job.name, run.store, spec, files, (*live, *untracked), read)
    if spec.mode is PublishMode.REPLACE:
        untracked = (*untracked, *_left_behind(run, live))
    system_time = run.options.clock()
    return publishing.PublishTarget(
        run_id=results.run_id,
        output_dir=publishing.output_dir(
            spec,
            now=results.now,
            full=results.full_extract,
            taken=frozenset(files.folders(publishing.dataset_dir(spec))),
        ),
        live=live,
        untracked=untracked,
        system_time=system_time,
        horizon=max(system_time, results.now),
        left_low=results.unfinished.low,
        known_schema=publishing.recorded_schema(run.store),
        quarantined=publishing.quarantined_files(spec, files),
        late=publishing.late_rows_there(run.job, files, run.destination),
        is_whole=results.is_whole,
        missed=results.unfinished.missed,
        begins_changelog=publishing.begins_changelog(spec, run.store),
    )


def _left_behind(run: ActiveRun, live: Sequence[PublishedFile]) -> Iterator[PublishedFile]:
    """Yield the files that another program took out: the chain learns that their rows went, too."""
    gone = publishing.left_behind(run.store, run.job.publishing, run.files, live)
    if not gone:
        return
    from dil.state.blocks.canonical import SHA2_256
    from dil.state.blocks.verification import live_parts

    known = live_parts(run.store)
    for part in (known[uri] for uri in gone if uri in known):
        digest = part.physical_hash.removeprefix(SHA2_256)
        yield PublishedFile(part.path, "", part.rows, part.size, digest, "unknown", part.timelabel)


def _file_notes(
    run: ActiveRun, target: publishing.PublishTarget, commit: Commit
) -> tuple[str, ...]:
    """Return notes for files of others that were replaced, and for files that do not fit others."""
    spec = run.job.publishing
    removed = commit.removes if spec.mode is PublishMode.REPLACE else ()
    notes = run_report.foreign_files(tuple(file.uri for file in removed if not file.run_id))
    if not spec.is_one_folder_of_files:
        return notes
    base = run.files.uri(publishing.dataset_dir(spec))
    return (*notes, *run_report.mixed_files(target.live, commit, base))


def _verdict(job: Job, plan: Plan, reports: Sequence[TaskReport]) -> RunStatus:
    good = sum(report.failure is None for report in reports)
    if good == len(plan.work_units):
        return RunStatus.SUCCESS
    return RunStatus.PARTIAL if good and _publishes_beside_failures(job) else RunStatus.FAILED


def _publishes_beside_failures(job: Job) -> bool:
    """Return whether failures are recorded beside what succeeded, in place of publishing nothing.

    A replace takes all or nothing: rows that failed would be gone. So does a query: its commit says
    that all rows of its inputs were taken.
    """
    is_whole = job.publishing.mode is PublishMode.REPLACE or job.query is not None
    return job.running.commit_policy is CommitPolicy.SUCCESSFUL and not is_whole


def _is_whole(job: Job, plan: Plan, reports: Sequence[TaskReport]) -> bool:
    """Return whether a run has all rows of the source; warn where only rows put aside are missing.

    What was not due was not read, and the key of a row that was put aside is unknown.
    """
    good = sum(report.failure is None for report in reports)
    if plan.left or plan.skipped or good < len(plan.work_units):
        return False
    if job.query is not None and job.query.mode is not QueryMode.FULL:
        return False  # it has what is new
    dropped = sum(report.counters.rows_dropped for report in reports)
    dropped += sum(report.beside for report in reports)
    merge = job.publishing.merge
    if dropped and merge is not None and merge.deletes_missing:
        log.warning(
            "%s did not fit, and the keys in such rows are unknown: what is missing at the"
            " source is not deleted by this run",
            counted(dropped, "row"),
        )
    return not dropped
