"""What a query of a derived dataset is to whoever runs it; knows no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import pyarrow as pa
from msgspec import structs

from dil.execution.executor import Watch
from dil.model.file_rows import FileRows
from dil.model.job import QuerySpec, WritingSpec
from dil.model.task import RunContext, TaskReport
from dil.model.windows import Closing
from dil.model.work_unit import WorkUnit
from dil.reshaping.dataset_reading import DatasetReading, rows_of_tasks
from dil.reshaping.files import DatasetFiles
from dil.types.schema_text import parse_schema


@dataclass(frozen=True, slots=True)
class View:
    """The rows of one input that a query reads, by the name of their view; pickles.

    ``tasks`` are what each task reads, in the order of the offsets.
    """

    name: str
    known: pa.Schema
    tasks: tuple[tuple[FileRows, ...], ...]
    dataset_files: DatasetFiles

    def rows(self, task: int, target: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task in a schema.

        Raises:
            StateError: a file is gone, or is not what was published.
            WriteError: it is damaged.
        """
        reading = DatasetReading(self.dataset_files, self.known, target)
        for each in self.tasks[task]:
            yield from reading.rows(each)


def view_of(name: str, schema: str, parts: Sequence[FileRows], writing: WritingSpec) -> View:
    """Return the view of some rows of a dataset, as tasks read them.

    ``schema`` is the text of the schema in force at the end of them, ``writing`` how the dataset's
    files are written.
    """
    place = parts[0].uri if parts else ""
    tasks = tuple(rows_of_tasks(parts))
    return View(name, parse_schema(schema), tasks, DatasetFiles(place, "", writing))


@dataclass(frozen=True, slots=True)
class Query:
    """A query over views; ``unit`` is the work unit that it is, in the report and in names.

    Each part of the result, which one task writes, is a work unit of its own, see ``part_of``.
    ``closing`` says which windows are emitted, of a query that has any.
    """

    spec: QuerySpec
    views: tuple[View, ...]
    unit: WorkUnit
    closing: Closing | None = None


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The parts of a result in the order of its rows, each with what was staged of it."""

    units: tuple[WorkUnit, ...]
    reports: tuple[TaskReport, ...]


@runtime_checkable
class QueryExecutor(Protocol):
    """Runs queries."""

    def query(self, run: RunContext, query: Query, watch: Watch) -> QueryResult:
        """Run a query and stage what it gives; at least one part comes back, maybe without rows.

        Raises:
            QueryError: the query is wrong, or failed.
            ExecutionError: Spark failed.
        """

    def differing(self, one: View, other: View) -> int:
        """Return how many rows of one view the other lacks, each as often as it is there.

        Raises:
            QueryError: the rows cannot be read, or not be compared.
            ExecutionError: Spark failed.
        """


def part_of(unit: WorkUnit, number: int) -> WorkUnit:
    """Return the work unit of a part of the result, from 0."""
    return structs.replace(unit, signature=f"{unit.signature}.{number}")


def in_order(unit: WorkUnit, reports: dict[int, TaskReport]) -> QueryResult:
    """Return the parts in order; a result of no part has one without rows."""
    found = reports or {0: TaskReport(unit.signature, unit.low, unit.high, 1)}
    units = tuple(part_of(unit, number) for number in sorted(found))
    ordered = (
        replace(found[number], signature=each.signature)
        for number, each in zip(sorted(found), units, strict=True)
    )
    return QueryResult(units, tuple(ordered))
