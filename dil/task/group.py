"""The work units that one Spark task runs, several of them at a time.

A small work unit costs less than Spark's work for a task, and mostly waits for its source. Each
work unit keeps its own attempts, failure and report (rule P39).
"""

from __future__ import annotations

import gc
import logging
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from traceback import clear_frames

from dil import coordination
from dil.model.job import Job
from dil.model.task import Failure, RunContext, TaskReport
from dil.model.work_unit import WorkUnit
from dil.publishing.staged import read_results
from dil.task.context import Clocks, TaskContext
from dil.task.early_stop import EarlyStop
from dil.task.memory import out_of_memory
from dil.task.work_unit import run_in_task

log = logging.getLogger(__name__)

SLICE_S = 15.0


def run_group(
    run: RunContext,
    units: Sequence[WorkUnit],
    lanes: int = 1,
    clocks: Clocks | None = None,
    *,
    is_repeated: bool = False,
) -> list[TaskReport]:
    """Run work units, ``lanes`` at a time; return the reports, in the order of completion.

    No further work unit begins when the quota is spent, when the source refuses all work units, or
    after ``SLICE_S`` seconds: the driver gives the remaining ones to other tasks. If
    ``is_repeated`` is true, an executor was lost while it ran these work units; the complete
    results of that executor count.
    """
    has_log = len(units) > 1 and _may_share_a_folder(run.job)
    with closing(TaskContext(run, clocks, has_log=has_log)) as task:
        done: dict[str, TaskReport] = {}
        if is_repeated and has_log:
            wanted = {unit.signature for unit in units}
            results = read_results(task.filesystem, task.run.staging_dir)
            done = {
                each.report.signature: each.report
                for each in results
                if each.report.signature in wanted
            }
        has_lanes = lanes > 1 and len(units) > 1
        left = [unit for unit in units if unit.signature not in done]
        group = _Group(task, left, has_lanes=has_lanes)
        if not has_lanes:
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
            if group.broken is None:
                group.run_alone()
    if group.broken is not None:
        raise group.broken
    reports = [*done.values(), *group.reports]
    lost = {} if task.results is None else task.results.lost
    for number, report in enumerate(reports):
        failure = lost.get(report.signature)
        if failure is not None:  # its result could not be written
            reports[number] = replace(
                report, files=(), quarantined=(), refused=(), schema="", failure=failure
            )
    return reports


def _may_share_a_folder(job: Job) -> bool:
    """Return whether several work units may share a folder and a result log.

    They may not if rows are sent, because a later execution looks for results in the folder of the
    attempt. They may not if pages are kept for a later attempt, or files are copied unchanged.
    """
    return not (
        job.has_input("payload") or job.running.page_commit_s is not None or job.writing.file_name
    )


class _Group:
    """Work units that wait for a lane; ``broken`` is an unexpected error of a lane."""

    def __init__(
        self, task: TaskContext, units: Sequence[WorkUnit], *, has_lanes: bool = False
    ) -> None:
        self.reports: list[TaskReport] = []
        self.broken: BaseException | None = None
        self._task = task
        self._waiting = deque(units)
        self._to_run_alone: list[WorkUnit] = []
        self._may_repeat = has_lanes and not task.run.job.has_input("payload")
        self._early_stop = EarlyStop()
        self._ends_at = task.clocks.monotonic() + SLICE_S
        self._lock = threading.Lock()

    def work(self) -> None:
        """Run one work unit after the other until no other should begin."""
        try:
            has_begun = False
            while (unit := self._next(has_begun=has_begun)) is not None:
                has_begun = True
                report = self._run(unit)
                with self._lock:
                    if self._may_repeat and unit.signature in self._task.out_of_memory_units:
                        self._to_run_alone.append(unit)
                    else:
                        self.reports.append(report)
        except BaseException as error:  # noqa: BLE001 - an error in a thread would be lost
            self.broken = self.broken or error

    def run_alone(self) -> None:
        """Repeat, one by one, work units that ran out of memory together with others."""
        for unit in self._to_run_alone:
            gc.collect()
            log.warning(
                "%s: ran out of memory together with others; runs again alone", unit.signature
            )
            self.reports.append(self._run(unit))

    def _run(self, unit: WorkUnit) -> TaskReport:
        try:
            return run_in_task(self._task, unit)
        except MemoryError as error:  # others took the memory between two attempts
            clear_frames(error.__traceback__)
            self._task.out_of_memory_units.add(unit.signature)
            failure = Failure.of(out_of_memory(self._task.run.job))
            return TaskReport(unit.signature, unit.low, unit.high, 1, failure=failure)

    def _next(self, *, has_begun: bool) -> WorkUnit | None:
        """Take the next work unit; each lane gets at least one, even if time is up."""
        task = self._task
        if coordination.is_spent(task.run, task.shared):
            return None
        with self._lock:
            is_late = has_begun and task.clocks.monotonic() >= self._ends_at
            if is_late or not self._waiting or self.broken or self._early_stop.look(self.reports):
                return None
            return self._waiting.popleft()
