"""What is odd about the end of a walk through pages and yet no failure: pure.

The decision table of behaviour.md B8.2 ends a walk quietly where the source contradicts itself or
the job file. Each such end is a sentence in the run's report; sentences are fixed, so that the
report can count the work units that gave the same one.
"""

from __future__ import annotations

from dil.extraction.paging.rules import (
    CAP_ROW,
    Decision,
    PageState,
    PagingRules,
    total_exceeded,
    total_reached,
)

TOTAL_NOT_REACHED = (
    "paging ended before as many rows had come as ms.total.count.field tells; rows may be missing"
)
CURSOR_LEFT = (
    "paging ended at a page without rows that still named a next session key; rows may be missing"
    " if the source sends empty pages in between"
)
NO_TOTAL = (
    "no response had ms.total.count.field, so nothing shows that all rows came; check its path"
)
NO_KEY = (
    "no response had ms.session.key.field, so paging ended after the first page; check its path,"
    " unless the source leaves it out on the last page"
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
NO_DATA_FIELD = (
    "a later page had no ms.data.field and was taken as empty; it may have been an error document"
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
NO_LINK = (
    "no response had a Link header, which `next` of ms.pagination names, so paging ended after the"
    " first page; rows may be missing unless all fit on one page"
)

TOTAL_EXCEEDED = (
    "paging ended because more rows came than ms.total.count.field tells; the total is wrong, so"
    " rows may be missing"
)
NO_CONTENT = (
    "the source named another page, and the answer to that had no content; rows may be missing"
)
SHORT_PAGE = (
    "a page had fewer rows than asked for, and more rows followed; the source may cap its pages, so"
    " rows in between may be missing; check the page size in `initialvalues` of ms.pagination"
)
SAME_ROWS = "two pages in a row had the same rows; they may be doubled, and others may be missing"

# What leaves in doubt whether each row came once; with `strict` it fails the work unit.
DOUBTS = frozenset(
    {
        TOTAL_NOT_REACHED, TOTAL_EXCEEDED, CURSOR_LEFT, MORE_LEFT, NEXT_LEFT, NO_CONTENT,
        NO_DATA_FIELD, NO_NEXT, NO_FLAG_LEFT, SAME_ROWS, SHORT_PAGE,
    }
)  # fmt: skip

_TOTAL_ROW, _NO_NEXT_ROW, _LAST_ROW = 6, 17, 15


def end_notes(
    rules: PagingRules, state: PageState, decision: Decision, *, has_body: bool
) -> tuple[str, ...]:
    """Return what is odd about a walk that stopped.

    Args:
        rules: The configured rules.
        state: What was known after the last page.
        decision: The row of the table that stopped it.
        has_body: Whether the last answer had a body, in which fields could have been.
    """
    found = {
        CAPPED: decision.row == CAP_ROW,
        TOTAL_NOT_REACHED: total_reached(rules, state) is False,
    }
    if has_body and decision.row != CAP_ROW:
        found |= {
            CURSOR_LEFT: _names_another_page(rules, state),
            NO_TOTAL: rules.has_total and state.total is None and state.processed > 0,
            NO_KEY: _lacks_its_key(rules, state),
            MORE_LEFT: state.more is True and decision.row != _TOTAL_ROW and not rules.condition,
            TOTAL_EXCEEDED: decision.row == _TOTAL_ROW and total_exceeded(state),
            NEXT_LEFT: decision.row == _TOTAL_ROW and bool(state.next_uri or state.more),
            **_nothing_named(rules, state, decision),
        }
    return tuple(note for note, applies in found.items() if applies)


def _names_another_page(rules: PagingRules, state: PageState) -> bool:
    """Return whether an empty page came with a cursor that row 12 would have sent."""
    if state.rows or rules.condition or not (rules.sends_session or rules.is_paged):
        return False
    if not state.key.cursor or total_reached(rules, state) or state.more is False:
        return False
    # Sources whose cursor stays where it is at the end repeat the one they were asked with.
    return state.previous_key is None or state.previous_key.cursor != state.key.cursor


def _nothing_named(rules: PagingRules, state: PageState, decision: Decision) -> dict[str, bool]:
    """Tell which place of `next` or `more` no answer had, and whether that ended the walk."""
    lacks_next = (
        decision.row == _NO_NEXT_ROW and not state.next_was_there and _may_have_another(state)
    )
    lacks_flag = rules.has_more and not state.more_was_there and state.processed > 0
    ends = decision.row == _LAST_ROW and _may_have_another(state)
    return {
        NO_NEXT: lacks_next and not rules.follows_links,
        NO_LINK: lacks_next and rules.follows_links,
        NO_FLAG: lacks_flag and not ends,
        NO_FLAG_LEFT: lacks_flag and ends,
    }


def _may_have_another(state: PageState) -> bool:
    """Return whether a page may be followed by another; one that is not full is the last."""
    return state.rows > 0 and (state.page_size is None or state.rows >= state.page_size)


def _lacks_its_key(rules: PagingRules, state: PageState) -> bool:
    """Return whether a cursor was expected and never seen, though there may be another page.

    A page that is not full is the last one; many sources leave the cursor out there.
    """
    if not rules.has_session or rules.condition or state.key_was_there or state.more is False:
        return False
    return _may_have_another(state)
