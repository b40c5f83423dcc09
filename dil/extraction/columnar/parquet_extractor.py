"""Parquet files as Arrow rows (our own; behaviour.md has none)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import parquet

from dil.extraction.columnar.files import ColumnarFiles, OpenFile, batch_rows
from dil.model.job import ExtractionSpec
from dil.spi.connector import Response
from dil.spi.extractor import Extractor, Page

_READ_AHEAD = 1024 * 1024


class ParquetExtractor(Extractor):
    """One Parquet file for each response; its rows, in native Arrow types.

    With ``ms.output.schema`` only its columns are read, what the file lacks is null, at all
    depths. With ``ms.data.field`` a row is the one value at that path. Memory holds a part of a
    row group, whatever its size; a body of more than 16 MiB lies in a temporary file meanwhile.
    """

    def __init__(self, spec: ExtractionSpec) -> None:
        super().__init__(spec)
        self._files = ColumnarFiles(spec, _Parquet())

    @property
    def schema(self) -> pa.Schema | None:
        """Return the schema of the newest file; before the first, the given one or None."""
        return self._files.schema

    def extract(self, response: Response) -> Page:
        """Begin one file; see ``ColumnarFiles.page``."""
        return self._files.page(response)


class _Parquet:
    name = "Parquet"
    magic = b"PAR1"
    may_be_empty = False

    def open(self, file: pa.NativeFile, size: int) -> OpenFile:
        del size
        return _ParquetFile(
            parquet.ParquetFile(
                file,
                # Else a row group is read ahead as a whole.
                pre_buffer=False,
                buffer_size=_READ_AHEAD,
                # Nanoseconds of 64 bits end in 2262; what writes INT96 knows microseconds.
                coerce_int96_timestamp_unit="us",
                page_checksum_verification=True,
            )
        )


class _ParquetFile:
    def __init__(self, file: parquet.ParquetFile) -> None:
        self._file = file

    @property
    def schema(self) -> pa.Schema:
        schema: pa.Schema = self._file.schema_arrow
        return schema

    @property
    def rows(self) -> int:
        return int(self._file.metadata.num_rows)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        groups = [self._file.metadata.row_group(k) for k in range(self._file.num_row_groups)]
        largest = max((_row_bytes(group) for group in groups), default=1)
        yield from self._file.iter_batches(
            batch_size=batch_rows(largest, 1), columns=list(columns), use_threads=False
        )


def _row_bytes(group: parquet.RowGroupMetaData) -> int:
    return int(group.total_byte_size // max(1, group.num_rows))
