"""Reads work units as partitions of a query, in Spark tasks, and fits their rows to its columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from dil import coordination
from dil.coordination.services import RequestLimits
from dil.errors import ConversionError, SourceContractError
from dil.execution.worker import memory_limited
from dil.model.task import RunContext
from dil.model.work_unit import WorkUnit
from dil.observe.redaction import redactor, secrets_of
from dil.spark.failing import DilQueryError
from dil.spi.registry import join_import_path
from dil.spi.shared import Shared
from dil.task.attempt import failure_of
from dil.task.reading import read_rows
from dil.types.widening import conform

_FIX = (
    'Give the columns: .schema("id bigint, name string"), or ms.output.schema in the job file. With'
    ' .option("previewRows", "100000") they are inferred from more rows.'
)


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
            return [InputPartition(self._units)]
        return [InputPartition((unit,)) for unit in self._units]

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


@dataclass(frozen=True, slots=True)
class Fit:
    """Converts rows to Spark's schema.

    ``is_inferred`` says that the columns were inferred. Then a value without a column is an error.
    Otherwise the user chose to leave that column out.
    """

    target: pa.Schema
    is_inferred: bool

    def fitted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches in the target schema, with every value unchanged.

        Raises:
            SourceContractError: the schema was inferred, and rows have a column that it lacks.
            ConversionError: a value does not fit its column exactly.
        """
        for batch in batches:
            if self.is_inferred and (name := _left_out(batch.schema, self.target)):
                raise SourceContractError(
                    f'column "{name}" is not among those that were inferred from the first rows',
                    _FIX,
                )
            try:
                yield conform(batch, self.target)
            except ConversionError as error:
                raise ConversionError(error.message, _FIX) from error


def _left_out(found: Iterable[pa.Field], target: Iterable[pa.Field], above: str = "") -> str:
    """Return the first column or member that the target lacks, as text; empty if it lacks none."""
    known = {field.name: field.type for field in target}
    for field in found:
        if field.name not in known:
            return f"{above}{field.name}"
        if field.type != known[field.name] and (
            inner := _left_out_inside(field.type, known[field.name], f"{above}{field.name}")
        ):
            return inner
    return ""


def _left_out_inside(found: pa.DataType, target: pa.DataType, name: str) -> str:
    if pa.types.is_struct(found) and pa.types.is_struct(target):
        return _left_out(list(found), list(target), f"{name}.")
    if pa.types.is_list(found) and pa.types.is_list(target):
        return _left_out_inside(found.value_type, target.value_type, f"{name}[]")
    if pa.types.is_map(found) and pa.types.is_map(target):
        return _left_out_inside(found.item_type, target.item_type, f"{name}.*")
    return ""
