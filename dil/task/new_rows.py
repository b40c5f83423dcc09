"""Measures how late the new rows of one attempt come; new rows were never published before.

Published rows are read from the dataset's files, only in the columns that distinguish rows. A
measure never fails a work unit: rows that cannot be compared are counted as unmeasured.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import DilError
from dil.eventtime.lateness import Histogram, histogram_of, merge
from dil.eventtime.new_row_lateness import AT, PORTION_BYTES, Identity, lateness_of_new
from dil.model.event_tally import MeterContext, PublishedRows, UnitLateness
from dil.model.job import Job, PublishMode
from dil.model.settings import Formula
from dil.reshaping.files import DatasetFiles, RowFile, row_file
from dil.text.paths import compile_path
from dil.types.schema_text import parse_schema
from dil.types.widening import conform
from dil.writing.late_rows import late_schema

log = logging.getLogger(__name__)

_MEASURING = (DilError, OSError, pa.ArrowException)


class NewRows:
    """Measures the new rows of an attempt; call ``close`` at the end.

    Args:
        job: The job.
        meter: The facts of the run that measuring needs.
        signature: The work unit's signature.
        is_read_again: Whether rows of the work unit may have been published before.
        known_schema: The dataset's schema.
    """

    def __init__(
        self,
        job: Job,
        meter: MeterContext,
        signature: str,
        *,
        is_read_again: bool,
        known_schema: str = "",
    ) -> None:
        self._meter = meter
        self._largest: int | None = None
        self._histogram = Histogram()
        self._in_time = self._unmeasured = 0
        published = meter.published.get(signature, ())
        # Only the merge itself, or a database, knows which rows it inserts and which it updates.
        is_merge = job.publishing.mode is PublishMode.MERGE
        is_in_database = not job.publishing.keeps_files
        is_open = meter.largest is not None and (is_in_database or not is_merge)
        self._counts = is_open
        is_unknown = is_read_again and not published and not meter.is_known
        self._is_unknown = is_unknown or (is_in_database and is_merge)
        self._compared = (
            _PublishedComparison(job, published, known_schema) if is_open and published else None
        )

    def take(self, batch: pa.RecordBatch, times: pa.Int64Array) -> None:
        """Take rows that are to be published, with their event times in epoch ms UTC."""
        ends = pc.min_max(times)
        lowest, largest = ends["min"].as_py(), ends["max"].as_py()
        if largest is None:
            return
        self._largest = max(largest, largest if self._largest is None else self._largest)
        before = self._meter.largest
        if not self._counts or before is None:
            return
        rows = len(times) - times.null_count
        if self._is_unknown:
            self._unmeasured += rows
        elif self._compared is not None:
            self._unmeasured += self._compared.take(batch, times)
        elif lowest >= before:  # the usual case
            self._in_time += rows
        else:
            self._histogram = merge([self._histogram, histogram_of(times, before)])

    def finish(self) -> None:
        """Compare the taken rows with the published rows."""
        if self._compared is not None and self._meter.largest is not None:
            found, unmeasured = self._compared.lateness(self._meter.largest)
            self._histogram = merge([self._histogram, found])
            self._unmeasured += unmeasured

    def close(self) -> None:
        """Delete the files that are kept on disk."""
        if self._compared is not None:
            self._compared.close()

    def measured(self) -> UnitLateness:
        """Return how late the rows of the work unit came."""
        in_time = Histogram({0: self._in_time} if self._in_time else {})
        return UnitLateness(
            self._meter.largest,
            self._largest,
            tuple(merge([in_time, self._histogram]).ascending()),
            self._unmeasured,
            self._meter.grace_ms,
        )


class _PublishedComparison:
    """Compares the rows of a work unit with its published rows."""

    def __init__(self, job: Job, published: Sequence[PublishedRows], known_schema: str) -> None:
        self._published = published
        self._dataset_files = DatasetFiles(job.publishing.final_dir, "", job.writing)
        self._known = known_schema
        self._job = job
        self._identity: Identity | None = None
        self._files: list[RowFile] = []
        self._is_open = True
        self._fresh = _SpillingTables()

    def take(self, batch: pa.RecordBatch, times: pa.Int64Array) -> int:
        """Keep the identities of rows; return how many rows cannot be compared."""
        counted: int = len(times) - times.null_count
        if not self._is_open:
            return counted
        try:
            if self._identity is None:
                self._identity = self._open(batch.schema)
            columns = self._identity.columns
            present = [each for each in columns.names if each in batch.schema.names]
            rows = conform(batch.select(present), columns)
            self._fresh.add(self._identity.of(rows).append_column(AT, times))
        except _MEASURING as error:
            return counted + self._give_up(error)
        return 0

    def lateness(self, largest_before: int) -> tuple[Histogram, int]:
        """Return how late the new rows are, and how many rows could not be compared."""
        if self._identity is None or not self._is_open:
            return Histogram(), 0
        pile = self._fresh
        known = sum(0 if each.rows is None else each.rows for each in self._published)
        size = pile.bytes + pile.bytes * known // max(1, pile.rows)
        try:
            found = lateness_of_new(
                self._known_rows, pile.tables, size, self._identity, largest_before
            )
        except _MEASURING as error:
            return Histogram(), self._give_up(error)
        return found, 0

    def close(self) -> None:
        self._fresh.close()

    def _give_up(self, error: Exception) -> int:
        log.warning("how late new rows came is not measured here: %s", error)
        rows, self._is_open = self._fresh.counted, False
        self._fresh.close()
        return rows

    def _open(self, schema: pa.Schema) -> Identity:
        """Open the published files, and return the columns that distinguish their rows."""
        known, files = parse_schema(self._known), self._dataset_files.filesystem
        opened: dict[str, RowFile] = {}
        for each in self._published:
            if each.path not in opened:
                is_beside = each.rows is None
                there = late_schema(known) if is_beside else known
                opened[each.path] = row_file(files, each.path, there)
        self._published = [
            each
            if each.rows is not None
            else replace(each, rows=opened[each.path].count(self._dataset_files))
            for each in self._published
        ]
        self._files = [opened[each.path] for each in self._published]
        first = self._files[0].schema
        common = set(first.names).intersection(*(each.schema.names for each in self._files))
        return _identity(self._job, schema, pa.schema([f for f in first if f.name in common]))

    def _known_rows(self) -> Iterator[pa.Table]:
        if self._identity is None:
            return
        columns = self._identity.columns
        for part, file in zip(self._published, self._files, strict=True):
            for start, batch in file.numbered(self._dataset_files, columns.names):
                first = max(part.start - start, 0)
                last = part.start + (part.rows or 0)
                rows = batch.slice(first, max(0, last - start - first))
                if rows.num_rows:
                    yield self._identity.of(conform(rows, columns))


def _identity(job: Job, read: pa.Schema, published: pa.Schema) -> Identity:
    """Return the columns that distinguish rows: the key, or else all columns that no run changes.

    Raises:
        DilError: no column distinguishes rows.
    """
    keys = job.extraction.primary_keys
    passing = {each.name for each in job.conversion.derived_fields if _is_of_the_run(each.formula)}
    disguised = {str(compile_path(each).steps[0]) for each in job.conversion.encrypted_fields}
    at = job.events.column if job.events is not None else ""
    names = list(keys) or [
        each for each in published.names if each in read.names and each not in passing - {at}
    ]
    # Rows are cut into portions by the first columns, so the column that varies most, the event
    # column, comes first.
    names = names if keys else sorted(names, key=lambda each: each != at)
    columns = [
        published.field(each)
        for each in names
        if each in published.names
        and each not in disguised
        and not pa.types.is_null(published.field(each).type)
    ]
    if not columns or (keys and len(columns) < len(keys)):
        raise DilError("no columns distinguish rows that are read again from new ones")
    # Readings that are appended leave copies of a row, which no row of the next reading replaces.
    replaces = job.publishing.mode is not PublishMode.APPEND
    replaces_known = replaces and not keys and columns[0].name == at
    return Identity(pa.schema(columns), is_key=bool(keys), replaces_known=replaces_known)


def _is_of_the_run(formula: Formula) -> bool:
    """Return whether a derived field, such as the run's time, may differ at each reading."""
    source = formula.source.strip().upper()
    is_date = source == "CURRENTDATE" or (source.startswith("P") and source[1:-1].isdecimal())
    return (is_date and formula.type.lower() == "epoc") or "{{" in source + formula.value


class _SpillingTables:
    """Tables that are kept in memory, and in a file of this machine if they get many."""

    def __init__(self) -> None:
        self.rows: int = 0
        self.counted: int = 0
        self.bytes: int = 0
        self._held = 0
        self._tables: list[pa.Table] = []
        self._file: IO[bytes] | None = None
        self._sink: pa.RecordBatchWriter | None = None

    def add(self, table: pa.Table) -> None:
        """Keep a table; all have the same columns."""
        self.rows += table.num_rows
        self.counted += table.num_rows - table.column(AT).null_count
        self.bytes += table.nbytes
        self._held += table.nbytes
        self._tables.append(table)
        if self._held >= PORTION_BYTES:
            self._spill()

    def tables(self) -> Iterator[pa.Table]:
        """Yield all tables."""
        if self._sink is not None:
            self._sink.close()
            self._sink = None
        if self._file is not None:
            self._file.seek(0)
            with pa.ipc.open_stream(self._file) as reader:
                for batch in reader:
                    yield pa.Table.from_batches([batch])
        yield from self._tables

    def close(self) -> None:
        """Forget the tables and delete the file."""
        self._tables = []
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = self._sink = None

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="dil-rows-")  # noqa: SIM115 - see close
        if self._sink is None:
            self._sink = pa.ipc.new_stream(self._file, self._tables[0].schema)
        for table in self._tables:
            self._sink.write_table(table)
        self._tables, self._held = [], 0
