"""How a run ends that is stopped by a signal, or by a failure outside its tasks."""

from __future__ import annotations

import logging
from dataclasses import replace

from dil import publishing
from dil.errors import ConfigError, DilError, RunInterruptedError
from dil.execution.executor import Execution
from dil.model.report import ReportedFailure, RunReport, RunStatus
from dil.model.task import Failure, TaskReport
from dil.observe import run_report
from dil.observe.progress import counted
from dil.run.active_run import ActiveRun
from dil.run.commit import record_end
from dil.run.plan import PlannedRun
from dil.run.report import summary

log = logging.getLogger(__name__)


def interrupted(run: ActiveRun, planned: PlannedRun, signal: BaseException) -> RunReport:
    """Return the report of a run stopped by a signal; what is staged waits for the next run."""
    stopped = ReportedFailure(None, RunInterruptedError.code, "the run was stopped by a signal")
    plan, exit_code = planned.plan, getattr(signal, "exit_code", 130)
    if _is_publish_begun(run):
        note = "the signal came while rows were being published; the next run finishes that"
        report = summary(run, RunStatus.FAILED, plan, failures=(stopped,))
        return replace(report, notes=(note,), forced_exit_code=exit_code)
    record_end(run, "interrupted")
    own = tuple(each.report for each in publishing.read_results(run.files, run.staging))
    staged = (*planned.adopted, *own)
    note = (
        f"{len(staged)} of {counted(len(plan.work_units), 'work unit')} staged; "
        "the next run goes on from them"
        if staged
        else "no work unit was complete"
    )
    report = summary(run, RunStatus.FAILED, plan, staged, (stopped,))
    return replace(report, notes=(note,), forced_exit_code=exit_code)


def failed(run: ActiveRun, planned: PlannedRun, executed: Execution, error: DilError) -> RunReport:
    """Return the report of a run that publishing, state or Spark itself failed."""
    log.debug("the run failed", exc_info=error)
    lost = record_end(run, "failed")
    if isinstance(error, ConfigError):
        error = error.located(run.job.properties.origin)
    # What failed after another run took over is a consequence: its staging may be gone.
    failures = run_report.failures(
        () if lost else executed.reports, Failure.of(error if lost is None else lost)
    )
    return summary(run, RunStatus.FAILED, planned.plan, _known(run, executed), failures)


def _known(run: ActiveRun, executed: Execution) -> tuple[TaskReport, ...]:
    """Return the reports that the driver received, and those that are only in staging."""
    received = {report.signature for report in executed.reports}
    try:
        staged = publishing.read_results(run.files, run.staging)
        own = [each.report for each in staged if each.report.signature not in received]
    except DilError as error:
        log.warning("how many work units are complete is not known: %s", error.message)
        own = []
    return (*executed.reports, *own)


def _is_publish_begun(run: ActiveRun) -> bool:
    """Return whether this run's publish was begun or is even committed, as far as is known."""
    try:
        pending = run.store.pending_intent()
        if pending is not None and pending.commit.run_id == run.run_id:
            return True
        runs = run.store.unfinished_runs()
    except DilError as error:
        log.warning("how far the publish came is not known: %s", error.message)
        return False
    return any(each.committed for each in runs if each.run_id == run.run_id)
