"""Reads rows of published files as Arrow batches, with the columns and types that a reader wants.

Memory holds one batch. A column that a file lacks is null, or has the value that the folder names.
A column of a narrower type is widened, and every value stays exact.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dil.errors import StateError, WriteError
from dil.model.dataset import FileRows, gone_file
from dil.model.job import OutputFormat
from dil.reshaping.files import (
    DatasetFiles,
    RowFile,
    format_of,
    opened,
    row_file,
    with_folder_columns,
)

# Small runs make small files, so one task reads several files with about this many bytes together.
_BYTES_OF_TASK = 32 * 1024 * 1024
# Returns, for a column of a row group, the least and the greatest value, the number of nulls, and
# the number of rows.
Statistics = Callable[[str], tuple[Any, Any, int, int] | None]


@dataclass(frozen=True, slots=True)
class DatasetReading:
    """Reads rows of a dataset; can be pickled, because tasks use it.

    ``known`` is the dataset's schema, ``target`` the columns to read, in their order and types.
    ``may_match`` decides by the statistics of a Parquet row group whether the row group may have
    wanted rows.
    """

    dataset_files: DatasetFiles
    known: pa.Schema
    target: pa.Schema
    may_match: Callable[[Statistics], bool] | None = None

    def rows(self, wanted: FileRows) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the target schema, in their order.

        Raises:
            StateError: the file is gone, or does not hold as many rows as were published.
            WriteError: the file is damaged.
            ConversionError: a value does not fit the target exactly.
        """
        path = self.dataset_files.filesystem.path_of(wanted.uri)
        try:
            file = row_file(self.dataset_files.filesystem, path, self.known)
            yield from self._read(file, wanted)
        except WriteError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise gone_file(path) from error
            raise

    def _read(self, file: RowFile, wanted: FileRows) -> Iterator[pa.RecordBatch]:
        columns = [name for name in self.target.names if name in file.schema.names]
        folder = file.path.rpartition("/")[0]
        groups = None
        if format_of(file.path) is OutputFormat.PARQUET:
            groups = self._groups(file.path, wanted)
        last, read = wanted.first + wanted.count, 0
        for start, batch in file.numbered(self.dataset_files, columns, groups):
            read += batch.num_rows
            begin, end = max(wanted.first - start, 0), min(last - start, batch.num_rows)
            if begin < end:
                found = batch.slice(begin, end - begin)
                yield with_folder_columns(found, folder, self.target)
            if groups is None and start + batch.num_rows >= last and last < wanted.rows:
                return  # the rest of the file is not wanted
        if groups is None and read != wanted.rows:
            raise _changed(file.path, read, wanted.rows)

    def _groups(self, path: str, wanted: FileRows) -> list[int]:
        """Return the row groups of a Parquet file that may have wanted rows.

        Raises:
            StateError: the file does not hold as many rows as were published.
        """
        with opened(self.dataset_files.filesystem, path) as stream:
            metadata = pq.read_metadata(stream)
        if metadata.num_rows != wanted.rows:
            raise _changed(path, metadata.num_rows, wanted.rows)
        found, start = [], 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            first, start = start, start + group.num_rows
            is_inside = first < wanted.first + wanted.count and start > wanted.first
            if is_inside and (self.may_match is None or self.may_match(_statistics(group))):
                found.append(number)
        return found


def rows_of_tasks(parts: Iterable[FileRows]) -> Iterator[tuple[FileRows, ...]]:
    """Yield the files for each task: small files together, in the order of their offsets."""
    taken: list[FileRows] = []
    size = 0
    for part in parts:
        taken.append(part)
        size += part.size * part.count // max(part.rows, 1)
        if size >= _BYTES_OF_TASK:
            yield tuple(taken)
            taken, size = [], 0
    if taken:
        yield tuple(taken)


def _statistics(group: pq.RowGroupMetaData) -> Statistics:
    columns = {group.column(place).path_in_schema: place for place in range(group.num_columns)}

    def of(name: str) -> tuple[Any, Any, int, int] | None:
        place = columns.get(name)
        found = None if place is None else group.column(place).statistics
        if found is None or not found.has_min_max or not found.has_null_count:
            return None
        return found.min, found.max, found.null_count, group.num_rows

    return of


def _changed(path: str, rows: int, published: int) -> StateError:
    return StateError(
        f"{path} has {rows} rows, and {json.dumps(published)} were published in it",
        "Another program changed it. Restore it from a copy, or read all rows again with"
        " ms.publish.mode=replace.",
    )
