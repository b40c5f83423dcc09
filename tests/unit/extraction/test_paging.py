"""The loop, with the worked examples of behaviour.md B8.2, over a scripted source."""

import io
import json
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from dil.errors import SourceContractError
from dil.extraction.json_extractor import JsonExtractor
from dil.extraction.paging import Walk, session_key, walk_pages, walk_rows
from dil.extraction.parameters import Scope
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.settings import Pagination, Parameter, SessionKeyField
from dil.spi.connector import ByteSession, Response, RowSession
from dil.spi.extractor import MISSING

REF = ClassRef("m", "c")


@dataclass
class Clock:
    """Time that passes only by sleeping, and by ``request_s`` for each request."""

    now: float = 1000.0
    request_s: float = 0.0
    slept: list[float] = field(default_factory=list)

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


@dataclass
class Scripted(ByteSession):
    """Answers with JSON values in turn; a Response is passed on as it is."""

    answers: list
    clock: Clock = field(default_factory=Clock)
    sent: list = field(default_factory=list)
    starts: list = field(default_factory=list)

    def fetch(self, values):
        self.starts.append(self.clock.now)
        self.clock.now += self.clock.request_s
        self.sent.append(dict(values.parameters))
        answer = self.answers[min(len(self.sent), len(self.answers)) - 1]
        if isinstance(answer, Response):
            return answer
        return Response(io.BytesIO(json.dumps(answer).encode()), location="source")


def walked(source, spec, **more):
    """Walk all pages; return the number of rows of each, and the walk."""
    walk = Walk(spec, Scope(0, 1, full_extract=True), source.clock, **more)
    rows = []
    for page, _ in walk_pages(source, JsonExtractor(spec), walk):
        rows.append(sum(batch.num_rows for batch in page.batches))
    return rows, walk


def page(count, **more):
    return {"data": [{"id": n} for n in range(count)], **more}


OFFSETS = (Parameter(name="o", type="pagestart"), Parameter(name="n", type="pagesize"))
CURSOR = (Parameter(name="cursor", type="session"),)


def test_worked_example_1_polls_until_done_once_a_second():
    spec = ExtractionSpec(
        REF,
        session=SessionKeyField(
            name="status", condition={"regexp": "DONE"}, failCondition={"regexp": "ERR.*"}
        ),
        call_interval_ms=1000,
        wait_timeout_s=10,
    )
    source = Scripted([{"status": "RUN"}, {"status": "RUN"}, {"status": "DONE"}])
    rows, walk = walked(source, spec)
    assert rows == [1, 1, 1]
    assert source.starts == [1000.0, 1001.0, 1002.0]
    assert walk.counters.seconds_waited == 2.0

    failing = Scripted([{"status": "ERR5"}])
    walk = Walk(spec, Scope(0, 1, full_extract=True), failing.clock)
    answers = walk_pages(failing, JsonExtractor(spec), walk)
    emitted, _ = next(answers)
    assert len(list(emitted.batches)) == 1
    with pytest.raises(SourceContractError):
        next(answers)

    running = Scripted([{"status": "RUN"}])
    with pytest.raises(SourceContractError):
        walked(running, spec)
    assert len(running.starts) == 12  # the page that starts at 11 s is the first to end after 10 s


def test_worked_example_2_stops_at_an_empty_page_or_at_the_total():
    pages = [page(100), page(100), page(40), page(0)]
    spec = ExtractionSpec(
        REF, data_field="data", parameters=OFFSETS, pagination=Pagination(initialvalues=(0, 100))
    )
    source = Scripted(pages)
    assert walked(source, spec)[0] == [100, 100, 40, 0]
    assert [sent["o"] for sent in source.sent] == [0, 100, 200, 300]

    counted = ExtractionSpec(
        REF,
        data_field="data",
        parameters=OFFSETS,
        pagination=Pagination(initialvalues=(0, 100)),
        total_count_field="total",
    )
    source = Scripted([page(100, total=240), page(100), page(40)])
    assert walked(source, counted)[0] == [100, 100, 40]
    assert len(source.sent) == 3


def test_worked_example_3_follows_a_cursor():
    spec = ExtractionSpec(
        REF, data_field="data", parameters=CURSOR, session=SessionKeyField(name="next")
    )
    source = Scripted([page(1, next="A"), page(1, next="B"), page(1, next="")])
    assert walked(source, spec)[0] == [1, 1, 1]
    assert source.sent == [{}, {"cursor": "A"}, {"cursor": "B"}]


def test_a_null_cursor_ends_the_walk_and_is_never_sent():
    spec = ExtractionSpec(
        REF, data_field="data", parameters=CURSOR, session=SessionKeyField(name="next")
    )
    source = Scripted([page(1, next="A"), page(1, next=None)])
    walked(source, spec)
    assert source.sent == [{}, {"cursor": "A"}]


def test_a_repeated_cursor_fails_but_not_on_an_empty_page():
    spec = ExtractionSpec(
        REF, data_field="data", parameters=CURSOR, session=SessionKeyField(name="next")
    )
    with pytest.raises(SourceContractError):
        walked(Scripted([page(1, next="A"), page(1, next="A")]), spec)
    assert walked(Scripted([page(1, next="A"), page(0, next="A")]), spec)[0] == [1, 0]


def test_the_initial_session_key_is_sent_in_the_first_request():
    spec = ExtractionSpec(
        REF,
        data_field="data",
        parameters=CURSOR,
        session=SessionKeyField(name="next", initValue="first"),
    )
    source = Scripted([page(1, next="")])
    walked(source, spec)
    assert source.sent == [{"cursor": "first"}]


def test_a_cursor_can_come_from_a_response_header_of_any_letter_case():
    spec = ExtractionSpec(
        REF, data_field="data", parameters=CURSOR, session=SessionKeyField(name="X-Next")
    )
    first = Response(io.BytesIO(b'{"data":[{"id":1}]}'), headers={"x-next": "A"})
    source = Scripted([first, page(1)])
    walked(source, spec)
    assert source.sent == [{}, {"cursor": "A"}]


def test_the_body_wins_over_the_header():
    response = Response(None, headers={"k": "header"})
    assert session_key("k", response, lambda path: "body").text == "body"
    assert session_key("k", response, lambda path: MISSING).text == "header"


def test_in_an_array_the_keys_of_all_elements_are_joined():
    body = b'[{"s":"a"},{"t":1},5,{"s":{"x":1}},{"s":null}]'
    lookup = JsonExtractor(ExtractionSpec(REF)).extract(Response(io.BytesIO(body))).lookup
    assert session_key("s", Response(None), lookup).text == 'a|{"x":1}|null'
    assert session_key("0.s", Response(None), lookup).text == "a"


def test_echoed_page_values_decide_the_next_offset():
    spec = ExtractionSpec(
        REF,
        data_field="data",
        parameters=OFFSETS,
        pagination=Pagination(fields=("o", "n"), initialvalues=(0, 100)),
    )
    source = Scripted([page(2, o=0, n=50), page(2, o=50, n=50), page(0)])
    walked(source, spec)
    assert source.sent == [{"o": 0, "n": 100}, {"o": 50, "n": 50}, {"o": 100, "n": 50}]


def test_a_warning_counts_as_a_page_without_rows():
    spec = ExtractionSpec(REF, data_field="data", pagination=Pagination(initialvalues=(0,)))
    rows, walk = walked(Scripted([page(2), Response(None, warning="HTTP status 204")]), spec)
    assert rows == [2, 0]
    assert (walk.counters.requests, walk.counters.pages, walk.counters.warnings) == (2, 1, 1)


def test_the_interval_is_from_start_to_start():
    spec = ExtractionSpec(
        REF, data_field="data", pagination=Pagination(initialvalues=(0,)), call_interval_ms=1000
    )
    source = Scripted([page(1), page(1), page(0)], Clock(request_s=0.75))
    walked(source, spec)
    assert source.starts == [1000.0, 1001.0, 1002.0]
    assert source.clock.slept == [0.25, 0.25]


def test_a_slow_request_needs_no_wait():
    spec = ExtractionSpec(
        REF, data_field="data", pagination=Pagination(initialvalues=(0,)), call_interval_ms=1000
    )
    source = Scripted([page(1), page(0)], Clock(request_s=3))
    walked(source, spec)
    assert source.clock.slept == []


def test_pages_are_asked_for_one_by_one():
    spec = ExtractionSpec(REF, data_field="data", pagination=Pagination(initialvalues=(0,)))
    source = Scripted([page(1)])
    pages = walk_pages(
        source, JsonExtractor(spec), Walk(spec, Scope(0, 1, full_extract=True), source.clock)
    )
    next(pages)
    assert len(source.sent) == 1
    next(pages)
    assert len(source.sent) == 2
    pages.close()


def test_rows_that_nobody_read_still_count():
    spec = ExtractionSpec(
        REF, data_field="data", parameters=CURSOR, session=SessionKeyField(name="next")
    )
    source = Scripted([page(3, next="A"), page(2, next="")])
    walk = Walk(spec, Scope(0, 1, full_extract=True), source.clock)
    assert len(list(walk_pages(source, JsonExtractor(spec), walk))) == 2
    assert walk.counters.rows == 5


def test_the_bytes_of_bodies_are_counted():
    source = Scripted([Response(io.BytesIO(b'{"a":1}'))])
    assert walked(source, ExtractionSpec(REF))[1].counters.bytes == 7


class Rows(RowSession):
    def __init__(self):
        self.sent = []

    def read(self, values):
        self.sent.append(dict(values.parameters))
        left = max(0, 5 - values.parameters["o"])
        yield pa.RecordBatch.from_pydict({"id": list(range(min(2, left)))})


def test_row_sessions_are_paged_alike():
    spec = ExtractionSpec(REF, parameters=OFFSETS, pagination=Pagination(initialvalues=(0, 2)))
    source = Rows()
    walk = Walk(spec, Scope(0, 1, full_extract=True), Clock())
    assert len(list(walk_rows(source, walk))) == 4
    assert [sent["o"] for sent in source.sent] == [0, 2, 4, 6]
    assert walk.counters.rows == 5
