"""The contract between a derived dataset's query and its executor; knows no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from dil.execution.executor import Watch
from dil.model.dataset import FileRows
from dil.model.derived import Closing, TimeSpan
from dil.model.job import QuerySpec, WritingSpec
from dil.model.task import RunContext, TaskReport
from dil.model.work_unit import WorkUnit
from dil.reshaping.dataset_reading import DatasetReading, Statistics, rows_of_tasks
from dil.reshaping.files import DatasetFiles
from dil.types.schema_lines import OP
from dil.types.schema_text import parse_schema

if TYPE_CHECKING:
    from dil.state.derived.input_rows import InputRows


@dataclass(frozen=True, slots=True)
class View:
    """The rows of one input that a query reads, and the name of the view of them; pickles.

    ``tasks`` has the rows of each task, in the order of the offsets. If ``has_op`` is true, rows
    without an operation get the operation of new rows. ``known`` is the schema of the dataset;
    ``columns`` are the columns to read, all if empty. ``may_match`` decides by the statistics of a
    Parquet row group whether the group may have a wanted row.
    """

    name: str
    known: pa.Schema
    tasks: tuple[tuple[FileRows, ...], ...]
    dataset_files: DatasetFiles
    has_op: bool = False
    columns: tuple[str, ...] = ()
    may_match: Callable[[Statistics], bool] | None = None

    @property
    def wanted(self) -> pa.Schema:
        """Return the schema of the rows that are read."""
        return pa.schema([self.known.field(name) for name in self.columns or self.known.names])

    def rows(self, task: int, target: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task in the schema ``target``.

        Raises:
            StateError: a file is gone, or differs from the published one.
            WriteError: a file is damaged.
        """
        reading = DatasetReading(self.dataset_files, self.known, target, self.may_match)
        for each in self.tasks[task]:
            for batch in reading.rows(each):
                if not self.has_op:
                    yield batch
                    continue
                at = batch.schema.get_field_index(OP)
                op = pc.fill_null(batch.column(at), 0)
                yield batch.set_column(at, batch.schema.field(at), op)


def view_of(name: str, rows: InputRows, writing: WritingSpec) -> View:
    """Return the view of some rows of a dataset, as tasks read them.

    ``writing`` is how the dataset's files are written.
    """
    place = rows.parts[0].uri if rows.parts else ""
    tasks = tuple(rows_of_tasks(rows.parts))
    dataset_files = DatasetFiles(place, "", writing)
    return View(name, parse_schema(rows.schema), tasks, dataset_files, rows.has_op)


@dataclass(frozen=True, slots=True)
class Query:
    """A query over views; ``unit`` is its work unit, for the report and for names.

    One task writes each part of the result; the part is a work unit of its own, see ``part_of``.
    If the query has windows, ``closing`` are the windows to emit. If it leaves out repeats,
    ``published`` returns the published rows whose times are near a span, None if there are none.
    """

    spec: QuerySpec
    views: tuple[View, ...]
    unit: WorkUnit
    closing: Closing | None = None
    published: Callable[[TimeSpan], View | None] = lambda _span: None


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The parts of a result in the order of its rows; each part has staged files.

    ``span`` is set if repeats are left out: the span of the times of all rows of the query.
    """

    units: tuple[WorkUnit, ...]
    reports: tuple[TaskReport, ...]
    span: TimeSpan | None = None


@runtime_checkable
class QueryExecutor(Protocol):
    """Runs queries."""

    def query(self, run: RunContext, query: Query, watch: Watch) -> QueryResult:
        """Run a query and stage its rows; the result has at least one part, which may be empty.

        Raises:
            QueryError: the query is wrong, or failed.
            ExecutionError: Spark failed.
        """

    def differing(self, one: View, other: View) -> int:
        """Return how many rows of view ``one`` are not in ``other``; equal rows count one by one.

        Raises:
            QueryError: the rows cannot be read or compared.
            ExecutionError: Spark failed.
        """


def part_of(unit: WorkUnit, number: int) -> WorkUnit:
    """Return the work unit of a part of the result; ``number`` counts from 0."""
    return structs.replace(unit, signature=f"{unit.signature}.{number}")


def in_order(unit: WorkUnit, reports: dict[int, TaskReport]) -> QueryResult:
    """Return the parts in order; a result without parts becomes one part without rows."""
    found = reports or {0: TaskReport(unit.signature, unit.low, unit.high, 1)}
    units = tuple(part_of(unit, number) for number in sorted(found))
    ordered = (
        replace(found[number], signature=each.signature)
        for number, each in zip(sorted(found), units, strict=True)
    )
    return QueryResult(units, tuple(ordered))
