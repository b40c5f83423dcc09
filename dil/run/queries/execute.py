"""Execute: the query of a derived dataset runs over the slices of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from dil.errors import QueryError
from dil.execution.executor import Execution, Watch, job_of_tasks
from dil.execution.queries.query import Query, View, in_order, view_of
from dil.execution.queries.repeats import NearSpan
from dil.model.derived import REBUILD_COMMAND, DedupeSpec, TimeSpan
from dil.model.job import Job, QueryMode, QuerySpec
from dil.model.task import RunContext
from dil.run.active_run import ActiveRun
from dil.run.plan import PlannedRun
from dil.run.queries.slices import PlannedQuery, refuse_gone_files
from dil.state.derived.dataset_chain import DatasetChain
from dil.state.derived.input_rows import InputRows
from dil.state.derived.inputs import open_input
from dil.state.derived.published_rows import rows_since
from dil.state.opening import open_snapshot


def execute_query(
    run: ActiveRun, planned: PlannedRun, spec: QuerySpec, query: PlannedQuery, watch: Watch
) -> tuple[PlannedRun, Execution]:
    """Run the query; return the planned run, and the reports.

    The plan has one work unit for each part of the result. If no input has new rows, no query is
    run: only the places in the inputs are recorded.

    Raises:
        QueryError: the query is wrong, or failed.
        ExecutionError: Spark failed.
        StateError: the query failed because an input deleted files that it reads.
    """
    unit = planned.plan.work_units[0]
    if query.runs:
        views = tuple(
            view_of(each.input.view, each.read, each.input.writing) for each in query.inputs
        )
        asked = Query(spec, views, unit, query.closing)
        if spec.dedupe is not None and spec.mode is QueryMode.APPEND:
            near = partial(published_near, run.job, spec.dedupe, run.options.clock)
            asked = replace(asked, published=near)
        options = run.options
        context = RunContext(
            job=job_of_tasks(run.job),
            run_id=run.run_id,
            run_now=planned.plan.now,
            full_extract=planned.plan.full_extract,
            staging_dir=run.staging,
            logging=options.task_logging,
            known_schema=planned.known_schema,
            events=planned.events,
        )
        try:
            result = run.executors.for_query().query(context, asked, watch)
        except QueryError:
            refuse_gone_files(spec, query.inputs, options.clock)
            raise
    else:
        result = in_order(unit, {})
    span, units = result.span, result.units
    in_parts = replace(
        planned,
        plan=replace(planned.plan, work_units=units),
        fresh=units,
        query=query if span is None else replace(query, last_event_ms=span.last_ms),
    )
    reports = (  # a query sends no requests to a source
        replace(each, counters=replace(each.counters, requests=0, pages=0))
        for each in result.reports
    )
    return in_parts, Execution(tuple(reports))


def published_near(
    job: Job,
    spec: DedupeSpec,
    clock: Callable[[], int],
    span: TimeSpan,
    *,
    until: int | None = None,
) -> View | None:
    """Return the published rows that new rows of a time span may repeat; None if there are none.

    ``until`` is the last block whose rows count, None for all blocks.

    Raises:
        QueryError: the dataset lacks a column by which repeats are found.
        StateError: the store cannot be read.
    """
    near = span.widened(spec.within_ms)
    with open_snapshot(job.state, job.name, clock=clock) as own:
        chain = open_input(own, job.name)
        if chain is None:
            return None
        dataset, last = DatasetChain(chain), chain.sequence if until is None else until
        parts, schema = (
            rows_since(dataset, last, spec.column, near.first_ms),
            dataset.schema_at(last),
        )
    if not parts:
        return None
    found = view_of("published", InputRows(parts, schema), job.writing)
    absent = [name for name in spec.columns if name not in found.known.names]
    if absent:
        raise QueryError(
            f"the dataset has no column {', '.join(absent)}, by which repeats are found",
            "Another query published its rows, or a converter renames columns. To make the dataset"
            f" anew: {REBUILD_COMMAND}. Or give the job another job.name and table, or other"
            " ms.dedupe.keys.",
        )
    return replace(found, columns=spec.columns, may_match=NearSpan(spec.column, near))
