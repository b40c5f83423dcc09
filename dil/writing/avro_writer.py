"""Avro container files.

Source: Apache Avro 1.11 specification, "Object Container Files". See docs/rows.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from fastavro import block_reader, parse_schema
from fastavro.write import Writer

from dil.errors import ConversionError
from dil.model.job import WritingSpec
from dil.spi.writer import FileWriter
from dil.types.avro import avro_schema, held_type
from dil.types.nested import map_schema, rebuild_batch, rows_of
from dil.types.widening import conform

_CODECS = {"": "deflate", "DEFLATE": "deflate", "SNAPPY": "snappy", "NOCOMPRESSION": "null"}
_BLOCK_BYTES = 16_000  # Larger blocks make files hardly smaller, and DEFLATE slower.
_SLICE_ROWS = 8192


class AvroFileWriter(FileWriter):
    """Writes Avro: dates, times and instants as epoch milliseconds, or seconds if the job says so.

    Fractions below the unit are rounded to the past. Blocks are compressed with DEFLATE at
    ``deflate_level`` unless the codec says SNAPPY or NOCOMPRESSION.
    """

    extension = "avro"

    def __init__(self, sink: BinaryIO, schema: pa.Schema, spec: WritingSpec) -> None:
        super().__init__(sink, schema, spec)
        self._unit_us = spec.time_unit_us
        self._physical = map_schema(schema, _physical_type)
        codec = _CODECS[spec.codec.upper()]
        if codec == "snappy" and find_spec("cramjam") is None:
            raise ConversionError(
                "writer.codec.type=SNAPPY needs the package cramjam for Avro files",
                "Install the package with: pip install 'fastavro[snappy]'. Or use DEFLATE.",
            )
        self._writer = Writer(
            sink,
            parse_schema(avro_schema(schema, spec)),
            codec=codec,
            sync_interval=_BLOCK_BYTES,
            compression_level=spec.deflate_level if codec == "deflate" else None,
        )

    def write(self, batch: pa.RecordBatch) -> None:
        """Encode the rows; each full block is written at once."""
        plain = rebuild_batch(batch, self._physical, partial(_to_epoch, unit_us=self._unit_us))
        append = self._writer.write
        for rows in rows_of(plain, _SLICE_ROWS):
            for row in rows:
                append(row)

    def close(self) -> None:
        """Write the last block."""
        self._writer.flush()


def read_avro(source: BinaryIO, schema: pa.Schema, spec: WritingSpec) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that AvroFileWriter wrote with this specification.

    A column of ``schema`` may have had a narrower type when the file was written. Of a time that
    became text, the text is its number in the file.
    """
    physical = map_schema(schema, _physical_type)
    blocks = block_reader(source)
    held = pa.schema(
        [each for each in held_type(blocks.writer_schema) if each.name in schema.names]
    )
    for block in blocks:
        rows: Any = list(block)
        batch = conform(pa.RecordBatch.from_pylist(rows, schema=held), physical)
        yield rebuild_batch(batch, schema, partial(_from_epoch, unit_us=spec.time_unit_us))


def _physical_type(data_type: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_temporal(data_type) else data_type


def _to_epoch(array: pa.Array, target: pa.DataType, unit_us: int) -> pa.Array:
    """Return dates, times and instants as whole units since the epoch, rounded down."""
    if pa.types.is_date(array.type):
        return _floor_divide(array.cast(pa.timestamp("us")).cast(target), unit_us)
    return _floor_divide(array.cast(target), unit_us)


def _floor_divide(values: pa.Array, divisor: int) -> pa.Array:
    quotient = pc.divide(values, divisor)
    behind = pc.less(values, pc.multiply(quotient, divisor))
    return pc.subtract(quotient, behind.cast(pa.int64()))


def _from_epoch(array: pa.Array, target: pa.DataType, unit_us: int) -> pa.Array:
    micros = pc.multiply(array, unit_us)
    if pa.types.is_date(target):
        return micros.cast(pa.timestamp("us")).cast(target)
    return micros.cast(target)
