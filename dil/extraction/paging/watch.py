"""Watches the pages of a walk: refuses circles (rule G24), notes doubtful pages."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING

from dil.errors import SourceContractError
from dil.extraction.paging.notes import NO_CONTENT, NOT_READY, SAME_ROWS, SHORT_PAGE, UNREAD
from dil.extraction.paging.rules import (
    BY_VALUES,
    SAYS_MORE,
    LastPage,
    PageState,
    PagingDecision,
    PagingRules,
    Row,
)
from dil.extraction.parameters import PageValues
from dil.extraction.streams import MeasuredBody
from dil.spi.connector import Response
from dil.spi.extractor import Page

if TYPE_CHECKING:
    import pyarrow as pa

_REMEMBERED = 100_000
_MOST_EMPTY = 1000
_BY_PATH = " If its pages differ in the path, leave `queryOnly` out of ms.pagination."


class PageWatch:
    """Compares each page of a walk with earlier ones.

    It remembers a hash of eight bytes for each of the newest 100,000 cursors and addresses. Polling
    for a session condition and sending payload rows may repeat requests, and give equal answers.

    ``last`` is the last page that another page followed.

    Args:
        rules: The configured rules.
        last: The page before the first page, if the walk was resumed.
        is_sending: Whether the requests send payload rows.
    """

    def __init__(self, rules: PagingRules, last: LastPage, *, is_sending: bool) -> None:
        self.last = last
        self._rules = rules
        self._is_sending = is_sending
        # Rows are read only for the comparison.
        self._compares_rows = rules.names_pages and not is_sending and not rules.allows_equal_pages
        self._rows = self._checksum = 0  # of this page
        self._accepts_with_rows = False
        self._is_waiting = False
        self._seen: dict[bytes, None] = {}
        self._empty = 0

    def begin(self, page: Page) -> None:
        """Compute the checksum of a page's rows while they are read."""
        self._rows = self._checksum = 0
        if self._compares_rows:
            page.batches = self._reading(page.batches)

    def _reading(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._rows += batch.num_rows
            # The row is serialized, because a slice shares the buffers of all rows from which it
            # was cut.
            self._checksum = zlib.crc32(batch.serialize(), self._checksum)
            yield batch

    def about(self, page: Page, response: Response) -> tuple[str, ...]:
        """Return notes about the watched page, after all its rows were read."""
        last, rows = self.last, (self._rows, self._checksum)
        is_accepted = response.status == HTTPStatus.ACCEPTED and not response.warning
        self._accepts_with_rows |= is_accepted and page.rows > 0 and not page.is_whole
        self._is_waiting = is_accepted and not self._accepts_with_rows
        unread = (UNREAD,) if response.is_unread and not self._is_sending else ()
        if last.is_short and page.rows:
            return (SHORT_PAGE, *unread)
        if last.names_next and not page.has_content:
            return (NO_CONTENT, *unread)
        if last.names_next and self._rows and rows == (last.rows, last.checksum):
            return (SAME_ROWS, *unread)
        return unread

    def may_follow(self, state: PageState) -> tuple[str, ...]:
        """Return the note that rows may follow, if the walk's last answer says so by status 202.

        A source that gives rows with this status does not say so, and a key with a condition knows
        better than the status.
        """
        is_decided = self._rules.condition is not None and state.key.is_there
        if self._is_waiting and not is_decided and not self._is_sending:
            return (NOT_READY,)
        return ()

    def go_on(
        self,
        decision: PagingDecision,
        state: PageState,
        response: Response,
        asked: PageValues,
        following: PageValues,
        *,
        skips: bool,
    ) -> None:
        """Keep the facts about a page that another page follows.

        Args:
            decision: The row of the table that wants another request.
            state: The state after the page.
            response: The answer that had the page.
            asked: The page values of its request.
            following: The page values of the next request.
            skips: Whether the start of the next page skips rows.

        Raises:
            SourceContractError: the next request would only repeat an earlier one.
        """
        body: object = response.body
        content = (isinstance(body, MeasuredBody) and body.content) or b""
        if self._rules.query_only:  # The address of the next page may equal that of the answer.
            self._remember(response.uri)
        if decision.row is Row.NEXT_ADDRESS:
            self._refuse_seen(state.next_uri, "the address of its next page")
        elif decision.row is Row.CURSOR and self._rules.sends_session and not self._rules.is_paged:
            self._refuse_seen(state.key.cursor, "the session key")
        elif decision.row in BY_VALUES and state.rows:
            self._refuse_equal(content.hex())
        self._refuse_emptiness(decision, state)
        self._refuse_earlier(decision, asked, following)
        self.last = LastPage(
            content=content.hex(),
            rows=self._rows,
            checksum=self._checksum,
            names_next=decision.row in SAYS_MORE,
            is_short=skips and decision.row in BY_VALUES,
        )

    def _refuse_earlier(
        self, decision: PagingDecision, asked: PageValues, following: PageValues
    ) -> None:
        """Raise if an answer's page value would make the next request repeat an earlier page."""
        rules = self._rules
        if decision.row not in BY_VALUES or not rules.is_paged or not rules.compares_bodies:
            return
        for kind, before, after in (
            ("pagestart", asked.start, following.start),
            ("pageno", asked.number, following.number),
        ):
            if kind not in rules.sent_values:
                continue
            if before is not None and after is not None and after <= before:
                raise SourceContractError(
                    "the source leads in circles: the answer says that it is an earlier page than"
                    f" the requested one, so that the next request would ask for {after} after"
                    f" {before}",
                    "Check `fields` of ms.pagination, and the parameters that name the page.",
                )

    def _refuse_seen(self, text: str, what: str) -> None:
        if not self._remember(text):
            advice = _BY_PATH if self._rules.query_only else ""
            raise SourceContractError(
                f"the source leads in circles: {what} came before in this work unit",
                "Paging would never end. Check which next request the source expects, and "
                f"ms.pagination and ms.session.key.field.{advice}",
            )

    def _remember(self, text: str) -> bool:
        """Remember a cursor or an address; return whether it is new."""
        mark = hashlib.blake2b(text.encode(), digest_size=8).digest()
        is_new = mark not in self._seen
        self._seen[mark] = None
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return is_new

    def _refuse_equal(self, content: str) -> None:
        if content and content == self.last.content and self._rules.compares_bodies:
            raise SourceContractError(
                "two pages in a row are the same, byte for byte: the source ignores the parameter"
                " that says which page is meant",
                "Check its name in ms.parameters, and where it is sent. If the source gives its"
                " last page again beyond the end, name ms.total.count.field, or `more` or"
                " `stopOnShortPage` of ms.pagination. If such pages are right, write"
                ' "allowEqualPages": true in ms.pagination.',
            )

    def _refuse_emptiness(self, decision: PagingDecision, state: PageState) -> None:
        self._empty = self._empty + 1 if decision.row in SAYS_MORE and not state.rows else 0
        if self._empty > _MOST_EMPTY:
            raise SourceContractError(
                f"the source says that there is more, and {_MOST_EMPTY} pages in a row had no rows",
                "Check `next` and `more` of ms.pagination, and ms.data.field.",
            )
