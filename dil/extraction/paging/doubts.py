"""What is odd about a page: it was named and has no content or rows of before, or it skips rows.

A page is named by the answer before it: with a cursor, an address or a flag. Where only page
values lead on, the guard looks whether pages repeat themselves; here it is looked whether a page
that was not full, and by whose asked size the next one began, was not the last.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dil.extraction.paging.notes import NO_CONTENT, SAME_ROWS, SHORT_PAGE
from dil.extraction.paging.position import LastPage
from dil.extraction.paging.rules import Decision
from dil.spi.extractor import Page

if TYPE_CHECKING:
    import pyarrow as pa

# Rows of the decision table by which the answer names the next page.
_NAMING = frozenset({12, 17, 18})
# Those by which the page values alone say where the next page begins.
_BY_VALUES = frozenset({13, 18})


class Doubts:
    """Looks at one walk, page after page; of rows it keeps a checksum.

    Args:
        before: The page before the first one, where the walk was resumed.
        compares: Whether two pages in a row with the same rows are odd; only then rows are read.
    """

    def __init__(self, before: LastPage, *, compares: bool) -> None:
        self._is_named = before.names_next
        self._compares = compares
        self._was_short = before.is_short
        self._rows_before, self._rows = 0, before.rows
        self._number_before, self._number = 0, before.checksum

    def watch(self, page: Page) -> None:
        """Take the rows of a page into the checksum while they are read."""
        self._rows_before, self._number_before = self._rows, self._number
        self._rows = self._number = 0
        if self._compares:
            page.batches = self._reading(page.batches)

    def about(self, page: Page) -> tuple[str, ...]:
        """Return what is odd about the page that was watched; all its rows were read."""
        if self._was_short and page.rows:
            return (SHORT_PAGE,)
        if not self._is_named:
            return ()
        if not page.has_content:
            return (NO_CONTENT,)
        is_same = (self._rows, self._number) == (self._rows_before, self._number_before)
        return (SAME_ROWS,) if is_same and self._rows else ()

    def go_on(self, decision: Decision, *, is_short: bool) -> None:
        """Take note of why there is another page.

        Args:
            decision: The row of the table that asks for it.
            is_short: Whether this page had fewer rows than the next one's start takes for granted.
        """
        self._is_named = decision.row in _NAMING
        self._was_short = is_short and decision.row in _BY_VALUES

    def last_page(self, content: bytes | None) -> LastPage:
        """Return what a later attempt has to know of the last page; ``content`` is its hash."""
        return LastPage(
            content=(content or b"").hex(),
            rows=self._rows,
            checksum=self._number,
            names_next=self._is_named,
            is_short=self._was_short,
        )

    def _reading(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._rows += batch.num_rows
            # Serialized, because the buffers of a slice are those of all rows it was cut from.
            self._number = zlib.crc32(batch.serialize(), self._number)
            yield batch
