"""When another page is asked for, and what its request says: pure (behaviour.md B8.2 to B8.5)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum

from dil.errors import SourceContractError
from dil.extraction.excerpt import kind_of
from dil.extraction.parameters import PageValues
from dil.model.job import ExtractionSpec
from dil.model.json import JsonValue, as_text
from dil.model.settings import SessionCondition, SessionKeyField
from dil.spi.extractor import Missing


class Action(Enum):
    """What to do after a page."""

    NEXT = "next"
    STOP = "stop"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Decision:
    """An action and the row of the decision table that chose it; row 0 is the guard."""

    action: Action
    row: int


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The session key of one response (B8.4).

    ``text`` is what the patterns see; JSON null is the text ``null`` there, but no cursor.
    ``is_there`` tells that the response has the key at all, be it null or empty.
    """

    text: str = ""
    is_null: bool = False
    is_there: bool = field(default=False, compare=False)

    @property
    def cursor(self) -> str:
        """Return what the next request may send, empty when there is nothing to send."""
        return "" if self.is_null else self.text

    @classmethod
    def of(cls, value: JsonValue) -> SessionKey:
        """Return the key that a JSON value stands for."""
        if value is None:
            return cls("null", is_null=True, is_there=True)
        return cls(as_text(value), is_there=True)


@dataclass(frozen=True, slots=True)
class PagingRules:
    """The configured part of the decision.

    ``sends_session`` tells that a parameter has the type session: a cursor reaches the source.
    """

    has_session: bool = False
    condition: re.Pattern[str] | None = None
    fail_condition: re.Pattern[str] | None = None
    sends_session: bool = False
    is_paged: bool = False
    has_total: bool = False
    wait_timeout_s: float = 600.0

    @classmethod
    def of(cls, spec: ExtractionSpec) -> PagingRules:
        """Read the rules from the parsed job."""
        session = spec.session
        return cls(
            has_session=session is not None,
            condition=_compiled(session.condition if session else None),
            fail_condition=_compiled(session.fail_condition if session else None),
            sends_session=any(parameter.type == "session" for parameter in spec.parameters),
            is_paged=spec.pagination.is_on,
            has_total=bool(spec.total_count_field),
            wait_timeout_s=spec.wait_timeout_s,
        )


@dataclass(frozen=True, slots=True)
class PageState:
    """What is known after one page; rows are counted before converters.

    ``previous_key`` is the key of the page before, None for the first page. ``key_was_there`` tells
    that this page or an earlier one had a key. ``total`` is None until a page has told it.
    ``elapsed_s`` counts from the first request of the attempt. ``payload_left`` is None when the
    job has no payload.
    """

    rows: int = 0
    processed: int = 0
    key: SessionKey = SessionKey()
    previous_key: SessionKey | None = None
    key_was_there: bool = False
    total: JsonValue = None
    elapsed_s: float = 0.0
    payload_left: int | None = None
    files_left: bool = False


def decide(rules: PagingRules, state: PageState) -> Decision:
    """Return the first matching row of the decision table of B8.2.

    The guard against a source that repeats its cursor for ever acts only where row 12 would send
    another request (spec README 18).
    """
    return (
        _by_condition(rules, state)
        or _by_work_left(rules, state)
        or _by_session(rules, state)
        or _by_pages(rules, state)
    )


def _by_condition(rules: PagingRules, state: PageState) -> Decision | None:
    """Rows 1 to 3: the answer itself says stop or fail, or it took too long."""
    if rules.condition and rules.condition.fullmatch(state.key.text):
        return Decision(Action.STOP, 1)
    if rules.fail_condition and rules.fail_condition.fullmatch(state.key.text):
        return Decision(Action.FAIL, 2)
    if rules.condition and state.elapsed_s > rules.wait_timeout_s:
        return Decision(Action.FAIL, 3)
    return None


def _by_work_left(rules: PagingRules, state: PageState) -> Decision | None:
    """Rows 4 to 9: payload, total count, polling, files, and a page without rows."""
    if state.payload_left is not None:
        return Decision(Action.NEXT, 5) if state.payload_left else Decision(Action.STOP, 4)
    if total_reached(rules, state) is True:
        return Decision(Action.STOP, 6)
    if rules.condition and not rules.is_paged:
        return Decision(Action.NEXT, 7)
    if state.files_left:
        return Decision(Action.NEXT, 8)
    return Decision(Action.STOP, 9) if state.rows == 0 else None


def _by_session(rules: PagingRules, state: PageState) -> Decision | None:
    """Rows 10 to 12: polling with pages, and cursors."""
    if rules.condition:
        return Decision(Action.NEXT, 10)
    if not rules.has_session:
        return None
    if not state.key.cursor:
        return Decision(Action.STOP, 11)
    if not (rules.sends_session or rules.is_paged):
        return None
    if state.previous_key and state.previous_key.cursor == state.key.cursor:
        return Decision(Action.FAIL, 0)
    return Decision(Action.NEXT, 12)


def _by_pages(rules: PagingRules, state: PageState) -> Decision:
    """Rows 13 to 15: pages, a total that is not reached, and the end."""
    if rules.is_paged:
        return Decision(Action.NEXT, 13)
    if total_reached(rules, state) is False:
        return Decision(Action.NEXT, 14)
    return Decision(Action.STOP, 15)


def total_reached(rules: PagingRules, state: PageState) -> bool | None:
    """Tell whether the total is reached, None when it is not configured or not known."""
    if not rules.has_total or not isinstance(state.total, int | float | Decimal):
        return None
    return state.processed >= state.total


def total_count(found: JsonValue | Missing, previous: JsonValue, path: str) -> JsonValue:
    """Return the expected number of rows after a page; a page without it keeps the previous one.

    Raises:
        SourceContractError: the value is there and is not a number (B8.3).
    """
    if isinstance(found, Missing):
        return previous
    if isinstance(found, bool) or not isinstance(found, int | float | Decimal):
        raise SourceContractError(
            f'the total count at "{path}" is {kind_of(found)}, not a number',
            "Check ms.total.count.field; leave it out if the source does not tell a total.",
        )
    return found


@dataclass(frozen=True, slots=True)
class EchoedPage:
    """What a response says about its own page; None where it says nothing."""

    start: int | None = None
    size: int | None = None
    number: int | None = None


def next_values(previous: PageValues, echoed: EchoedPage, rows: int, cursor: str) -> PageValues:
    """Return the values of the next request (B8.5); an empty cursor is left out of it."""
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


def initial_values(spec: ExtractionSpec) -> PageValues:
    """Return the values of the first request: by position, a missing position has none."""
    given: tuple[int | None, ...] = (*spec.pagination.initial_values, None, None, None)
    session = spec.session.init_value if spec.session else None
    return PageValues(given[0], given[1], given[2], session)


def page_integer(found: JsonValue | Missing, path: str) -> int | None:
    """Return a page value of a response; missing and null mean that it is not told.

    Raises:
        SourceContractError: the value is not a whole number, nor the text of one.
    """
    if isinstance(found, Missing) or found is None:
        return None
    text = as_text(found)
    if isinstance(found, bool) or not re.fullmatch(r"-?[0-9]+", text):
        raise SourceContractError(
            f'the page value at "{path}" is {kind_of(found)}, not a whole number',
            "Check `fields` of ms.pagination.",
        )
    return int(text)


def failure(decision: Decision, session: SessionKeyField | None, timeout_s: float) -> str:
    """Return the sentence that explains a FAIL decision; it never shows the key itself."""
    name = session.name if session else ""
    if decision.row == 0:
        return f'the source returned the same session key "{name}" twice in a row'
    if decision.row == 2:  # noqa: PLR2004 - a row of the decision table
        return f'the session key "{name}" matches failCondition'
    return f'the session key "{name}" did not meet its condition within {timeout_s:g} seconds'


def _compiled(condition: SessionCondition | None) -> re.Pattern[str] | None:
    if condition is None:
        return None
    from dil.text.java_regex import compile_java

    return compile_java(condition.regexp)
