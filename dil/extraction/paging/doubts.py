"""What is odd about a page that the source itself had named: no content, or rows that came before.

A page is named by the answer before it: with a cursor, an address or a flag. Where only page
values lead on, ``paging_guard`` looks.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dil.extraction.paging.notes import NO_CONTENT, SAME_ROWS
from dil.extraction.paging.rules import Decision
from dil.spi.extractor import Page

if TYPE_CHECKING:
    import pyarrow as pa

# Rows of the decision table by which the answer names the next page.
_NAMING = frozenset({12, 17, 18})


class Doubts:
    """Looks at one walk, page after page; of rows it keeps a checksum.

    Args:
        is_named: Whether the first page was named, because the walk was resumed.
        compares: Whether two pages in a row with the same rows are odd; only then rows are read.
    """

    def __init__(self, *, is_named: bool, compares: bool) -> None:
        self._is_named = is_named
        self._compares = compares
        self._rows_before = self._rows = 0
        self._number_before = self._number = 0

    def watch(self, page: Page) -> None:
        """Take the rows of a page into the checksum while they are read."""
        self._rows_before, self._number_before = self._rows, self._number
        self._rows = self._number = 0
        if self._compares:
            page.batches = self._reading(page.batches)

    def about(self, page: Page) -> tuple[str, ...]:
        """Return what is odd about the page that was watched; all its rows were read."""
        if not self._is_named:
            return ()
        if not page.has_content:
            return (NO_CONTENT,)
        is_same = (self._rows, self._number) == (self._rows_before, self._number_before)
        return (SAME_ROWS,) if is_same and self._rows else ()

    def go_on(self, decision: Decision) -> None:
        """Take note of why there is another page."""
        self._is_named = decision.row in _NAMING

    def _reading(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._rows += batch.num_rows
            # Serialized, because the buffers of a slice are those of all rows it was cut from.
            self._number = zlib.crc32(batch.serialize(), self._number)
            yield batch
