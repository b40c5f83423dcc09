"""What leaves in doubt whether each row came once: told, or refused by strict paging."""

import io
import itertools
import json

import pytest

from dil.errors import SourceContractError
from dil.extraction.content import NO_DATA_FIELD
from dil.extraction.json.extractor import JsonExtractor
from dil.extraction.paging.notes import (
    CONDITION_LEFT,
    CURSOR_LEFT,
    NO_CONTENT,
    NOT_READY,
    SAME_ROWS,
    TOTAL_EXCEEDED,
    TOTAL_NOT_REACHED,
    UNREAD,
)
from dil.extraction.paging.walk import Walk, walk_pages
from dil.extraction.parameters import ParameterScope
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.settings import Pagination, Parameter, SessionCondition, SessionKeyField
from dil.spi.connector import ByteSession, Response
from tests.unit.extraction.clocks import Instant

REF = ClassRef("m", "c")
IDS = itertools.count()
CURSORS = {
    "session": SessionKeyField(name="next"),
    "parameters": (Parameter(name="cursor", type="session"),),
}
ECHOED = {
    "parameters": (Parameter(name="o", type="pagestart"), Parameter(name="p", type="pageno")),
}
GONE = Response(body=None, warning="HTTP status 204 No Content, taken as no rows")
PARTIAL = Response(body=None, warning="HTTP status 206, counted as no rows", is_unread=True)


class Source(ByteSession):
    """Answers with its values in turn; a pair is status and body, a Response is passed on."""

    def __init__(self, *answers):
        self.answers = answers
        self.asked = 0

    def fetch(self, values):
        found = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if isinstance(found, Response):
            return found
        status, found = found if isinstance(found, tuple) else (200, found)
        body = found if isinstance(found, bytes) else json.dumps(found).encode()
        return Response(io.BytesIO(body), location="source", status=status)


def rows(*ids, **more):
    return {"data": [{"id": each} for each in ids], **more}


def fresh(count, **more):
    """Return a page of rows that no other page has."""
    return rows(*(next(IDS) for _ in range(count)), **more)


def walked(source, **members):
    """Walk all pages; return the number of rows, and the walk's notes."""
    spec = ExtractionSpec(REF, data_field="data", **members)
    walk = Walk(spec, ParameterScope(0, 1, full_extract=True), Instant())
    for page, _ in walk_pages(source, JsonExtractor(spec), walk):
        for _ in page.batches:
            pass
    return walk.progress.rows, walk.progress.notes


DOUBTFUL = {
    NO_CONTENT: [(fresh(2, next="b"), body) for body in (b"", b" \n", b"null", b"7", GONE)],
    NO_DATA_FIELD: [(fresh(2, next="b"), {"error": "down"})],
    SAME_ROWS: [(rows(1, 2, next="b"), rows(1, 2, next="c"), fresh(1, next=""))],
    CURSOR_LEFT: [(fresh(2, next="b"), rows(next="c"))],
    TOTAL_NOT_REACHED: [(fresh(2, next="b", total=5), fresh(2, next="", total=5))],
    TOTAL_EXCEEDED: [(fresh(2, next="b", total=9), fresh(2, next="c", total=3))],
    UNREAD: [(PARTIAL,)],
    NOT_READY: [((202, b""),), ((202, b'{"data": []}'),)],
}
ALL = [(note, answers) for note, cases in DOUBTFUL.items() for answers in cases]


@pytest.mark.parametrize(("note", "answers"), ALL)
def test_a_doubt_is_told_and_the_rows_are_kept(note, answers):
    total = {"total_count_field": "total"} if note in {TOTAL_NOT_REACHED, TOTAL_EXCEEDED} else {}
    found, notes = walked(Source(*answers), **CURSORS, **total)
    assert found == sum(len(each.get("data", ())) for each in answers if isinstance(each, dict))
    assert notes == [note]


@pytest.mark.parametrize(("note", "answers"), ALL)
def test_a_doubt_fails_the_walk_where_paging_is_strict_and_nothing_of_it_is_kept(note, answers):
    total = {"total_count_field": "total"} if note in {TOTAL_NOT_REACHED, TOTAL_EXCEEDED} else {}
    spec = ExtractionSpec(
        REF, data_field="data", pagination=Pagination(strict=True), **CURSORS, **total
    )
    walk = Walk(spec, ParameterScope(0, 1, full_extract=True), Instant())
    with pytest.raises(SourceContractError) as caught:
        list(walk_pages(Source(*answers), JsonExtractor(spec), walk))
    assert caught.value.message == f"paging is strict, and {note}"
    assert walk.progress.is_dead_end


@pytest.mark.parametrize(
    "answers",
    [
        (fresh(2, next="b"), fresh(2, next="c"), rows(next="")),
        (fresh(2, next="b"), rows(1, next="c"), rows(1, 1, next="d"), rows(1, next="")),
        (rows(1, next="b"), rows(2, next="c"), rows(1, next="")),
        (b"",),
        (b"null",),
    ],
)
def test_an_orderly_walk_passes_strict_paging_without_a_note(answers):
    _, notes = walked(Source(*answers), pagination=Pagination(strict=True), **CURSORS)
    assert notes == []


def test_pages_with_the_same_rows_may_be_allowed():
    paged = Pagination(strict=True, equal_pages=True)
    source = Source(rows(1, next="b"), rows(1, next=""))
    assert walked(source, pagination=paged, **CURSORS) == (2, [])


def test_answers_to_polling_may_be_empty_and_alike():
    session = SessionKeyField(name="status", condition=SessionCondition(regexp="DONE"))
    source = Source(rows(1, status="RUN"), rows(1, status="RUN"), b"", rows(1, status="DONE"))
    assert walked(source, session=session, pagination=Pagination(strict=True)) == (3, [])


STATUS = SessionKeyField(name="status", condition=SessionCondition(regexp="DONE"))
WAITING = [
    ({"pagination": Pagination(next="next")}, rows(status="RUN")),
    ({"pagination": Pagination(more="more"), **ECHOED}, rows(status="RUN", more=False)),
    ({"pagination": Pagination(initial_values=(0, 2)), **ECHOED}, rows(status="RUN")),
    ({"total_count_field": "total"}, rows(status="RUN", total=0)),
]


@pytest.mark.parametrize(("members", "answer"), WAITING)
def test_a_walk_that_ends_while_the_source_is_not_ready_is_noted(members, answer):
    assert walked(Source(answer), session=STATUS, **members) == (0, [CONDITION_LEFT])


@pytest.mark.parametrize("last", [rows(), rows(hasMore=None), rows(hasMore=""), GONE])
def test_a_flag_that_the_source_leaves_out_of_an_empty_page_is_no_doubt(last):
    flag = SessionKeyField(name="hasMore", condition=SessionCondition(regexp="false"))
    paged = {"pagination": Pagination(initial_values=(0, 2), strict=True), **ECHOED}
    assert walked(Source(last), session=flag, **paged) == (0, [])
    assert walked(Source(fresh(2, hasMore=True), last), session=flag, **paged) == (2, [])


def test_a_condition_without_its_key_leaves_the_status_to_decide():
    paged = {"pagination": Pagination(initial_values=(0, 2)), **ECHOED}
    assert walked(Source((202, b"")), session=STATUS, **paged) == (0, [NOT_READY])


@pytest.mark.parametrize(("status", "notes"), [(202, []), (200, [NOT_READY])])
def test_an_empty_page_with_the_status_of_the_pages_before_is_the_end(status, notes):
    paged = {"pagination": Pagination(initial_values=(0, 2)), **ECHOED}
    assert walked(Source((status, fresh(2)), (202, rows())), **paged) == (2, notes)


def test_an_accepted_request_that_the_job_lists_as_one_without_rows_is_no_doubt():
    answer = Response(body=None, status=202, warning="HTTP status 202, counted as no rows")
    assert walked(Source(answer), pagination=Pagination(strict=True), **CURSORS) == (0, [])


def test_an_accepted_request_that_names_the_address_of_its_rows_is_no_doubt():
    source = Source((202, b'{"data": [], "next": "https://shop.test/rows"}'), fresh(2))
    assert walked(source, pagination=Pagination(next="next", strict=True)) == (2, [])


@pytest.mark.parametrize(
    "answers",
    [
        (fresh(2, next="b"), fresh(2, next="-1")),
        (fresh(2, next="b", total=4), fresh(2, next="c", total=4)),
        (rows(total=0),),
    ],
)
def test_a_condition_that_describes_the_last_cursor_may_be_left_where_nothing_is_missing(answers):
    last = SessionKeyField(name="next", condition=SessionCondition(regexp="-1"))
    members = {"parameters": CURSORS["parameters"], "total_count_field": "total"}
    paged = Pagination(initial_values=(0, 2))
    _, notes = walked(Source(*answers), session=last, pagination=paged, **members)
    assert CONDITION_LEFT not in notes


@pytest.mark.parametrize("told", [1, 2], ids=["the first page", "the page before"])
@pytest.mark.parametrize("fields", [("o", "n"), ("", "", "p")])
def test_an_answer_that_says_it_is_an_earlier_page_is_refused(fields, told):
    paged = Pagination(fields=fields, initial_values=(0, 2, 1))
    pages = [fresh(2, o=0, n=2, p=1), fresh(2, o=2, n=2, p=2)]
    pages.append(fresh(2, o=2 * (told - 1), n=2, p=told))
    with pytest.raises(SourceContractError, match="in circles: the answer says"):
        walked(Source(*pages), pagination=paged, **ECHOED)


def test_an_answer_that_tells_its_page_leads_on():
    paged = Pagination(fields=("o", "n", "p"), initial_values=(0, 2, 1))
    pages = [fresh(2, o=0, n=2, p=1), fresh(2, o=2, n=2, p=2), rows()]
    assert walked(Source(*pages), pagination=paged, **ECHOED) == (4, [])
