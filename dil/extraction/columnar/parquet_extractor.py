"""Parquet files as Arrow rows (an addition to LinkedIn's DIL)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyarrow import parquet

from dil.extraction.columnar.files import (
    ColumnarFiles,
    OpenFile,
    batch_rows,
    refuse_file_in_front,
)
from dil.model.job import ExtractionSpec
from dil.spi.connector import Response
from dil.spi.extractor import Extractor, Page

_READ_AHEAD = 1024 * 1024
_MAGIC = b"PAR1"
# Behind the footer: its length, and the magic bytes.
_TRAILER = 8


class ParquetExtractor(Extractor):
    """Reads the rows of one Parquet file for each response, in native Arrow types.

    If ``ms.output.schema`` is set, only its columns are read; columns and members that the file
    lacks are null. If ``ms.data.field`` is set, a row is the one value at this path. Memory holds a
    part of a row group, however long the group is. A body of more than 16 MiB is kept in a
    temporary file.
    """

    def __init__(self, spec: ExtractionSpec) -> None:
        super().__init__(spec)
        self._files = ColumnarFiles(spec, ParquetFormat())

    def extract(self, response: Response) -> Page:
        """Return the page of one file; see ``ColumnarFiles.page``."""
        return self._files.page(response)


class ParquetFormat:
    """Opens Parquet files; their rows are then read a part of a row group at a time."""

    name = "Parquet"
    magic = _MAGIC
    may_be_empty = False

    def open(self, file: pa.NativeFile, size: int) -> OpenFile:
        """Return the file after reading its footer.

        Raises:
            SourceContractError: another file is in front of the file.
        """
        opened = parquet.ParquetFile(
            file,
            # This option would make the reader read a whole row group ahead.
            pre_buffer=False,
            buffer_size=_READ_AHEAD,
            # Nanoseconds of 64 bits end in 2262; programs that write INT96 have microseconds only.
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
        )
        _check_is_one(file, size, opened.metadata)
        return _ParquetFile(opened)


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
        row_bytes = max(
            (each.total_byte_size // max(1, each.num_rows) for each in groups), default=1
        )
        yield from self._file.iter_batches(
            batch_size=batch_rows(row_bytes, len(columns)),
            columns=list(columns),
            use_threads=False,
        )


def _check_is_one(file: pa.NativeFile, size: int, metadata: parquet.FileMetaData) -> None:
    """Raise if another file is in front of the file.

    Between its last column chunk and its footer a file has no bytes, or indexes and filters of
    unknown length. So a file in front is at most as long as all bytes that the footer does not
    describe.
    """
    longest = size - _TRAILER - metadata.serialized_size - _data_end(metadata)
    is_end = partial(_is_footer_before, file)
    refuse_file_in_front("Parquet", _MAGIC + _MAGIC, file, longest + len(_MAGIC), is_end)


def _data_end(metadata: parquet.FileMetaData) -> int:
    """Return the offset of the end of the last row group, from the footer."""
    if not metadata.num_row_groups:
        return len(_MAGIC)
    group = metadata.row_group(metadata.num_row_groups - 1)
    chunks = (group.column(number) for number in range(group.num_columns))
    # Some writers give 0 as the offset of a dictionary that does not exist.
    return max(
        (
            (c.dictionary_page_offset or c.data_page_offset) + c.total_compressed_size
            for c in chunks
        ),
        default=len(_MAGIC),
    )


def _is_footer_before(file: pa.NativeFile, at: int) -> bool:
    """Return whether a footer ends at ``at``; a value may hold the same last bytes by chance."""
    length = int.from_bytes(file.read_at(4, max(0, at - 4)), "little")
    if length > at - _TRAILER:
        return False
    footer = file.read_at(length + _TRAILER, at - 4 - length)
    try:
        parquet.read_metadata(pa.BufferReader(_MAGIC + footer))
    except (pa.ArrowException, OSError, ValueError):
        return False
    return True
