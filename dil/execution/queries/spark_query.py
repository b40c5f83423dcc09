"""Runs a derived dataset's query on Spark: files to views, Spark SQL, rows to staged files.

Our own reader and writers read and write the files, inside of tasks. So types, file systems and
formats are the same as in every other run.
"""

from __future__ import annotations

import logging
import pickle
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from dil.errors import DilError, QueryError
from dil.execution import worker
from dil.execution.coordinated import CoordinatedRun
from dil.execution.executor import Watch
from dil.execution.frames import mapped_in_arrow, own_session, received_report
from dil.execution.job_monitor import SparkJobMonitor
from dil.execution.jvm_errors import stopping_error
from dil.execution.queries.deduped import without_repeats
from dil.execution.queries.query import Query, QueryResult, View, in_order, part_of
from dil.execution.queries.repeats import require_columns
from dil.execution.queries.windowed import emitted, with_event_time
from dil.execution.spark_types import arrow_schema, spark_schema
from dil.model.derived import TimeSpan
from dil.model.job import QueryMode, QuerySpec, WritingSpec
from dil.model.messages import shortened
from dil.model.task import RunContext
from dil.model.work_unit import WorkUnit
from dil.task.work_unit import run_attempt_over

log = logging.getLogger(__name__)

_LONGEST = 600
# Spark's place of a mistake; lines count from 1, characters from 0.
_POSITION = re.compile(r"\bline ([0-9]+),? pos ([0-9]+)")
_RESULT = StructType([StructField("part", IntegerType()), StructField("report", BinaryType())])
# Nodes of Spark's plans whose result over new rows is not the new part of the result over all rows.
_NOT_BY_ROW = {
    "Aggregate": "aggregates rows",
    "Join": "joins datasets",
    "LateralJoin": "joins datasets",
    "AsOfJoin": "joins datasets",
    "Window": "has a window function",
    "Distinct": "looks for distinct rows",
    "Deduplicate": "looks for distinct rows",
    "Intersect": "compares rows with others",
    "Except": "compares rows with others",
    "GlobalLimit": "takes some of the rows (LIMIT)",
    "Tail": "takes some of the rows",
    "Offset": "leaves out some of the rows (OFFSET)",
    "Sample": "takes a sample of the rows",
    "DeduplicateWithinWatermark": "looks for distinct rows",
    **dict.fromkeys(
        (
            "CoGroup",
            "FlatMapCoGroupsInArrow",
            "FlatMapCoGroupsInPandas",
            "FlatMapGroupsInArrow",
            "FlatMapGroupsInPandas",
            "FlatMapGroupsInPandasWithState",
            "FlatMapGroupsWithState",
            "MapGroups",
            "TransformWithState",
            "TransformWithStateInPySpark",
        ),
        "calls a function for groups of rows",
    ),
}
# Leaves of a plan without rows of their own: they refer to other parts of the plan.
_WITHOUT_ROWS = frozenset({"CTERelationRef"})


def run_query(
    context: Any,  # a SparkContext; pyspark is imported late
    run: RunContext,
    query: Query,
    watch: Watch,
) -> QueryResult:
    """Run a query and stage its rows; a task stages each partition of the result.

    Raises:
        QueryError: the query is wrong, or failed.
        ExecutionError: Spark failed.
    """
    monitor = SparkJobMonitor(context, CoordinatedRun(run), watch, tuple)
    with monitor.looking(), ExitStack() as kept:
        monitor.join_group()
        try:
            frame, span = _result(own_session(context), query, run.job.writing, kept)
            body = _Body(run, query.unit, worker.workers_at_once(context), tuple(frame.columns))
            # Plain names of columns need no quotes.
            plain = frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))
            found = mapped_in_arrow(plain, body, _RESULT).collect()
        except DilError:
            raise
        except (AnalysisException, ParseException) as error:
            views = ", ".join(each.view for each in query.spec.inputs)
            is_one = len(query.spec.inputs) == 1
            named = f"Its view is {views}" if is_one else f"Its views are {views}"
            raise QueryError(
                f"Spark refuses the query{_at(query.spec, error)}: {_said(error)}",
                f"Correct {_place(query.spec)}. {named}.",
            ) from error
        except (PySparkException, Py4JError) as error:
            stopped = stopping_error(error)
            said = _failure(error)
            correct = f"Correct {_place(query.spec)}, or the rows of its inputs."
            at = _at(query.spec, error) if said else ""
            raise QueryError(
                f"the query failed{at}: {said or stopped.message}", correct if said else stopped.fix
            ) from error
    if monitor.stopped is not None:
        raise QueryError(f"the query was stopped: {monitor.stopped.error}", monitor.stopped.fix)
    reports = {row["part"]: received_report(bytes(row["report"])) for row in found}
    return replace(in_order(query.unit, reports), span=span)


def differing_rows(context: Any, one: View, other: View) -> int:  # a SparkContext
    """Return how many rows of view ``one`` are not in ``other``; equal rows count one by one.

    Raises:
        QueryError: the rows cannot be read, or not be compared.
    """
    session = own_session(context)
    try:
        lacking = frame_of(session, one).exceptAll(frame_of(session, other))
        return int(lacking.count())
    except (PySparkException, Py4JError) as error:
        said = _failure(error) or stopping_error(error).message
        raise QueryError(f"the rows cannot be compared: {said}") from error


def frame_of(session: Any, view: View) -> Any:  # a session gives a DataFrame
    """Return the rows of a view as a DataFrame, in the order of their offsets."""
    schema = spark_schema(view.wanted)
    count = len(view.tasks)
    numbers = session.range(0, count, 1, max(1, count))
    return mapped_in_arrow(numbers, _ReadBody(view, arrow_schema(schema)), schema)


def _result(
    session: Any,  # a session gives a DataFrame
    query: Query,
    writing: WritingSpec,
    kept: ExitStack,
) -> tuple[Any, TimeSpan | None]:
    """Return the rows to publish, and the span of their times if repeats are left out."""
    spec = query.spec
    frames = {view.name: frame_of(session, view) for view in query.views}
    windows, closing = spec.windows, query.closing
    if windows is not None and closing is not None:
        frames = {name: with_event_time(frame, windows, closing) for name, frame in frames.items()}
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    result = _selected(session, spec) if spec.function is None else _called(spec, frames)
    if closing is not None:
        result = emitted(result, closing)
    names = [name.lower() for name in result.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not names:
        what = f'gives the column "{twice[0]}" more than once' if twice else "gives no column"
        raise QueryError(f"the query {what}", f"Name each column once, in {_place(spec)}.")
    if spec.mode is QueryMode.APPEND:
        _refuse_more_than_rows(result)
    if spec.dedupe is None:
        return result, None
    require_columns(arrow_schema(result.schema), spec.dedupe)
    frame_of_view = partial(frame_of, session)
    unit_us = writing.time_unit_us
    found = without_repeats(result, spec.dedupe, unit_us, query.published, frame_of_view)
    kept.callback(found.release)
    return found.frame, found.span


def _selected(session: Any, spec: QuerySpec) -> Any:  # a DataFrame
    """Return the DataFrame of the job's SQL over the views; only queries are run."""
    parser = session._jsparkSession.sessionState().sqlParser()
    try:
        parser.parseQuery(spec.text)
    except ParseException:
        parser.parsePlan(spec.text)  # Spark itself refuses invalid SQL
        raise QueryError(
            "the SQL is no query, but a statement that changes something",
            f"Write a SELECT in {_place(spec)}; its rows are published.",
        ) from None
    return session.sql(spec.text)


def _called(spec: QuerySpec, frames: dict[str, Any]) -> Any:  # a DataFrame
    """Return the DataFrame that the job's own function makes of the inputs."""
    from pyspark.sql import DataFrame

    function = spec.function
    assert function is not None  # noqa: S101 - for the type checker
    try:
        found = getattr(import_module(function.module), function.qualname)(dict(frames))
    except (AnalysisException, ParseException):
        raise
    except Exception as error:
        log.debug("the function of the query failed", exc_info=error)
        own = [each for each in extract_tb(error.__traceback__) if each.filename != __file__]
        line = f" ({Path(own[0].filename).name}, line {own[0].lineno})" if own else ""
        raise QueryError(
            f"{function} failed: {type(error).__name__}: {shortened(str(error), _LONGEST)}{line}",
            f"Correct ms.query.function, whose inputs are {', '.join(frames)}; -v shows the"
            " traceback.",
        ) from error
    if not isinstance(found, DataFrame):
        raise QueryError(
            f"{function} returned {type(found).__name__}, not a DataFrame",
            "Let ms.query.function return a DataFrame made of its inputs.",
        )
    return found


def _refuse_more_than_rows(frame: Any) -> None:  # a DataFrame
    """Refuse a query whose result over new rows is not the new part of its result over all rows."""
    plan = frame._jdf.queryExecution().analyzed()  # pyspark itself shows no plan
    found = ""
    for node in _nodes(plan):
        name = str(node.getClass().getSimpleName()).rstrip("$")
        if name in _NOT_BY_ROW:
            found = _NOT_BY_ROW[name]
        elif not node.children().size() and name not in _WITHOUT_ROWS:
            # Such rows would be added again by every run.
            found = f"has rows that are not of its inputs ({name})"
        if found:
            break
    if not found and plan.subqueriesAll().size():
        found = "looks rows up in a subquery"
    if found:
        raise QueryError(
            f"the query {found}, but ms.query.mode=append gives it only the new rows",
            "Set ms.query.mode=full, which runs it over the whole inputs and replaces the dataset;"
            " append is for queries that choose and change rows one by one.",
        )


def _nodes(plan: Any) -> Iterator[Any]:  # nodes of a plan in the JVM
    """Yield the nodes of a plan, without the nodes below the views of the inputs."""
    # Spark keeps the name of our reader, which gives the rows of an input.
    is_mapped = str(plan.getClass().getSimpleName()) == "MapInArrow"
    if is_mapped and str(plan.functionExpr().name()) == _ReadBody.__name__:
        return
    yield plan
    children = plan.children()
    for number in range(children.size()):
        yield from _nodes(children.apply(number))


def _place(spec: QuerySpec) -> str:
    if spec.windows is not None:
        return "ms.window.keys and ms.window.aggs"
    return "ms.query.function" if spec.function is not None else "ms.query.sql, or ms.query.file"


def _at(spec: QuerySpec, error: Exception) -> str:
    """Return the place that Spark names in an error, as text; empty if it names none."""
    if not spec.places or not isinstance(error, PySparkException):
        return ""
    offsets = [
        each.startIndex() for each in error.getQueryContext() if each.contextType().name == "SQL"
    ]
    found = _POSITION.search(_without_trace(error))
    if not offsets and found is not None:
        before = spec.text.splitlines(keepends=True)[: int(found[1]) - 1]
        offsets = [sum(map(len, before)) + int(found[2])]
    return f" at {spec.place_of(offsets[0])}" if offsets else ""


def _without_trace(error: PySparkException) -> str:
    return str(error).split("JVM stacktrace")[0]


def _said(error: PySparkException) -> str:
    text = " ".join((error.getMessage() or _without_trace(error)).split())
    return shortened(text, _LONGEST)


def _failure(error: Exception) -> str:
    """Return Spark's text about a value that made a query fail; empty for other failures."""
    if not isinstance(error, PySparkException):
        return ""
    named = error.getCondition() if hasattr(error, "getCondition") else None
    return _said(error) if named else ""


@dataclass(frozen=True, slots=True)
class _ReadBody:
    """Reads the rows of a view; its input are the numbers of tasks."""

    view: View
    target: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.view.rows(number, self.target)


@dataclass(frozen=True, slots=True)
class _Body:
    """Stages the rows of one partition of the result; ``names`` are the names of the columns.

    If rows break off, the rows so far are staged, but never published: the task has failed, and
    staged files count only by the report of a task that succeeded.
    """

    run: RunContext
    unit: WorkUnit
    workers: int
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        spark = TaskContext.get()
        number = 0 if spark is None else spark.partitionId()
        attempt = 1 if spark is None else spark.attemptNumber() + 1
        with worker.prepared(self.run, self.workers) as run:
            rows = (
                pa.RecordBatch.from_arrays(batch.columns, names=list(self.names))
                for batch in batches
                if batch.num_rows
            )
            report = run_attempt_over(rows, run, part_of(self.unit, number), attempt)
        yield pa.RecordBatch.from_pydict(
            {"part": pa.array([number], pa.int32()), "report": [pickle.dumps(report)]}
        )
