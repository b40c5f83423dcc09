"""Writes ORC files. Source: Apache ORC specification v1, "Types"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from dil.errors import ConversionError
from dil.model.job import WritingSpec
from dil.spi.writer import FileWriter
from dil.types.nested import explicit, map_schema, rebuild_batch
from dil.types.widening import conform

_CODECS = {"": "snappy", "SNAPPY": "snappy", "DEFLATE": "zlib", "NOCOMPRESSION": "uncompressed"}
_US_PER_MS = 1000
_STRIPE_BYTES = 64 * 1024 * 1024
_FAR_TIMESTAMP = "out of range for nanosecond"


class OrcFileWriter(FileWriter):
    """Writes ORC, compressed with Snappy unless the codec says DEFLATE (zlib) or NOCOMPRESSION.

    ORC has no type for a time of day: the writer stores milliseconds since midnight as a bigint, as
    in Avro.
    """

    extension = "orc"

    def __init__(self, sink: BinaryIO, schema: pa.Schema, spec: WritingSpec) -> None:
        super().__init__(sink, schema, spec)
        self._physical = map_schema(schema, _physical_type)
        self._writer = orc.ORCWriter(sink, compression=_CODECS[spec.codec.upper()])
        self._given_bytes = 0

    @property
    def held_bytes(self) -> int:
        """Return the most bytes that the library may hold, a stripe; it gives no exact number."""
        return min(self._given_bytes, _STRIPE_BYTES)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the batch; the library collects stripes."""
        physical = rebuild_batch(batch, self._physical, _to_physical)
        # Arrow's ORC writer ignores the offset of a sliced struct, and the null of a struct inside
        # another struct. Both would shift the values inside.
        columns = [explicit(column) for column in physical.columns]
        self._writer.write(pa.Table.from_arrays(columns, schema=self._physical))
        self._given_bytes += batch.nbytes

    def close(self) -> None:
        """Write the last stripe and the footer."""
        self._writer.close()


def read_orc(source: BinaryIO, schema: pa.Schema, spec: WritingSpec) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that OrcFileWriter wrote, stripe by stripe.

    A column of ``schema`` may have had a narrower type when the file was written.

    Raises:
        ConversionError: a timestamp is outside of the range of nanoseconds that Arrow reads.
    """
    del spec
    physical = map_schema(schema, _physical_type)
    file = orc.ORCFile(source)
    for index in range(file.nstripes):
        try:
            stripe = file.read_stripe(index)
        except pa.ArrowInvalid as error:
            if _FAR_TIMESTAMP not in str(error):
                raise
            raise ConversionError(
                "ORC files with timestamps before 1677-09-21 or after 2262-04-11 cannot be read"
                " back, but merges, compactions and changes of a column's type must read them:"
                f" {error}",
                "Convert such values at the source, or set writer.output.format=PARQUET.",
            ) from error
        yield rebuild_batch(conform(stripe, physical), schema, _from_physical)


def _physical_type(data_type: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_time(data_type) else data_type


def _to_physical(array: pa.Array, target: pa.DataType) -> pa.Array:
    return pc.divide(array.cast(target), _US_PER_MS)


def _from_physical(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_time(target):
        return pc.multiply(array, _US_PER_MS).cast(target)
    return array.cast(target)
