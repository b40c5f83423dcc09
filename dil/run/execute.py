"""Execute: run the work units that have to be extracted as tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dil.coordination import in_starting_order
from dil.errors import LeaseLostError
from dil.execution.executor import Execution, job_of_tasks
from dil.model.job import QuerySpec
from dil.model.task import Failure, RunContext, TaskReport
from dil.publishing.dumps import fail_equal_names, fail_taken_names, folds_names
from dil.publishing.recovery import resumable
from dil.run.active_run import ActiveRun
from dil.run.plan import PlannedRun, reuse_policy
from dil.run.queries.slices import PlannedQuery
from dil.task.early_stop import EarlyStop


def execute(run: ActiveRun, planned: PlannedRun) -> Execution:
    """Run the work units; return all reports, adopted ones first.

    No session starts if there are no work units to run.
    """
    job, options, units = run.job, run.options, planned.fresh
    execution = Execution(())
    if units:
        context = RunContext(
            job=job_of_tasks(job),
            run_id=run.run_id,
            run_now=planned.plan.now,
            full_extract=planned.plan.full_extract,
            staging_dir=run.staging,
            secondary=planned.secondary.variables,
            logging=options.task_logging,
            resume_from=_resumable(run, planned),
            known_schema=planned.known_schema,
            events=planned.events,
            closed_labels=planned.closed_labels,
        )
        executor = run.executors.for_units(len(units))
        options.progress.start(len(units))
        try:
            watch = _watch(run, len(units))
            execution = executor.execute(context, in_starting_order(job, units), watch)
        finally:
            options.progress.finish()
    reports = fail_equal_names(
        (*planned.adopted, *execution.reports), folds_names=_folds_names(run)
    )
    return replace(execution, reports=reports)


def execute_query_of(
    run: ActiveRun, planned: PlannedRun, spec: QuerySpec, query: PlannedQuery
) -> tuple[PlannedRun, Execution]:
    """Call ``queries.execute.execute_query``, and show progress."""
    from dil.run.queries.execute import execute_query  # needs Arrow, which few jobs have loaded

    progress = run.options.progress
    progress.start(1)
    reports: Sequence[TaskReport] = ()
    has_failed = True
    try:
        found = execute_query(run, planned, spec, query, _watch(run, 1))
        reports = found[1].reports
        has_failed = any(each.failure is not None for each in reports)
        return found
    finally:
        progress.update(
            done=1,
            failed=int(has_failed),
            running=0,
            rows=sum(each.rows for each in reports),
            bytes=sum(each.bytes for each in reports),
        )
        progress.finish()


def refuse_taken_names(run: ActiveRun, planned: PlannedRun, executed: Execution) -> Execution:
    """Fail work units whose dumped files would replace files of another origin."""
    reports = fail_taken_names(
        run.job,
        executed.reports,
        planned.listed,
        run.filesystem,
        folds_names=_folds_names(run),
    )
    return replace(executed, reports=reports)


def _folds_names(run: ActiveRun) -> bool:
    """Return whether the store takes names of dumped files in unlike letter case for one."""
    return bool(run.job.writing.file_name) and folds_names(run.job.publishing, run.filesystem)


def _resumable(run: ActiveRun, planned: PlannedRun) -> dict[str, str]:
    """Return, by signature, the page log of an earlier run from which a work unit resumes."""
    job = run.job
    if job.running.page_commit_s is None:
        return {}
    earlier = [
        each
        for each in run.unswept_runs()
        if each.run_id != run.run_id and each.digest in job.known_digests
    ]
    policy = reuse_policy(job, planned.plan)
    return resumable(run.filesystem, earlier, planned.fresh, policy)


def _watch(run: ActiveRun, units: int) -> Callable[[Sequence[TaskReport]], Failure | None]:
    """Return the observer of a run, which shows the progress and says why the run has to stop.

    A run has to stop if it lost its lease, or if its remaining work units would fail, too.
    """
    threads = run.job.running.threads
    early_stop = EarlyStop()
    failed = rows = size = 0

    def watch(reports: Sequence[TaskReport]) -> Failure | None:
        nonlocal failed, rows, size
        for report in reports[len(run.received) :]:
            run.received.append(report)
            failed += report.failure is not None
            rows += report.rows
            size += report.bytes
        done = len(run.received)
        run.options.progress.update(
            done=done, failed=failed, running=min(threads, units - done), rows=rows, bytes=size
        )
        if run.keeper.lost:
            return Failure(LeaseLostError.code, "another run took the lease over")
        return early_stop.look(reports)

    return watch
