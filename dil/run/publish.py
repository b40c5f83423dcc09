"""Publish: record the intent, then make the results visible that the commit policy allows."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msgspec import structs

from dil.config.watermarks import WATERMARK
from dil.execution.executor import Execution
from dil.execution.stages import Stages
from dil.model.dataset import Commit, PublishedFile
from dil.model.grace import ProbeRest
from dil.model.job import CommitPolicy, Job, PublishMode, QueryMode
from dil.model.json import JsonObject
from dil.model.report import EventSummary, MergedRows, RunStatus
from dil.model.stream import STREAM
from dil.model.task import TaskReport
from dil.model.work_unit import Plan
from dil.observe import run_report
from dil.observe.progress import counted
from dil.publishing import layout
from dil.publishing.closed_labels import with_closed_labels
from dil.publishing.destination import connected
from dil.publishing.late_files import late_rows_there
from dil.publishing.layout import dataset_dir
from dil.publishing.lost_state import refuse_unlisted_rows
from dil.publishing.publisher import quarantined_files, untracked_files
from dil.publishing.recovery import UnfinishedUnits, unfinished_units
from dil.publishing.results import FinishedUnit, PublishableResults, PublishTarget
from dil.publishing.rewritten import left_behind, refuse_rewritten
from dil.publishing.run_commit import build_commit, recorded_schema, unchanged_labels
from dil.publishing.shared_files import refuse_unlisted
from dil.reshaping import Reshaping, reshape
from dil.run import event_time
from dil.run.active_run import ActiveRun
from dil.run.closed_labels import load_closed_labels, rejected_notes, side_table_notes
from dil.run.forgetting import forgotten_by_run, is_partial, unrecorded_by_run
from dil.run.plan import PlannedRun
from dil.sections.secondary import SECONDARY
from dil.state.chain.recorded_files import begins_changelog, file_of, live_parts

if TYPE_CHECKING:
    from dil.run.queries.slices import PlannedQuery

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ResultsToPublish:
    """The results that a run publishes.

    Attributes:
        run_id: The id of the run that planned the work.
        now: The now of that run, epoch ms UTC.
        full_extract: Whether the run read without history.
        finished: The work units that ran or were adopted.
        unfinished: The other work units of the run's plan.
        has_all_rows: Whether the run has all rows of the source.
        grace_ms: How far back the next run reads again; None for the job's own value.
        query: The slices of the inputs of a derived dataset; None if the job reads a source.
    """

    run_id: str
    now: int
    full_extract: bool
    finished: Sequence[FinishedUnit]
    unfinished: UnfinishedUnits
    has_all_rows: bool = False
    grace_ms: int | None = None
    query: PlannedQuery | None = None


@dataclass(frozen=True, slots=True)
class PublishedResults:
    """Results that readers see, and that state does not know yet.

    Attributes:
        results: The published results.
        commit: The changes to record in state.
        output_dir: Folder of the new files.
        files: URIs of the new files; none for rows of a database (rule U23).
        failed: Reports by signature of work units whose rows did not fit the dataset.
        notes: Sentences for people.
        merged: The counts of a merge; None if nothing was counted.
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
class RunOutcome:
    """How the work units of a run ended, and which of their rows readers see.

    Attributes:
        status: The verdict on the run.
        reports: The reports of all work units that ran or were adopted.
        published: The published results; None if the commit policy allows none.
    """

    status: RunStatus
    reports: tuple[TaskReport, ...]
    published: PublishedResults | None = None

    @property
    def good(self) -> tuple[TaskReport, ...]:
        """Return the reports of the work units whose rows are visible."""
        if self.published is None:
            return ()
        return tuple(report for report in self.reports if report.failure is None)

    @property
    def rows(self) -> int:
        """Return how many rows became visible."""
        return sum(report.rows for report in self.good)

    @property
    def files(self) -> tuple[str, ...]:
        """Return the URIs of the files that became visible."""
        return () if self.published is None else self.published.files


def publish(run: ActiveRun, planned: PlannedRun, executed: Execution) -> RunOutcome:
    """Make the results of a run visible, as far as the commit policy allows.

    Raises:
        DilError: nothing is visible, or the next run finishes the publish.
    """
    job, plan, reports = run.job, planned.plan, executed.reports
    status = _verdict(job, plan, reports)
    if status is RunStatus.FAILED and not _publishes_beside_failures(job):
        return RunOutcome(status, reports)
    published = publish_results(run, _results(run, planned, reports))
    settled = tuple(published.failed.get(report.signature, report) for report in reports)
    return RunOutcome(_verdict(job, plan, settled), settled, published)


def _results(
    run: ActiveRun, planned: PlannedRun, reports: Sequence[TaskReport]
) -> ResultsToPublish:
    plan, by_signature = planned.plan, {report.signature: report for report in reports}
    return ResultsToPublish(
        run.run_id,
        plan.now,
        plan.full_extract,
        tuple(
            FinishedUnit(unit, by_signature[unit.signature])
            for unit in plan.work_units
            if unit.signature in by_signature
        ),
        unfinished_units(
            planned.staged_plan, by_signature, "the run was stopped before this work unit began"
        ),
        has_all_rows=run.options.plan is None and _has_all_rows(run, plan, reports),
        grace_ms=plan.grace_ms,
        query=planned.query,
    )


def publish_results(run: ActiveRun, results: ResultsToPublish) -> PublishedResults:
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
            results.has_all_rows,
            Stages(run.executors, run.options.stage_bytes),
            keeps_others=_publishes_beside_failures(job),
            event_times=event_time.times_of_merged(job),
        ),
        (*results.finished, *results.unfinished.failed),
        run.filesystem,
    )
    good = [each.report for each in shaped.finished if each.report.failure is None]
    left = _where_it_stopped(results)
    events = event_time.advance_watermark(job, run.store, results.now, good, results.grace_ms, left)
    commit = build_commit(job, target, shaped, run.filesystem)
    forgotten = forgotten_by_run(job, run.store, commit.run.outcomes)
    events = event_time.with_forgotten(events, run.store, forgotten)
    commit = replace(
        commit,
        checkpoints={**events.checkpoints, **_stream(run)},
        run=replace(commit.run, forgotten=tuple(each.signature for each in forgotten)),
    )
    grace = job.planning.grace_ms if results.grace_ms is None else results.grace_ms
    if job.planning.grace.is_measured:
        grace = max(grace, job.planning.grace.high_ms)  # a probe may follow
    closed = load_closed_labels(job, run.store)
    closing = with_closed_labels(job, closed, commit, shaped, grace_ms=grace)
    commit = closing.commit
    if results.query is not None:
        from dil.run.queries.committing import with_query  # few jobs have inputs

        commit = with_query(run, results.query, commit)
    run.publisher.make_visible(run.lease, commit)
    reports = [each.report for each in shaped.finished]
    return PublishedResults(
        results,
        commit,
        target.output_dir,
        tuple(move.target.uri for move in commit.moves) if spec.keeps_files else (),
        {report.signature: report for report in reports if report.failure is not None},
        (
            *run_report.unchanged_labels(unchanged_labels(shaped.finished, commit)),
            *rejected_notes(closing.rejected),
            *side_table_notes(good),
            *_file_notes(run, target, commit),
        ),
        _merged(run, shaped, commit),
        events.summary,
    )


def _where_it_stopped(results: ResultsToPublish) -> ProbeRest | None:
    """Return where a run stopped if it did not read all due work units, else None."""
    low = results.unfinished.low
    if low is None:
        return None
    read = (each.work_unit for each in results.finished)
    units = [each.unit_key for each in read if each.partition.low == low]
    return ProbeRest(low, units[-1] if units else "")


def _stream(run: ActiveRun) -> Mapping[str, JsonObject]:
    """Return the record of the micro-batch that publishes; empty outside of a micro-batch.

    A stream finishes what earlier runs began before a micro-batch begins.
    """
    return {} if run.batch is None else {STREAM: run.batch.members()}


def _merged(run: ActiveRun, shaped: PublishableResults, commit: Commit) -> MergedRows | None:
    """Return the counts of a merge in files or in a database."""
    if not run.destination.merges:
        return shaped.merged
    return run.destination.merged if commit.moves or commit.removes else None


def _target(run: ActiveRun, results: ResultsToPublish) -> PublishTarget:
    """Return the destination of results, with the files that are live now."""
    spec, filesystem = run.job.publishing, run.filesystem
    with connected(run.destination):
        live = run.destination.live()
        late = late_rows_there(run.job, filesystem, run.destination)
    untracked = untracked_files(spec, live, filesystem)
    refuse_unlisted(spec, untracked)
    refuse_unlisted_rows(run.job, run.store, filesystem, live)
    read = (each.work_unit.signature for each in results.finished if each.report.failure is None)
    refuse_rewritten(run.job.name, run.store, spec, filesystem, (*live, *untracked), read)
    if spec.mode is PublishMode.REPLACE:
        untracked = (*untracked, *_left_behind(run, live))
    system_time = run.options.clock()
    return PublishTarget(
        run_id=results.run_id,
        output_dir=layout.output_dir(
            spec,
            now=results.now,
            full=results.full_extract,
            taken=frozenset(filesystem.folders(dataset_dir(spec))),
        ),
        live=live,
        untracked=untracked,
        system_time=system_time,
        horizon=max(system_time, results.now),
        left_low=results.unfinished.low,
        known_schema=recorded_schema(run.store),
        quarantined=quarantined_files(spec, filesystem),
        late=late,
        has_all_rows=results.has_all_rows,
        missed=results.unfinished.missed,
        begins_changelog=begins_changelog(spec, run.store),
    )


def _left_behind(run: ActiveRun, live: Sequence[PublishedFile]) -> Iterator[PublishedFile]:
    """Yield the files that another program removed, so that the chain records their removal.

    A database that was restored lacks its last loads.
    """
    gone = left_behind(run.store, run.job.publishing, run.filesystem, live)
    if not gone:
        return
    known = live_parts(run.store)
    for part in (known[uri] for uri in gone if uri in known):
        yield structs.replace(file_of(part), run_id="unknown")


def _file_notes(run: ActiveRun, target: PublishTarget, commit: Commit) -> tuple[str, ...]:
    """Return notes about replaced files of other writers, and about files with unlike schemas."""
    spec = run.job.publishing
    removed = commit.removes if spec.mode is PublishMode.REPLACE else ()
    notes = run_report.foreign_files(tuple(file.uri for file in removed if not file.run_id))
    if spec.replaces_once:
        notes = (*notes, *run_report.forgotten(commit.run.forgotten))
    unrecorded = unrecorded_by_run(run.job, run.store, commit.run)
    notes = (*notes, *run_report.unrecorded(unrecorded))
    if not spec.is_one_folder_of_files:
        return notes
    base = run.filesystem.uri(dataset_dir(spec))
    return (*notes, *run_report.mixed_files(target.live, commit, base))


def _verdict(job: Job, plan: Plan, reports: Sequence[TaskReport]) -> RunStatus:
    good = sum(report.failure is None for report in reports)
    if good == len(plan.work_units):
        return RunStatus.SUCCESS
    return RunStatus.PARTIAL if good and _publishes_beside_failures(job) else RunStatus.FAILED


def _publishes_beside_failures(job: Job) -> bool:
    """Return whether successes are published and failures recorded, if some work units fail.

    A replace takes all or nothing: rows that failed would be gone. A query does the same: its
    commit says that all rows of its inputs were taken.
    """
    is_all_or_nothing = job.publishing.mode is PublishMode.REPLACE or job.query is not None
    return job.running.commit_policy is CommitPolicy.SUCCESSFUL and not is_all_or_nothing


def _has_all_rows(run: ActiveRun, plan: Plan, reports: Sequence[TaskReport]) -> bool:
    """Return whether a run has all rows of the source; warn if only rows put aside are missing.

    Work units that were not due were not read, and keys of rows put aside are unknown.
    """
    job = run.job
    good = sum(report.failure is None for report in reports)
    if plan.left or plan.skipped or good < len(plan.work_units):
        return False
    if _is_of_other_units(job) and (not job.state.enabled or is_partial(run.store, plan)):
        return False
    if job.query is not None and job.query.mode is not QueryMode.FULL:
        return False  # a query has all new rows
    dropped = sum(report.counters.rows_dropped for report in reports)
    dropped += sum(report.beside for report in reports)
    merge = job.publishing.merge
    if dropped and merge is not None and merge.deletes_missing:
        log.warning(
            "%s did not fit, and their keys are unknown: this run deletes no rows that are missing "
            "at the source",
            counted(dropped, "row"),
        )
    return not dropped


def _is_of_other_units(job: Job) -> bool:
    """Return whether a run may have been asked for only a part of the job's work units."""
    return job.planning.backfill or job.properties.is_of_one_run(WATERMARK, SECONDARY)
