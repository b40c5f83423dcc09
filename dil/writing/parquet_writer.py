"""Writes Parquet files with row groups of a useful size, and dictionaries of repeated values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dil.model.job import WritingSpec
from dil.spi.writer import FileWriter
from dil.types.nested import rebuild_batch

_CODECS = {"": "snappy", "SNAPPY": "snappy", "DEFLATE": "gzip", "NOCOMPRESSION": "none"}
_BUFFER_BYTES = 64 * 1024 * 1024
# Smaller batches are merged up to this many rows, because a batch costs more than its rows.
_FEW_ROWS = 1024
_FEW_BATCHES = 128
# With fewer rows, the search for repeated values would take longer than writing the rows.
_LEAST_WITH_DICTIONARIES = 64
_DICTIONARY_SAMPLE = 16_384
# Columns whose values repeat this often on average get a dictionary.
_DICTIONARY_REPEATS = 2


class ParquetFileWriter(FileWriter):
    """Collects batches into row groups of ``row_group_rows`` rows, or fewer at 64 MiB.

    Files are compressed with Snappy unless the codec says DEFLATE (gzip) or NOCOMPRESSION. If a
    record may be null, its members are optional in the file even if they must not be null, because
    Arrow's writer takes an absent member for a null.
    """

    extension = "parquet"

    def __init__(self, sink: BinaryIO, schema: pa.Schema, spec: WritingSpec) -> None:
        super().__init__(sink, schema, spec)
        self._physical = pa.schema([_relaxed(field, below_null=False) for field in schema])
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.RecordBatch] = []
        self._few: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        """Return the number of bytes held in memory."""
        return self._held_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        """Collect the batch; write a row group when it is full."""
        rows = rebuild_batch(batch, self._physical, _same)
        if rows.num_rows < _FEW_ROWS:
            self._few.append(rows)
            if len(self._few) >= _FEW_BATCHES:
                self._put_together()
        else:
            self._put_together()
            self._held.append(rows)
        self._held_rows += batch.num_rows
        self._held_bytes += batch.nbytes
        if self._held_rows >= self.spec.row_group_rows or self._held_bytes >= _BUFFER_BYTES:
            self._write_row_group()

    def close(self) -> None:
        """Write the last row group and the footer."""
        self._write_row_group().close()

    def _put_together(self) -> None:
        if self._few:
            is_one = len(self._few) == 1
            self._held.append(self._few[0] if is_one else pa.concat_batches(self._few))
            self._few = []

    def _write_row_group(self) -> pq.ParquetWriter:
        self._put_together()
        table = pa.Table.from_batches(self._held, schema=self._physical)
        if self._writer is None:
            has_few = table.num_rows < _LEAST_WITH_DICTIONARIES
            self._writer = pq.ParquetWriter(
                self.sink,
                self._physical,
                compression=_CODECS[self.spec.codec.upper()],
                use_dictionary=[]
                if has_few
                else dictionary_columns(table, self.spec.row_group_rows),
            )
        if table.num_rows:
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._held, self._held_rows, self._held_bytes = [], 0, 0
        return self._writer


def read_parquet(
    source: BinaryIO, schema: pa.Schema, spec: WritingSpec
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that ParquetFileWriter wrote, at most a row group at a time."""
    for batch in pq.ParquetFile(source).iter_batches(batch_size=spec.row_group_rows):
        yield rebuild_batch(batch, schema, _same)


def _relaxed(field: pa.Field, *, below_null: bool) -> pa.Field:
    """Return the field; each of its parts that may be inside a null record becomes nullable."""
    data_type = field.type
    nullable = field.nullable or below_null
    if pa.types.is_struct(data_type):
        members = [_relaxed(member, below_null=nullable) for member in data_type]
        return field.with_type(pa.struct(members)).with_nullable(nullable)
    if pa.types.is_map(data_type):
        item = _relaxed(data_type.item_field, below_null=False)
        return field.with_type(pa.map_(data_type.key_type, item)).with_nullable(nullable)
    if pa.types.is_list(data_type):
        item = _relaxed(data_type.value_field, below_null=False)
        return field.with_type(pa.list_(item)).with_nullable(nullable)
    return field.with_nullable(nullable)


def _same(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array.cast(target)


def dictionary_columns(table: pa.Table, row_group_rows: int) -> list[str]:
    """Return the paths of the flat columns, as Parquet names them, whose values repeat.

    A dictionary of values that hardly repeat costs more time than the rest of a column's writing,
    and makes the file larger.

    Args:
        table: The first rows of the file.
        row_group_rows: The largest number of rows that share a dictionary.
    """
    sample = table.slice(0, _DICTIONARY_SAMPLE).combine_chunks()
    found: list[str] = []
    for name in sample.column_names:
        column = sample.column(name)
        whole = column.chunk(0) if column.num_chunks else pa.array([], column.type)
        found += [path for path, each in _leaves(name, whole) if _repeats(each, row_group_rows)]
    return found


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    kind = values.type
    if pa.types.is_struct(kind):
        for place in range(kind.num_fields):
            yield from _leaves(f"{path}.{kind.field(place).name}", pc.struct_field(values, [place]))
    elif pa.types.is_map(kind):
        # In a slice, ``keys`` and ``items`` also hold values of rows outside of the slice; these
        # values serve the sample as well.
        yield from _leaves(f"{path}.key_value.key", values.keys[:_DICTIONARY_SAMPLE])
        yield from _leaves(f"{path}.key_value.value", values.items[:_DICTIONARY_SAMPLE])
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(f"{path}.list.element", pc.list_flatten(values))
    else:
        yield path, values


def _repeats(values: pa.Array, row_group_rows: int) -> bool:
    """Return whether a row group holds each value several times, judged by the sample.

    ``again`` of ``size`` drawn values had occurred before. With ``n`` equally frequent values, this
    number would be about ``size * size / (2 * n)``.
    """
    size = len(values) - values.null_count
    try:
        again = size - pc.count_distinct(values, mode="only_valid").as_py()
    except pa.ArrowNotImplementedError:
        return False  # Arrow counts neither nulls nor values of some types that no source has.
    if len(values) < _DICTIONARY_SAMPLE:
        return bool(again * _DICTIONARY_REPEATS >= size)
    return bool(again and size * size / (2 * again) * _DICTIONARY_REPEATS <= row_group_rows)
