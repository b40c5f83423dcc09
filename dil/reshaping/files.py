"""Reads files of rows, by columns if the format allows it, and writes new files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import BinaryIO
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from dil.errors import ConversionError, WriteError
from dil.model.job import OutputFormat, WritingSpec
from dil.model.task import StagedFile
from dil.storage import Filesystem, Folder, filesystem_for
from dil.text.file_names import hive_values
from dil.types.widening import conform
from dil.writing.formats import reader_for, writer_for, writer_of
from dil.writing.rolling import FileNumbers, OutputFolder, RollingFiles

_HEAD_BYTES = 1 << 20


@dataclass(frozen=True)
class DatasetFiles:
    """Reads and rewrites the files of a run; can be pickled, because tasks use it.

    ``folder`` is below the run's staging. Each file has a folder of its own with a random name,
    because a task may run twice.
    """

    final_dir: str
    folder: str
    writing: WritingSpec

    @cached_property
    def filesystem(self) -> Filesystem:
        """Return the filesystem of staging and dataset; each process has a client of its own."""
        return filesystem_for(self.final_dir, self.writing.blocks)

    def new_folder(self, name: str) -> str:
        """Return a folder's path that no other attempt uses."""
        return f"{self.folder}/{name}-{uuid4().hex[:8]}"

    def write(
        self, name: str, batches: Iterable[pa.RecordBatch], model: StagedFile
    ) -> tuple[StagedFile, ...]:
        """Write rows into new files with the folder and timelabel of ``model``; return the files.

        Without rows there is no file.

        Raises:
            WriteError: the file system refused.
            ConversionError: a value does not fit the format, or is not of its column's type.
        """
        writer = writer_of(self.writing)
        folder = Folder(self.filesystem, self.new_folder(name))
        files = RollingFiles(OutputFolder(folder, self.writing, writer), FileNumbers())
        try:
            for batch in batches:
                files.write(batch)
            files.end_file()
        except BaseException:
            files.delete()
            raise
        return tuple(
            replace(each.file, folder=model.folder, timelabel=model.timelabel)
            for each in files.written
        )


@dataclass(frozen=True, slots=True)
class RowFile:
    """A file of rows and the schema that it was written with."""

    path: str
    schema: pa.Schema

    def batches(
        self, dataset_files: DatasetFiles, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows, with all columns or with some columns of the file."""
        for _, batch in self.numbered(dataset_files, columns):
            yield batch

    def count(self, dataset_files: DatasetFiles) -> int:
        """Return the number of rows; for Parquet and ORC, only the footer is read."""
        kind = format_of(self.path)
        if kind in {OutputFormat.PARQUET, OutputFormat.ORC}:
            with opened(dataset_files.filesystem, self.path) as stream:
                if kind is OutputFormat.PARQUET:
                    return int(pq.read_metadata(stream).num_rows)
                from pyarrow import orc

                return int(orc.ORCFile(stream).nrows)
        return sum(batch.num_rows for batch in self.batches(dataset_files))

    def numbered(
        self,
        dataset_files: DatasetFiles,
        columns: Sequence[str] | None = None,
        groups: Sequence[int] | None = None,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches of rows, each with the number of its first row in the file, from 0.

        ``groups`` are the row groups of a Parquet file that are wanted, None for all.
        """
        with opened(dataset_files.filesystem, self.path) as stream:
            if format_of(self.path) is OutputFormat.PARQUET:
                file = pq.ParquetFile(stream)
                size = dataset_files.writing.row_group_rows
                wanted = None if groups is None else frozenset(groups)
                start = 0
                for group in range(file.num_row_groups):
                    first, start = start, start + file.metadata.row_group(group).num_rows
                    if wanted is not None and group not in wanted:
                        continue
                    for batch in file.iter_batches(size, row_groups=[group], columns=columns):
                        yield first, batch
                        first += batch.num_rows
                return
            read = reader_for(writer_for(format_of(self.path)))
            if read is None:  # pragma: no cover - each of our formats has one
                raise ConversionError(f"{self.path} cannot be read back")
            start = 0
            for batch in read(stream, self.schema, dataset_files.writing):
                yield start, batch if columns is None else batch.select(list(columns))
                start += batch.num_rows


@contextmanager
def opened(filesystem: Filesystem, path: str) -> Iterator[BinaryIO]:
    """Yield an open file; errors inside the block are reported as errors of this file.

    Raises:
        WriteError: the file is gone, or damaged.
    """
    try:
        with filesystem.open_input(path) as stream:
            yield stream
    except (OSError, EOFError, ValueError, pa.ArrowException) as error:
        raise WriteError(
            f"{path} cannot be read back: {error}",
            "Restore it from a copy, or read all rows again with ms.publish.mode=replace.",
        ) from error


def format_of(path: str) -> OutputFormat:
    """Return the format that a file's name shows.

    Raises:
        ConversionError: the format cannot be read back.
    """
    with suppress(ValueError):
        return OutputFormat(path.rpartition(".")[2])
    raise ConversionError(
        f"{path} is a file of rows that cannot be read back, because its name does not end in "
        f"{', '.join(OutputFormat)}",
        "Take it out of the dataset, or rewrite the dataset once with ms.publish.mode=replace.",
    )


def row_file(filesystem: Filesystem, path: str, known: pa.Schema) -> RowFile:
    """Return a file with its schema; if it is no Parquet file, types come from ``known``.

    Raises:
        ConversionError: the file has a column that is not in ``known``.
    """
    kind = format_of(path)
    with opened(filesystem, path) as stream:
        if kind is OutputFormat.PARQUET:
            return RowFile(path, pq.read_schema(stream))
        names = _names(stream, kind)
    strange = [name for name in names if known.get_field_index(name) < 0]
    if strange:
        raise unknown_column(path, strange[0])
    return RowFile(path, pa.schema([known.field(name) for name in names]))


def target_of(file: RowFile, target: pa.Schema, folder: str) -> pa.Schema:
    """Return the schema for writing a file: without columns that are only in its folder's name."""
    apart = hive_values(folder)
    return pa.schema(
        [each for each in target if each.name in file.schema.names or each.name not in apart]
    )


def with_folder_columns(batch: pa.RecordBatch, folder: str, target: pa.Schema) -> pa.RecordBatch:
    """Return rows of a file in ``target``; the folder's name may give columns that the file lacks.

    Raises:
        ConversionError: a value does not fit the target exactly.
    """
    columns, fields = list(batch.columns), list(batch.schema)
    for name, text in hive_values(folder).items():
        if name in target.names and name not in batch.schema.names:
            kind = target.field(name).type
            columns.append(pa.repeat(pa.scalar(text, pa.string()).cast(kind), batch.num_rows))
            fields.append(pa.field(name, kind))
    if not fields:  # a batch without columns would lose the number of its rows
        nulls = [pa.nulls(batch.num_rows, field.type) for field in target]
        return pa.RecordBatch.from_arrays(nulls, schema=target)
    return conform(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)), target)


def unknown_column(path: str, name: str) -> ConversionError:
    """Return the error for a file with a column that the dataset's schema does not have."""
    return ConversionError(
        f'{path} has a column "{name}" that is not in the recorded schema of the dataset: '
        "a rewritten file would lose this column",
        "Another program wrote the file. Take it out of the dataset, or read everything anew with "
        "ms.publish.mode=replace.",
    )


def _names(stream: BinaryIO, kind: OutputFormat) -> list[str]:
    match kind:
        case OutputFormat.CSV:
            # The last bytes may cut a character, but the header ends long before.
            head = stream.read(_HEAD_BYTES).decode(errors="replace")
            return next(csv.reader(io.StringIO(head, newline="")))
        case OutputFormat.JSON:
            return list(msgspec.json.decode(stream.readline(), type=dict[str, msgspec.Raw]))
        case OutputFormat.ORC:
            from pyarrow import orc

            return list(orc.ORCFile(stream).schema.names)
        case _:
            from fastavro import reader

            fields = reader(stream).writer_schema["fields"]  # type: ignore[index,call-overload]
            return [field["name"] for field in fields]  # type: ignore[index]


def write_table(
    dataset_files: DatasetFiles, name: str, batches: Iterable[pa.Table], schema: pa.Schema
) -> str:
    """Write a table for the next stage to read; return its path."""
    path = f"{dataset_files.new_folder(name)}/table.arrow"
    with (
        dataset_files.filesystem.open_output(path) as stream,
        pa.ipc.new_file(stream, schema) as sink,
    ):
        for batch in batches:
            sink.write_table(batch)
    return path


def read_table(dataset_files: DatasetFiles, path: str) -> pa.Table:
    """Return a table that ``write_table`` wrote."""
    with opened(dataset_files.filesystem, path) as stream:
        return pa.ipc.open_file(stream).read_all()
