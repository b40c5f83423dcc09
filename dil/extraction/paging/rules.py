"""Decides whether to ask for another page, and with which values; no side effects.

See docs/semantics/paging.md. Row n of the table is rule Gn. Rows 16 to 20 decide by members of
``ms.pagination`` that LinkedIn's DIL does not have. The order of all rows is::

    1 2 3    the session condition, its opposite, its time-out
    4 5      payload rows
    8        the session itself has another answer, such as the next file: next request; before
             row 6, because a total in a file counts the rows of this file only
    6        the total is reached: stop
    7        polling without any paging: next request
    8        the session had other answers and has no more: stop
    16       `more` says no: stop
    17       `next`: an address is named: next request, even after an empty page; none: stop
    18       `more` says yes: next request, even after an empty page; with a cursor, rows 11 and 12
             decide, because a request without a cursor would ask for the first page again
    9        the page had no rows: stop
    10       polling with paging: next request
    19       `stopOnShortPage`, and the page had fewer rows than its size: stop
    11 12    cursors
    13 14    paging by start or number, and a total that is not reached: next request
    15       else: stop
    20       a cap: wherever a row above says next request and `maxPages` or `maxRows` is reached,
             the walk stops, or fails with `failAtCap`. Caps always win.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum, IntEnum

import msgspec

from dil.extraction.paging.answers import HEADER, LINK, EchoedPage, SessionKey
from dil.extraction.parameters import PageValues
from dil.model.job import ExtractionSpec
from dil.model.json import JsonValue, read_number
from dil.model.settings import FailCondition, SessionCondition, flat_parameters
from dil.spi.extractor import Page
from dil.text.java_regex import compile_java
from dil.text.paths import compile_path

_PAGE_VALUES = frozenset({"pagestart", "pageno"})


class Action(Enum):
    """The decision after a page."""

    NEXT = "next"
    STOP = "stop"
    FAIL = "fail"


class Row(IntEnum):
    """The rows of the table."""

    REPEATED_CURSOR = 0  # not in the table: row 12 would send the same cursor again
    CONDITION_MET = 1
    FAIL_CONDITION_MET = 2
    TIMED_OUT = 3
    PAYLOAD_SENT = 4
    PAYLOAD_LEFT = 5
    TOTAL_REACHED = 6
    POLLING = 7
    SESSION_ANSWERS = 8
    NO_ROWS = 9
    POLLING_PAGES = 10
    NO_CURSOR = 11
    CURSOR = 12
    PAGED = 13
    TOTAL_NOT_REACHED = 14
    ELSE = 15
    NO_MORE = 16
    NEXT_ADDRESS = 17
    MORE = 18
    SHORT_PAGE = 19
    CAP = 20


# The answer says that there is another page, even if this one is empty.
SAYS_MORE = frozenset({Row.CURSOR, Row.NEXT_ADDRESS, Row.MORE})
# Only the page values say where the next page begins.
BY_VALUES = frozenset({Row.PAGED, Row.TOTAL_NOT_REACHED, Row.MORE})


@dataclass(frozen=True, slots=True)
class PagingDecision:
    """An action, and the row of the table that chose it."""

    action: Action
    row: Row


@dataclass(frozen=True, slots=True)
class PagingRules:
    """The configured part of the decision.

    ``sends_session`` is true if a parameter has the type session, so that the source gets cursors.
    ``sends_members`` is true if each member of the session key is a parameter of its own.
    ``takes_key_of_row`` is true if the session key is a value of one row, which every page has.
    ``is_paged`` is true if there are page values. ``has_next`` is true if answers name the next
    page, ``has_more`` if they have a flag for it, and ``follows_links`` if the Link header names
    it. ``has_flat_next`` is true if any other header or a top-level member names it, ``query_only``
    if only the query of the address counts. ``is_strict`` says that doubts fail the walk. A cap of
    None is no cap. ``sent_values`` are the types of page values in requests. ``source_may_cap`` is
    false for a source that gives as many rows as are asked for, if it has them: a database.
    """

    has_session: bool = False
    condition: re.Pattern[str] | None = None
    fail_condition: re.Pattern[str] | None = None
    sends_session: bool = False
    sends_members: bool = False
    takes_key_of_row: bool = False
    is_paged: bool = False
    has_total: bool = False
    wait_timeout_s: float = 600.0
    has_next: bool = False
    follows_links: bool = False
    has_flat_next: bool = False
    is_strict: bool = False
    query_only: bool = False
    has_more: bool = False
    stops_short: bool = False
    allows_equal_pages: bool = False
    max_pages: int | None = None
    max_rows: int | None = None
    fails_at_cap: bool = False
    sent_values: frozenset[str] = frozenset()
    source_may_cap: bool = True

    @property
    def is_cursor(self) -> bool:
        """Return whether a session key leads from page to page (row 12)."""
        walks = self.sends_session or self.is_paged
        return self.has_session and self.condition is None and walks

    @property
    def gets_cursor(self) -> bool:
        """Return whether a session key shows that the source has another page."""
        return self.is_cursor and not self.takes_key_of_row

    @property
    def names_pages(self) -> bool:
        """Return whether an answer can name the page after it (rows 12, 17 and 18)."""
        return self.is_cursor or self.has_next or self.has_more

    @property
    def compares_bodies(self) -> bool:
        """Return whether two equal bodies in a row show that the source ignores page values."""
        by_values = self.is_paged or self.has_total or self.has_more
        return by_values and self.condition is None and not self.allows_equal_pages

    @classmethod
    def of(cls, spec: ExtractionSpec) -> PagingRules:
        """Return the rules of a parsed job."""
        session, paging = spec.session, spec.pagination
        types = frozenset(each.type for each in flat_parameters(spec.parameters))
        failing = session.fail_condition if session and spec.failing is None else None
        return cls(
            has_session=session is not None,
            condition=_compiled(session.condition if session else None),
            fail_condition=_compiled(failing),
            sends_session="session" in types,
            sends_members=any(each.is_members for each in spec.parameters),
            takes_key_of_row=session is not None and _leads_into_row(session.name),
            is_paged=paging.is_on,
            has_total=bool(spec.total_count_field),
            wait_timeout_s=spec.wait_timeout_s,
            has_next=bool(paging.next),
            follows_links=paging.next == LINK,
            has_flat_next=_is_flat(paging.next),
            is_strict=paging.strict,
            query_only=paging.query_only,
            has_more=bool(paging.more),
            stops_short=paging.stop_on_short_page,
            allows_equal_pages=paging.equal_pages,
            max_pages=paging.max_pages,
            max_rows=paging.max_rows,
            fails_at_cap=paging.fail_at_cap,
            sent_values=types & _PAGE_VALUES,
        )


@dataclass(frozen=True, slots=True)
class PageState:
    """The state after one page; rows are counted before converters.

    ``previous_key`` is the key of the page before, empty for the first page, ``asked_key`` that of
    the request: on the first page ``initValue``. ``key_was_there`` is true if this page or an
    earlier one had a key. ``total`` is None until a page has it.
    ``elapsed_s`` counts from the first request of the attempt. ``payload_left`` is None if the job
    has no payload. ``asked`` counts requests so far. ``page_size`` is how many rows a full page
    has, None if the job does not say it. ``files_left`` is true if the session itself has another
    answer, such as the next file, ``had_files`` if the answer before said so. ``next_uri`` and
    ``more`` are the address of the next page and the flag in this answer. ``next_was_there`` is
    true if this answer or an earlier one had the place of the address, ``more_was_there`` if one of
    them had the flag.
    """

    rows: int = 0
    processed: int = 0
    key: SessionKey = field(default_factory=SessionKey)
    previous_key: SessionKey = field(default_factory=SessionKey)
    asked_key: str | None = None
    key_was_there: bool = False
    total: JsonValue = None
    elapsed_s: float = 0.0
    payload_left: int | None = None
    files_left: bool = False
    had_files: bool = False
    asked: int = 1
    page_size: int | None = None
    next_uri: str = field(default="", repr=False)
    next_was_there: bool = False
    more: bool | None = None
    more_was_there: bool = False


@dataclass(frozen=True, slots=True)
class LastPage:
    """The last page of an attempt, for comparison with the first page of the next attempt.

    ``content`` is the hash of the body in hexadecimal, empty if bodies are not compared. ``rows``
    and ``checksum`` are the number and checksum of its rows, if rows are compared. ``names_next``
    is true if the page named the next page, ``is_short`` if it had fewer rows than the start of the
    next page assumes.
    """

    content: str = ""
    rows: int = 0
    checksum: int = 0
    names_next: bool = False
    is_short: bool = False


@dataclass(frozen=True, slots=True)
class PagingPosition:
    """The state between two pages: all rows before it were read, and no row after it.

    ``number`` counts the requests so far. ``values`` and ``next_uri`` are the page values and the
    address of the next request. The other fields come from earlier pages: the numbers of
    ``processed`` and ``dropped`` rows, the last session key, the total as text. ``sent_rows`` is a
    hash of all payload rows that were sent, in order; it is empty if there is no payload.
    """

    number: int = 0
    values: PageValues = field(default_factory=PageValues)
    next_uri: str = field(default="", repr=False)
    processed: int = 0
    dropped: int = 0
    key: SessionKey = field(default_factory=SessionKey)
    key_was_there: bool = False
    more_was_there: bool = False
    total: str | None = None
    sent_rows: str = ""
    last: LastPage = field(default_factory=LastPage)

    @classmethod
    def after(cls, state: PageState, values: PageValues, last: LastPage) -> PagingPosition:
        """Return the position after a page; ``values`` are the page values of the next request."""
        return cls(
            number=state.asked,
            values=values,
            next_uri=state.next_uri,
            processed=state.processed,
            key=state.key,
            key_was_there=state.key_was_there,
            more_was_there=state.more_was_there,
            total=None if state.total is None else str(state.total),
            last=last,
        )

    @property
    def state(self) -> PageState:
        """Return the state before the next page; the number of the page's rows is 0 in it."""
        return PageState(
            processed=self.processed,
            key=self.key,
            key_was_there=self.key_was_there,
            more_was_there=self.more_was_there,
            total=None if self.total is None else read_number(self.total),
            asked=self.number,
            next_uri=self.next_uri,
        )

    def encoded(self) -> str:
        """Return the position as JSON text for ``decoded``; cursors and addresses are unchanged."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decoded(cls, text: str) -> PagingPosition | None:
        """Return the position in a text of ``encoded``, None for a text of another version."""
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError:
            return None


def decide(rules: PagingRules, state: PageState) -> PagingDecision:
    """Return the decision of the first row of the table that matches.

    The check for a source that repeats its cursor for ever acts only if row 12 would send another
    request (rule G24).
    """
    decision = (
        _by_condition(rules, state)
        or _by_work_left(rules, state)
        or _by_answer(rules, state)
        or _by_rows(rules, state)
        or _by_session(rules, state)
        or _by_pages(rules, state)
    )
    if decision.action is Action.NEXT and _is_at_cap(rules, state):
        return PagingDecision(Action.FAIL if rules.fails_at_cap else Action.STOP, Row.CAP)
    return decision


def _is_at_cap(rules: PagingRules, state: PageState) -> bool:
    return (rules.max_pages is not None and state.asked >= rules.max_pages) or (
        rules.max_rows is not None and state.processed >= rules.max_rows
    )


def _by_condition(rules: PagingRules, state: PageState) -> PagingDecision | None:
    """Decide by rows 1 to 3: the answer says stop or fail, or the condition was not met in time."""
    if rules.condition and rules.condition.fullmatch(state.key.text):
        return PagingDecision(Action.STOP, Row.CONDITION_MET)
    if rules.fail_condition and rules.fail_condition.fullmatch(state.key.text):
        return PagingDecision(Action.FAIL, Row.FAIL_CONDITION_MET)
    if rules.condition and state.elapsed_s > rules.wait_timeout_s:
        return PagingDecision(Action.FAIL, Row.TIMED_OUT)
    return None


def _by_work_left(rules: PagingRules, state: PageState) -> PagingDecision | None:
    """Decide by rows 4 to 8: payload, total count, polling, and files."""
    if state.payload_left is not None:
        if state.payload_left:
            return PagingDecision(Action.NEXT, Row.PAYLOAD_LEFT)
        return PagingDecision(Action.STOP, Row.PAYLOAD_SENT)
    if state.files_left:
        return PagingDecision(Action.NEXT, Row.SESSION_ANSWERS)
    if total_reached(rules, state) is True:
        return PagingDecision(Action.STOP, Row.TOTAL_REACHED)
    if rules.condition and not (rules.is_paged or rules.has_next or rules.has_more):
        return PagingDecision(Action.NEXT, Row.POLLING)
    return PagingDecision(Action.STOP, Row.SESSION_ANSWERS) if state.had_files else None


def _by_answer(rules: PagingRules, state: PageState) -> PagingDecision | None:
    """Decide by rows 16 to 18: the answer itself says whether there is another page."""
    if state.more is False:
        return PagingDecision(Action.STOP, Row.NO_MORE)
    if rules.has_next:
        return PagingDecision(Action.NEXT if state.next_uri else Action.STOP, Row.NEXT_ADDRESS)
    if state.more is None:
        return None
    return _by_session(rules, state) if rules.is_cursor else PagingDecision(Action.NEXT, Row.MORE)


def _by_rows(rules: PagingRules, state: PageState) -> PagingDecision | None:
    """Decide by rows 9, 10 and 19: no rows, polling with pages, a page that is not full."""
    if state.rows == 0:
        return PagingDecision(Action.STOP, Row.NO_ROWS)
    if rules.condition:
        return PagingDecision(Action.NEXT, Row.POLLING_PAGES)
    if rules.stops_short and state.page_size is not None and state.rows < state.page_size:
        return PagingDecision(Action.STOP, Row.SHORT_PAGE)
    return None


def _by_session(rules: PagingRules, state: PageState) -> PagingDecision | None:
    """Decide by rows 11 and 12: cursors."""
    if not rules.has_session or rules.condition:
        return None
    if not state.key.cursor:
        return PagingDecision(Action.STOP, Row.NO_CURSOR)
    if not (rules.sends_session or rules.is_paged):
        return None
    if state.previous_key.cursor == state.key.cursor:
        return PagingDecision(Action.FAIL, Row.REPEATED_CURSOR)
    return PagingDecision(Action.NEXT, Row.CURSOR)


def _by_pages(rules: PagingRules, state: PageState) -> PagingDecision:
    """Decide by rows 13 to 15: pages, a total that is not reached, and the end."""
    if rules.is_paged:
        return PagingDecision(Action.NEXT, Row.PAGED)
    if total_reached(rules, state) is False:
        return PagingDecision(Action.NEXT, Row.TOTAL_NOT_REACHED)
    return PagingDecision(Action.STOP, Row.ELSE)


def total_reached(rules: PagingRules, state: PageState) -> bool | None:
    """Return whether the total is reached, None if it is not configured or not known."""
    if not rules.has_total or not isinstance(state.total, int | float | Decimal):
        return None
    return state.processed >= state.total


def total_exceeded(state: PageState) -> bool:
    """Return whether more rows came than the source's total count says."""
    return isinstance(state.total, int | float | Decimal) and state.processed > state.total


def next_values(previous: PageValues, echoed: EchoedPage, rows: int, cursor: str) -> PageValues:
    """Return the page values of the next request (rule G29); an empty cursor becomes None."""
    size = previous.size if echoed.size is None else echoed.size
    if echoed.start is not None and echoed.size is not None:
        start = echoed.start + echoed.size
    else:
        start = (previous.start or 0) + (rows if size is None else size)
    number = previous.number if echoed.number is None else echoed.number
    return replace(
        previous,
        start=start,
        size=size,
        number=1 if number is None else number + 1,
        session=cursor or None,
    )


def is_short_page(state: PageState, echoed: EchoedPage, page: Page) -> bool:
    """Return whether a page has fewer rows than were asked for, and no total says if more follow.

    A page value in the answer would correct the start of the next page.
    """
    is_echoed = echoed.start is not None or echoed.size is not None
    if state.page_size is None or is_echoed or state.total is not None or page.is_whole:
        return False
    return page.rows < state.page_size


def looks_complete(
    rules: PagingRules, decision: PagingDecision, last: LastPage, *, is_short: bool
) -> bool:
    """Return whether a walk that stopped would have stopped in the same way at a capped page.

    A start that moved on by the requested size (rule G29) may have skipped the rest of the rows, so
    that the page after a capped page is empty.

    Args:
        rules: The configured rules.
        decision: The row of the table that stopped the walk.
        last: The page before the last one.
        is_short: Whether the last page is short.
    """
    if rules.gets_cursor or rules.has_more or not (rules.source_may_cap and is_short):
        return False
    return decision.row is Row.SHORT_PAGE or (decision.row is Row.NO_ROWS and last.is_short)


def _leads_into_row(name: str) -> bool:
    """Return whether a path takes one element of an array, such as ``data.-1.id``."""
    return any(str(step).lstrip("-").isdecimal() for step in compile_path(name).steps)


def _is_flat(place: str) -> bool:
    """Return whether a place is a header, or a path to a top-level member."""
    path = compile_path(place)
    return place.startswith(HEADER) or (path.is_place and len(path.steps) == 1)


def _compiled(condition: SessionCondition | FailCondition | None) -> re.Pattern[str] | None:
    if condition is None or condition.regexp is None:
        return None
    return compile_java(condition.regexp)
