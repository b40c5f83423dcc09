"""Reads the dataset that a job published as partitions of a query, by the metadata chain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from dil.errors import ConfigError
from dil.model.dataset import FileRows
from dil.model.job import Job
from dil.reshaping.dataset_reading import DatasetReading, rows_of_tasks
from dil.reshaping.files import DatasetFiles
from dil.spark.failing import shown_errors
from dil.spark.options import SourceOptions
from dil.spark.pruning import FilterHints, pruning_of
from dil.types.schema_text import parse_schema

if TYPE_CHECKING:
    from dil.state.derived.dataset_chain import DatasetChain, Position


def dataset_job(options: SourceOptions) -> Job:
    """Return the job whose dataset a query reads.

    Raises:
        ConfigError: the job file is wrong, or the job publishes no files of rows.
    """
    job = options.load()
    if not job.publishing.keeps_files:
        raise ConfigError.single(
            "dataset",
            f"goes into a database, as {job.publishing.relation}"
            if job.publishing.destination is None
            else f"is published by {job.publishing.destination.ref}, so it has no files that can "
            "be read",
            'Read the table with spark.read.format("jdbc").',
        )
    if job.writing.file_name:
        raise ConfigError.single(
            "dataset", "copies files, and has no rows", "Read the copied files."
        )
    return job


@contextmanager
def opened_chain(job: Job, now_ms: int) -> Iterator[DatasetChain]:
    """Open the chain of a job's dataset in its present state.

    Raises:
        StateError: nothing was published, or the store cannot be read.
    """
    # Imported here: the readers of files need no state.
    from dil.state.derived.dataset_chain import DatasetChain
    from dil.state.opening import open_snapshot

    with open_snapshot(job.state, job.name, clock=lambda: now_ms) as tx:
        yield DatasetChain.of(tx, job.name)


@dataclass(frozen=True, slots=True)
class DatasetView:
    """The rows of a dataset in a frame, with the offsets ``(after, end]``.

    The rows stay the same, however often the frame is computed. ``known`` is the schema at the end.
    """

    end: Position
    after: int
    known: pa.Schema

    @classmethod
    def of(cls, job: Job, options: SourceOptions) -> DatasetView:
        """Return the view that the options ask for.

        Raises:
            ConfigError: an option is wrong.
            StateError: there is no such block or row, or nothing was published.
        """
        after = options.number("startingOffset", least=-1)
        last = options.number("endingOffset", least=0)
        as_of = options.text("asOf")
        with opened_chain(job, options.now_ms) as chain:
            if as_of.isdigit():
                end = chain.at(int(as_of))
            elif as_of:
                end = chain.at_instant(options.instant("asOf"))
            else:
                end = chain.head if last is None else chain.position_of_offset(last)
            if last is not None:
                end = end._replace(offset=min(last, end.offset))
            known = parse_schema(chain.schema_at(end.block))
        return cls(end, -1 if after is None else after, known)


@dataclass(frozen=True, slots=True)
class TaskRows:
    """Rows of files that one task reads, and the schema that was in force after these rows."""

    known: pa.Schema
    rows: tuple[FileRows, ...]


def partitions_of(parts: Sequence[FileRows], known: pa.Schema) -> list[InputPartition]:
    """Return rows as partitions; each has one file or several small files."""
    return [InputPartition(TaskRows(known, rows)) for rows in rows_of_tasks(parts)]


def reading_of(job: Job, target: pa.Schema) -> DatasetReading:
    """Return the ``DatasetReading`` of a job; each task sets the schema of its rows."""
    dataset_files = DatasetFiles(job.publishing.final_dir, "", job.writing)
    return DatasetReading(dataset_files, target, target)


def read_partition(reading: DatasetReading, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition; runs on an executor.

    Raises:
        DilQueryError: a file is gone, damaged, or differs from the published one.
    """
    task: TaskRows | None = partition.value
    if task is None:  # if there is no partition, Spark reads one without a value
        return
    with shown_errors():
        for each in task.rows:
            yield from replace(reading, known=task.known).rows(each)


class DatasetReader(DataSourceReader):
    """Reads the rows of a dataset."""

    def __init__(
        self, job: Job, options: SourceOptions, view: DatasetView, target: pa.Schema
    ) -> None:
        self._job = job
        self._now_ms = options.now_ms
        self._view = view
        self._reading = reading_of(job, target)

    def __getstate__(self) -> dict[str, object]:
        """Return the state for tasks; it lacks parts for the driver, such as the store's login."""
        return {"_reading": self._reading}

    @property
    def pushFilters(self) -> Any:
        """Take filters as hints to read less; Spark applies all of them itself."""

        def prune(filters: Sequence[object]) -> None:
            self._reading = replace(self._reading, may_match=pruning_of(filters))

        return FilterHints(prune)

    def partitions(self) -> list[InputPartition]:
        """Return the files of the dataset as partitions; small files share a partition.

        Raises:
            DilQueryError: the state store cannot be read, or the rows are gone.
        """
        with shown_errors(self._job), opened_chain(self._job, self._now_ms) as chain:
            chain.require(self._view.end)
            parts = chain.parts_at(self._view.end, self._view.after)
            return partitions_of(parts, self._view.known)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition; runs on an executor."""
        yield from read_partition(self._reading, partition)
