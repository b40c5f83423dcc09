"""The source of a job, as ``format("dil")`` reads it: columns, rows, a stream of rows.

A stream reads one stretch of the watermark's time after the other. An offset has the instant up to
which the source was read (``done``), and the now at which the offset was computed (``now``); both
are epoch ms UTC. The work units of a micro-batch follow only from its two offsets, so that Spark
may repeat it. All calls but ``read`` run in one process next to the driver, which Spark may restart
at any time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from msgspec import structs
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from dil.errors import ConfigError, StateError
from dil.execution.spark_types import arrow_schema
from dil.model.job import Job
from dil.model.task import RunContext
from dil.model.work_unit import WorkUnit
from dil.planning import plan_everything
from dil.planning.partitions import partition as cut
from dil.run.inputs import read_inputs
from dil.run.process import real_clock
from dil.spark.failing import loaded_job, shown_errors
from dil.spark.limits import SupportsTriggerAvailableNow, default_limit, limits_of
from dil.spark.options import SourceOptions
from dil.spark.source_plans import planned_units, run_context, source_job, source_schema
from dil.spark.work_units import Fit, WorkUnitsReader
from dil.text.zones import iso

_VERSION = 1


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The rows of a source that the options ask for; can be pickled."""

    options: SourceOptions

    def columns(self) -> pa.Schema:
        """Return the columns of the source.

        Raises:
            DilQueryError: the job file is wrong, or the columns are unknown.
        """
        with loaded_job(source_job, self.options) as job:
            return source_schema(self.options, job)

    def reader(self, schema: StructType, *, is_inferred: bool) -> DataSourceReader:
        """Return the reader of the due work units.

        Raises:
            DilQueryError: the job file is wrong, or the plan or the state cannot be read.
        """
        with loaded_job(source_job, self.options) as job:
            units, context = planned_units(job, self.options)
            return WorkUnitsReader(units, context, Fit(arrow_schema(schema), is_inferred))

    def stream(self, schema: StructType, *, is_inferred: bool) -> DataSourceStreamReader:
        """Return the reader of a stream.

        Raises:
            DilQueryError: the job file is wrong, or its source cannot be streamed.
        """
        with loaded_job(source_job, self.options) as job:
            return SourceStreamReader(job, self.options, Fit(arrow_schema(schema), is_inferred))


class StretchPartition(InputPartition):
    """Work units that one task reads, and their context, which has the micro-batch's own now."""

    def __init__(self, units: tuple[WorkUnit, ...], run: RunContext) -> None:
        super().__init__(units)
        self.run = run


class SourceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streams the rows of a job's source; each micro-batch reads the next stretch of time."""

    def __init__(self, job: Job, options: SourceOptions, fit: Fit) -> None:
        _refuse(job)
        self._job = job
        self._options = options
        self._fit = fit
        self._files = options.number("maxFilesPerTrigger", least=1)
        self._until_ms: int | None = None

    def __getstate__(self) -> dict[str, object]:
        """Return only the state that tasks need; partitions have the rest."""
        return {"_fit": self._fit}

    def initialOffset(self) -> dict[str, Any]:
        """Return the first offset of a new checkpoint: the start of the watermark's range."""
        with shown_errors(self._job):
            now_ms = self._options.now_ms
            starts = cut(self._job.planning, now_ms=now_ms).starts
            return _offset(starts[0] if starts else None, now_ms)

    def getDefaultReadLimit(self) -> Any:  # a ReadLimit, since 4.2
        """Return how much one micro-batch takes; a work unit counts as a file."""
        return default_limit(None, self._files)

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: object = None
    ) -> dict[str, Any]:
        """Return the end offset of the next micro-batch; ``start`` if there is nothing new.

        Spark before 4.2 gives no arguments: then the micro-batch ends at the range's present end.
        """
        with shown_errors(self._job):
            begin = self.initialOffset() if start is None else start
            done, then_ms = _read(begin)
            now_ms = self._now()
            found = cut(self._job.planning, now_ms=now_ms)
            if done is not None and found.starts and done < found.starts[0]:
                self._refuse_unread(done, then_ms, found.starts[0])
            first = 0 if done is None else bisect_right(found.ends, done)
            if first == len(found):
                return begin
            last = len(found) - 1
            _rows, files = limits_of(limit)
            if files is not None:
                # A partition of time has one work unit for each unit, and is never divided.
                units = len(self._job.planning.units or ())
                last = min(last, first + max(1, files // max(units, 1)) - 1)
            return _offset(found.ends[last], now_ms)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the stream: later rows are not read."""
        self._until_ms = self._now()

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the offset of the range's end, so that Spark can show the stream's delay."""
        with shown_errors(self._job):
            now_ms = self._now()
            ends = cut(self._job.planning, now_ms=now_ms).ends
            return _offset(ends[-1] if ends else None, now_ms)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the work units of a micro-batch; equal offsets give equal work units."""
        with shown_errors(self._job):
            (low, _then), (high, now_ms) = _read(start), _read(end)
            if high is None or low == high:
                return []
            plan = plan_everything(self._job.planning, now_ms=now_ms)
            units = tuple(_clipped(plan.work_units, low, high))
            secondary = read_inputs(self._job).variables
            run = run_context(self._job, now_ms, secondary, full_extract=plan.full_extract)
            reader = WorkUnitsReader(units, run, self._fit)
            return [StretchPartition(each.value, run) for each in reader.partitions()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition; runs on an executor."""
        if not isinstance(partition, StretchPartition):
            return  # if there is no partition, Spark reads one without a value
        yield from WorkUnitsReader((), partition.run, self._fit).read(partition)

    def _refuse_unread(self, done: int, then_ms: int, start: int) -> None:
        """Refuse to continue at ``start`` if the stream has not read the time before it.

        Raises:
            StateError: the stream has read before; a new stream may begin at the range's start.
        """
        first = cut(self._job.planning, now_ms=then_ms).starts
        if first and done == first[0]:
            return
        low, high = iso(done), iso(start)
        raise StateError(
            f"the stream has read up to {low}, and `from` of the watermark has moved on to {high}: "
            "the time in between would never be read",
            f'Start the query with .option("from", "{low}"), so that it continues where it stopped;'
            " then use an earlier `from`, or a larger maxFilesPerTrigger, so that it keeps up."
            " To skip that time, give the query a new checkpoint folder.",
        )

    def _now(self) -> int:
        if self._options.text("now"):
            return self._options.now_ms
        return self._until_ms if self._until_ms is not None else real_clock()


def _refuse(job: Job) -> None:
    """Refuse sources whose progress is not an instant of time.

    Raises:
        ConfigError: the progress of the source is not an instant of time.
    """
    spec = job.planning
    fix = "Let `dil run` publish it (ms.stream.mode=ingest), and stream the dataset."
    if not spec.is_dated or spec.composite:
        raise ConfigError.single(
            "conf", "has no datetime watermark with one range, which a stream needs", fix
        )
    if spec.of_source or spec.units is None:
        raise ConfigError.single(
            "conf", "takes its units from the source or from rows, which may change meanwhile", fix
        )


def _clipped(units: Sequence[WorkUnit], low: int | None, high: int) -> Iterator[WorkUnit]:
    """Yield the work units between ``low`` and ``high``, cut at both ends."""
    for unit in units:
        begin = unit.low if low is None else max(unit.low, low)
        end = min(unit.high, high)
        if begin < end:
            yield structs.replace(unit, low=begin, high=end)


def _offset(done: int | None, now_ms: int) -> dict[str, Any]:
    return {"v": _VERSION, "done": done, "now": now_ms}


def _read(offset: Mapping[str, Any]) -> tuple[int | None, int]:
    """Return ``done`` and ``now`` of an offset.

    Raises:
        StateError: this dil did not write the offset.
    """
    done, now_ms = offset.get("done"), offset.get("now")
    if offset.get("v") != _VERSION or not isinstance(now_ms, int):
        raise StateError(
            f"the stream's offset {dict(offset)} was not written by this dil",
            "The checkpoint may be of another query: give each query its own folder.",
        )
    return (done if isinstance(done, int) else None), now_ms
