"""Looks at what the Spark jobs of a run report while they run, and cancels them where it must."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dil.errors import RunInterruptedError
from dil.execution.coordinated import Coordinated
from dil.execution.executor import Watch
from dil.model.task import Failure, TaskReport

_GLANCE_S = 0.25


class Overseer:
    """One group of Spark jobs.

    ``stopped`` tells why it was stopped, None while it may go on. ``is_over`` is set when nothing
    more may begin.
    """

    def __init__(
        self,
        context: Any,  # noqa: ANN401 - a SparkContext; pyspark comes late
        shared: Coordinated,
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

    def take_in(self) -> None:
        """Let the Spark jobs that this thread begins from now on belong to the group."""
        name = f"dil {self._shared.run.job.name}"
        self._context.setJobGroup(self._group, name, interruptOnCancel=True)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look several times a second; a signal cancels the jobs and goes on to the caller."""
        glance = threading.Thread(target=self._glance, daemon=True, name="dil-watch")
        glance.start()
        try:
            yield
        except (RunInterruptedError, KeyboardInterrupt):
            self._context.cancelJobGroup(self._group)
            raise
        finally:
            self.is_over.set()
            glance.join()

    def conclude(self, units: int) -> Failure | None:
        """Show the last reports; return why not all of the work units were run, None if they were.

        Args:
            units: How many reports would be all.
        """
        reports = self._reports()
        self._watch(reports)
        if self.stopped is None and len(reports) < units:
            self.stopped = self._shared.spent()
        return self.stopped

    def _glance(self) -> None:
        while not self.is_over.wait(_GLANCE_S):
            self.stopped = self._watch(self._reports())
            if self.stopped is not None and not self._shared.ends_by_itself(self.stopped):
                self.is_over.set()
                self._context.cancelJobGroup(self._group)
                return
