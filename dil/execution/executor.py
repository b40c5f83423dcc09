"""The contract between a run and the executor of its tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

from dil.model.job import Job
from dil.model.task import Failure, RunContext, TaskReport
from dil.model.work_unit import WorkUnit


@dataclass(frozen=True, slots=True)
class Execution:
    """The reports, in the order of the work units, and the reason if some units have no report."""

    reports: tuple[TaskReport, ...]
    stopped: Failure | None = None


T = TypeVar("T")
R = TypeVar("R")

Watch = Callable[[Sequence[TaskReport]], "Failure | None"]
"""Looks at the reports so far, several times a second; a failure stops the remaining work units.

Reports come in the order in which work units end, so each call sees the earlier reports first.
"""


def job_of_tasks(job: Job) -> Job:
    """Return a job in the form for tasks; its path is absolute, because tasks run elsewhere."""
    return replace(job.for_tasks(), path=str(Path(job.path).absolute()))


class Executor(Protocol):
    """Runs tasks, each once or more; an attempt counts only if its report is received."""

    def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        """Run all work units and return the reports of their tasks; a failed task never raises."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Call a function for each item, in one task each; return results in the items' order.

        The function, the items and the results must pickle. A call may be made more than once.

        Raises:
            DilError: the error of the first failed call.
            ExecutionError: the tasks could not be run.
        """


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
