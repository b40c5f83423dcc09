"""Finds oddities, not failures, of a walk through pages, for the run's report; does no I/O.

The decision table (rules G1 to G20) ends a walk quietly if the source contradicts itself or the
job file. Each such end adds a sentence to the run's report. The sentences are fixed, so that the
report can count the work units with the same note.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from dil.extraction.content import NO_DATA_FIELD
from dil.extraction.paging.answers import next_link
from dil.extraction.paging.rules import (
    PageState,
    PagingDecision,
    PagingRules,
    Row,
    total_exceeded,
    total_reached,
)
from dil.model.json import JsonValue, as_text
from dil.spi.connector import RequestValues, Response

TOTAL_NOT_REACHED = (
    "paging ended before as many rows had come as ms.total.count.field says; the source may give"
    " fewer rows on a page than asked for, or its total may be an estimate"
)
CURSOR_LEFT = (
    "paging ended at a page without rows that still named a next session key; rows may be missing"
    " if the source sends empty pages in between"
)
NO_TOTAL = (
    "no response had ms.total.count.field, so nothing shows that all rows came; check its path, or"
    " write header:NAME if it is a header"
)
NO_KEY = (
    "no response had ms.session.key.field, so paging ended after the first page; that is right only"
    " where the source leaves it out on its last page: compare its path with an answer"
)
CAPPED = (
    "paging stopped at maxPages or maxRows of ms.pagination while the source had more; rows are"
    " missing"
)
MORE_LEFT = (
    "paging ended although `more` of ms.pagination said that there were more pages; rows may be"
    " missing"
)
NEXT_LEFT = (
    "paging ended at the total count although the answer named another page; rows may be missing"
    " if the total is only an estimate"
)
NO_FLAG = "no response had the flag that `more` of ms.pagination names; check its path"
NO_FLAG_LEFT = (
    "no response had the flag that `more` of ms.pagination names, so paging ended after the first"
    " page; check its path, unless the source leaves it out on the last page"
)
NO_NEXT = (
    "no response had `next` of ms.pagination, so paging ended after the first page; check its path,"
    " unless the source leaves it out where all rows fit on one page"
)
LIKELY_LAST = (
    "the first page named no page after it and had fewer rows than its request asks for, so it was"
    " taken as the only one; see ms.session.key.field and `next` of ms.pagination"
)
NO_LINK = (
    "no response had a Link header, which `next` of ms.pagination names, so paging ended after the"
    " first page; rows may be missing unless all fit on one page"
)

TOTAL_EXCEEDED = (
    "paging ended because more rows came than ms.total.count.field says; the total is wrong, so"
    " rows may be missing"
)
NO_CONTENT = (
    "the source named another page, and the answer to that had no content; rows may be missing"
)
SHORT_PAGE = (
    "a page had fewer rows than asked for, and more rows followed; the source may cap its pages, so"
    " rows in between may be missing; ask for a page size that the source gives, or leave the size"
    " out of `initialvalues` of ms.pagination: then the start grows by the rows that come"
)
SHORT_LEFT = (
    "paging ended by `stopOnShortPage` of ms.pagination although the source says that there is"
    " more; the source may cap its pages below their size; ask for a page size that it gives, or"
    " leave stopOnShortPage out"
)
NOT_READY = (
    "the source answered with the status 202 (Accepted) in place of rows, so it may still be"
    " preparing them; wait for it by a `condition` of ms.session.key.field, or write"
    ' "error": [202] in ms.http.statuses, so that the next run reads the work unit again, or'
    ' "warning": [202] if such an answer never has rows'
)
CONDITION_LEFT = (
    "paging ended before ms.session.key.field met its `condition`, so the source may not have been"
    " ready; let a job before this one wait for the source, without ms.pagination and"
    " ms.total.count.field"
)
UNREAD = (
    "the source answered with a status from 200 to 299 that ms.http.statuses does not list, and the"
    " content of those answers was not read; if it is rows, list the status under `success`"
)
SOURCE_BEHIND = (
    "the source's clock, by the header Date, had not reached the end of the window, so no run reads"
    " the rows that it writes until then; set the clocks right, let `to` end the window earlier, or"
    " read back by ms.grace.period"
)
SAME_ROWS = "two pages in a row had the same rows; they may be doubled, and others may be missing"

# Notes that cast doubt on whether each row came exactly once; if paging is strict, they fail the
# work unit.
DOUBTS = frozenset(
    {
        TOTAL_NOT_REACHED, TOTAL_EXCEEDED, CURSOR_LEFT, MORE_LEFT, NEXT_LEFT, NO_CONTENT,
        NO_DATA_FIELD, NO_NEXT, NO_FLAG_LEFT, SAME_ROWS, SHORT_PAGE, SHORT_LEFT, NOT_READY,
        CONDITION_LEFT, UNREAD,
    }
)  # fmt: skip

# Only a first page was read, a later page may have been an error, pages may be capped, the source
# may not have been ready, or it says that it has more rows; a person has to check.
_TO_CHECK = frozenset(
    {
        NO_KEY, NO_LINK, NO_NEXT, NO_FLAG_LEFT, NO_DATA_FIELD, TOTAL_NOT_REACHED, SHORT_PAGE,
        SHORT_LEFT, NOT_READY, CONDITION_LEFT, UNREAD,
    }
)  # fmt: skip
EMPHASIS = "ROWS MAY BE MISSING: "
# Whole names of parameters that set the number of rows of a page.
_LIMIT = re.compile(
    r"(?:[$_]|sysparm_)?limit|\$?(?:top|count|first|take)|rows|max[_-]?results|\w*per[_-]?page"
    r"|(?:(?:max)?page|batch|chunk|fetch|result)?[_-]?(?:size|limit)|page\[(?:size|limit)\]",
    re.IGNORECASE,
)


def emphasized(note: str) -> str:
    """Return a note, emphasized if more pages may exist and a person has to check."""
    return f"{EMPHASIS}{note}" if note in _TO_CHECK else note


def asked_rows(values: Mapping[str, JsonValue], uri: str) -> int | None:
    """Return how many rows a request asks for in parameters or address, None if unknown."""
    sent = [*values.items(), *parse_qsl(urlsplit(uri).query)]
    texts = (as_text(value) for name, value in sent if _LIMIT.fullmatch(name))
    return max((int(text) for text in texts if text.isdecimal()), default=None)


def end_notes(
    rules: PagingRules,
    state: PageState,
    decision: PagingDecision,
    request: RequestValues,
    response: Response,
) -> tuple[str, ...]:
    """Return notes about the oddities of a walk that has stopped.

    Args:
        rules: The configured rules.
        state: The state after the last page.
        decision: The row of the table that stopped the walk.
        request: The last request.
        response: Its answer.
    """
    has_link = next_link(response.header("Link") or "") is not None
    lacks_rows = total_reached(rules, state) is False
    is_cut = decision.row is Row.SHORT_PAGE and (
        lacks_rows or has_link or (_has_new_cursor(state) and rules.gets_cursor)
    )
    found = {
        CAPPED: decision.row is Row.CAP,
        SHORT_LEFT: is_cut,
        TOTAL_NOT_REACHED: lacks_rows and not is_cut,
        CONDITION_LEFT: _lacks_its_condition(rules, state, decision),
    }
    if response.body is not None and decision.row is not Row.CAP:  # a body can hold the fields
        found |= {
            CURSOR_LEFT: _names_another_page(rules, state),
            NO_TOTAL: rules.has_total and state.total is None and state.processed > 0,
            NO_KEY: _lacks_its_key(rules, state),
            MORE_LEFT: state.more is True
            and decision.row is not Row.TOTAL_REACHED
            and not rules.condition,
            TOTAL_EXCEEDED: decision.row is Row.TOTAL_REACHED and total_exceeded(state),
            NEXT_LEFT: decision.row is Row.TOTAL_REACHED and bool(state.next_uri or state.more),
            **_nothing_named(rules, state, decision),
        }
    notes = (note for note, applies in found.items() if applies)
    asked = asked_rows(request.parameters, response.uri)
    is_short = asked is not None and state.rows < asked
    # Sources leave a whole header or member out of their last page; a deeper path that leads to
    # nothing may be misspelt, and the page short because the source caps its pages. What a request
    # asks for does not settle the doubt of a strict walk.
    settled = {NO_KEY, NO_LINK}
    if rules.has_flat_next and not rules.is_strict:
        settled.add(NO_NEXT)
    return tuple(LIKELY_LAST if is_short and note in settled else note for note in notes)


def _lacks_its_condition(rules: PagingRules, state: PageState, decision: PagingDecision) -> bool:
    """Return whether a walk ended although the session key says that the source is not done.

    An answer without the key, or with null or an empty text in it, does not say so: many sources
    leave a flag out of an empty page. A condition may also describe the last cursor, such as -1.
    Then an end at the total is in order.
    """
    if not rules.condition or not state.key.cursor:
        return False
    if decision.row in {Row.CONDITION_MET, Row.CAP, Row.PAYLOAD_SENT}:
        return False
    return not (rules.sends_session and decision.row is Row.TOTAL_REACHED and state.processed)


def _names_another_page(rules: PagingRules, state: PageState) -> bool:
    """Return whether an empty page had a cursor that row 12 would have sent."""
    if state.rows or rules.condition or not (rules.sends_session or rules.is_paged):
        return False
    if total_reached(rules, state) or state.more is False:
        return False
    return _has_new_cursor(state)


def _has_new_cursor(state: PageState) -> bool:
    """Return whether the last page had a cursor; some sources repeat that of the request there."""
    return bool(state.key.cursor) and state.key.cursor != state.asked_key


def _nothing_named(
    rules: PagingRules, state: PageState, decision: PagingDecision
) -> dict[str, bool]:
    """Return each note about a `next` or `more` that no answer had, and whether it applies."""
    lacks_next = (
        decision.row is Row.NEXT_ADDRESS and not state.next_was_there and _may_have_another(state)
    )
    lacks_flag = rules.has_more and not state.more_was_there and state.processed > 0
    ends = decision.row is Row.ELSE and _may_have_another(state)
    return {
        NO_NEXT: lacks_next and not rules.follows_links,
        NO_LINK: lacks_next and rules.follows_links,
        NO_FLAG: lacks_flag and not ends,
        NO_FLAG_LEFT: lacks_flag and ends,
    }


def _may_have_another(state: PageState) -> bool:
    """Return whether another page may follow a page; a page that is not full is the last."""
    return state.rows > 0 and (state.page_size is None or state.rows >= state.page_size)


def _lacks_its_key(rules: PagingRules, state: PageState) -> bool:
    """Return whether the expected cursor never came, although another page may exist.

    A page that is not full, or that reaches the total, is the last one; many sources leave the
    cursor out of it.
    """
    if not rules.has_session or rules.condition or state.key_was_there or state.more is False:
        return False
    return _may_have_another(state) and not total_reached(rules, state)
