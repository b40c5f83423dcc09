"""ORC files as Arrow rows (an addition to LinkedIn's DIL)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import dataset, orc

from dil.extraction.columnar.files import ColumnarFiles, batch_rows, refuse_file_in_front
from dil.extraction.columnar.orc_sizes import OrcTail, StripeSize
from dil.extraction.sizes import ORC_TAIL_BYTES, share_of, too_long
from dil.model.job import ExtractionSpec
from dil.spi.connector import Response
from dil.spi.extractor import Extractor, Page

# If the longest row of a stripe is unknown, the stripe may take a worker's memory divided by this
# number.
_STRIPE_SHARE = 4
_MAGIC = b"ORC"
# The end of a postscript, field 8000 of its message; the last byte of the file is its length.
_POSTSCRIPT_END = b"\x82\xf4\x03\x03" + _MAGIC


class OrcExtractor(Extractor):
    """Reads the rows of one ORC file for each response, in native Arrow types.

    If ``ms.output.schema`` is set, only its columns are read; columns and members that the file
    lacks are null. If ``ms.data.field`` is set, a row is the one value at this path. Memory holds a
    part of a stripe, however long the stripe is. A body of more than 16 MiB is kept in a temporary
    file.
    """

    def __init__(self, spec: ExtractionSpec) -> None:
        super().__init__(spec)
        self._files = ColumnarFiles(spec, OrcFormat(spec.memory_bytes))

    def extract(self, response: Response) -> Page:
        """Return the page of one file; see ``ColumnarFiles.page``."""
        return self._files.page(response)


class OrcFormat:
    """Opens ORC files; their rows are then read a part of a stripe at a time.

    ``memory_bytes`` is how much memory the reading process may take, 0 or None for no limit.
    """

    name = "ORC"
    magic = _MAGIC
    may_be_empty = True  # Hive writes such files for empty buckets.

    def __init__(self, memory_bytes: int | None) -> None:
        self._memory_bytes = memory_bytes

    def open(self, file: pa.NativeFile, size: int) -> OrcRows:
        """Read the metadata at the end of the file, and return the rows unread.

        Raises:
            SourceContractError: the metadata is too long, or the bytes are two files, one after the
                other.
        """
        return OrcRows(file, size, self._memory_bytes)


class OrcRows:
    """The rows of one file, a part of a stripe at a time."""

    def __init__(self, file: pa.NativeFile, size: int, memory_bytes: int | None) -> None:
        self._bytes = file
        self._memory_bytes = memory_bytes
        self._tail = OrcTail(file, size, share_of(memory_bytes, ORC_TAIL_BYTES))
        self._file = orc.ORCFile(file)
        _check_is_one(file, size, self._file)

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the file."""
        schema: pa.Schema = self._file.schema
        return schema

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return int(self._file.nrows)

    def value_bytes(self, columns: Sequence[str]) -> int:
        """Return about how many bytes the values of some columns take, 0 if unknown."""
        parts = self._tail.parts(columns)
        is_known = sum(each.rows for each in parts) == self.rows
        return sum(each.bytes for each in parts) if is_known else 0

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield all rows with these columns, in the file's order."""
        if _has_dots(pa.struct(list(self.schema))):
            # Arrow's data set takes names with dots for paths, and would return nulls.
            self._refuse_long(self._tail.parts(self.schema.names), is_whole=True)
            for number in range(self._file.nstripes):
                yield self._file.read_stripe(number)
            return
        # Arrow's data set reads parts of a stripe; the reader of the file takes whole stripes,
        # which may have several hundred megabytes.
        parts = self._tail.parts(columns)
        self._refuse_long(parts, is_whole=False)
        row_bytes = max((each.row_bytes for each in parts), default=1)
        fragment = dataset.OrcFileFormat().make_fragment(self._bytes)
        yield from fragment.scanner(
            columns=list(columns),
            batch_size=batch_rows(row_bytes, len(columns)),
            batch_readahead=0,
            fragment_readahead=0,
            use_threads=False,
        ).to_batches()

    def _refuse_long(self, parts: Sequence[StripeSize], *, is_whole: bool) -> None:
        """Raise if the reader would need more memory for the rows than a worker may take.

        ``is_whole`` is true if the reader takes whole stripes, false if it takes rows.
        """
        largest = (self._memory_bytes or 0) // _STRIPE_SHARE
        for part in parts if largest else ():
            needed = part.bytes if is_whole else part.row_bytes
            most = largest if is_whole else share_of(self._memory_bytes, part.bytes)
            if part.bytes > largest and needed > most:
                what = "a stripe" if is_whole else "a row"
                raise too_long(
                    f"{what} has {needed:,} bytes, but at most {most:,} are read at once"
                )


def _has_dots(kind: pa.DataType) -> bool:
    """Return whether a name at any depth has a dot."""
    if not pa.types.is_nested(kind):
        return False
    fields = [kind.field(place) for place in range(kind.num_fields)]
    is_record = pa.types.is_struct(kind)
    return any((is_record and "." in each.name) or _has_dots(each.type) for each in fields)


def _check_is_one(file: pa.NativeFile, size: int, opened: orc.ORCFile) -> None:
    """Raise if another file is in front of the file.

    Some writers give 0 for the length of the content.
    """
    tail = opened.stripe_statistics_length + opened.file_footer_length
    longest = size - opened.content_length - tail - opened.file_postscript_length - 1

    def is_end(place: int) -> bool:
        return bool(file.read_at(len(_MAGIC), place + len(_POSTSCRIPT_END) + 1) == _MAGIC)

    refuse_file_in_front("ORC", _POSTSCRIPT_END, file, longest, is_end)
