"""Reads the requested columns of Avro, Parquet, ORC and CSV files."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from csv import Error as StdCsvError
from csv import reader as std_csv_reader
from functools import partial
from typing import Any, BinaryIO, cast

import pyarrow as pa

from dil.extraction.arrow_input import arrow_stream, seekable_body
from dil.extraction.avro.container import CheckedBlocks
from dil.extraction.secondary.columns import (
    Allowance,
    Open,
    Rows,
    UnfitError,
    check_columns,
    json_row,
)
from dil.extraction.sizes import AVRO_BLOCK_BYTES, MOST_COLUMNS

_BATCH_ROWS = 8192
_CSV_BLOCK_BYTES = 1 << 20
_END = "\x00dil-end\x00"


def read_parquet(opened: Open, columns: tuple[str, ...], allowed: Allowance) -> Rows:
    """Yield the rows; memory holds a part of a row group at a time."""
    from dil.extraction.columnar.parquet_extractor import ParquetFormat

    with arrow_stream(opened) as stream:
        file = ParquetFormat().open(stream, stream.size())
        check_columns(columns, file.schema.names)
        yield from _rows(file.batches(columns), file.schema, columns, allowed)


def read_orc(opened: Open, columns: tuple[str, ...], allowed: Allowance) -> Rows:
    """Yield the rows; memory holds a part of a stripe at a time."""
    from dil.extraction.columnar.orc_extractor import OrcFormat

    with opened() as stream:
        body, size = seekable_body(stream)
        with closing(body):
            file = OrcFormat(allowed.memory_bytes).open(body, size)
            check_columns(columns, file.schema.names)
            # Without a column the number of rows would be unknown.
            read = columns or tuple(file.schema.names[:1])
            # The reader of ORC may end this process if it gets no memory.
            allowed.expect(file.rows, file.value_bytes(read))
            yield from _rows(file.batches(read), file.schema, columns, allowed)


def read_csv(opened: Open, columns: tuple[str, ...], allowed: Allowance) -> Rows:
    """Yield the rows as text: an empty cell is null, a cell ``""`` is an empty text (rule U7).

    Arrow accepts a quote that is never closed, as in a file that is half written. So a record is
    appended to the file: if it is not read as it is, the file ends within quotes.
    """
    from pyarrow import csv

    with opened() as stream:
        begin = stream.read(_CSV_BLOCK_BYTES)
    if not begin:
        return
    _refuse_wide(begin)
    names = _csv_header(opened)
    check_columns(columns, names)
    read = list(columns or names[:1])
    with arrow_stream(partial(_with_end_record, opened, len(names))) as stream:
        reader = csv.open_csv(
            stream,
            csv.ReadOptions(block_size=_CSV_BLOCK_BYTES),
            csv.ParseOptions(newlines_in_values=True),
            csv.ConvertOptions(
                column_types={name: pa.string() for name in names},
                include_columns=read,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        with reader:
            yield from _rows(_before_end_record(reader, read[0]), reader.schema, columns, allowed)


class _WithEnd:
    """The bytes of a stream, then those of an end; has the methods that Arrow calls."""

    closed = False

    def __init__(self, stream: BinaryIO, end: bytes) -> None:
        self._parts = [stream, io.BytesIO(end)]

    def read(self, size: int) -> bytes:
        """Return the next bytes: ``size`` of them, fewer only at the end.

        Arrow takes the bytes of a read for a block, and refuses a row in more than two blocks.
        """
        data = bytearray()
        while self._parts and len(data) < size:
            more = self._parts[0].read(size - len(data))
            if not more:
                del self._parts[0]
            data += more
        return bytes(data)

    def close(self) -> None:
        """Do nothing: the caller closes the stream."""


@contextmanager
def _with_end_record(opened: Open, width: int) -> Iterator[BinaryIO]:
    end = ",".join([_END] * width)
    with opened() as stream:
        yield cast("BinaryIO", _WithEnd(stream, f"\n{end}\n".encode()))


def _before_end_record(batches: Iterable[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    is_whole = False
    for batch in batches:
        is_whole = bool(batch.num_rows) and batch.column(name)[-1].as_py() == _END
        yield batch.slice(0, batch.num_rows - 1) if is_whole else batch
    if not is_whole:
        raise UnfitError(
            "has a quote that is never closed", "The file may be half written: publish it again."
        )


def _refuse_wide(begin: bytes) -> None:
    """Raise if a header has too many columns, for which Arrow needs minutes and much memory."""
    lines = io.StringIO(begin.decode("utf-8", "replace"), newline="")
    with suppress(StdCsvError):
        width = len(next(std_csv_reader(lines), ()))
        if width > MOST_COLUMNS:
            raise UnfitError(
                f"has {width:,} columns, but an input may have at most {MOST_COLUMNS:,}"
            )


def _csv_header(opened: Open) -> list[str]:
    from pyarrow import csv

    with (
        arrow_stream(opened) as stream,
        csv.open_csv(
            stream,
            csv.ReadOptions(block_size=_CSV_BLOCK_BYTES),
            csv.ParseOptions(newlines_in_values=True),
        ) as reader,
    ):
        names: list[str] = reader.schema.names
    return names


def _rows(
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    columns: Sequence[str],
    allowed: Allowance,
) -> Rows:
    maps = {name for name in columns if pa.types.is_map(schema.field(name).type)}
    for batch in batches:
        read = batch.select(list(columns))
        allowed.take(batch.num_rows, read.nbytes)
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            part = read.slice(start, _BATCH_ROWS)
            if not columns:
                yield from ({} for _ in range(min(_BATCH_ROWS, batch.num_rows - start)))
                continue
            for row in part.to_pylist(maps_as_pydicts="strict"):
                yield json_row(row, columns, maps)


def read_avro(opened: Open, columns: tuple[str, ...], allowed: Allowance) -> Rows:
    """Yield the rows; memory holds one block at a time."""
    with opened() as stream:
        blocks = CheckedBlocks(stream, allowed.longest(AVRO_BLOCK_BYTES))
        schema: Any = blocks.schema
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise UnfitError("does not hold records")
        types = {field["name"]: field["type"] for field in schema["fields"]}
        check_columns(columns, types)
        maps = {name for name in columns if _is_map(types[name])}
        for block in blocks:
            allowed.take(block.num_records, block.bytes_.getbuffer().nbytes)
            for row in block:
                yield json_row(row, columns, maps)


def _is_map(avro_type: object) -> bool:
    if isinstance(avro_type, list):
        return any(_is_map(branch) for branch in avro_type)
    return isinstance(avro_type, dict) and avro_type.get("type") == "map"
