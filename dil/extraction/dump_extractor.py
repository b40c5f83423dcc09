"""Copies the bytes of a response unchanged, in pieces, for one file (rule U6)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import BinaryIO

import pyarrow as pa

from dil.extraction.content import notes_of_end
from dil.model.arrow import typed_schema
from dil.model.job import ExtractionSpec
from dil.model.schema import Column, Primitive
from dil.spi.connector import Response
from dil.spi.extractor import Extractor, Page, nothing_found

MOST_BYTES = 4 * 1024 * 1024
ENOUGH_BYTES = 1024 * 1024


class FileDumpExtractor(Extractor):
    """Makes one page of each response; the batches are pieces of the body and count as one row.

    An empty response is one empty piece. If ``ms.pagination`` is set, this piece counts as no row
    and ends the pages. Content types are not checked, and look-ups find nothing.
    """

    def __init__(self, spec: ExtractionSpec) -> None:
        super().__init__(spec)
        self._schema = typed_schema((Column("data", Primitive("bytes"), nullable=False),))

    def extract(self, response: Response) -> Page:
        """Return the page of one response; consuming its batches reads the response."""
        page = Page(iter(()), nothing_found, is_whole=True, notes=notes_of_end(response))
        if response.body is not None:
            page.batches = self._batches(response.body, page)
        return page

    def _batches(self, body: BinaryIO, page: Page) -> Iterator[pa.RecordBatch]:
        with closing(body):
            piece = _piece(body)
            page.rows = 1 if piece or not self.spec.pagination.is_on else 0
            yield self._batch(piece)
            while piece := _piece(body):
                yield self._batch(piece)

    def _batch(self, piece: bytes) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array([piece], pa.binary())], schema=self._schema)


def _piece(body: BinaryIO) -> bytes:
    """Return the next piece of a body, empty at the end; small reads are joined."""
    parts, size = [], 0
    while size < ENOUGH_BYTES and (data := body.read(MOST_BYTES - size)):
        parts.append(data)
        size += len(data)
    return b"".join(parts)
