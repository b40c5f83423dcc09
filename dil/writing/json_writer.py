"""Writes JSON lines: one compact object per line. Source: RFC 8259; RFC 4648, 4. See rule U7."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa

from dil.model.job import WritingSpec
from dil.spi.writer import FileWriter
from dil.types.nested import rows_of
from dil.types.python_types import row_type

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
    decoder = msgspec.json.Decoder(row_type(schema))
    while lines := list(islice(source, _SLICE_ROWS)):
        try:
            rows = [decoder.decode(line) for line in lines]
        except msgspec.ValidationError:
            rows = _with_texts(lines, schema)
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _with_texts(lines: Iterable[bytes], schema: pa.Schema) -> list[dict[str, Any]]:
    """Return rows in which the value of a text column may be a number or a boolean, as text."""
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    others = row_type(pa.schema([field for field in schema if field.name not in texts]))
    decoder = msgspec.json.Decoder(others)
    # Python's floats would change decimals.
    written = msgspec.json.Decoder(dict[str, msgspec.Raw])
    rows = []
    for line in lines:
        raw = written.decode(line)
        found = {name: _text_of(bytes(raw[name])) for name in texts if name in raw}
        rows.append({**decoder.decode(line), **found})
    return rows


def _text_of(value: bytes) -> str | None:
    if value == b"null":
        return None
    return msgspec.json.decode(value, type=str) if value.startswith(b'"') else value.decode()
