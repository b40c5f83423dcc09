"""Writes JSON lines: one compact object per line. Source: RFC 8259; RFC 4648, 4. See rule U7."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO

import msgspec
import pyarrow as pa

from dil.model.job import WritingSpec
from dil.spi.writer import FileWriter
from dil.types.nested import rows_of
from dil.types.python_types import json_decoder

_SLICE_ROWS = 8192
_ENCODER = msgspec.json.Encoder(decimal_format="number")


class JsonLinesFileWriter(FileWriter):
    """Writes every column of every row, also nulls, in UTF-8 with line feeds.

    Decimals are exact numbers; dates, times and instants are ISO 8601 text, instants in UTC; bytes
    are base64. Not-a-number and the infinities have no JSON form and become null. Files are never
    compressed: the codec is for formats with blocks.
    """

    extension = "json"

    def write(self, batch: pa.RecordBatch) -> None:
        """Append one line per row."""
        for rows in rows_of(batch, _SLICE_ROWS):
            self.sink.write(_ENCODER.encode_lines(rows))

    def close(self) -> None:
        """Do nothing: the format has no final bytes."""


def read_json_lines(
    source: BinaryIO, schema: pa.Schema, spec: WritingSpec
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that JsonLinesFileWriter wrote.

    A column that is text in ``schema`` may have had another type when the file was written.
    """
    del spec
    decode = json_decoder(pa.struct(list(schema)))
    while lines := list(islice(source, _SLICE_ROWS)):
        yield pa.RecordBatch.from_pylist([decode(line) for line in lines], schema=schema)
