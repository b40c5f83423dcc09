"""Writes CSV with a header line. Source: RFC 4180. See rule U7."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from dil.model.job import WritingSpec
from dil.spi.writer import FileWriter
from dil.types.python_types import json_decoder, plain_type

_ENCODER = msgspec.json.Encoder(decimal_format="number")
_READ_BLOCK_BYTES = 16 * 1024 * 1024
_FRACTION_TAIL = r"(\.000000|000)(Z?)$"


class CsvFileWriter(FileWriter):
    """Writes a header, then one record per row; text is quoted, quotes inside it are doubled.

    A null is an empty cell, an empty text is ``""``. Dates, times and instants are ISO 8601 text,
    instants in UTC; bytes are base64; lists, maps and records are compact JSON. Lines end in a line
    feed and not in RFC 4180's CRLF: most tools write a line feed, and all read it. A file of one
    column quotes every cell and writes null as ``""``, because an empty line would not be a record.
    """

    extension = "csv"

    def __init__(self, sink: BinaryIO, schema: pa.Schema, spec: WritingSpec) -> None:
        super().__init__(sink, schema, spec)
        self._is_single = len(schema) == 1
        self._cells = pa.schema([field.with_type(self._cell_type(field.type)) for field in schema])
        self._writer = csv.CSVWriter(sink, self._cells)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append one record per row."""
        columns = [
            _cells(column, field.type)
            for column, field in zip(batch.columns, self._cells, strict=True)
        ]
        if self._is_single:
            columns = [column.fill_null("") for column in columns]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._cells))

    def close(self) -> None:
        """Write the buffer."""
        self._writer.close()

    def _cell_type(self, data_type: pa.DataType) -> pa.DataType:
        is_plain = (
            pa.types.is_boolean(data_type)
            or pa.types.is_integer(data_type)
            or pa.types.is_floating(data_type)
            or pa.types.is_decimal(data_type)
        )
        return data_type if is_plain and not self._is_single else pa.string()


def read_csv(source: BinaryIO, schema: pa.Schema, spec: WritingSpec) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that CsvFileWriter wrote.

    A column of ``schema`` may have had a narrower type when the file was written.
    """
    del spec
    reader = csv.open_csv(
        source,
        csv.ReadOptions(block_size=_READ_BLOCK_BYTES),
        csv.ParseOptions(newlines_in_values=True),
        csv.ConvertOptions(
            column_types={name: pa.string() for name in schema.names},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    for cells in reader:
        columns = [
            pa.array(_values(column, field.type), field.type)
            for column, field in zip(cells.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _cells(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return cells: numbers and booleans unchanged, all other values as text."""
    if array.type == target:
        return array
    if pa.types.is_nested(array.type):
        values = array.to_pylist(maps_as_pydicts="strict")
        return pa.array(
            [None if v is None else _ENCODER.encode(v).decode() for v in values], target
        )
    if pa.types.is_binary(array.type):
        encoded = [None if v is None else base64.b64encode(v).decode() for v in array.to_pylist()]
        return pa.array(encoded, target)
    text = array.cast(target)
    if pa.types.is_temporal(array.type):
        return pc.replace_substring_regex(
            pc.replace_substring(text, " ", "T"), _FRACTION_TAIL, r"\2"
        )
    return text


def _values(cells: pa.Array, data_type: pa.DataType) -> list[Any]:
    texts: list[str | None] = cells.to_pylist()
    if pa.types.is_nested(data_type):
        decode = json_decoder(data_type)
        return [decode(text) if text else None for text in texts]
    if pa.types.is_string(data_type):
        return list(texts)
    if pa.types.is_binary(data_type):
        return [None if text is None else base64.b64decode(text) for text in texts]
    kind = plain_type(data_type)
    return [msgspec.convert(text, kind, strict=False) if text else None for text in texts]
