"""The loop, with the examples of docs/semantics/paging.md, over a scripted source."""

import io
import itertools
import json
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from dil.errors import SourceContractError
from dil.extraction.content import NO_DATA_FIELD
from dil.extraction.json.extractor import JsonExtractor
from dil.extraction.paging.answers import LastRow, session_key
from dil.extraction.paging.notes import (
    CURSOR_LEFT,
    NO_CONTENT,
    NO_KEY,
    NO_TOTAL,
    TOTAL_NOT_REACHED,
)
from dil.extraction.paging.walk import Walk, walk_pages, walk_rows
from dil.extraction.parameters import ParameterScope
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.path import MISSING
from dil.model.settings import Pagination, Parameter, SessionCondition, SessionKeyField
from dil.spi.connector import ByteSession, Response, RowSession
from tests.unit.extraction.clocks import Clock

REF = ClassRef("m", "c")


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
    walk = Walk(spec, ParameterScope(0, 1, full_extract=True), source.clock, **more)
    rows = []
    for page, _ in walk_pages(source, JsonExtractor(spec), walk):
        rows.append(sum(batch.num_rows for batch in page.batches))
    return rows, walk


IDS = itertools.count()


def page(count, **more):
    """Return a page of rows that no other page has."""
    return {"data": [{"id": next(IDS)} for _ in range(count)], **more}


OFFSETS = (Parameter(name="o", type="pagestart"), Parameter(name="n", type="pagesize"))
CURSOR = (Parameter(name="cursor", type="session"),)


def test_worked_example_1_polls_until_done_once_a_second():
    spec = ExtractionSpec(
        REF,
        session=SessionKeyField(
            name="status",
            condition=SessionCondition(regexp="DONE"),
            fail_condition=SessionCondition(regexp="ERR.*"),
        ),
        call_interval_ms=1000,
        wait_timeout_s=10,
    )
    source = Scripted([{"status": "RUN"}, {"status": "RUN"}, {"status": "DONE"}])
    rows, walk = walked(source, spec)
    assert rows == [1, 1, 1]
    assert source.starts == [1000.0, 1001.0, 1002.0]
    assert walk.progress.seconds_waited == 2.0

    asking = [
        Response(io.BytesIO(b'{"status": "RUN"}'), headers=headers)
        for headers in (
            {"Retry-After": "4"},
            {
                "Retry-After": "Thu, 01 Jan 1970 00:00:03 GMT",
                "Date": "Thu, 01 Jan 1970 00:00:00 GMT",
            },
            {"Retry-After": "86400"},
        )
    ]
    source = Scripted([*asking, {"status": "DONE"}])
    walked(source, spec)
    assert source.starts == [1000.0, 1004.0, 1007.0, 1010.0]

    failing = Scripted([{"status": "ERR5"}])
    walk = Walk(spec, ParameterScope(0, 1, full_extract=True), failing.clock)
    answers = walk_pages(failing, JsonExtractor(spec), walk)
    emitted, _ = next(answers)
    assert len(list(emitted.batches)) == 1
    with pytest.raises(SourceContractError, match='is "ERR5", which matches failCondition'):
        next(answers)

    running = Scripted([{"status": "RUN", "message": "queued", "owner": "zoe"}])
    with pytest.raises(SourceContractError) as caught:
        walked(running, spec)
    assert 'within 10 seconds; the last one was "RUN", in {"status":"RUN"' in caught.value.message
    assert '"message":"queued","owner":***}' in caught.value.message
    assert len(running.starts) == 12  # the page that starts at 11 s is the first to end after 10 s


def test_a_time_out_says_when_the_last_answer_had_no_status():
    status = SessionKeyField(name="status", condition=SessionCondition(regexp="DONE"))
    spec = ExtractionSpec(REF, session=status, call_interval_ms=1000, wait_timeout_s=1)
    with pytest.raises(SourceContractError, match="seconds; the last answer had none, in "):
        walked(Scripted([{"state": "RUN"}]), spec)


def test_worked_example_2_stops_at_an_empty_page_or_at_the_total():
    pages = [page(100), page(100), page(40), page(0)]
    spec = ExtractionSpec(
        REF, data_field="data", parameters=OFFSETS, pagination=Pagination(initial_values=(0, 100))
    )
    source = Scripted(pages)
    assert walked(source, spec)[0] == [100, 100, 40, 0]
    assert [sent["o"] for sent in source.sent] == [0, 100, 200, 300]

    counted = ExtractionSpec(
        REF,
        data_field="data",
        parameters=OFFSETS,
        pagination=Pagination(initial_values=(0, 100)),
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
        session=SessionKeyField(name="next", init_value="first"),
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


def test_a_header_with_the_text_null_is_no_cursor():
    spec = ExtractionSpec(
        REF, data_field="data", parameters=CURSOR, session=SessionKeyField(name="Sforce-Locator")
    )
    body = b'{"data":[{"id":1}]}'
    headers = ({"Sforce-Locator": "MTAw"}, {"Sforce-Locator": "null"})
    source = Scripted([*(Response(io.BytesIO(body), headers=each) for each in headers), page(1)])
    walked(source, spec)
    assert source.sent == [{}, {"cursor": "MTAw"}]


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
        pagination=Pagination(fields=("o", "n"), initial_values=(0, 100)),
    )
    source = Scripted([page(2, o=0, n=50), page(2, o=50, n=50), page(0)])
    walked(source, spec)
    assert source.sent == [{"o": 0, "n": 100}, {"o": 50, "n": 50}, {"o": 100, "n": 50}]


def test_a_warning_counts_as_a_page_without_rows():
    spec = ExtractionSpec(REF, data_field="data", pagination=Pagination(initial_values=(0,)))
    rows, walk = walked(Scripted([page(2), Response(None, warning="HTTP status 204")]), spec)
    assert rows == [2, 0]
    assert (walk.progress.asked, walk.progress.pages, walk.progress.warnings) == (2, 1, 1)


def test_the_interval_is_from_start_to_start():
    spec = ExtractionSpec(
        REF, data_field="data", pagination=Pagination(initial_values=(0,)), call_interval_ms=1000
    )
    source = Scripted([page(1), page(1), page(0)], Clock(request_s=0.75))
    walked(source, spec)
    assert source.starts == [1000.0, 1001.0, 1002.0]
    assert source.clock.slept == [0.25, 0.25]


def test_a_slow_request_needs_no_wait():
    spec = ExtractionSpec(
        REF, data_field="data", pagination=Pagination(initial_values=(0,)), call_interval_ms=1000
    )
    source = Scripted([page(1), page(0)], Clock(request_s=3))
    walked(source, spec)
    assert source.clock.slept == []


def test_pages_are_asked_for_one_by_one():
    spec = ExtractionSpec(REF, data_field="data", pagination=Pagination(initial_values=(0,)))
    source = Scripted([page(1)])
    pages = walk_pages(
        source,
        JsonExtractor(spec),
        Walk(spec, ParameterScope(0, 1, full_extract=True), source.clock),
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
    walk = Walk(spec, ParameterScope(0, 1, full_extract=True), source.clock)
    assert len(list(walk_pages(source, JsonExtractor(spec), walk))) == 2
    assert walk.progress.rows == 5


def test_the_bytes_of_bodies_are_counted():
    source = Scripted([Response(io.BytesIO(b'{"a":1}'))])
    assert walked(source, ExtractionSpec(REF))[1].progress.bytes == 7


class Rows(RowSession):
    def __init__(self):
        self.sent = []

    def read(self, values):
        self.sent.append(dict(values.parameters))
        left = max(0, 5 - values.parameters["o"])
        yield pa.RecordBatch.from_pydict({"id": list(range(min(2, left)))})


def test_row_sessions_are_paged_alike():
    spec = ExtractionSpec(REF, parameters=OFFSETS, pagination=Pagination(initial_values=(0, 2)))
    source = Rows()
    walk = Walk(spec, ParameterScope(0, 1, full_extract=True), Clock())
    assert len(list(walk_rows(source, walk))) == 4
    assert [sent["o"] for sent in source.sent] == [0, 2, 4, 6]
    assert walk.progress.rows == 5


@pytest.mark.parametrize("stops", [False, True])
def test_a_database_gives_as_many_rows_as_are_asked_for_if_it_has_them(stops):
    paged = Pagination(initial_values=(0, 9), stop_on_short_page=stops)
    spec = ExtractionSpec(REF, parameters=OFFSETS, pagination=paged)
    walk = Walk(spec, ParameterScope(0, 1, full_extract=True), Clock())
    assert len(list(walk_rows(Rows(), walk))) == 2 - stops
    assert (walk.progress.rows, walk.progress.short_of) == (2, None)


class Keyset(RowSession):
    """Rows after the one that is asked for, two at a time, by time and number."""

    def __init__(self, column):
        self.column = column
        self.table = pa.table({
            "id": pa.array(range(5)),
            "at": pa.array(range(5), pa.timestamp("us", tz="UTC")),
        })  # fmt: skip
        self.asked = []

    def read(self, values):
        after = values.variables.get("after", "")
        self.asked.append(after)
        texts = [str(text) for text in self.table[self.column].cast(pa.string()).to_pylist()]
        begin = texts.index(after) + 1 if after else 0
        yield from self.table.slice(begin, 2).to_batches(max_chunksize=1)


@pytest.mark.parametrize(
    ("column", "asked"),
    [
        ("id", ["", "1", "3", "4"]),
        ("at", ["", *(f"1970-01-01 00:00:00.00000{n}Z" for n in (1, 3, 4))]),
    ],
)
def test_the_last_row_of_a_page_leads_to_the_next_one(column, asked):
    cursor = Parameter(name="after", type="session")
    spec = ExtractionSpec(REF, parameters=(cursor,), session=SessionKeyField(name=column))
    source = Keyset(column)
    walk = Walk(spec, ParameterScope(0, 1, full_extract=True), Clock())
    rows = [
        row["id"] for page, _ in walk_rows(source, walk)
        for batch in page.batches for row in batch.to_pylist()
    ]  # fmt: skip
    assert rows == [0, 1, 2, 3, 4]
    assert source.asked == asked


def test_a_column_of_bytes_leads_nowhere():
    last = LastRow()
    last.see(pa.RecordBatch.from_pydict({"raw": [b"x"]}))
    with pytest.raises(SourceContractError, match='"raw" is of type binary'):
        last.lookup("raw")


# Odd ends


def notes_of(source, **members):
    spec = ExtractionSpec(REF, data_field="data", **members)
    return walked(source, spec)[1].progress.notes


PAGED = {"parameters": OFFSETS, "pagination": Pagination(initial_values=(0, 100))}
CURSORS = {"parameters": CURSOR, "session": SessionKeyField(name="next")}


def test_a_walk_that_ends_as_its_source_says_has_no_notes():
    counted = Scripted([page(100, total=140), page(40, total=140)])
    assert notes_of(counted, **PAGED, total_count_field="total") == []
    assert notes_of(Scripted([page(100), page(40), page(0)]), **PAGED) == []
    assert notes_of(Scripted([page(2, next="b"), page(2, next=None)]), **CURSORS) == []
    assert notes_of(Scripted([page(2, next="b"), page(0)]), **CURSORS) == []


def test_an_end_before_the_total_is_noted_and_logged_with_its_numbers(caplog):
    source = Scripted([page(100, total=240), page(100, total=240), page(0, total=240)])
    assert notes_of(source, **PAGED, total_count_field="total") == [TOTAL_NOT_REACHED]
    assert "(rows 200, total 240)" in caplog.text


def test_a_cursor_that_ends_before_the_total_is_noted():
    source = Scripted([page(2, next="b", total=5), page(2, next=None, total=5)])
    assert notes_of(source, **CURSORS, total_count_field="total") == [TOTAL_NOT_REACHED]


def test_a_warning_that_ends_a_walk_before_its_total_is_noted():
    gone = Response(body=None, warning="HTTP status 204 No Content, taken as no rows")
    source = Scripted([page(2, next="b", total=5), gone])
    notes = notes_of(source, **CURSORS, total_count_field="total")
    assert notes == [NO_CONTENT, TOTAL_NOT_REACHED]


def test_an_empty_page_that_names_another_one_is_noted_unless_it_repeats_its_cursor():
    assert notes_of(Scripted([page(2, next="b"), page(0, next="c")]), **CURSORS) == [CURSOR_LEFT]
    assert notes_of(Scripted([page(2, next="b"), page(0, next="b")]), **CURSORS) == []


@pytest.mark.parametrize(("first", "noted"), [("500", []), ("400", [CURSOR_LEFT])])
def test_a_first_page_without_rows_that_repeats_the_initial_session_key_is_not_noted(first, noted):
    session = SessionKeyField(name="next", init_value=first)
    assert notes_of(Scripted([page(0, next=500)]), **{**CURSORS, "session": session}) == noted


def test_a_later_page_without_its_rows_is_noted_once():
    error = {"error": "backend down"}
    assert notes_of(Scripted([page(100), error]), **PAGED) == [NO_DATA_FIELD]


def test_a_total_that_no_response_has_is_noted():
    source = Scripted([page(100), page(0)])
    assert notes_of(source, **PAGED, total_count_field="totla") == [NO_TOTAL]
    assert notes_of(Scripted([page(0)]), **PAGED, total_count_field="totla") == []


def test_a_session_key_that_no_response_has_is_noted_where_there_may_be_more_pages():
    assert notes_of(Scripted([page(2, nxt="b")]), **CURSORS) == [NO_KEY]
    assert notes_of(Scripted([page(0)]), **CURSORS) == []

    sized = {**PAGED, "session": SessionKeyField(name="next")}
    assert notes_of(Scripted([page(100)]), **sized) == [NO_KEY]
    assert notes_of(Scripted([page(99)]), **sized) == []

    counted = {**CURSORS, "total_count_field": "total"}
    assert notes_of(Scripted([page(2, total=2)]), **counted) == []
    assert NO_KEY in notes_of(Scripted([page(2, total=5)]), **counted)


def test_a_session_key_in_a_header_is_found():
    body = io.BytesIO(json.dumps(page(2)).encode())
    source = Scripted([Response(body, headers={"Next": ""})])
    assert notes_of(source, **CURSORS) == []


def test_a_header_may_tell_the_total():
    spec = ExtractionSpec(
        REF, parameters=OFFSETS, total_count_field="header:X-Total-Count",
        pagination=Pagination(initial_values=(0, 2)),
    )  # fmt: skip
    headers = {"X-Total-Count": "3"}
    answers = [
        Response(io.BytesIO(json.dumps(rows).encode()), headers)
        for rows in ([{"id": 1}, {"id": 2}], [{"id": 3}])
    ]
    rows, walk = walked(Scripted(answers), spec)
    assert rows == [2, 1]
    assert walk.progress.asked == 2
    assert not walk.progress.notes
