"""Runs work units that Spark itself reads: one Spark job each, with rows streamed as Arrow.

Each work unit has its own Spark job: if the database refuses, the whole Spark job fails, and with
it only one work unit. Another attempt is simply another Spark job.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from dil import coordination
from dil.errors import TransientSourceError
from dil.execution import worker
from dil.execution.coordinated import CoordinatedRun
from dil.execution.executor import Execution, Watch
from dil.execution.jdbc import add_jars, driver_for, refuse_lossy
from dil.execution.job_monitor import SparkJobMonitor
from dil.execution.jvm_errors import source_errors
from dil.extraction.parameters import ParameterScope, first_request
from dil.model.task import Counters, RunContext, TaskReport
from dil.model.work_unit import WorkUnit
from dil.observe.redaction import redactor, secrets_of
from dil.spi.connector import SparkRead, SparkReader
from dil.task.attempt import failure_of
from dil.task.context import Clocks
from dil.task.work_unit import repeat_attempts, run_attempt_over

_REPORT = "report"
_BROKE_OFF = "the rows broke off while Spark read them"


class Frames:
    """The work units of a run, several Spark jobs at a time.

    If the rows of a task break off, Spark runs the task up to four times, each time from the first
    row. After that, the next attempt of the job's own retries begins.
    """

    def __init__(
        self,
        context: Any,  # a SparkContext; pyspark is imported late
        shared: CoordinatedRun,
        watch: Watch,
        reader: SparkReader,
    ) -> None:
        self._run = shared.run
        self._reader = reader
        add_jars(context, reader.jars)
        self._context = context
        self._workers = worker.workers_at_once(context)
        self._session = own_session(context)
        self._reports: list[TaskReport] = []
        self._monitor = SparkJobMonitor(context, shared, watch, lambda: tuple(self._reports))
        self._clocks = Clocks(sleep=self._sleep)
        self._clean = redactor((*secrets_of(self._run.job), *self._run.secondary.secrets))

    def execute(self, units: Sequence[WorkUnit]) -> Execution:
        """Run all work units; a failed work unit does not affect other ones."""
        waiting = deque(units)
        threads = [
            threading.Thread(target=self._work, args=(waiting,), daemon=True, name="dil-frames")
            for _ in range(min(len(units), self._run.job.running.threads))
        ]
        with self._monitor.looking():
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        stopped = self._monitor.conclude(len(units))
        order = {unit.signature: number for number, unit in enumerate(units)}
        reports = sorted(self._reports, key=lambda report: order[report.signature])
        return Execution(tuple(reports), stopped)

    def _work(self, waiting: deque[WorkUnit]) -> None:
        """Run one work unit after the other until none waits, or the run is stopped."""
        try:
            self._monitor.join_group()
            while self._monitor.stopped is None:
                try:
                    unit = waiting.popleft()  # thread-safe
                except IndexError:
                    return
                attempt = partial(self._attempt, unit)
                self._reports.append(repeat_attempts(self._run, unit, attempt, self._clocks))
        except _NotRunError:
            return
        except BaseException as error:  # noqa: BLE001 - an error in a thread would be lost
            self._monitor.give_up(error)

    def _attempt(self, unit: WorkUnit, number: int) -> TaskReport:
        """Run one Spark job; a refusal by Spark or the database is a failure of this attempt.

        Raises:
            _NotRunError: the run was stopped before the work unit came to its end.
        """
        self._go_on()
        begun = time.monotonic()
        try:
            # The query has the values that the task's only request has.
            run = self._run
            scope = ParameterScope.of(unit, full_extract=run.full_extract, secondary=run.secondary)
            values = first_request(run.job.extraction, scope)
            read = self._reader.read(values)
            return self._report(read, _Body(run, unit, number, self._workers))
        except _NotRunError:
            raise
        except Exception as error:  # noqa: BLE001 - failures travel as data
            self._go_on()  # if the job was cancelled, raise that instead
            failure = failure_of(error, self._run.job, self._clean)
        return TaskReport(
            unit.signature,
            unit.low,
            unit.high,
            number,
            failure=failure,
            counters=Counters(seconds=time.monotonic() - begun),
        )

    def _report(self, read: SparkRead, body: _Body) -> TaskReport:
        """Run the task body over the rows that Spark reads; return its report."""
        from pyspark.sql.types import BinaryType, StructField, StructType

        with source_errors(read.location):
            frame = self._frame(read)
            named = replace(body, names=tuple(frame.columns))
            result = StructType([StructField(_REPORT, BinaryType())])
            mapped = mapped_in_arrow(_marked(frame), named, result)
            self._go_on()
            found = mapped.collect()
        if not found:
            raise _NotRunError
        return received_report(bytes(found[0][_REPORT]))

    def _frame(self, read: SparkRead) -> Any:  # a DataFrame
        """Return the rows as a DataFrame; so far, Spark asks the source only for their columns."""
        options = {**read.options, **{name: each.reveal() for name, each in read.secrets.items()}}
        load = self._session.read.format(read.format).options
        if read.format != "jdbc":
            return load(**options).load()
        if "driver" not in options:
            options["driver"] = driver_for(self._context, options["url"], read.location)
        frame = load(**options).load()
        refuse_lossy(frame.schema.jsonValue()["fields"])
        return frame

    def _go_on(self) -> None:
        if self._monitor.is_over.is_set():
            raise _NotRunError

    def _sleep(self, seconds: float) -> None:
        self._monitor.is_over.wait(seconds)


class _NotRunError(Exception):
    """Raised if the run ended before a work unit."""


@dataclass(frozen=True, slots=True)
class _Body:
    """The task body of one attempt; ``names`` are the names of the columns that Spark reads."""

    run: RunContext
    unit: WorkUnit
    attempt: int
    workers: int
    names: tuple[str, ...] = ()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with worker.prepared(self.run, self.workers) as run:
            if coordination.is_spent(run):
                return
            rows = unmarked(batches, self.names)
            report = run_attempt_over(rows, run, self.unit, self.attempt)
        yield pa.RecordBatch.from_pydict({_REPORT: [pickle.dumps(report)]})


def unmarked(batches: Iterator[pa.RecordBatch], names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the rows before the end mark, without the last column, which holds the mark.

    Without the mark, a worker could not distinguish rows that broke off from complete rows.

    Raises:
        TransientSourceError: the mark is missing, so rows are missing, too.
    """
    is_whole = False
    for batch in _received(batches):
        if is_whole:
            raise TransientSourceError("Spark gave rows behind the last one")
        marks, rows = batch.column(batch.num_columns - 1), batch.num_rows
        if rows and marks[rows - 1].as_py():
            is_whole, rows = True, rows - 1
        columns = [column.slice(0, rows) for column in batch.columns[:-1]]
        yield pa.RecordBatch.from_arrays(columns, names=list(names))
    if not is_whole:
        raise TransientSourceError(_BROKE_OFF)


def _received(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except (pa.ArrowInvalid, OSError, EOFError):
        raise TransientSourceError(_BROKE_OFF) from None


def received_report(content: bytes) -> TaskReport:
    """Return the report that a task has pickled into a row."""
    report = pickle.loads(content)  # noqa: S301 - of our own task
    if not isinstance(report, TaskReport):
        raise TypeError(f"a task reported {type(report).__name__}")
    return report


def own_session(context: Any) -> Any:  # pyspark is imported late
    """Return a session of our own that has times in UTC."""
    from pyspark.sql import SparkSession

    session: Any = SparkSession(context).newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.ansi.enabled", "true")  # unfit values are errors, never null
    return session


def _marked(frame: Any) -> Any:  # a DataFrame
    """Return the rows in one partition, followed by a row whose last column is true.

    Columns get names that need no quotes.
    """
    from pyspark.sql import functions

    plain = frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))
    nulls = [functions.lit(None).cast(field.dataType) for field in plain.schema.fields]
    end = frame.sparkSession.range(1).select(*nulls, functions.lit(True))
    return plain.withColumn("is_end", functions.lit(False)).union(end).coalesce(1)


def mapped_in_arrow(frame: Any, body: Callable[..., Any], result: Any) -> Any:
    """Map ``frame`` as ``mapInArrow`` does, without the needless check for pandas.

    ``frame`` and the returned value are DataFrames; ``result`` is the type of the returned rows.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    function = UserDefinedFunction(body, result, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column: Any = function(*(frame[name] for name in frame.columns))
    mapped = frame._jdf.mapInArrow(column._jc, False, None)  # noqa: FBT003
    return DataFrame(mapped, frame.sparkSession)
