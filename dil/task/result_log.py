"""Makes the results of one task's work units durable, several at a time (rule C28).

An attempt that is alone in its task writes its own result, and waits for the disk. Many small work
units would each wait longer than they work. So the work units of one task share a folder and a
result log: a file ``results-<n>.jsonl`` is written when the files that it names are durable.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid

from dil.errors import DilError, WriteError
from dil.model.task import Failure, RunContext
from dil.publishing.staged import StagedResult, put_results, staged_files, task_folder
from dil.storage import Filesystem

log = logging.getLogger(__name__)

MOST_UNITS = 64
LONGEST_S = 0.2


class ResultLog:
    """Takes results of complete attempts; after ``close`` each result is durable, or in ``lost``.

    ``folder`` is the task's staging folder. A separate thread writes the collected results after
    ``LONGEST_S`` seconds, or when there are ``MOST_UNITS``, so that a slow work unit does not delay
    the others. ``lost`` has the failures by signature of the work unit.
    """

    def __init__(self, run: RunContext, filesystem: Filesystem) -> None:
        self.folder = task_folder(run.staging_dir, uuid.uuid4().hex)
        self.lost: dict[str, Failure] = {}
        self._filesystem = filesystem
        self._waiting: list[StagedResult] = []
        self._due_at = 0.0
        self._is_closing = False
        self._written = 0
        self._changed = threading.Condition()
        filesystem.make_folder(self.folder)
        self._thread = threading.Thread(target=self._work, daemon=True, name="dil-results")
        self._thread.start()

    def add(self, result: StagedResult) -> None:
        """Take the result of a complete attempt."""
        with self._changed:
            if not self._waiting:
                self._due_at = time.monotonic() + LONGEST_S
            self._waiting.append(result)
            # The writer waits from the first result until the batch is full: only these two wake
            # it.
            if len(self._waiting) in {1, MOST_UNITS}:
                self._changed.notify()

    def close(self) -> None:
        """Write the remaining results."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while results := self._next():
            try:
                self._filesystem.sync_files(
                    file.path for result in results for file in staged_files(result.report)
                )
                put_results(self._filesystem, self.folder, self._written, results)
                self._written += 1
            except Exception as error:  # noqa: BLE001 - an error in a thread would be lost
                failure = _failure(error)
                self.lost.update((each.work_unit.signature, failure) for each in results)

    def _next(self) -> list[StagedResult]:
        """Wait for results to write, and return them; empty when the log is closed and done."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closing)
            while len(self._waiting) < MOST_UNITS and not self._is_closing:
                left_s = self._due_at - time.monotonic()
                if left_s <= 0:
                    break
                self._changed.wait(left_s)
            results, self._waiting = self._waiting[:MOST_UNITS], self._waiting[MOST_UNITS:]
            return results


def _failure(error: Exception) -> Failure:
    if isinstance(error, DilError):
        return Failure.of(error)
    log.error("results could not be written", exc_info=error)
    return Failure.of(WriteError(f"the result could not be written: {type(error).__name__}"))
