"""Runs work units as Spark tasks, several small work units in each task (rule P39)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dil.errors import DilError, RunInterruptedError
from dil.execution import worker
from dil.execution.coordinated import BindAddress, CoordinatedRun, coordinated
from dil.execution.executor import Execution, Watch
from dil.execution.hive import require_metastore
from dil.execution.job_monitor import SparkJobMonitor
from dil.execution.jvm_errors import jvm_errors, stopping_error
from dil.execution.session import SparkSettings, spark_context
from dil.execution.shares import lanes_of, share_out
from dil.model.task import Failure, RunContext, TaskReport
from dil.model.work_unit import WorkUnit
from dil.spi.connector import Connector
from dil.spi.registry import load
from dil.task.group import run_group

if TYPE_CHECKING:
    from dil.execution.queries.query import Query, QueryResult, View

log = logging.getLogger(__name__)

STAGE_TASKS = 10_000


T = TypeVar("T")
R = TypeVar("R")


class SparkExecutor:
    """Runs tasks on Spark; the first task starts a session, ``close`` stops it."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._sessions = ExitStack()
        self._context: Any = None

    def close(self) -> None:
        """Stop the session, if there is one."""
        self._context = None
        self._sessions.close()

    @jvm_errors()
    def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        """Run all work units; finished reports survive a cancelled or broken Spark job.

        Raises:
            ConfigError: the connector reads through Spark, and a class or driver that it needs is
                missing; or there is no metastore for the job's catalog.
            ExecutionError: the JVM ended before the tasks began, or after them.
        """
        connector = load(run.job.source.connector)
        reader = connector.spark_reader(run.job) if issubclass(connector, Connector) else None
        context = self._session(replace(self._settings, reads=reader is not None))
        require_metastore(context, run.job.publishing.catalog)
        slots = context.defaultParallelism
        with coordinated(run, _place(context)) as shared:
            if reader is not None:
                from dil.execution.frames import Frames

                return Frames(context, shared, watch, reader).execute(units)
            stages = _Stages(context, shared, watch, lanes_of(run.job, len(units), slots))
            stopped = stages.run(units, slots)
        reports = in_order(stages.reports, units)
        # Spark keeps an accumulator until the process ends, and a service runs for long.
        stages.reports.clear()
        return Execution(reports, stopped)

    @jvm_errors()
    def query(self, run: RunContext, query: Query, watch: Watch) -> QueryResult:
        """Run a query over published rows, and stage its result.

        Raises:
            QueryError: the query is wrong, or failed.
            ExecutionError: Spark failed.
        """
        from dil.execution.queries.spark_query import run_query  # few jobs have one

        context = self._session(self._settings)
        require_metastore(context, run.job.publishing.catalog)
        return run_query(context, run, query, watch)

    @jvm_errors()
    def differing(self, one: View, other: View) -> int:
        """Return how many rows of view ``one`` are not in view ``other``."""
        from dil.execution.queries.spark_query import differing_rows

        return differing_rows(self._session(self._settings), one, other)

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Call a function for each item in a task of its own, in the session that is open.

        A signal or a failure of Spark cancels the calls that are under way.

        Raises:
            DilError: the error of the first failed call.
            ExecutionError: Spark failed.
        """
        context = self._session(self._settings)
        group = f"{self._settings.app_name} reshaping"
        results: list[R] = []
        try:
            context.setJobGroup(group, group, interruptOnCancel=True)
            # One partition, and so one task, for each item, up to a bounded number of tasks.
            partitions = context.parallelize(items, min(len(items), STAGE_TASKS))
            called: list[_Called[R]] = partitions.map(_Call(function)).collect()
        except BaseException as error:
            with suppress(Exception):  # the JVM is gone, and its jobs with it
                context.cancelJobGroup(group)
            if isinstance(error, RunInterruptedError) or not isinstance(error, Exception):
                raise
            raise stopping_error(error) from error
        for each in called:
            if each.error is not None:
                raise each.error
            results.extend(each.results)
        return results

    def _session(self, settings: SparkSettings) -> Any:  # a SparkContext
        if self._context is None:
            if settings.given is None:
                log.info("starting Spark", extra={"event": "spark.start"})
            self._context = self._sessions.enter_context(spark_context(settings))
        return self._context


@dataclass(frozen=True, slots=True)
class _Called(Generic[R]):
    """The result of a call, or its error, which Spark would turn into text."""

    results: tuple[R, ...] = ()
    error: DilError | None = None


@dataclass(frozen=True, slots=True)
class _Call(Generic[T, R]):
    function: Callable[[T], R]

    def __call__(self, item: T) -> _Called[R]:
        try:
            return _Called((self.function(item),))
        except DilError as error:
            return _Called(error=error)


class _Stages:
    """Spark jobs, one after the other, until every work unit has a report.

    ``reports`` come through an accumulator at the end of each task, so that they survive a job
    that breaks off.
    """

    def __init__(
        self,
        context: Any,  # a SparkContext; pyspark is imported late
        shared: CoordinatedRun,
        watch: Watch,
        lanes: int,
    ) -> None:
        self._context = context
        self._run = shared.run
        self._lanes = lanes
        self._arrived = context.accumulator([], reports_parameter())
        self._monitor = SparkJobMonitor(context, shared, watch, lambda: self.reports)

    @property
    def reports(self) -> list[TaskReport]:
        """Return the reports so far, in the order in which they came."""
        reports: list[TaskReport] = self._arrived.value
        return reports

    def run(self, units: Sequence[WorkUnit], slots: int) -> Failure | None:
        """Run all work units; return why the run stopped early, None if it is complete."""
        monitor = self._monitor
        try:
            with monitor.looking():
                self._run_jobs(units, slots)
        except RunInterruptedError:
            raise
        except Exception as error:
            if monitor.stopped is None:
                log.debug("the tasks broke off", exc_info=error)
                monitor.stopped = Failure.of(stopping_error(error))
        return monitor.conclude(len(units))

    def _run_jobs(self, units: Sequence[WorkUnit], slots: int) -> None:
        """Run jobs until all work units have a report; a task may leave some to the next job."""
        left: Sequence[WorkUnit] = units
        seconds_each: float | None = None
        while left and self._monitor.stopped is None:
            before = len(self.reports)
            self._monitor.join_group()
            shares = list(islice(share_out(left, slots, self._lanes, seconds_each), STAGE_TASKS))
            body = _Body(
                self._run, self._arrived, self._lanes, worker.workers_at_once(self._context)
            )
            self._context.parallelize(shares, len(shares)).foreachPartition(body)
            done = self.reports[before:]
            if not done:  # the quota is spent
                return
            seconds_each = sum(each.counters.seconds for each in done) / len(done)
            known = {report.signature for report in done}
            left = [unit for unit in left if unit.signature not in known]


class _Body:
    """The task body; the run's context travels once with the body, not with each work unit."""

    def __init__(self, run: RunContext, arrived: Any, lanes: int, workers: int) -> None:
        self._run = run
        self._arrived = arrived
        self._lanes = lanes
        self._workers = workers

    def __call__(self, shares: Iterable[Sequence[WorkUnit]]) -> Iterable[object]:
        # Imported here: the driver, which starts faster without it, runs no task.
        from pyspark import TaskContext

        spark = TaskContext.get()
        is_repeated = spark is not None and spark.attemptNumber() > 0
        with worker.prepared(self._run, self._workers) as run:
            for units in shares:
                self._arrived.add(run_group(run, units, self._lanes, is_repeated=is_repeated))
        return ()


def in_order(reports: Sequence[TaskReport], units: Sequence[WorkUnit]) -> tuple[TaskReport, ...]:
    """Return reports in the order of the work units; they share the units' signature objects."""
    places = {unit.signature: (number, unit.signature) for number, unit in enumerate(units)}
    found = (replace(each, signature=places[each.signature][1]) for each in reports)
    return tuple(sorted(found, key=lambda report: places[report.signature][0]))


def _place(context: Any) -> BindAddress:  # a SparkContext
    """Return the address at which tasks reach this driver, which Spark's executors use, too."""
    if context.master == "local" or context.master.startswith("local["):
        return BindAddress(tasks=context.defaultParallelism)
    conf = context.getConf()
    host = conf.get("spark.driver.host")
    return BindAddress(conf.get("spark.driver.bindAddress", host), host, context.defaultParallelism)


def reports_parameter() -> Any:  # its base class comes with pyspark
    """Return the AccumulatorParam that gathers the reports of all tasks in one list."""
    from pyspark.accumulators import AccumulatorParam

    class Reports(AccumulatorParam[list[TaskReport]]):
        def zero(self, value: list[TaskReport]) -> list[TaskReport]:
            del value
            return []

        def addInPlace(  # noqa: N802 - pyspark's name
            self, value1: list[TaskReport], value2: list[TaskReport]
        ) -> list[TaskReport]:
            # Each report has its own copy of the schema text, but most texts are equal.
            value1.extend(replace(each, schema=sys.intern(each.schema)) for each in value2)
            return value1

    return Reports()
