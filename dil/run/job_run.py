"""One run of a job, step by step: recover, plan, claim, execute, publish, commit, report.

Each step is a module of its own and returns its findings. The caller loads the job and maps errors
to exit codes. Nothing here imports Spark or Arrow before there is work to do.
"""

from __future__ import annotations

import time
from dataclasses import replace

from dil.errors import DilError, RunInterruptedError
from dil.execution.executor import Execution
from dil.model.job import Job
from dil.model.report import RunReport
from dil.observe.property_places import located_failures
from dil.run import preflight
from dil.run.aborted_run import record_early_end, report_failure, report_interruption
from dil.run.active_run import ActiveRun, active_run
from dil.run.catalog_sync import sync_catalog
from dil.run.claim import claim
from dil.run.commit import commit, sweep
from dil.run.execute import execute, execute_query_of, refuse_taken_names
from dil.run.kept_report import keep_report
from dil.run.lease import new_run_id
from dil.run.options import RunOptions
from dil.run.plan import PlannedRun, plan, refuse_new_shape
from dil.run.publish import publish
from dil.run.recover import recover
from dil.run.report import report_disabled, report_nothing_due, report_results
from dil.state.work_units.signatures import begin_of


def run_job(job: Job, options: RunOptions) -> RunReport:
    """Run a job once and return its report.

    Raises:
        LeaseHeldError: another run of the job is under way.
        ConfigError: state shows that this configuration would double rows.
        DilError: planning, state or publishing failed; staged files are kept for the next run.
    """
    started = time.monotonic()
    run_id = options.run_id or new_run_id(options.clock())
    if job.running.disabled:
        return report_disabled(job, run_id)
    preflight.refuse_lost_state(job, options.environ)
    preflight.refuse_unfit_places(job)
    preflight.make_final_dir(job)
    with active_run(job, options, run_id) as run:
        try:
            report = _run_under_lease(run, started)
        except DilError as error:
            record_early_end(run, error, time.monotonic() - started)
            raise
        report = conclude(run, report, started)
    return replace(report, seconds=round(time.monotonic() - started, 3))


def _run_under_lease(run: ActiveRun, started: float) -> RunReport:
    """Take the steps of a run in their order, up to its report."""
    try:
        recovered = recover(run)
        refuse_new_shape(run)
        planned = plan(run)
        notes = claim(run, planned)
    except KeyboardInterrupt as signal:
        record_early_end(run, signal, time.monotonic() - started)
        raise
    if planned.plan.work_units:
        report = execute_and_publish(run, planned)
    else:
        sweep(run)
        report = report_nothing_due(run, planned)
    return replace(
        report, recovered=recovered.runs, notes=(*recovered.notes, *notes, *report.notes)
    )


def execute_and_publish(run: ActiveRun, planned: PlannedRun) -> RunReport:
    """Run the due work units, publish and commit; a failure and a signal end in a report, too."""
    executed = Execution(planned.adopted)  # the reports of work units if the run fails
    try:
        if run.job.query is not None and planned.query is not None:
            planned, executed = execute_query_of(run, planned, run.job.query, planned.query)
        else:
            executed = execute(run, planned)
            executed = refuse_taken_names(run, planned, executed)
        outcome = publish(run, planned, executed)
        commit(run, planned, outcome)
        return report_results(run, planned, executed, outcome)
    except (RunInterruptedError, KeyboardInterrupt) as signal:
        return report_interruption(run, planned, signal)
    except DilError as error:
        return report_failure(run, planned, executed, error)


def conclude(run: ActiveRun, report: RunReport, started: float) -> RunReport:
    """Register the published rows in the catalog, keep the report, and return it with its duration.

    ``started`` is a value of ``time.monotonic``.
    """
    failures = located_failures(report.failures, run.job.properties.origin)
    if run.job.planning.is_dated:
        failures = tuple(replace(one, begins=begin_of(one.signature or "")) for one in failures)
    report = replace(report, failures=failures)
    report = sync_catalog(run.job, run.store, report, run.executors)
    report = replace(report, seconds=round(time.monotonic() - started, 3))
    keep_report(run, report)
    return report
