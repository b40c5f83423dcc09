"""Finds the writer of each output format, and the reader of its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, cast

from dil.model.job import OutputFormat, WritingSpec
from dil.spi.registry import load
from dil.spi.writer import FileWriter

if TYPE_CHECKING:
    import pyarrow as pa

Reader: TypeAlias = "Callable[[BinaryIO, pa.Schema, WritingSpec], Iterator[pa.RecordBatch]]"

# Modules by name, because a job that writes CSV should not pay for the import of fastavro.
_FORMATS: dict[OutputFormat, tuple[str, str, str]] = {
    OutputFormat.AVRO: ("avro_writer", "AvroFileWriter", "read_avro"),
    OutputFormat.PARQUET: ("parquet_writer", "ParquetFileWriter", "read_parquet"),
    OutputFormat.ORC: ("orc_writer", "OrcFileWriter", "read_orc"),
    OutputFormat.JSON: ("json_writer", "JsonLinesFileWriter", "read_json_lines"),
    OutputFormat.CSV: ("csv_writer", "CsvFileWriter", "read_csv"),
}


def writer_for(output_format: OutputFormat) -> type[FileWriter]:
    """Return the writer class of a format."""
    module, writer, _ = _FORMATS[output_format]
    return cast("type[FileWriter]", getattr(import_module(f"dil.writing.{module}"), writer))


def writer_of(spec: WritingSpec) -> type[FileWriter]:
    """Return the writer class of a job."""
    return writer_for(spec.format) if spec.own is None else load(spec.own.ref)


def reader_for(writer_class: type[FileWriter]) -> Reader | None:
    """Return the reader of a writer's files, None if a plug-in's writer has none."""
    for module, writer, reader in _FORMATS.values():
        if (writer_class.__module__, writer_class.__name__) == (f"dil.writing.{module}", writer):
            return cast("Reader", getattr(import_module(writer_class.__module__), reader))
    return writer_class.read
