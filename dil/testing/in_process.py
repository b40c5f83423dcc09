"""An executor without Spark: the same task body, one work unit after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from dil.execution.coordinated import Place, coordinated
from dil.execution.executor import Execution, Watch
from dil.model.task import RunContext, TaskReport
from dil.model.work_unit import WorkUnit
from dil.task.context import Clocks
from dil.task.work_unit import run_work_unit

T = TypeVar("T")
R = TypeVar("R")


class InProcessExecutor:
    """Runs work units in order; what it lacks is parallelism and Spark's own failures.

    For tests of connectors, publishing and recovery that need no JVM.
    """

    def __init__(self, clocks: Clocks | None = None) -> None:
        self._clocks = clocks

    def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        """Run until the end, or until ``watch`` or a spent quota says stop."""
        reports: list[TaskReport] = []
        with coordinated(run, Place()) as shared:
            for unit in units:
                reports.append(run_work_unit(shared.run, unit, self._clocks))
                stopped = watch(tuple(reports)) or shared.spent()
                if stopped is not None and len(reports) < len(units):
                    return Execution(tuple(reports), stopped)
        return Execution(tuple(reports))

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Call the function for one item after the other."""
        return [function(item) for item in items]
