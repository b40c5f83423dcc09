"""Work units as Spark tasks: one RDD partition each, one stage (spec README 30)."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dil import coordination
from dil.errors import ExecutionError, RunInterruptedError
from dil.execution.coordinated import Coordinated, Place, coordinated
from dil.execution.executor import Execution, Watch
from dil.execution.session import SparkSettings, spark_context
from dil.model.task import Failure, RunContext, TaskReport
from dil.model.work_unit import WorkUnit
from dil.observe import logs
from dil.observe.redaction import secrets_of
from dil.spi.registry import join_import_path
from dil.task import run_work_unit

log = logging.getLogger(__name__)

STAGE_TASKS = 10_000
_GLANCE_S = 0.25


class SparkExecutor:
    """Runs tasks on Spark; a session is started with the first task and stopped after the last."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings

    def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        """Run all work units; reports of finished ones survive a cancelled or broken Spark job."""
        reports: list[TaskReport] = []
        with (
            spark_context(self._settings) as context,
            coordinated(run, _place(context)) as shared,
        ):
            for start in range(0, len(units), STAGE_TASKS):
                stage = _Stage(context, shared, watch, reports)
                stopped = stage.run(units[start : start + STAGE_TASKS])
                reports.extend(stage.reports)
                if stopped is not None:
                    return Execution(tuple(reports), stopped)
        return Execution(tuple(reports))


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
        self._shared = shared
        self._run = shared.run
        self._watch = watch
        self._earlier = tuple(earlier)
        self._stopped: Failure | None = None
        self._over = threading.Event()
        self._arrived = context.accumulator([], _reports_parameter())

    def run(self, units: Sequence[WorkUnit]) -> Failure | None:
        """Run the stage; return why it was stopped, None when it came to its end."""
        group = f"dil {self._run.run_id}"
        self._context.setJobGroup(group, f"dil {self._run.job.name}", interruptOnCancel=True)
        glance = threading.Thread(target=self._glance, args=(group,), daemon=True, name="dil-watch")
        glance.start()
        try:
            # One partition per work unit, so that the number of results is the number of units.
            partitions = self._context.parallelize(units, len(units))
            self.reports = partitions.mapPartitions(_Body(self._run, self._arrived)).collect()
        except (RunInterruptedError, KeyboardInterrupt):
            self._context.cancelJobGroup(group)
            raise
        except Exception as error:  # noqa: BLE001 - py4j's errors have no common root of their own
            self.reports = list(self._arrived.value)
            if self._stopped is None:
                self._stopped = Failure(ExecutionError.code, f"Spark failed: {_last_line(error)}")
        finally:
            self._over.set()
            glance.join()
        self._watch((*self._earlier, *self.reports))
        if self._stopped is None and len(self.reports) < len(units):
            self._stopped = self._shared.spent()
        return self._stopped

    def _glance(self, group: str) -> None:
        while not self._over.wait(_GLANCE_S):
            self._stopped = self._watch((*self._earlier, *self._arrived.value))
            if self._stopped is not None and not self._shared.ends_by_itself(self._stopped):
                self._context.cancelJobGroup(group)
                return


class _Body:
    """The task body; the run's context travels with it once, not with each work unit."""

    def __init__(self, run: RunContext, arrived: Any) -> None:  # noqa: ANN401 - an Accumulator
        self._run = run
        self._arrived = arrived

    def __call__(self, units: Iterable[WorkUnit]) -> Iterator[TaskReport]:
        logs.configure(
            level=self._run.log_level,
            json_lines=self._run.log_json,
            stream=sys.stderr,
            secrets=(*secrets_of(self._run.job), *self._run.secondary.secrets),
        )
        join_import_path(self._run.job.running.plugin_path)
        for unit in units:
            if coordination.is_spent(self._run):
                return
            report = run_work_unit(self._run, unit)
            self._arrived.add([report])
            yield report


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


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    caused = [line for line in lines if "Caused by" in line or "Exception" in line]
    return (caused or lines or [type(error).__name__])[0][:500]
