"""Delimited text as Arrow rows (docs/formats.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import BinaryIO, ClassVar, cast

import pyarrow as pa

from dil.errors import SourceContractError
from dil.extraction.coercion import RowPosition
from dil.extraction.content import (
    PACKED_MARK_BYTES,
    charset_advice,
    notes_of_end,
    refuse_other_types,
    refuse_packed,
    refuse_web_page,
    refuse_wide,
)
from dil.extraction.csv.cells import CellReader
from dil.extraction.csv.columns import CsvColumns, FoundCsvColumns, GivenCsvColumns, ReadBlock
from dil.extraction.csv.dialect import CsvDialect
from dil.extraction.csv.failures import DROPPED, CsvFailures
from dil.extraction.csv.records import RecordBlocks
from dil.extraction.names import NameCleansing
from dil.extraction.preprocessing.compression import GunzipProcessor
from dil.extraction.preprocessing.limits import CountedStream, LimitedStream, ReceivedBytes
from dil.extraction.sizes import CSV_RECORD_BYTES, longest
from dil.extraction.streams import located_errors, page_place, read_up_to, stream_of
from dil.model.job import ExtractionSpec
from dil.spi.connector import Response
from dil.spi.extractor import Extractor, Page, nothing_found
from dil.spi.preprocessor import PreprocessorContext

_BATCH_ROWS = 65_536
_BEGIN_BYTES = 256
_GZIP = "application/gzip"
_GZIP_MAGIC = b"\x1f\x8b"


class CsvExtractor(Extractor):
    """Reads delimited text, each record as one row, by the settings of ``ms.csv``.

    The body is read in pieces of 2 MiB while the batches are consumed, so it may be larger than
    memory; a record may have 64 MiB. A body of the type application/gzip is unpacked. Empty cells
    become null, and so do cells with the text ``null`` unless ``keepNullString`` is true.

    If ``ms.output.schema`` is set, rows have exactly its columns; see ``GivenCsvColumns``. If not,
    all cells together decide the columns and types; see ``FoundCsvColumns``. Batches hold at most
    65,536 rows. Look-ups find nothing in the body: session keys come from response headers.
    """

    content_types: ClassVar[tuple[str, ...]] = ("text/csv", "application/csv", _GZIP)

    def __init__(self, spec: ExtractionSpec) -> None:
        super().__init__(spec)
        settings = spec.csv.settings
        self._accepted = {*self.content_types, *(t.lower() for t in spec.extra_content_types)}
        self._dialect = CsvDialect.of(settings)
        self._cells = CellReader(
            self._dialect,
            keeps_null_text=settings.keep_null_string,
            most_columns=spec.most_columns if spec.output_schema is None else 0,
        )
        self._failures = CsvFailures(settings.max_failures)
        names = NameCleansing(spec.cleansing) if spec.cleansing else None
        self._columns: CsvColumns = (
            GivenCsvColumns(spec, spec.output_schema, self._cells, names)
            if spec.output_schema is not None
            else FoundCsvColumns(spec, self._cells, names)
        )
        self._pages = 0

    def extract(self, response: Response) -> Page:
        """Return the page of one response; consuming its batches reads the response.

        Rows that ``maxFailures`` allows to drop count in ``Page.rows``, but are in no batch.

        Raises:
            SourceContractError: the content type is not accepted. From the batches: the text is
                not in its character set, a quote is never closed, or the header lacks a column.
            ConversionError: (from the batches) more than ``maxFailures`` cells do not fit.
        """
        refuse_other_types(response, self._accepted)
        self._pages += 1
        notes = () if response.content_type == _GZIP else notes_of_end(response)
        page = Page(iter(()), nothing_found, notes=notes)
        if response.body is not None:
            page.batches = self._batches(response.body, response, page)
        return page

    def _batches(self, body: BinaryIO, response: Response, page: Page) -> Iterator[pa.RecordBatch]:
        errors = self._translated_errors(response)
        with closing(body), errors, self._unpacked(body, response) as stream:
            begin = read_up_to(stream, _BEGIN_BYTES)
            refuse_web_page(response, begin)
            refuse_wide(response, begin[:4], self.spec.charset)
            records = RecordBlocks(
                stream_of(begin, stream),
                self.spec.charset,
                self._dialect,
                record_bytes=longest(self.spec, CSV_RECORD_BYTES),
            )
            if not self._skip_lines(records):
                return
            for block in records.blocks():
                yield from self._rows(self._columns.read(block), page)

    def _skip_lines(self, records: RecordBlocks) -> bool:
        """Skip the top lines, and read a header among them; return whether rows may follow."""
        settings = self.spec.csv.settings
        skipped = records.take(settings.skipped)
        if len(skipped) < settings.skipped:
            return False
        at = settings.column_header_index
        self._columns.begin(self._cells.names(skipped[at]) if at >= 0 else None)
        return True

    def _rows(self, read: ReadBlock, page: Page) -> Iterator[pa.RecordBatch]:
        dropped = self._failures.dropped
        place = RowPosition(self._pages, page.rows + 1)
        batch = self._failures.without(read.batch, read.bad, place)
        notes = (*read.notes, *((DROPPED,) if self._failures.dropped > dropped else ()))
        page.notes = tuple(dict.fromkeys((*page.notes, *notes)))
        page.left_out = read.left_out
        page.rows += read.batch.num_rows
        page.dropped += self._failures.dropped - dropped
        for begin in range(0, batch.num_rows, _BATCH_ROWS):
            yield batch.slice(begin, _BATCH_ROWS)

    @contextmanager
    def _translated_errors(self, response: Response) -> Iterator[None]:
        """Name the location and page of a response in errors about it."""
        with located_errors(page_place(response, self._pages)):
            try:
                yield
            except UnicodeDecodeError as error:
                raise SourceContractError(
                    f"the body is not {self.spec.charset} text: {error.reason}",
                    charset_advice(response),
                ) from None

    @contextmanager
    def _unpacked(self, body: BinaryIO, response: Response) -> Iterator[BinaryIO]:
        """Yield the body; unpack it if its type and its first bytes say that it is gzip."""
        begin = read_up_to(body, PACKED_MARK_BYTES)
        stream = stream_of(begin, body)
        if response.content_type != _GZIP or not begin.startswith(_GZIP_MAGIC):
            refuse_packed(begin, "")
            yield stream
            return
        received = ReceivedBytes()
        packed = cast("BinaryIO", CountedStream(stream, received))
        made = GunzipProcessor(PreprocessorContext("gunzip")).process(packed)
        with closing(LimitedStream(made, "gunzip", received, self.spec.expansion)) as unpacked:
            yield cast("BinaryIO", unpacked)
