"""Reads work units as partitions of a query, in Spark tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from dil import coordination
from dil.coordination.services import RequestLimits
from dil.execution.worker import memory_limited
from dil.model.task import RunContext
from dil.model.work_unit import WorkUnit
from dil.observe.redaction import redactor, secrets_of
from dil.spark.failing import DilQueryError
from dil.spark.fitting import Fit
from dil.spi.registry import join_import_path
from dil.spi.shared import Shared
from dil.task.attempt import failure_of
from dil.task.reading import read_rows


class UnitsPartition(InputPartition):
    """Work units that one task reads, one after the other."""

    def __init__(self, units: tuple[WorkUnit, ...]) -> None:
        super().__init__(units)
        self.units = units


class WorkUnitsReader(DataSourceReader):
    """Reads the work units of a job; ``run`` is the context that all work units share."""

    def __init__(self, units: tuple[WorkUnit, ...], run: RunContext, fit: Fit) -> None:
        self._units = units
        self._run = run
        self._fit = fit

    def __getstate__(self) -> dict[str, object]:
        """Return the state for tasks without the plan; each task has its own part of the plan."""
        return {**self.__dict__, "_units": ()}

    def partitions(self) -> list[InputPartition]:
        """Return a partition for each work unit.

        A job with a rate or a budget of requests has only one partition: a process can count only
        the requests that it sends itself.
        """
        if self._units and RequestLimits.of(self._run.job):
            return [UnitsPartition(self._units)]
        return [UnitsPartition((unit,)) for unit in self._units]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition; runs on an executor.

        Raises:
            DilQueryError: a work unit failed, so the query fails.
        """
        # If there is no partition, Spark reads one without a value.
        units: tuple[WorkUnit, ...] = partition.value or ()
        run = self._run
        join_import_path(run.job.running.plugin_path)
        clean = redactor((*secrets_of(run.job), *run.secondary.secrets))
        with memory_limited(run.job) as job, closing(Shared()) as shared:
            here = replace(run, job=job)
            coordinator = coordination.local_coordinator(job)
            for unit in units:
                try:
                    with closing(read_rows(here, unit, coordinator, shared, clean)) as rows:
                        yield from self._fit.fitted(rows)
                except Exception as error:  # noqa: BLE001 - Spark would show it with its causes
                    failure = failure_of(error, job, clean)
                    text = f"{unit.signature}: {failure.error}  [{failure.code}]"
                    raise DilQueryError(f"{text}\n    {failure.fix}".rstrip()) from None
