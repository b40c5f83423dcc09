"""The paging loop: one request after another until the rules say stop (rule G21)."""

from __future__ import annotations

import logging
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from dil.errors import (
    AuthenticationError,
    DilError,
    QuotaError,
    RefusedAnswer,
    SourceContractError,
    SourceError,
    TransientSourceError,
)
from dil.extraction.excerpt import excerpt
from dil.extraction.failed_answers import TemporaryAnswerError, refuse_failed_answer
from dil.extraction.paging.answers import (
    LastRow,
    SessionKey,
    behind_ms,
    echoed_page,
    found_at,
    has_place,
    more_flag,
    next_address,
    pause_s,
    session_key,
    total_count,
)
from dil.extraction.paging.notes import DOUBTS, SHORT_LEFT, SHORT_PAGE, end_notes
from dil.extraction.paging.rules import (
    Action,
    LastPage,
    PageState,
    PagingDecision,
    PagingPosition,
    PagingRules,
    Row,
    decide,
    is_short_page,
    looks_complete,
    next_values,
)
from dil.extraction.paging.watch import PageWatch
from dil.extraction.parameters import PageValues, ParameterScope, evaluate, initial_values
from dil.extraction.payload_rows import PayloadRows
from dil.extraction.streams import MeasuredBody
from dil.model.job import ExtractionSpec
from dil.model.json import JsonObject, as_text, compact
from dil.model.messages import shortened
from dil.model.path import Missing
from dil.spi.connector import ByteSession, RequestValues, Response, RowSession, Session
from dil.spi.egress import RefusedSink
from dil.spi.extractor import Extractor, Page, nothing_found

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)
MOST_LEFT_OUT = 100
_FIRST_BYTES = 1 << 20  # of rows that are copied for a checksum
_SEE = "See ms.session.key.field, ms.pagination and ms.wait.timeout.seconds."
_ONE_CURSOR = (
    " If the source keeps one cursor for all pages, as a scroll does, read by offsets or by a key"
    " of the last row."
)
_INCLUSIVE = (
    " If each page begins with the row of the key that was sent, give the page size as a parameter"
    " of type pagesize, and set `stopOnShortPage` of ms.pagination; ms.publish.mode=merge keeps one"
    " of the two rows."
)
_BEYOND = (
    " If the source answers so beyond its last page, end the paging before that: by"
    " ms.total.count.field, or by `more` or `stopOnShortPage` of ms.pagination."
)


@dataclass(slots=True)
class WalkProgress:
    """The progress of a walk, which the task may read at any time.

    ``bytes`` counts the bytes that the extractor read, after transfer decoding. ``pages`` counts
    answers that were no warnings. ``asked`` counts the requests that the walk made, ``resent`` the
    further requests by which the session repeated them. ``by_status`` counts answers by the
    hundreds of their status (2 for 2xx) if the protocol has statuses. ``warned`` counts, by status,
    the answers whose status is a warning. ``notes`` are fixed sentences for the run's report, each
    once: oddities of the answers and of the walk's end that are no failures. If ``is_dead_end`` is
    true, a later attempt must not continue after these pages: it would fail in the same way.
    ``left_out`` are the paths of columns that rows had and ``ms.output.schema`` leaves out.
    ``behind_ms`` is how far the source's clock was behind the end of the window at the last answer.
    ``first_rows`` is a checksum of the first rows and of the path from which they came, 0 if there
    is only one row or they are very long, None before the first row. ``short_of`` is the requested
    page size if all rows came on a page of fewer, and a source that caps its pages would have given
    the same answers; else None.
    """

    asked: int = 0
    pages: int = 0
    rows: int = 0
    dropped: int = 0
    bytes: int = 0
    warnings: int = 0
    seconds_waited: float = 0.0
    resent: int = 0
    by_status: Counter[int] = field(default_factory=Counter)
    warned: Counter[int] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    is_dead_end: bool = False
    left_out: dict[str, None] = field(default_factory=dict)
    behind_ms: int = 0
    first_rows: int | None = None
    short_of: int | None = None

    def watch_first(self, page: Page, path: str) -> None:
        """Take the checksum of the first hundred rows while they are read, if none came before."""
        if self.first_rows is None:
            page.batches = self._watched(page.batches, path)

    def _watched(self, batches: Iterator[pa.RecordBatch], path: str) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if self.first_rows is None and batch.num_rows:
                rows = batch.slice(0, 96)  # whole bytes of bits
                is_apt = rows.num_rows > 1 and rows.nbytes <= _FIRST_BYTES
                seed = zlib.crc32(path.encode())
                self.first_rows = zlib.crc32(rows.serialize(), seed) if is_apt else 0
            yield batch

    def fell_short(self, asked: int | None) -> None:
        """Keep the requested page size, unless a note says already that the pages are short."""
        if {SHORT_PAGE, SHORT_LEFT}.isdisjoint(self.notes):
            self.short_of = asked

    def note(self, *sentences: str) -> None:
        """Add the sentences that are not among the notes yet."""
        self.notes += [each for each in dict.fromkeys(sentences) if each not in self.notes]

    def count(self, page: Page) -> None:
        """Count the rows of a page that was read, and keep names of columns left out of them."""
        self.rows += page.rows
        self.dropped += page.dropped
        self.leave_out(page.left_out)

    def read(self, size: int) -> None:
        """Count bytes of a body."""
        self.bytes += size

    def leave_out(self, columns: Iterable[str]) -> None:
        """Add names of columns that a page's rows had and the output lacks, up to a limit."""
        for column in columns:
            if len(self.left_out) == MOST_LEFT_OUT:
                return
            self.left_out[column] = None


class Clock(Protocol):
    """Monotonic time in seconds, and a way to wait; the task passes in ``time``."""

    def monotonic(self) -> float:
        """Return the seconds of a clock that never goes back."""

    def sleep(self, seconds: float, /) -> None:
        """Wait the given number of seconds."""


class ResumeRefusedError(Exception):
    """A walk cannot continue where an earlier attempt stopped.

    Either the source refused the first request, and its error is the cause; or the rows to send
    have changed, and there is no cause.
    """


def _ignore(position: PagingPosition) -> None:
    del position


def no_log(session: Session, values: RequestValues) -> None:
    """Log nothing."""
    del session, values


@dataclass(frozen=True)
class Walk:
    """Everything that decides the walk through the pages of one attempt.

    ``start`` is the position that an earlier attempt reached. ``payload`` are the rows to send, one
    in each request; without a row there is no request. ``refused`` gets the rows that the receiver
    refuses; if ``refused`` is None, a refused row ends the walk. ``refused_before`` are the rows
    that an earlier attempt put aside, by the number of their request: they are put aside again.
    ``on_page`` is called with the position of the walk between two pages, after all rows of the
    earlier page were read. ``log_request`` is called with each request before it is sent.
    """

    spec: ExtractionSpec
    scope: ParameterScope
    clock: Clock
    progress: WalkProgress = field(default_factory=WalkProgress)
    start: PagingPosition | None = None
    payload: PayloadRows | None = None
    refused: RefusedSink | None = None
    refused_before: Mapping[int, RefusedAnswer] = field(default_factory=dict)
    on_page: Callable[[PagingPosition], None] = _ignore
    log_request: Callable[[Session, RequestValues], None] = no_log


_Ask = Callable[[RequestValues], tuple[Page, Response]]


def walk_pages(
    session: ByteSession, extractor: Extractor, walk: Walk
) -> Iterator[tuple[Page, RequestValues]]:
    """Yield each page with the values of its request; only one page is in memory.

    The next request is sent when the caller asks for the next page. Batches of a page that were
    not consumed by then are read and counted, so that paging does not depend on the caller.

    Raises:
        SourceContractError: a value for the paging rules has the wrong type, the rules say fail, or
            the source leads in circles.
        SourceError: from the session or the extractor, or an answer reports a failure.
        ResumeRefusedError: the source refuses to continue from ``walk.start``, or the payload rows
            differ from the rows that were sent before.
    """
    rules = PagingRules.of(walk.spec)
    hashes = rules.compares_bodies and walk.payload is None

    def page_of(response: Response) -> Page:
        if response.body is None:
            return Page(iter(()), nothing_found, has_content=False)
        page = extractor.extract(response)
        try:
            if page.has_content:
                refuse_failed_answer(walk.spec.failing, response, page.lookup)
        except SourceError:
            page.close()
            response.body.close()
            raise
        return page

    def ask(values: RequestValues) -> tuple[Page, Response]:
        repeats = 0
        while True:
            walk.log_request(session, values)
            response = session.fetch(values)
            _count(response, walk.progress)
            if response.body is not None:
                body = MeasuredBody(response.body, walk.progress.read, hashes=hashes)
                response = replace(response, body=cast("BinaryIO", body))
            try:
                return page_of(response), response
            except TemporaryAnswerError as failure:
                if not session.waits_to_repeat(response, failure.message, repeats):
                    again = f"; the request was sent {repeats + 1} times" if repeats else ""
                    raise TransientSourceError(failure.message + again, failure.fix) from None
            repeats += 1

    return _walk(ask, walk, rules)


def walk_rows(session: RowSession, walk: Walk) -> Iterator[tuple[Page, RequestValues]]:
    """Yield one page for each request of a row protocol, otherwise like ``walk_pages``.

    Look-ups, for example of the session key, find the columns of a page's last row.
    """

    def ask(values: RequestValues) -> tuple[Page, Response]:
        walk.progress.pages += 1
        last = LastRow()
        page = Page(iter(()), last.lookup)
        walk.log_request(session, values)
        rows = session.read(values)
        begin = list(islice(rows, 1))  # A refusal of the session is raised here.
        page.batches = _counted(chain(begin, rows), page, last, session)
        return page, Response(body=None)

    return _walk(ask, walk, replace(PagingRules.of(walk.spec), source_may_cap=False))


def _walk(ask: _Ask, walk: Walk, rules: PagingRules) -> Iterator[tuple[Page, RequestValues]]:
    """Yield each page and its request, running the loop (rule G21); ``ask`` sends a request."""
    pace = _Pace(walk)
    start = walk.start or PagingPosition(values=initial_values(walk.spec, walk.scope))
    state, values, rows = start.state, start.values, walk.payload
    if rows is not None and not _skip_sent_rows(walk, rows, start):
        raise ResumeRefusedError
    if rows is not None and not rows.left:
        return
    last = start.last if rows is None else LastPage()
    watch = PageWatch(rules, last, is_sending=rows is not None)
    while True:
        pace.before_request()
        request = _next_request(walk, values, state)
        walk.progress.asked += 1
        try:
            page, response = _ask_page(ask, request, walk, state.asked)
        except DilError as error:
            walk.progress.asked -= error.is_unsent
            is_refused = isinstance(error, SourceError) and error.refused is not None
            if is_refused and rules.is_paged and state.asked > 1:
                error.fix += _BEYOND
            raise
        watch.begin(page)
        # The path counts, because a source cannot ignore it: daily files may begin alike.
        address = response.uri or response.location
        walk.progress.watch_first(page, address.partition("?")[0])
        yield page, request
        for _ in page.batches:
            pass
        walk.progress.count(page)
        _note(walk, *page.notes, *watch.about(page, response))
        echoed = echoed_page(walk.spec.pagination.fields, page.lookup)
        state = replace(
            _state_after(walk, rules, state, page, response),
            asked_key=values.session,
            page_size=values.size if echoed.size is None else echoed.size,
            elapsed_s=pace.elapsed_s(),
        )
        is_short = is_short_page(state, echoed, page)
        decision = decide(rules, state)
        if decision.action is Action.FAIL:
            walk.progress.is_dead_end = True
            raise _failure(walk, rules, state, decision, page)
        if decision.action is Action.STOP:
            walk.progress.behind_ms = behind_ms(response, walk.scope.high)
            notes = end_notes(rules, state, decision, request, response)
            _log_notes(notes, state, response)
            _note(walk, *notes, *watch.may_follow(state))
            is_doubtful = looks_complete(rules, decision, watch.last, is_short=is_short)
            walk.progress.fell_short(state.page_size if is_doubtful else None)
            return
        asked, values = values, next_values(values, echoed, page.rows, state.key.cursor)
        walk.progress.is_dead_end = True  # An error here would occur again after any page.
        skips = is_short and "pagestart" in rules.sent_values
        watch.go_on(decision, state, response, asked, values, skips=skips)
        walk.progress.is_dead_end = False
        if decision.row in {Row.POLLING, Row.POLLING_PAGES}:
            # At the end of the waiting time the source is asked once more.
            pace.hold(min(pause_s(response), max(0.0, rules.wait_timeout_s - state.elapsed_s)))
        walk.on_page(
            replace(
                PagingPosition.after(state, values, watch.last),
                sent_rows="" if rows is None else rows.sent,
                dropped=walk.progress.dropped,
            )
        )


def _failure(
    walk: Walk, rules: PagingRules, state: PageState, decision: PagingDecision, page: Page
) -> SourceContractError:
    """Return the error of a walk that fails by the decision after a page.

    It shows the session key only if the key is a status: if it matched ``failCondition``, or did
    not meet its condition in time.
    """
    key, name = state.key, walk.spec.session.name if walk.spec.session else ""
    is_document = key.text.startswith(("{", "["))  # whose values could be data
    shown = excerpt(key.text.encode(), is_refusal=True) if is_document else key.text
    shown, fix = shortened(shown, 60), _SEE
    if decision.row is Row.REPEATED_CURSOR:
        what = f'the source returned the same session key "{name}" twice in a row'
        fix += _INCLUSIVE if rules.takes_key_of_row else _ONE_CURSOR
    elif decision.row is Row.CAP:
        what = "the source has more pages than maxPages and maxRows of ms.pagination allow"
    elif decision.row is Row.FAIL_CONDITION_MET:
        what = f'the session key "{name}" is "{shown}", which matches failCondition'
    else:
        last = f'the last one was "{shown}"' if key.is_there else "the last answer had none"
        if document := _shown(page):
            last += f", in {document}"
        within = f"within {walk.spec.wait_timeout_s:g} seconds"
        what = f'the session key "{name}" did not meet its condition {within}; {last}'
    return SourceContractError(what, fix)


def _shown(page: Page) -> str:
    """Return the beginning of an answer as a message may show it, empty if it cannot be decoded."""
    try:
        document = page.lookup("$")
    except SourceContractError:  # it is too long
        return ""
    if isinstance(document, Missing):
        return ""
    return excerpt(compact(document).encode(), is_refusal=True)


def _log_notes(notes: tuple[str, ...], state: PageState, response: Response) -> None:
    """Log notes about the end of a walk with the number of rows."""
    for note in notes:
        log.warning(
            "%s: %s (rows %d, total %s)",
            response.location or "the source", note, state.processed,
            "unknown" if state.total is None else as_text(state.total),
        )  # fmt: skip


def _next_request(walk: Walk, values: PageValues, state: PageState) -> RequestValues:
    """Return the values of the next request, with its payload row or its address."""
    request = evaluate(walk.spec.parameters, walk.scope, values, page=state.asked)
    if walk.payload is None:
        return replace(request, next_uri=state.next_uri) if state.next_uri else request
    row, key = walk.payload.take()
    return replace(request, payload=row, idempotency_key=key)


def _ask_page(ask: _Ask, request: RequestValues, walk: Walk, number: int) -> tuple[Page, Response]:
    """Return the page and the answer of a request; ``number`` requests came before it.

    Raises:
        ResumeRefusedError: the source refuses the first request of a resumed walk.
    """
    if walk.payload is not None:
        return _send_row(ask, request, walk, number + 1)
    if walk.start is None or number != walk.start.number:
        return ask(request)
    try:
        return ask(request)
    except (TransientSourceError, QuotaError):
        raise
    except AuthenticationError as error:
        if not request.next_uri:
            raise
        # An address that the source signed may have expired, and expires for good.
        raise ResumeRefusedError from error
    except SourceError as error:
        raise ResumeRefusedError from error


def _skip_sent_rows(walk: Walk, rows: PayloadRows, start: PagingPosition) -> bool:
    """Skip the rows that an earlier attempt has sent; return whether they are the same rows."""

    def seen(number: int, row: JsonObject, key: str) -> None:
        answer = walk.refused_before.get(number)
        if answer is not None and walk.refused is not None:
            walk.refused.keep(row, number, key, answer)

    return rows.skip(start.number, start.sent_rows or rows.sent, seen)


def _send_row(ask: _Ask, request: RequestValues, walk: Walk, number: int) -> tuple[Page, Response]:
    """Send a payload row and return its page; if the job keeps refused rows, put such a row aside.

    The rows before a refused row were sent.
    """
    try:
        return ask(request)
    except SourceError as error:
        if walk.refused is None or error.refused is None or request.payload is None:
            raise
        status = error.refused.status
        walk.refused.keep(request.payload, number, request.idempotency_key, error.refused)
        walk.progress.by_status[status // 100] += 1
        return Page(iter(()), nothing_found), Response(body=None, status=status)


def _count(response: Response, progress: WalkProgress) -> None:
    if response.status:
        progress.by_status[response.status // 100] += 1
    if response.warning:
        progress.warnings += 1
        progress.warned[response.status] += 1
        log.warning("%s: %s", response.location, response.warning)
    else:
        progress.pages += 1


def _note(walk: Walk, *notes: str) -> None:
    """Add notes for the run's report.

    If paging is strict, no page of a doubtful walk is kept for a later attempt: that attempt would
    not notice the doubt.

    Raises:
        SourceContractError: one of the notes is a doubt, and paging is strict.
    """
    walk.progress.note(*notes)
    doubt = next((note for note in notes if note in DOUBTS), "")
    if doubt and walk.spec.pagination.strict:
        walk.progress.is_dead_end = True
        raise SourceContractError(
            f"paging is strict, and {doubt}",
            "Check the answers of the source. Without `strict` in ms.pagination this is only a"
            " note in the run's report, and the rows that came are published.",
        )


def _state_after(
    walk: Walk, rules: PagingRules, before: PageState, page: Page, response: Response
) -> PageState:
    spec, paging = walk.spec, walk.spec.pagination
    total = before.total
    if spec.total_count_field:
        found = found_at(spec.total_count_field, response, page.lookup)
        total = total_count(found, before.total, spec.total_count_field)
    key = SessionKey()
    if spec.session:
        is_members = rules.sends_members
        key = session_key(spec.session.name, response, page.lookup, is_members=is_members)
    more = more_flag(paging.more, response, page.lookup) if paging.more else None
    had_next = before.next_was_there or bool(before.next_uri)  # a resumed walk knows only next_uri
    return PageState(
        rows=page.rows,
        processed=before.processed + page.rows,
        key=key,
        previous_key=before.key,
        key_was_there=before.key_was_there or key.is_there,
        total=total,
        payload_left=None if walk.payload is None else walk.payload.left,
        files_left=response.has_more,
        had_files=before.files_left,
        asked=before.asked + 1,
        next_uri=(
            next_address(paging.next, response, page.lookup, query_only=paging.query_only)
            if paging.next
            else ""
        ),
        next_was_there=bool(paging.next)
        and (had_next or has_place(paging.next, response, page.lookup)),
        more=more,
        more_was_there=before.more_was_there or more is not None,
    )


def _counted(
    batches: Iterator[pa.RecordBatch], page: Page, last: LastRow, session: RowSession
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        page.left_out = session.left_out
        page.rows += batch.num_rows
        last.see(batch)
        yield batch


class _Pace:
    """Waits the call interval between requests (rule G23); remembers when the first one started."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._first: float | None = None
        self._last = self._held_until = -math.inf

    def hold(self, seconds: float) -> None:
        """Let the next request start no earlier than in so many seconds."""
        self._held_until = self._walk.clock.monotonic() + seconds

    def before_request(self) -> None:
        """Wait until the next request may start."""
        clock, interval_s = self._walk.clock, self._walk.spec.call_interval_ms / 1000
        now = clock.monotonic()
        if self._first is None:
            self._first = now
        due, begun = max(self._last + interval_s, self._held_until), now
        while now < due:
            clock.sleep(due - now)
            now = clock.monotonic()
        self._walk.progress.seconds_waited += now - begun
        self._last = now

    def elapsed_s(self) -> float:
        """Return the seconds since the first request started."""
        return self._walk.clock.monotonic() - (self._first or 0.0)
