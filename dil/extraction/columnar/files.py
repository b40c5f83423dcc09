"""Reads one columnar file for each response; the common part of Parquet and ORC.

See docs/formats.md, rule F19.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import BinaryIO, Protocol

import pyarrow as pa

from dil.errors import SourceContractError
from dil.extraction.arrow_input import seekable_body
from dil.extraction.columnar.shapes import Shaping
from dil.extraction.excerpt import glimpse
from dil.extraction.names import NameCleansing
from dil.extraction.sizes import BATCH_BYTES, Width, rows_at_once, width_of
from dil.extraction.streams import located_errors, page_place
from dil.model.job import ExtractionSpec
from dil.spi.connector import Response
from dil.spi.extractor import Page, nothing_found
from dil.text.paths import one_place

BATCH_ROWS = 65_536
# The errors that the library raises for bytes that it does not understand.
_DAMAGED = (pa.ArrowException, OSError, EOFError, ValueError, LookupError)
_CHUNK = 1024 * 1024


class OpenFile(Protocol):
    """A file whose rows can be read."""

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the file."""

    @property
    def rows(self) -> int:
        """Return the number of rows that the file declares."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield all rows with these columns, in the file's order."""


class ColumnarFormat(Protocol):
    """A columnar format: its name, and the bytes that each file begins with.

    If ``may_be_empty`` is true, a file of no bytes is valid and has no rows.
    """

    name: str
    magic: bytes
    may_be_empty: bool

    def open(self, file: pa.NativeFile, size: int) -> OpenFile:
        """Return the file after reading its metadata; the file has ``size`` bytes."""


def batch_rows(row_bytes: int, columns: int) -> int:
    """Return how many rows of so many decoded bytes and columns to read at once.

    >>> batch_rows(100, 1), batch_rows(1 << 30, 1), batch_rows(0, 0)
    (65536, 1, 65536)
    """
    return max(1, min(rows_at_once(columns), BATCH_BYTES // max(1, row_bytes)))


class ColumnarFiles:
    """The files of one attempt, page after page."""

    def __init__(self, spec: ExtractionSpec, file_format: ColumnarFormat) -> None:
        self._spec = spec
        self._format = file_format
        names = NameCleansing(spec.cleansing) if spec.cleansing else None
        self._shaping = Shaping(names)
        self._pages = 0

    def page(self, response: Response) -> Page:
        """Return the page of one file; consuming its batches reads the file.

        Raises:
            SourceContractError: (from the batches) the body is no whole file of the format, or
                its columns contradict the job's properties.
            WriteError: (from the batches) the folder of temporary files is full.
        """
        self._pages += 1
        page = Page(iter(()), nothing_found)
        if response.body is not None:
            where = page_place(response, self._pages)
            page.batches = self._batches(response.body, where, page)
        return page

    def _batches(self, body: BinaryIO, where: str, page: Page) -> Iterator[pa.RecordBatch]:
        file, size = seekable_body(body)
        errors = _translated_errors(self._format.name)
        with closing(file), located_errors(where), errors:
            if not size and self._format.may_be_empty:
                return
            self._check_begin(file, size)
            opened = self._format.open(file, size)
            yield from self._rows(opened, page)
            if page.rows != opened.rows:
                raise SourceContractError(
                    f"the file declares {opened.rows} rows and gave {page.rows}",
                    "The file is damaged: write it again at the source.",
                )

    def _check_begin(self, file: pa.NativeFile, size: int) -> None:
        begin = file.read(1024)
        file.seek(0)
        if begin.startswith(self._format.magic):
            return
        what = f'it begins: "{glimpse(begin)}"' if size else "it is empty"
        raise SourceContractError(
            f"the body is no {self._format.name} file; {what}",
            "Look at the file at the source. ms.source.files.pattern can leave out files of"
            " other formats.",
        )

    def _rows(self, opened: OpenFile, page: Page) -> Iterator[pa.RecordBatch]:
        field = self._spec.data_field
        found, path = opened.schema, tuple(map(str, one_place(field)))
        if path:
            found = pa.schema([pa.field(path[-1], _type_at(found, path))])
        if self._spec.output_schema is None:
            Width(self._spec.most_columns).add(width_of(found.types))
        shape = self._shaping.rows(found, self._spec.output_schema)
        if self._spec.output_schema is not None:
            page.left_out = shape.left_out
        columns = (path[0],) if path and shape.columns else shape.columns
        for batch in opened.batches(columns):
            picked = _picked(batch, path) if path else batch
            page.rows += batch.num_rows
            for begin in range(0, batch.num_rows, BATCH_ROWS):
                yield shape.batch(picked.slice(begin, BATCH_ROWS))


def _type_at(schema: pa.Schema, path: Sequence[str]) -> pa.DataType:
    """Return the type at a dot path through members of records."""
    found = pa.struct(list(schema))
    for segment in path:
        place = found.get_field_index(segment) if pa.types.is_struct(found) else -1
        if place < 0:
            raise SourceContractError(
                f'there is no "{".".join(path)}" in the schema of the file',
                "Check ms.data.field: it leads through members of records.",
            )
        found = found.field(place).type
    return found


def _picked(batch: pa.RecordBatch, path: Sequence[str]) -> pa.RecordBatch:
    """Return rows of one column; it holds each row's value at the path."""
    if path[0] not in batch.schema.names:
        return batch
    found = batch.column(path[0])
    for segment in path[1:]:
        if found.null_count:
            raise SourceContractError(
                f'a record has no value at "{".".join(path)}"', "Check ms.data.field."
            )
        found = found.field(segment)
    return pa.RecordBatch.from_arrays([found], names=[path[-1]])


@contextmanager
def _translated_errors(kind: str) -> Iterator[None]:
    """Translate errors of a format's library, without their texts, which may quote rows."""
    try:
        yield
    except MemoryError:  # Arrow's MemoryError is an ArrowException, too
        raise
    except _DAMAGED as error:
        if "out of range for nanosecond" in str(error):
            raise SourceContractError(
                "the file has timestamps outside of the years 1678 to 2261",
                f"The reader of {kind} cannot hold them. Leave the column out of"
                " ms.output.schema, or write it as text or Parquet at the source.",
            ) from None
        raise SourceContractError(
            f"the body is no whole {kind} file that can be read ({type(error).__name__})",
            "Check the file: it may have been cut off, be encrypted, or need a codec that is not"
            " installed.",
        ) from error


def refuse_file_in_front(
    name: str, mark: bytes, file: pa.NativeFile, end: int, is_end: Callable[[int], bool]
) -> None:
    """Raise if another file is in front of a file: its rows would be lost.

    Offsets in a columnar file count from its beginning, and its reader starts at its end. So a file
    in front shows as bytes that the metadata at the end does not describe: ``mark`` is in the first
    ``end`` bytes, and ``is_end`` finds the end of a file there.
    """
    at = 0
    while at + len(mark) <= end:
        text = file.read_at(min(_CHUNK, end - at), at)
        found = text.find(mark)
        while found >= 0:
            if is_end(at + found):
                raise SourceContractError(
                    f"another {name} file is in front of the {name} file",
                    "Such files cannot be concatenated: send each as a file of its own.",
                )
            found = text.find(mark, found + 1)
        at += max(1, len(text) - len(mark) + 1)
