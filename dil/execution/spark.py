"""Work units as Spark tasks: one RDD partition each, one stage (spec README 30)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from dil import coordination
from dil.errors import DilError, RunInterruptedError
from dil.execution import worker
from dil.execution.coordinated import Coordinated, Place, coordinated
from dil.execution.executor import Execution, Watch
from dil.execution.hive import require_metastore
from dil.execution.jvm_errors import told
from dil.execution.overseer import Overseer
from dil.execution.session import SparkSettings, spark_context
from dil.model.job import Job
from dil.model.task import Failure, RunContext, TaskReport
from dil.model.work_unit import WorkUnit
from dil.spi.connector import Connector, SparkReader
from dil.spi.registry import load

log = logging.getLogger(__name__)

STAGE_TASKS = 10_000


T = TypeVar("T")
R = TypeVar("R")


class SparkExecutor:
    """Runs tasks on Spark; a session is started with the first task and stopped by ``close``."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._sessions = ExitStack()
        self._context: Any = None

    def close(self) -> None:
        """Stop the session, if there is one."""
        self._context = None
        self._sessions.close()

    def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        """Run all work units; reports of finished ones survive a cancelled or broken Spark job.

        Raises:
            ConfigError: the connector reads by Spark, and something that it needs is not there; or
                nobody names the metastore of the job's catalog.
        """
        reader = _reader(run.job)
        reports: list[TaskReport] = []
        context = self._session(replace(self._settings, reads=reader is not None))
        require_metastore(context, run.job.publishing.catalog)
        with coordinated(run, _place(context)) as shared:
            if reader is not None:
                from dil.execution.frames import Frames

                return Frames(context, shared, watch, reader).execute(units)
            for start in range(0, len(units), STAGE_TASKS):
                stage = _Stage(context, shared, watch, reports)
                stopped = stage.run(units[start : start + STAGE_TASKS])
                reports.extend(stage.reports)
                if stopped is not None:
                    return Execution(tuple(reports), stopped)
        return Execution(tuple(reports))

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Call a function for each item in a task of its own, in the session that is open.

        Raises:
            DilError: what the first failed call raised.
            ExecutionError: Spark failed.
        """
        context = self._session(self._settings)
        results: list[R] = []
        with _cancelled_on_error(context, f"{self._settings.app_name} reshaping"):
            # One partition per item, so that each is a task; stages of a bounded number of them.
            partitions = context.parallelize(items, min(len(items), STAGE_TASKS))
            called: list[_Called[R]] = partitions.map(_Call(function)).collect()
        for each in called:
            if each.error is not None:
                raise each.error
            results.extend(each.results)
        return results

    def _session(self, settings: SparkSettings) -> Any:  # noqa: ANN401 - a SparkContext
        if self._context is None:
            self._context = self._sessions.enter_context(spark_context(settings))
        return self._context


@dataclass(frozen=True, slots=True)
class _Called(Generic[R]):
    """The one result of a call, or why there is none: Spark would make text of an exception."""

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


@contextmanager
def _cancelled_on_error(context: Any, group: str) -> Iterator[None]:  # noqa: ANN401 - a SparkContext
    """Let the Spark jobs inside belong to a group, which a signal or an error cancels."""
    context.setJobGroup(group, group, interruptOnCancel=True)
    try:
        yield
    except BaseException as error:
        with suppress(Exception):  # the JVM is gone, and its jobs with it
            context.cancelJobGroup(group)
        if isinstance(error, RunInterruptedError) or not isinstance(error, Exception):
            raise
        raise told(error) from error


class _Stage:
    """One Spark job; its tasks' reports reach the driver one by one through an accumulator."""

    def __init__(
        self,
        context: Any,  # noqa: ANN401 - a SparkContext; pyspark comes late
        shared: Coordinated,
        watch: Watch,
        earlier: Sequence[TaskReport],
    ) -> None:
        self.reports: list[TaskReport] = []
        self._context = context
        self._run = shared.run
        self._earlier = tuple(earlier)
        self._arrived = context.accumulator([], _reports_parameter())
        self._overseer = Overseer(context, shared, watch, self._all)

    def run(self, units: Sequence[WorkUnit]) -> Failure | None:
        """Run the stage; return why it was stopped, None when it came to its end."""
        self._overseer.take_in()
        try:
            with self._overseer.looking():
                # One partition per work unit, so that there are as many results as units.
                partitions = self._context.parallelize(units, len(units))
                self.reports = partitions.mapPartitions(_Body(self._run, self._arrived)).collect()
        except RunInterruptedError:
            raise
        except Exception as error:
            self.reports = list(self._arrived.value)
            if self._overseer.stopped is None:
                log.debug("the tasks broke off", exc_info=error)
                self._overseer.stopped = Failure.of(told(error))
        return self._overseer.conclude(len(self._earlier) + len(units))

    def _all(self) -> tuple[TaskReport, ...]:
        return (*self._earlier, *(self.reports or self._arrived.value))


class _Body:
    """The task body; the run's context travels with it once, not with each work unit."""

    def __init__(self, run: RunContext, arrived: Any) -> None:  # noqa: ANN401 - an Accumulator
        self._run = run
        self._arrived = arrived

    def __call__(self, units: Iterable[WorkUnit]) -> Iterator[TaskReport]:
        # Imported here: the driver, which others wait for, runs no task.
        from dil.task.work_unit import run_work_unit

        worker.begin(self._run)
        for unit in units:
            if coordination.is_spent(self._run):
                return
            report = run_work_unit(self._run, unit)
            self._arrived.add([report])
            yield report


def _reader(job: Job) -> SparkReader | None:
    connector = load(job.source.connector)
    return connector.spark_reader(job) if issubclass(connector, Connector) else None


def _place(context: Any) -> Place:  # noqa: ANN401 - a SparkContext
    """Return where tasks reach this driver: as Spark's own executors do."""
    if context.master == "local" or context.master.startswith("local["):
        return Place(tasks=context.defaultParallelism)
    conf = context.getConf()
    told = conf.get("spark.driver.host")
    return Place(conf.get("spark.driver.bindAddress", told), told, context.defaultParallelism)


def _reports_parameter() -> Any:  # noqa: ANN401 - its base class comes with pyspark
    from pyspark.accumulators import AccumulatorParam

    class Reports(AccumulatorParam[list[TaskReport]]):
        def zero(self, value: list[TaskReport]) -> list[TaskReport]:
            del value
            return []

        def addInPlace(  # noqa: N802 - pyspark's name
            self, value1: list[TaskReport], value2: list[TaskReport]
        ) -> list[TaskReport]:
            value1.extend(value2)
            return value1

    return Reports()
