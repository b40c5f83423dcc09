"""The dataset of a job, as ``format("dil")`` reads it: columns, rows, a stream of rows.

A stream reads the new rows since the last micro-batch; an offset is a place in the metadata chain.
All calls but ``read`` run in one process next to the driver, which Spark may restart at any time:
only the end for Trigger.AvailableNow is kept here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from dil.errors import ConfigError, StateError
from dil.execution.spark_types import arrow_schema
from dil.model.dataset import FileRows
from dil.model.job import Job
from dil.spark.datasets import (
    DatasetReader,
    DatasetView,
    dataset_job,
    opened_chain,
    partitions_of,
    read_partition,
    reading_of,
)
from dil.spark.failing import loaded_job, shown_errors
from dil.spark.limits import SupportsTriggerAvailableNow, default_limit, limits_of
from dil.spark.options import SourceOptions
from dil.state.chain.slices import is_live
from dil.state.derived.dataset_chain import (
    NONE_YET,
    START,
    DatasetChain,
    Position,
    as_json,
    from_json,
)
from dil.storage import first_missing
from dil.types.schema_text import parse_schema

_LATEST, _EARLIEST = "latest", "earliest"


class DatasetRows:
    """The rows of a dataset that the options ask for; can be pickled."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._view: DatasetView | None = None

    def columns(self) -> pa.Schema:
        """Return the columns of the dataset; later calls read the rows that it has now.

        Raises:
            DilQueryError: the job file is wrong, or the dataset has no rows yet.
        """
        with loaded_job(dataset_job, self._options) as job:
            self._view = DatasetView.of(job, self._options)
            if not self._view.known.names:
                raise ConfigError.single(
                    "dataset",
                    "has no rows yet, and so no columns",
                    'Run the job first, or give them: .schema("id bigint, name string").',
                )
            return self._view.known

    def reader(self, schema: StructType, *, is_inferred: bool) -> DataSourceReader:
        """Return the reader of the published rows.

        Raises:
            DilQueryError: the job file is wrong, or the state cannot be read.
        """
        del is_inferred
        with loaded_job(dataset_job, self._options) as job:
            view = self._view or DatasetView.of(job, self._options)
            return DatasetReader(job, self._options, view, arrow_schema(schema))

    def stream(self, schema: StructType, *, is_inferred: bool) -> DataSourceStreamReader:
        """Return the reader of a stream.

        Raises:
            DilQueryError: the job file is wrong, or nothing was published.
        """
        del is_inferred
        with loaded_job(dataset_job, self._options) as job:
            return DatasetStreamReader(job, self._options, arrow_schema(schema))


class DatasetStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streams the rows of a dataset, each row once."""

    def __init__(self, job: Job, options: SourceOptions, target: pa.Schema) -> None:
        self._job = job
        self._now_ms = options.now_ms
        self._starting = options.text("startingOffset").lower() or _EARLIEST
        if self._starting not in {_LATEST, _EARLIEST}:
            options.number("startingOffset", least=0)
        self._rows = options.number("maxRowsPerTrigger", least=1)
        self._files = options.number("maxFilesPerTrigger", least=1)
        self._until: Position | None = None
        self._reading = reading_of(job, target)

    def __getstate__(self) -> dict[str, object]:
        """Return the state for tasks; it lacks parts for the driver, such as the store's login."""
        return {"_reading": self._reading}

    def initialOffset(self) -> dict[str, Any]:
        """Return the first offset of a new checkpoint."""
        with shown_errors(self._job), opened_chain(self._job, self._now_ms) as chain:
            return dict(as_json(self._initial(chain)))

    def _initial(self, chain: DatasetChain) -> Position:
        if self._starting == _EARLIEST:
            return START
        if self._starting == _LATEST:
            return chain.head
        found = chain.position_of_offset(int(self._starting))
        whole = chain.at(found.block)
        if whole.offset != found.offset:
            raise ConfigError.single(
                "startingOffset",
                f"is {found.offset}, inside of block {found.block}, which ends at {whole.offset}",
                "A stream begins after a whole block: use the last offset of a block.",
            )
        return whole

    def getDefaultReadLimit(self) -> Any:  # a ReadLimit, since 4.2
        """Return how much one micro-batch takes."""
        return default_limit(self._rows, self._files)

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: object = None
    ) -> dict[str, Any]:
        """Return where the next micro-batch ends; ``start`` if there is nothing new.

        Spark before 4.2 gives no arguments: then the micro-batch ends at the dataset's end.
        """
        with shown_errors(self._job), opened_chain(self._job, self._now_ms) as chain:
            until = self._until or chain.head
            if start is None:
                return dict(as_json(until))
            begin = from_json(start)
            chain.require(begin)
            rows, files = limits_of(limit)
            return dict(as_json(chain.next_end(begin, rows=rows, files=files, until=until)))

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the stream: rows that are published later are not read."""
        with shown_errors(self._job), opened_chain(self._job, self._now_ms) as chain:
            self._until = chain.head

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the offset of the dataset's end, so that Spark can show the stream's delay."""
        with shown_errors(self._job), opened_chain(self._job, self._now_ms) as chain:
            return dict(as_json(chain.head))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the files of a micro-batch; equal offsets give equal files.

        Raises:
            DilQueryError: the state store cannot be read, or the rows are gone.
        """
        if start == end:
            return []
        with shown_errors(self._job), opened_chain(self._job, self._now_ms) as chain:
            begin, until = from_json(start), from_json(end)
            known = parse_schema(chain.schema_at(until.block))
            parts = chain.parts_between(begin, until)
            if until.block != chain.head.block:  # only later blocks remove files of these rows
                _refuse_gone_files(chain, begin, parts)
            return partitions_of(parts, known)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition; runs on an executor."""
        yield from read_partition(self._reading, partition)


def _refuse_gone_files(chain: DatasetChain, begin: Position, parts: Sequence[FileRows]) -> None:
    """Refuse a micro-batch that a checkpoint began, if a later block removed one of its files.

    A restart asks for the same rows again, so it cannot continue either.

    Raises:
        StateError: a file is gone.
    """
    # A table keeps the files of earlier versions.
    path = first_missing(
        part.uri for part in parts if not is_live(chain.chain.tx, chain.dataset, part.uri)
    )
    if path is None:
        return
    advice = "Start the query with a new checkpoint folder"
    if begin.block != NONE_YET and not begin.is_inside:
        advice += (
            f" and startingOffset={begin.offset}, the last row before the micro-batch, of which"
            " some rows may be written already; if that is refused, without it"
        )
    raise StateError(
        f"the micro-batch after offset {begin.offset} has begun, and its file {path} is gone: its"
        " rows were replaced, withdrawn or put together with others since",
        f"{advice}, and replace the results. If the query writes files, it needs a new folder for"
        " them, too: Spark skips the batches whose numbers the old folder has. Run `dil compact`"
        " when streams have caught up.",
    )
