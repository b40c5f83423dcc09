"""Report: the outcome of a run as one value, for people and machines."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from dil.errors import DilError
from dil.execution.executor import Execution
from dil.model.job import Job
from dil.model.report import ReportedFailure, RunReport, RunStatus, SchemaDrift, UnitCounts
from dil.model.task import TaskReport
from dil.model.work_unit import Plan
from dil.observe import run_report
from dil.observe.drift import drift, rows_aside
from dil.observe.property_places import with_places
from dil.publishing.layout import dataset_dir, quarantine_dir, refused_dir
from dil.publishing.run_commit import recorded_schema
from dil.run.active_run import ActiveRun
from dil.run.plan import PlannedRun
from dil.run.publish import RunOutcome
from dil.text.warehouse_url import read_warehouse_url

log = logging.getLogger(__name__)


def report_disabled(job: Job, run_id: str) -> RunReport:
    """Return the report of a job that is switched off."""
    notes = ("job.disabled is true",)
    return RunReport(job.name, run_id, RunStatus.NOTHING_DUE, UnitCounts(), notes=notes)


def report_nothing_due(run: ActiveRun, planned: PlannedRun) -> RunReport:
    """Return the report of a run that found nothing due."""
    notes = (
        run_report.nothing_due(planned.plan, run.job)
        if planned.query is None
        else run_report.nothing_new(planned.query.waits),
        *run_report.left_out(planned.plan, is_recorded=False),
        *run_report.failed_and_missing(planned.gone),
        *planned.secondary.notes,
    )
    return replace(summary(run, RunStatus.NOTHING_DUE), notes=notes)


def report_results(
    run: ActiveRun, planned: PlannedRun, executed: Execution, outcome: RunOutcome
) -> RunReport:
    """Return the report of a run whose tasks came to an end, published or not."""
    plan, status, spec = planned.plan, outcome.status, run.job.publishing
    published, good, tasks = outcome.published, outcome.good, outcome.reports
    is_recorded = published is not None
    beside = sum(each.beside for each in good)
    events = None if published is None else published.events
    late = beside + (0 if events is None else events.counts.dropped)
    notes = (
        *(
            run_report.zero_rows(status, outcome.rows, planned.usual_rows, late=late)
            if planned.query is None  # a query chooses rows, and often none
            else run_report.taken(planned.query.waits)
        ),
        *run_report.no_progress(plan),
        *run_report.left_out(plan, is_recorded=is_recorded),
        *run_report.remainders(planned.remainders if is_recorded else ()),
        *run_report.failed_and_missing(planned.gone),
        *(() if published is None else published.notes),
        *run_report.task_notes(tasks),
        *run_report.answer_notes(good, refused_dir(spec)),
        *planned.secondary.notes,
    )
    # Shared files are smaller than the staged files.
    if published is not None and spec.shares_files:
        size = sum(move.target.bytes for move in published.commit.moves)
    else:
        size = sum(task.bytes for task in good)
    counted = summary(run, status, plan, tasks)
    if planned.query is not None:  # its tasks count the rows that the query returned
        has_run = any(not task.adopted for task in tasks)
        counted = replace(counted, rows_read=planned.query.rows if has_run else 0)
    return replace(
        counted,
        rows=outcome.rows,
        bytes=size,
        files=outcome.files,
        failures=run_report.failures(tasks, executed.stopped),
        notes=tuple(with_places(note, run.job.properties.origin) for note in notes),
        aside=rows_aside(good, quarantine_dir(spec)),
        drift=_drift(run, planned, good),
        merged=None if published is None else published.merged,
        events=events,
        rows_beside=beside,
        is_recorded=is_recorded,
        replaced=None
        if published is None
        else run_report.replaced_rows(published.commit, spec.mode),
    )


def summary(
    run: ActiveRun,
    status: RunStatus,
    plan: Plan | None = None,
    tasks: Sequence[TaskReport] = (),
    failures: tuple[ReportedFailure, ...] = (),
) -> RunReport:
    """Return the common part of all reports: job, counts of work units, costs of tasks."""
    job, spec, own = run.job, run.job.publishing, [task for task in tasks if not task.adopted]
    warehouse, last = spec.warehouse, job.conversion.converters[-1:]
    return RunReport(
        job=job.name,
        run_id=run.run_id,
        status=status,
        units=run_report.unit_counts(len(plan.work_units) if plan else 0, tasks),
        failures=failures,
        dataset_dir=dataset_dir(spec),
        relation=spec.relation if spec.destination is None else run.destination.uri(""),
        database="" if warehouse is None else str(read_warehouse_url(warehouse.url.reveal())),
        left=plan.left if plan else 0,
        requests=sum(task.counters.requests for task in own),
        rows_read=sum(task.counters.rows_read for task in own),
        # Such a last converter only counts rows, and passes none on.
        is_validation=any(each.qualname == "InFlowValidation" for each in last),
        rows_dropped=sum(task.counters.rows_dropped for task in own),
        retries=sum(max(task.attempts - 1, 0) + task.counters.requests_resent for task in own),
        peak_rss_bytes=max((task.counters.peak_rss_bytes for task in own), default=0),
        unit_runs=run_report.unit_runs(tasks),
    )


def _drift(
    run: ActiveRun, planned: PlannedRun, published: Sequence[TaskReport]
) -> tuple[SchemaDrift, ...]:
    """Return the changes of the dataset's schema."""
    if not published:
        return ()
    try:
        after = recorded_schema(run.store)
    except DilError as error:  # a failed comparison does not undo the publish
        log.warning("the dataset's schema cannot be compared: %s", error.message)
        return ()
    return drift(run.job, planned.known_schema, after, published)
