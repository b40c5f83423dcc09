"""Guards against a source that leads a walk in circles (rule G24)."""

from __future__ import annotations

import hashlib

from dil.errors import SourceContractError
from dil.extraction.paging.rules import PageState, PagingDecision, PagingRules
from dil.extraction.parameters import PageValues

_REMEMBERED = 100_000
_MOST_EMPTY = 1000
# Rows of the decision table that continue only by page values, without a statement of the source.
_BY_VALUES = frozenset({13, 14, 18})
_BY_CURSOR, _BY_ADDRESS = 12, 17


class PagingGuard:
    """Remembers the pages of one walk, and checks each further request.

    It remembers a hash of eight bytes for each of the newest 100,000 cursors and addresses. Polling
    for a session condition and sending payload rows may repeat requests; the guard allows this.
    ``content`` is the hash of the page before the first page of this walk.
    """

    def __init__(
        self,
        rules: PagingRules,
        *,
        allows_equal_pages: bool = False,
        content: bytes | None = None,
    ) -> None:
        self._rules = rules
        self._seen: dict[bytes, None] = {}
        self._content = content
        self._empty = 0
        self._allows_equal_pages = allows_equal_pages

    @property
    def reads_content(self) -> bool:
        """Return whether bodies must be hashed, because pages are compared."""
        rules = self._rules
        by_values = rules.is_paged or rules.has_total or rules.has_more
        return by_values and rules.condition is None and not self._allows_equal_pages

    @property
    def content(self) -> bytes | None:
        """Return the hash of the last checked page, None if there is none."""
        return self._content

    def check(self, decision: PagingDecision, state: PageState, content: bytes | None) -> None:
        """Raise if the next request would only repeat an earlier one.

        Args:
            decision: The row of the table that wants another request.
            state: The state after the page.
            content: The hash of the page's body, None if it is not known.

        Raises:
            SourceContractError: the walk goes in circles.
        """
        if decision.row == _BY_ADDRESS:
            self._refuse_seen(state.next_uri, "the address of its next page")
        elif decision.row == _BY_CURSOR and self._rules.sends_session and not self._rules.is_paged:
            self._refuse_seen(state.key.cursor, "the session key")
        elif decision.row in _BY_VALUES and state.rows:
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
        if decision.row not in _BY_VALUES or not self._rules.is_paged or not self.reads_content:
            return
        for kind, before, after in (
            ("pagestart", asked.start, following.start),
            ("pageno", asked.number, following.number),
        ):
            if kind not in self._rules.sent_values:
                continue
            if before is not None and after is not None and after <= before:
                raise _broken(
                    "the source leads in circles: the answer says that it is an earlier page than"
                    f" the requested one, so that the next request would ask for {after} after"
                    f" {before}",
                    "Check `fields` of ms.pagination, and the parameters that name the page.",
                )

    def _refuse_seen(self, text: str, what: str) -> None:
        mark = hashlib.blake2b(text.encode(), digest_size=8).digest()
        if mark in self._seen:
            raise _broken(
                f"the source leads in circles: {what} came before in this work unit",
                "Paging would never end. Check which next request the source expects, and "
                "ms.pagination and ms.session.key.field.",
            )
        self._seen[mark] = None
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]

    def _refuse_equal(self, content: bytes | None) -> None:
        if content is not None and content == self._content and self.reads_content:
            raise _broken(
                "two pages in a row are the same, byte for byte: the source ignores the parameter"
                " that says which page is meant",
                "Check its name in ms.parameters, and where it is sent. If the source gives its"
                " last page again beyond the end, name ms.total.count.field, or `more` or"
                " `stopOnShortPage` of ms.pagination. If such pages are right, write"
                ' "allowEqualPages": true in ms.pagination.',
            )

    def _refuse_emptiness(self, decision: PagingDecision, state: PageState) -> None:
        is_led = decision.row in {_BY_ADDRESS, _BY_CURSOR, 18}
        self._empty = self._empty + 1 if is_led and not state.rows else 0
        if self._empty > _MOST_EMPTY:
            raise _broken(
                f"the source says that there is more, and {_MOST_EMPTY} pages in a row had no rows",
                "Check `next` and `more` of ms.pagination, and ms.data.field.",
            )


def _broken(what: str, fix: str) -> SourceContractError:
    """Return the error of a walk that leads nowhere."""
    return SourceContractError(what, fix)
