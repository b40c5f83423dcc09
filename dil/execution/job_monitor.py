"""Watches the reports of a run's Spark jobs, and cancels the jobs if necessary."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any

from dil.errors import ExecutionError, RunInterruptedError
from dil.execution.coordinated import CoordinatedRun
from dil.execution.executor import Watch
from dil.execution.jvm_errors import last_line
from dil.model.task import Failure, TaskReport

log = logging.getLogger(__name__)

_GLANCE_S = 0.25


class SparkJobMonitor:
    """One group of Spark jobs.

    ``stopped`` is the first reason why no further work unit begins, None while work units begin.
    ``is_over`` is set when nothing more may begin; running jobs are then cancelled.
    """

    def __init__(
        self,
        context: Any,  # a SparkContext; pyspark is imported late
        shared: CoordinatedRun,
        watch: Watch,
        reports: Callable[[], Sequence[TaskReport]],
    ) -> None:
        self.stopped: Failure | None = None
        self.is_over = threading.Event()
        self._context = context
        self._shared = shared
        self._watch = watch
        self._reports = reports
        self._group = f"dil {shared.run.run_id}"

    def join_group(self) -> None:
        """Put the Spark jobs that this thread begins from now on into the group."""
        name = f"dil {self._shared.run.job.name}"
        self._context.setJobGroup(self._group, name, interruptOnCancel=True)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look at the reports several times a second, while the block runs.

        A signal or an error in the block cancels the jobs and is raised again.
        """
        # The thread's log lines name the job, like the log lines of this thread.
        polled = partial(copy_context().run, self._poll)
        glance = threading.Thread(target=polled, daemon=True, name="dil-watch")
        glance.start()
        try:
            yield
        except BaseException as error:
            self._cancel()
            # Look for a signal behind the error: pyspark's own cleanup may have failed after it.
            found: BaseException | None = error
            while found is not None and not isinstance(
                found, RunInterruptedError | KeyboardInterrupt
            ):
                found = found.__context__
            if found is None:
                raise
            raise found from None
        finally:
            self.is_over.set()
            glance.join()

    def give_up(self, error: BaseException) -> None:
        """Let no further work unit begin, because of an unexpected error."""
        self.stopped = self.stopped or _broken(error)

    def conclude(self, units: int) -> Failure | None:
        """Show the last reports; return why some work units were not run, None if all were run.

        Args:
            units: The number of reports of a complete run.
        """
        reports = self._reports()
        self._look(reports)
        if self.stopped is None and len(reports) < units:
            self.stopped = self._shared.spent()
        return self.stopped

    def _poll(self) -> None:
        while not self.is_over.wait(_GLANCE_S):
            found = self._look(self._reports())
            if found is None:
                continue
            self.stopped = self.stopped or found
            # A run that ends by itself is watched until its end: a worse failure may come.
            if not self._shared.ends_by_itself(found):
                self._cancel()
                return

    def _look(self, reports: Sequence[TaskReport]) -> Failure | None:
        try:
            return self._watch(reports)
        except Exception as error:  # noqa: BLE001 - an error in a thread would be lost
            return _broken(error)

    def _cancel(self) -> None:
        """Begin nothing more, and cancel all jobs that run or are about to begin."""
        self.is_over.set()
        try:
            # pyspark's own cancelJobGroup misses a job that is planned but not submitted yet.
            self._context._jsc.sc().cancelJobGroupAndFutureJobs(self._group)
        except Exception as error:  # noqa: BLE001 - the JVM is gone, and its jobs with it
            log.warning("the Spark jobs could not be cancelled: %s", last_line(error))


def _broken(error: BaseException) -> Failure:
    log.error("the run cannot continue", exc_info=error)
    why = f"{type(error).__name__}: {last_line(error)}"
    return Failure(ExecutionError.code, f"the run could not continue: {why}")
