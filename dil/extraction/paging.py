"""The paging loop: one request after another until the rules say stop (behaviour.md B8.2)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from dil.errors import (
    AuthenticationError,
    QuotaError,
    SourceContractError,
    SourceError,
    TransientSourceError,
)
from dil.extraction.measured_body import MeasuredBody
from dil.extraction.next_page import more_flag, next_address
from dil.extraction.page_values import EchoedPage, initial_values, next_values, page_integer
from dil.extraction.paging_guard import PagingGuard
from dil.extraction.paging_notes import end_notes
from dil.extraction.paging_rules import (
    Action,
    Decision,
    PageState,
    PagingRules,
    SessionKey,
    decide,
    failure,
    total_count,
)
from dil.extraction.parameters import PageValues, Scope, evaluate
from dil.extraction.payload_rows import PayloadRows
from dil.extraction.position import Position
from dil.extraction.session_keys import session_key
from dil.model.job import ExtractionSpec
from dil.model.json import JsonValue, as_text
from dil.spi.connector import ByteSession, RequestValues, Response, RowSession
from dil.spi.extractor import MISSING, Extractor, Missing, Page

if TYPE_CHECKING:
    import pyarrow as pa

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class WalkCounters:
    """What a walk did so far; read by the task at any time.

    ``bytes`` are those that the extractor read, after transfer decoding. ``pages`` are answers
    that were not warnings. ``by_status`` counts answers by the hundreds of their status (2 for
    2xx), where the protocol has one. ``notes`` are fixed sentences for the run's report, each once:
    what was odd about the answers and about how the walk ended, without being a failure.
    ``is_void`` tells that what was read is good for nothing: from the same pages a later attempt
    would come to the same end.
    """

    requests: int = 0
    pages: int = 0
    rows: int = 0
    bytes: int = 0
    warnings: int = 0
    seconds_waited: float = 0.0
    by_status: Counter[int] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    is_void: bool = False

    def note(self, *sentences: str) -> None:
        """Add the sentences that are not there yet."""
        self.notes += [each for each in dict.fromkeys(sentences) if each not in self.notes]

    def read(self, size: int) -> None:
        """Count bytes of a body."""
        self.bytes += size


class Clock(Protocol):
    """Monotonic time in seconds, and a way to wait; the task passes in ``time``."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    def sleep(self, seconds: float, /) -> None:
        """Wait."""


class ResumeRefusedError(Exception):
    """A walk cannot go on from its start; the cause is the source's own refusal, if it was that."""


def _ignore(position: Position) -> None:
    del position


@dataclass(frozen=True)
class Walk:
    """Everything that decides how the pages of one attempt are walked.

    ``start`` is where an earlier attempt came to. ``payload`` are the rows to send, one in each
    request; without a row there is no request. ``on_page`` is called between two pages, when all
    rows of the earlier one were taken, with where the walk goes on.
    """

    spec: ExtractionSpec
    scope: Scope
    clock: Clock
    counters: WalkCounters = field(default_factory=WalkCounters)
    start: Position | None = None
    payload: PayloadRows | None = None
    on_page: Callable[[Position], None] = _ignore


_Ask = Callable[[RequestValues], tuple[Page, Response]]


def walk_pages(
    session: ByteSession, extractor: Extractor, walk: Walk
) -> Iterator[tuple[Page, RequestValues]]:
    """Yield each page with the values of its request; lazily, one page in memory.

    The next request is sent when the caller asks for the next page. Batches of a page that were
    not consumed by then are read and counted, so that paging does not depend on the caller.

    Raises:
        SourceContractError: a value of the paging rules is of the wrong kind, they say fail, or
            the source leads in circles.
        SourceError: from the session or the extractor.
        ResumeRefusedError: the source refuses to go on from ``walk.start``, or the payload rows
            are others than before.
    """
    hashes = _guard(walk).reads_content and walk.payload is None

    def ask(values: RequestValues) -> tuple[Page, Response]:
        response = session.fetch(values)
        _count(response, walk.counters)
        if response.body is None:
            return Page(iter(()), _nothing), response
        body = MeasuredBody(response.body, walk.counters.read, hashes=hashes)
        measured = replace(response, body=cast("BinaryIO", body))
        return extractor.extract(measured), measured

    return _walk(ask, walk)


def walk_rows(session: RowSession, walk: Walk) -> Iterator[tuple[Page, RequestValues]]:
    """Yield one page for each request of a row protocol, lazily; else as ``walk_pages``."""

    def ask(values: RequestValues) -> tuple[Page, Response]:
        walk.counters.pages += 1
        page = Page(iter(()), _nothing)
        page.batches = _counted(session.read(values), page)
        return page, Response(body=None)

    return _walk(ask, walk)


def _walk(ask: _Ask, walk: Walk) -> Iterator[tuple[Page, RequestValues]]:
    """Run the loop of B8.2; ``ask`` sends one request."""
    rules, guard, pace = PagingRules.of(walk.spec), _guard(walk), _Pace(walk)
    start = walk.start or Position(values=initial_values(walk.spec))
    state, values, rows = start.state, start.values, walk.payload
    if rows is not None and not rows.skip(state.asked, start.sent_rows or rows.sent):
        raise ResumeRefusedError
    if rows is not None and not rows.left:
        return
    while True:
        pace.before_request()
        request = _request(walk, values, state)
        walk.counters.requests += 1
        page, response = _answered(ask, request, walk, is_first=state.asked == start.number)
        yield page, request
        for _ in page.batches:
            pass
        walk.counters.rows += page.rows
        walk.counters.note(*page.notes)
        echoed = _echoed(walk.spec, page)
        state = replace(
            _state_after(walk, state, page, response),
            page_size=values.size if echoed.size is None else echoed.size,
            elapsed_s=pace.elapsed_s(),
        )
        decision = decide(rules, state)
        if decision.action is Action.FAIL:
            walk.counters.is_void = True
            raise SourceContractError(
                failure(decision, walk.spec.session, rules.wait_timeout_s),
                "See ms.session.key.field, ms.pagination and ms.wait.timeout.seconds.",
            )
        if decision.action is Action.STOP:
            _note_the_end(walk, rules, state, response, decision)
            return
        _check(guard, decision, state, response, walk)
        values = next_values(values, echoed, page.rows, state.key.cursor)
        walk.on_page(Position.after(state, values, rows.sent if rows else ""))


def _guard(walk: Walk) -> PagingGuard:
    allows = walk.spec.pagination.equal_pages
    return PagingGuard(PagingRules.of(walk.spec), allows_equal_pages=allows)


def _check(
    guard: PagingGuard, decision: Decision, state: PageState, response: Response, walk: Walk
) -> None:
    """Let the guard look; what it refuses would be refused again from any page of the circle."""
    body: object = response.body
    content = body.content if isinstance(body, MeasuredBody) else None
    walk.counters.is_void = True
    guard.check(decision, state, content)
    walk.counters.is_void = False


def _request(walk: Walk, values: PageValues, state: PageState) -> RequestValues:
    """Return the values of the next request, with its payload row or its address."""
    request = evaluate(walk.spec.parameters, walk.scope, values, page=state.asked)
    if walk.payload is None:
        return replace(request, next_uri=state.next_uri) if state.next_uri else request
    row, key = walk.payload.take()
    return replace(request, payload=row, idempotency_key=key)


def _answered(
    ask: _Ask, request: RequestValues, walk: Walk, *, is_first: bool
) -> tuple[Page, Response]:
    """Send a request; tell a token that is not good any more from other refusals.

    A payload row that is refused says nothing of the rows before it: they were sent.
    """
    if not is_first or walk.start is None or walk.payload is not None:
        return ask(request)
    try:
        return ask(request)
    except (TransientSourceError, AuthenticationError, QuotaError):
        raise
    except SourceError as error:
        raise ResumeRefusedError from error


def _count(response: Response, counters: WalkCounters) -> None:
    if response.status:
        counters.by_status[response.status // 100] += 1
    if response.warning:
        counters.warnings += 1
        _LOG.warning("%s: %s", response.location, response.warning)
    else:
        counters.pages += 1


def _note_the_end(
    walk: Walk, rules: PagingRules, state: PageState, response: Response, decision: Decision
) -> None:
    """Keep what is odd about the end of a walk, and log it with its numbers."""
    notes = end_notes(rules, state, decision, has_body=response.body is not None)
    for note in notes:
        _LOG.warning(
            "%s: %s (rows %d, total %s)",
            response.location or "the source", note, state.processed,
            "unknown" if state.total is None else as_text(state.total),
        )  # fmt: skip
    walk.counters.note(*notes)


def _state_after(walk: Walk, before: PageState, page: Page, response: Response) -> PageState:
    spec, paging = walk.spec, walk.spec.pagination
    total = before.total
    if spec.total_count_field:
        found = page.lookup(spec.total_count_field)
        total = total_count(found, before.total, spec.total_count_field)
    key = session_key(spec.session.name, response, page.lookup) if spec.session else SessionKey()
    more = more_flag(paging.more, response, page.lookup) if paging.more else None
    return PageState(
        rows=page.rows,
        processed=before.processed + page.rows,
        key=key,
        previous_key=before.key if before.asked else None,
        key_was_there=before.key_was_there or key.is_there,
        total=total,
        payload_left=None if walk.payload is None else walk.payload.left,
        asked=before.asked + 1,
        next_uri=next_address(paging.next, response, page.lookup) if paging.next else "",
        more=more,
        more_was_there=before.more_was_there or more is not None,
    )


def _echoed(spec: ExtractionSpec, page: Page) -> EchoedPage:
    fields = [name.strip() for name in (*spec.pagination.fields, "", "", "")]
    found = [page_integer(page.lookup(path), path) if path else None for path in fields]
    return EchoedPage(found[0], found[1], found[2])


def _nothing(path: str) -> JsonValue | Missing:
    """Find nothing: the look-up of an answer without a body."""
    del path
    return MISSING


def _counted(batches: Iterator[pa.RecordBatch], page: Page) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        page.rows += batch.num_rows
        yield batch


class _Pace:
    """Keeps the call interval, from start to start (B8.7), and the time of the first request."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._first: float | None = None
        self._last = 0.0

    def before_request(self) -> None:
        """Wait until the next request may start."""
        clock, interval_s = self._walk.clock, self._walk.spec.call_interval_ms / 1000
        now = clock.monotonic()
        if self._first is None:
            self._first = now
        else:
            now = self._wait_until(self._last + interval_s, now)
        self._last = now

    def elapsed_s(self) -> float:
        """Return the seconds since the first request started."""
        return self._walk.clock.monotonic() - (self._first or 0.0)

    def _wait_until(self, due: float, now: float) -> float:
        clock, begun = self._walk.clock, now
        while now < due:
            clock.sleep(due - now)
            now = clock.monotonic()
        self._walk.counters.seconds_waited += now - begun
        return now
