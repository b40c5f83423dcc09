"""The end of a run that was stopped by a signal, or by a failure outside its tasks."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Literal

from dil.errors import ConfigError, DilError, LeaseLostError, RunInterruptedError
from dil.execution.executor import Execution
from dil.model.dataset import RunRecord
from dil.model.report import RunReport, RunStatus
from dil.model.task import Failure, TaskReport
from dil.observe import run_report
from dil.observe.progress import counted
from dil.observe.property_places import located_failures
from dil.publishing.publisher import delete_staging
from dil.publishing.staged import read_results
from dil.run.active_run import ActiveRun
from dil.run.commit import record_end
from dil.run.kept_report import keep_report
from dil.run.plan import PlannedRun
from dil.run.report import summary
from dil.state.databases.outage import without_waiting

log = logging.getLogger(__name__)

_STOPPED = "the run was stopped by a signal"
_PROGRESS = {
    "begun": "the signal came while rows were being published; the next run finishes the publish",
    "committed": "the signal came after the rows were published and recorded: nothing is left to "
    "do",
}


def report_interruption(run: ActiveRun, planned: PlannedRun, signal: BaseException) -> RunReport:
    """Return the report of a run stopped by a signal; its staged files wait for the next run."""
    stopped = Failure(RunInterruptedError.code, _STOPPED)
    plan, exit_code = planned.plan, getattr(signal, "exit_code", 130)
    progress = _publish_progress(run)
    if progress != "committed":
        record_end(run, "interrupted")
    # Work units that failed only because of the signal are no failures of their own.
    failures = tuple(
        each
        for each in run.received
        if each.failure is not None and each.failure.code != RunInterruptedError.code
    )
    staged: tuple[TaskReport, ...] = ()
    if progress:
        note = _PROGRESS[progress]
    elif run.job.query is not None:
        failures = ()
        note = "nothing was published; the next run takes the same rows again"
    else:
        own = (each.report for each in read_results(run.filesystem, run.staging))
        staged = (*planned.adopted, *own)
        complete = {each.signature for each in staged}
        failures = tuple(each for each in failures if each.signature not in complete)
        units = counted(len(plan.work_units), "work unit")
        note = "no work unit was complete"
        if staged:
            note = f"{len(staged)} of {units} staged; the next run adopts them"
    found = run_report.failures(failures, stopped)
    report = summary(run, RunStatus.FAILED, plan, (*staged, *failures), found)
    return replace(report, notes=(note,), forced_exit_code=exit_code)


def report_failure(
    run: ActiveRun, planned: PlannedRun, executed: Execution, error: DilError
) -> RunReport:
    """Return the report of a run that failed in publishing, in the state store or in Spark."""
    log.debug("the run failed", exc_info=error)
    lost = record_end(run, "failed")
    if isinstance(error, ConfigError):
        error = error.located(run.job.properties.origin)
    # If another run took over, other failures are only a consequence: staging may be gone.
    failures = run_report.failures(
        () if lost else executed.reports, Failure.of(error if lost is None else lost)
    )
    tasks = list(executed.reports)
    if run.job.query is None:  # some reports may be only in staging, because Spark broke off
        received = {report.signature for report in tasks}
        try:
            staged = read_results(run.filesystem, run.staging)
            tasks += [each.report for each in staged if each.report.signature not in received]
        except DilError as refusal:
            log.warning("the number of complete work units is not known: %s", refusal.message)
    return summary(run, RunStatus.FAILED, planned.plan, tasks, failures)


def record_early_end(run: ActiveRun, error: DilError | KeyboardInterrupt, seconds: float) -> None:
    """Record a run that ended before its tasks began, with its failure and how long it took.

    A run is not recorded if its configuration is invalid: it has done nothing.
    """
    if isinstance(error, KeyboardInterrupt):
        error = RunInterruptedError(_STOPPED)
    if isinstance(error, ConfigError | LeaseLostError):
        return
    record = RunRecord(
        run_id=run.run_id,
        job=run.job.name,
        started=run.options.clock() - round(seconds * 1000),
        now=run.options.now_ms,
        policy=run.job.running.commit_policy.value,
        digest=run.job.digest,
        staging_dir=run.staging,
        status="interrupted" if isinstance(error, RunInterruptedError) else "failed",
    )
    found = run_report.failures((), Failure.of(error))
    failures = located_failures(found, run.job.properties.origin)
    try:
        with without_waiting():
            run.store.begin_run(run.lease, record)
            if delete_staging(run.filesystem, run.staging):
                run.store.mark_swept(run.lease, run.run_id)
    except DilError as refusal:
        log.warning("the failed run could not be recorded: %s", refusal.message)
        return
    keep_report(run, replace(summary(run, RunStatus.FAILED, failures=failures), seconds=seconds))


def _publish_progress(run: ActiveRun) -> Literal["", "begun", "committed"]:
    """Return how far this run's publish came, as far as is known."""
    try:
        known = next((each for each in run.store.runs() if each.run_id == run.run_id), None)
        if known is not None and known.committed:
            return "committed"
        pending = run.store.pending_intent()
    except DilError as error:
        log.warning("it is not known how far the publish came: %s", error.message)
        return ""
    return "begun" if pending is not None and pending.commit.run_id == run.run_id else ""
