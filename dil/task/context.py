"""The context that all steps of an attempt share: identity, staging folder and clocks."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from dil.extraction.parameters import ParameterScope
from dil.model.job import Job
from dil.model.task import AttemptId, RunContext
from dil.model.work_unit import WorkUnit
from dil.observe.redaction import redactor, secrets_of
from dil.spi.shared import Shared
from dil.storage import Folder, filesystem_for
from dil.task.result_log import ResultLog

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks and the random numbers of a task; tests replace them.

    ``now_ms`` is the wall clock in epoch ms, ``monotonic`` a clock in seconds, ``chance`` a random
    number in [0, 1) that spreads retries.
    """

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random


class TaskContext:
    """Resources that the work units of one task share; closed when the last of them has ended.

    ``clean`` masks the job's secrets in a text. ``shared`` holds resources that the work units'
    sessions share. ``filesystem`` has the staging folder. ``results`` takes the results of the work
    units, None if each attempt writes its own. ``out_of_memory_units`` are signatures of work units
    that ran out of memory.
    """

    def __init__(
        self, run: RunContext, clocks: Clocks | None = None, *, has_log: bool = False
    ) -> None:
        self.run = run
        self.clocks = clocks or Clocks()
        self.clean = redactor((*secrets_of(run.job), *run.secondary.secrets))
        self.shared = Shared()
        self.filesystem = filesystem_for(run.staging_dir, run.job.writing.blocks)
        self.out_of_memory_units: set[str] = set()
        self.results = ResultLog(run, self.filesystem) if has_log else None

    def close(self) -> None:
        """Close the shared resources, and write the remaining results."""
        self.shared.close()
        if self.results is not None:
            self.results.close()


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """One attempt at a work unit.

    ``folder`` is the attempt's staging folder; other attempts use other file names there. ``rows``
    are the rows that Spark reads for the attempt, None if the connector itself reads them.
    """

    task: TaskContext
    unit: WorkUnit
    id: AttemptId
    folder: Folder
    rows: Iterator[pa.RecordBatch] | None = None

    @classmethod
    def of(
        cls,
        task: TaskContext,
        unit: WorkUnit,
        number: int,
        rows: Iterator[pa.RecordBatch] | None = None,
    ) -> Self:
        """Make the context of an attempt, without writing anything; ``number`` counts from 1."""
        run = task.run
        if task.results is None:
            path = f"{run.staging_dir}/{unit.hash}/{number}-{uuid.uuid4().hex}"
            folder = Folder(task.filesystem, path)
        else:
            prefix = f"{unit.hash}-{number}-"
            folder = Folder(task.filesystem.deferring(), task.results.folder, prefix)
        attempt = AttemptId(run.job.name, run.run_id, unit.signature, unit.hash, number)
        return cls(task, unit, attempt, folder, rows)

    @property
    def run(self) -> RunContext:
        """Return the values that all tasks of the run share."""
        return self.task.run

    @property
    def clocks(self) -> Clocks:
        """Return the clocks and the random numbers of the task."""
        return self.task.clocks

    def clean(self, text: str) -> str:
        """Return a text with the job's secrets masked."""
        return self.task.clean(text)

    @property
    def job(self) -> Job:
        """Return the job."""
        return self.run.job

    @property
    def scope(self) -> ParameterScope:
        """Return the scope of the parameters of the attempt's requests."""
        run = self.run
        return ParameterScope.of(self.unit, full_extract=run.full_extract, secondary=run.secondary)
