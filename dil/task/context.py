"""What all steps of an attempt share: which attempt it is, where it stages, its clocks."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from dil.extraction.parameters import Scope
from dil.model.job import Job
from dil.model.task import AttemptId, RunContext
from dil.model.work_unit import WorkUnit
from dil.observe.redaction import redactor, secrets_of
from dil.storage import Folder, filesystem_for

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Clocks:
    """The time and the chance of a task; tests bring their own.

    ``now_ms`` is the wall clock in epoch ms, ``monotonic`` a clock in seconds, ``chance`` a random
    number in [0, 1) that spreads retries.
    """

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """One attempt at a work unit.

    ``folder`` is its staging folder, which no other attempt has. ``clean`` masks the job's secrets
    in a text. ``rows`` are those that Spark reads for it, None where the connector reads by itself.
    """

    run: RunContext
    unit: WorkUnit
    id: AttemptId
    folder: Folder
    clocks: Clocks
    clean: Callable[[str], str]
    rows: Iterator[pa.RecordBatch] | None = None

    @classmethod
    def of(
        cls,
        run: RunContext,
        unit: WorkUnit,
        number: int,
        clocks: Clocks,
        rows: Iterator[pa.RecordBatch] | None = None,
    ) -> Self:
        """Make the context of an attempt; ``number`` counts from 1. Nothing is written yet."""
        job = run.job
        path = f"{run.staging_dir}/{unit.hash}/{number}-{uuid.uuid4().hex}"
        return cls(
            run,
            unit,
            AttemptId(job.name, run.run_id, unit.signature, unit.hash, number),
            Folder(filesystem_for(path, job.writing.blocks), path),
            clocks,
            redactor((*secrets_of(job), *run.secondary.secrets)),
            rows,
        )

    @property
    def job(self) -> Job:
        """Return the job."""
        return self.run.job

    @property
    def scope(self) -> Scope:
        """Return what the parameters of its requests can see."""
        run = self.run
        return Scope.of(self.unit, full_extract=run.full_extract, secondary=run.secondary)
