"""Guards against a source that leads a walk in circles (rule G24)."""

from __future__ import annotations

import hashlib

from dil.errors import SourceContractError
from dil.extraction.paging.rules import (
    BY_VALUES,
    SAYS_MORE,
    PageState,
    PagingDecision,
    PagingRules,
    Row,
)
from dil.extraction.parameters import PageValues

_REMEMBERED = 100_000
_MOST_EMPTY = 1000
_BY_PATH = " If its pages differ in the path, leave `queryOnly` out of ms.pagination."


class PagingGuard:
    """Remembers the pages of one walk, and checks each further request.

    It remembers a hash of eight bytes for each of the newest 100,000 cursors and addresses. Polling
    for a session condition and sending payload rows may repeat requests; the guard allows this.
    ``content`` is the hash of the page before the first page of this walk.
    """

    def __init__(self, rules: PagingRules, content: bytes | None = None) -> None:
        self._rules = rules
        self._seen: dict[bytes, None] = {}
        self._content = content
        self._empty = 0

    @property
    def content(self) -> bytes | None:
        """Return the hash of the last checked page, None if there is none."""
        return self._content

    def answered(self, uri: str) -> None:
        """Remember the address of an answer, if ``queryOnly`` may make the next one equal to it."""
        if self._rules.query_only:
            self._remember(uri)

    def check(self, decision: PagingDecision, state: PageState, content: bytes | None) -> None:
        """Raise if the next request would only repeat an earlier one.

        Args:
            decision: The row of the table that wants another request.
            state: The state after the page.
            content: The hash of the page's body, None if it is not known.

        Raises:
            SourceContractError: the walk goes in circles.
        """
        if decision.row is Row.NEXT_ADDRESS:
            self._refuse_seen(state.next_uri, "the address of its next page")
        elif decision.row is Row.CURSOR and self._rules.sends_session and not self._rules.is_paged:
            self._refuse_seen(state.key.cursor, "the session key")
        elif decision.row in BY_VALUES and state.rows:
            self._refuse_equal(content)
        self._content = content
        self._refuse_emptiness(decision, state)

    def check_values(
        self, decision: PagingDecision, asked: PageValues, following: PageValues
    ) -> None:
        """Raise if an answer's page value would make the next request repeat an earlier page.

        Args:
            decision: The row of the table that wants another request.
            asked: The page values of the last request.
            following: The page values of the next request.

        Raises:
            SourceContractError: the walk goes in circles.
        """
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

    def _refuse_equal(self, content: bytes | None) -> None:
        if content is not None and content == self._content and self._rules.compares_bodies:
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
