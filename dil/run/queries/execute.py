"""Execute: the query of a derived dataset runs over the slices of its inputs."""

from __future__ import annotations

from dataclasses import replace

from dil.execution.executor import Execution, Watch, job_of_tasks
from dil.execution.queries.query import Query, QueryResult, View, in_order, view_of
from dil.model.job import QuerySpec
from dil.model.task import RunContext, TaskReport
from dil.run.active_run import ActiveRun
from dil.run.plan import PlannedRun
from dil.run.queries.slices import PlannedInput, PlannedQuery


def execute_query(
    run: ActiveRun, planned: PlannedRun, spec: QuerySpec, query: PlannedQuery, watch: Watch
) -> tuple[PlannedRun, Execution]:
    """Run the query; return the plan with a work unit for each part of the result, and those.

    Where no input has new rows, nothing is run: only their places are remembered.

    Raises:
        QueryError: the query is wrong, or failed.
        ExecutionError: Spark failed.
    """
    unit = planned.plan.work_units[0]
    if query.runs:
        views = tuple(map(view_of_input, query.inputs))
        asked = Query(spec, views, unit, query.closing)
        result = run.executors.for_query().query(_context(run, planned), asked, watch)
    else:
        result = in_order(unit, {})
    return _in_parts(planned, result), Execution(tuple(map(_without_requests, result.reports)))


def view_of_input(item: PlannedInput) -> View:
    """Return the rows that are read of an input, as tasks read them."""
    return view_of(item.input.view, item.read, item.input.writing)


def _in_parts(planned: PlannedRun, result: QueryResult) -> PlannedRun:
    plan = replace(planned.plan, work_units=result.units)
    return replace(planned, plan=plan, fresh=result.units)


def _without_requests(report: TaskReport) -> TaskReport:
    """Return a report that counts no requests: a query makes none of a source."""
    return replace(report, counters=replace(report.counters, requests=0, pages=0))


def _context(run: ActiveRun, planned: PlannedRun) -> RunContext:
    job, options = run.job, run.options
    return RunContext(
        job=job_of_tasks(job),
        run_id=run.run_id,
        run_now=planned.plan.now,
        full_extract=planned.plan.full_extract,
        staging_dir=run.staging,
        log_level=options.log_level,
        log_json=options.log_json,
        known_schema=planned.known_schema,
        events=planned.events,
    )
