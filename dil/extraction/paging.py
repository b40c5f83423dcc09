"""The paging loop: one request after another until the rules say stop (behaviour.md B8.2)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from dil.errors import SourceContractError
from dil.extraction.paging_notes import end_notes
from dil.extraction.paging_rules import (
    Action,
    EchoedPage,
    PageState,
    PagingRules,
    SessionKey,
    decide,
    failure,
    initial_values,
    next_values,
    page_integer,
    total_count,
)
from dil.extraction.parameters import PageValues, Scope, evaluate
from dil.extraction.streams import ReadStream
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
    that were not warnings. ``notes`` are fixed sentences for the run's report, each once: what was
    odd about the answers and about how the walk ended, without being a failure.
    """

    requests: int = 0
    pages: int = 0
    rows: int = 0
    bytes: int = 0
    warnings: int = 0
    seconds_waited: float = 0.0
    notes: list[str] = field(default_factory=list)

    def note(self, *sentences: str) -> None:
        """Add the sentences that are not there yet."""
        self.notes += [each for each in dict.fromkeys(sentences) if each not in self.notes]


class Clock(Protocol):
    """Monotonic time in seconds, and a way to wait; the task passes in ``time``."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    def sleep(self, seconds: float, /) -> None:
        """Wait."""


@dataclass(frozen=True)
class Walk:
    """Everything that decides how the pages of one attempt are walked."""

    spec: ExtractionSpec
    scope: Scope
    clock: Clock
    counters: WalkCounters = field(default_factory=WalkCounters)


def walk_pages(
    session: ByteSession, extractor: Extractor, walk: Walk
) -> Iterator[tuple[Page, RequestValues]]:
    """Yield each page with the values of its request; lazily, one page in memory.

    The next request is sent when the caller asks for the next page. Batches of a page that were
    not consumed by then are read and counted, so that paging does not depend on the caller.

    Raises:
        SourceContractError: a value of the paging rules is of the wrong kind, or they say fail.
        SourceError: from the session or the extractor.
    """

    def ask(values: RequestValues) -> tuple[Page, Response]:
        response = session.fetch(values)
        if response.warning:
            walk.counters.warnings += 1
            _LOG.warning("%s: %s", response.location, response.warning)
        else:
            walk.counters.pages += 1
        if response.body is None:
            return Page(iter(()), _nothing), response
        return extractor.extract(_counting(response, walk.counters)), response

    return _walk(ask, walk)


def walk_rows(session: RowSession, walk: Walk) -> Iterator[tuple[Page, RequestValues]]:
    """Yield one page for each request of a row protocol, lazily; else as ``walk_pages``."""

    def ask(values: RequestValues) -> tuple[Page, Response]:
        walk.counters.pages += 1
        page = Page(iter(()), _nothing)
        page.batches = _counted(session.read(values), page)
        return page, Response(body=None)

    return _walk(ask, walk)


def _walk(
    ask: Callable[[RequestValues], tuple[Page, Response]], walk: Walk
) -> Iterator[tuple[Page, RequestValues]]:
    """Run the loop of B8.2; ``ask`` sends one request."""
    rules = PagingRules.of(walk.spec)
    pace = _Pace(walk)
    values = initial_values(walk.spec)
    state = PageState()
    for number in _numbers():
        pace.before_request()
        request = evaluate(walk.spec.parameters, walk.scope, values, page=number)
        walk.counters.requests += 1
        page, response = ask(request)
        yield page, request
        for _ in page.batches:
            pass
        walk.counters.rows += page.rows
        walk.counters.note(*page.notes)
        state = _state_after(walk, state, page, response, first=number == 0)
        decision = decide(rules, replace(state, elapsed_s=pace.elapsed_s()))
        if decision.action is Action.FAIL:
            raise SourceContractError(
                failure(decision, walk.spec.session, rules.wait_timeout_s),
                "See ms.session.key.field and ms.wait.timeout.seconds.",
            )
        if decision.action is Action.STOP:
            _note_the_end(walk, rules, state, response, values)
            return
        values = next_values(values, _echoed(walk.spec, page), page.rows, state.key.cursor)


def _note_the_end(
    walk: Walk, rules: PagingRules, state: PageState, response: Response, sent: PageValues
) -> None:
    """Keep what is odd about the end of a walk, and log it with its numbers."""
    notes = end_notes(rules, state, page_size=sent.size, has_body=response.body is not None)
    for note in notes:
        _LOG.warning(
            "%s: %s (rows %d, total %s)",
            response.location or "the source", note, state.processed,
            "unknown" if state.total is None else as_text(state.total),
        )  # fmt: skip
    walk.counters.note(*notes)


def _numbers() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


def _state_after(
    walk: Walk, before: PageState, page: Page, response: Response, *, first: bool
) -> PageState:
    spec = walk.spec
    total = before.total
    if spec.total_count_field:
        found = page.lookup(spec.total_count_field)
        total = total_count(found, before.total, spec.total_count_field)
    key = session_key(spec.session.name, response, page.lookup) if spec.session else SessionKey()
    return PageState(
        rows=page.rows,
        processed=before.processed + page.rows,
        key=key,
        previous_key=None if first else before.key,
        key_was_there=before.key_was_there or key.is_there,
        total=total,
    )


def session_key(
    name: str, response: Response, lookup: Callable[[str], JsonValue | Missing]
) -> SessionKey:
    """Find the session key of a response (B8.4): JSON path before response header.

    In a body that is an array the path is collected from each object and joined with ``|``.
    """
    found = lookup(name)
    if not isinstance(found, Missing):
        return SessionKey.of(found)
    parts = list(_element_keys(name, lookup))
    if parts:
        return SessionKey("|".join(parts), is_there=True)
    header = response.header(name)
    return SessionKey(header or "", is_there=header is not None)


def _element_keys(name: str, lookup: Callable[[str], JsonValue | Missing]) -> Iterator[str]:
    """Yield the key's text from each element of a body that is an array."""
    position = 0
    while not isinstance(lookup(str(position)), Missing):
        found = lookup(f"{position}.{name}")
        if not isinstance(found, Missing):
            yield SessionKey.of(found).text
        position += 1


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


def _counting(response: Response, counters: WalkCounters) -> Response:
    """Return the response with a body whose bytes are counted as they are read."""
    body = response.body
    if body is None:
        return response
    return replace(response, body=cast("BinaryIO", _CountedStream(body, counters)))


class _CountedStream(ReadStream):
    """Counts what is read from a stream that it owns."""

    def __init__(self, stream: BinaryIO, counters: WalkCounters) -> None:
        self._stream = stream
        self._counters = counters

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self._counters.bytes += len(data)
        return data

    def close(self) -> None:
        self._stream.close()
        super().close()


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
