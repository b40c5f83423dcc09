"""The work units that one Spark task carries, several of them at a time.

A small work unit costs less than what Spark does for a task, and mostly waits for its source. Each
keeps its own attempts, failure and report (spec README 50).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import closing

from dil import coordination
from dil.model.task import RunContext, TaskReport
from dil.model.work_unit import WorkUnit
from dil.task.context import Clocks, TaskContext
from dil.task.outlook import Outlook
from dil.task.work_unit import run_in_task

SLICE_S = 15.0


def run_group(
    run: RunContext, units: Sequence[WorkUnit], lanes: int = 1, clocks: Clocks | None = None
) -> list[TaskReport]:
    """Run work units, ``lanes`` of them at a time; return the reports in the order of their ends.

    Work units are left out when the quota is spent, when the source refuses all, and when
    ``SLICE_S`` are over: the driver hears of what is done, and gives the others to other tasks.
    """
    with closing(TaskContext(run, clocks)) as task:
        group = _Group(task, units)
        if lanes == 1 or len(units) == 1:
            group.work()
        else:
            threads = [
                threading.Thread(target=group.work, name=f"dil-lane-{number}", daemon=True)
                for number in range(min(lanes, len(units)))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    if group.broken is not None:
        raise group.broken
    return group.reports


class _Group:
    """Work units that wait for a lane; ``broken`` is what should not have come out of one."""

    def __init__(self, task: TaskContext, units: Sequence[WorkUnit]) -> None:
        self.reports: list[TaskReport] = []
        self.broken: BaseException | None = None
        self._task = task
        self._waiting = deque(units)
        self._outlook = Outlook()
        self._ends_at = task.clocks.monotonic() + SLICE_S
        self._lock = threading.Lock()

    def work(self) -> None:
        """Run one work unit after the other until none is to begin."""
        try:
            has_begun = False
            while (unit := self._next(has_begun=has_begun)) is not None:
                has_begun = True
                report = run_in_task(self._task, unit)
                with self._lock:
                    self.reports.append(report)
        except BaseException as error:  # noqa: BLE001 - what a thread raises reaches nobody
            self.broken = self.broken or error

    def _next(self, *, has_begun: bool) -> WorkUnit | None:
        """Take the next work unit; each lane gets one, however long the others took."""
        task = self._task
        if coordination.is_spent(task.run, task.shared):
            return None
        with self._lock:
            is_late = has_begun and task.clocks.monotonic() >= self._ends_at
            if is_late or not self._waiting or self.broken or self._outlook.look(self.reports):
                return None
            return self._waiting.popleft()
