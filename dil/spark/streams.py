"""Streams the dataset that a job publishes: its new rows since the last micro-batch.

An offset is a place in the metadata chain. All calls but ``read`` run in one process next to the
driver, which Spark may restart at any time: only the end for Trigger.AvailableNow is kept here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from dil.errors import ConfigError
from dil.model.job import Job
from dil.reshaping.dataset_reading import DatasetReading
from dil.spark.datasets import opened_chain, partitions_of, read_partition, reading_of
from dil.spark.failing import shown_errors
from dil.spark.limits import SupportsTriggerAvailableNow, default_limit, limits_of
from dil.spark.options import SourceOptions
from dil.state.derived.dataset_chain import START, DatasetChain, Position, as_json, from_json
from dil.types.schema_text import parse_schema

_LATEST, _EARLIEST = "latest", "earliest"


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
        self._reading: DatasetReading = reading_of(job, target)

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
        """Return the files of a micro-batch; equal offsets give equal files."""
        if start == end:
            return []
        with shown_errors(self._job), opened_chain(self._job, self._now_ms) as chain:
            until = from_json(end)
            known = parse_schema(chain.schema_at(until.block))
            return partitions_of(chain.parts_between(from_json(start), until), known)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition; runs on an executor."""
        yield from read_partition(self._reading, partition)
