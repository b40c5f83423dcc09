"""Walks that would lose rows without a word: paths that no answer has, pages that are capped."""

import io
import json
from dataclasses import replace

import pytest

from dil.errors import SourceContractError, TransientSourceError
from dil.extraction.content import NO_DATA_FIELD
from dil.extraction.csv.extractor import CsvExtractor
from dil.extraction.csv.failures import DROPPED
from dil.extraction.json.extractor import JsonExtractor
from dil.extraction.paging.notes import (
    EMPHASIS,
    LIKELY_LAST,
    NO_FLAG,
    NO_FLAG_LEFT,
    NO_KEY,
    NO_LINK,
    NO_NEXT,
    SHORT_LEFT,
    SHORT_PAGE,
    TOTAL_NOT_REACHED,
    asked_rows,
    emphasized,
)
from dil.extraction.paging.rules import LastPage, PagingPosition
from dil.extraction.paging.walk import Walk, walk_pages
from dil.extraction.parameters import PageValues, ParameterScope
from dil.model.csv_settings import CsvSettings, CsvSpec
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.schema import Column, Primitive
from dil.model.settings import (
    FailCondition,
    Pagination,
    Parameter,
    SessionCondition,
    SessionKeyField,
)
from dil.spi.connector import ByteSession, Response
from tests.unit.extraction.clocks import Instant

REF = ClassRef("m", "c")
START = (Parameter(name="start", type="pagestart"),)
NUMBER = (Parameter(name="page", type="pageno"),)
LINKS = {"Link": "<https://shop.test/2>; rel=next"}


class Source(ByteSession):
    """Answers with its values in turn; headers are those of the first answer."""

    def __init__(self, *answers, headers=None):
        self.answers = list(answers)
        self.headers = headers or {}
        self.uri = "https://shop.test/1"

    def fetch(self, values):
        found, headers = self.answers.pop(0), self.headers
        self.headers = {}
        if isinstance(found, Response):
            return found
        body = io.BytesIO(json.dumps(found).encode())
        return Response(body, headers=headers, location="source", uri=self.uri)


class Answers(ByteSession):
    """Gives its answers in turn."""

    def __init__(self, answers):
        self.answers = answers

    def fetch(self, values):
        return self.answers.pop(0)


def rows(first, count, **more):
    return {"data": [{"id": first + number} for number in range(count)], **more}


def notes(source, start=None, **members):
    return walked(source, start, **members).notes


def walked(source, start=None, **members):
    spec = ExtractionSpec(REF, data_field="data", **members)
    walk = Walk(spec, ParameterScope(0, 1, full_extract=True), Instant(), start=start)
    for page, _ in walk_pages(source, JsonExtractor(spec), walk):
        for _ in page.batches:
            pass
    return walk.progress


def csv_notes(spec, *bodies):
    answers = [Response(io.BytesIO(body.encode()), content_type="text/csv") for body in bodies]
    walk = Walk(spec, ParameterScope(0, 1, full_extract=True), Instant())
    for _ in walk_pages(Answers(answers), CsvExtractor(spec), walk):
        pass
    return walk.progress.notes


# Places that no answer has


@pytest.mark.parametrize(
    ("paged", "note"),
    [
        (Pagination(next="paging.nxet"), NO_NEXT),
        (Pagination(next="header:X-Nxet"), NO_NEXT),
        (Pagination(next="link"), NO_LINK),
        (Pagination(more="moer"), NO_FLAG_LEFT),
    ],
)
def test_a_place_that_no_answer_has_is_told_where_the_walk_ends_for_want_of_it(paged, note):
    assert notes(Source(rows(0, 2)), pagination=paged) == [note]


@pytest.mark.parametrize("paged", [{"next": "nxet"}, {"next": "header:N"}, {"more": "moer"}])
def test_a_place_that_no_answer_has_fails_a_strict_walk(paged):
    with pytest.raises(SourceContractError, match="paging is strict, and no response had"):
        notes(Source(rows(0, 2)), pagination=Pagination(strict=True, **paged))


def test_a_missing_link_header_is_told_and_does_not_fail_a_strict_walk():
    paged = Pagination(next="link", strict=True)
    assert notes(Source(rows(0, 2)), pagination=paged) == [NO_LINK]


@pytest.mark.parametrize("end", [{"next": None}, {"next": ""}, {"next": False}])
def test_a_place_that_is_there_and_empty_is_no_doubt(end):
    paged = Pagination(next="next", strict=True)
    assert notes(Source(rows(0, 2, **end)), pagination=paged) == []


def test_a_place_that_only_the_last_answer_lacks_is_no_doubt():
    for place, first, headers in (("next", {"next": "/2"}, {}), ("link", {}, LINKS)):
        source = Source(rows(0, 2, **first), rows(2, 2), headers=headers)
        assert notes(source, pagination=Pagination(next=place, strict=True)) == []


def test_a_walk_that_goes_on_from_a_named_page_had_its_place():
    start = PagingPosition(number=1, next_uri="https://shop.test/2", processed=2)
    paged = Pagination(next="next", strict=True)
    assert notes(Source(rows(2, 2)), start, pagination=paged) == []


@pytest.mark.parametrize("paged", [{"next": "nxet"}, {"more": "moer"}])
@pytest.mark.parametrize("answer", [rows(0, 0), rows(0, 3)])
def test_a_page_that_is_empty_or_not_full_is_the_last_without_a_doubt(paged, answer):
    sized = Pagination(initial_values=(0, 4), strict=True, **paged)
    found = notes(Source(answer, rows(9, 0)), pagination=sized)
    assert found in ([], [NO_FLAG])


CURSOR = Parameter(name="cursor", type="session")
SESSION = SessionKeyField(name="nxet")


@pytest.mark.parametrize(
    ("asked", "note"), [(None, NO_KEY), (2, NO_KEY), (100, LIKELY_LAST), (1, NO_KEY)]
)
@pytest.mark.parametrize("is_in_address", [False, True])
def test_a_cursor_that_the_only_page_lacks_is_told_by_what_was_asked_for(
    asked, note, is_in_address
):
    source, given = Source(rows(0, 2)), (CURSOR,)
    if asked is not None and is_in_address:
        source.uri = f"https://shop.test/1?pageSize={asked}"
    elif asked is not None:
        given = (CURSOR, Parameter(name="limit", type="primitive", value=asked))
    assert notes(source, session=SESSION, parameters=given) == [note]


@pytest.mark.parametrize("place", ["link", "header:Next-Page", "$['@odata.nextLink']"])
def test_an_address_that_a_page_below_its_limit_lacks_is_no_alarm(place):
    given = (Parameter(name="_limit", value="100"),)
    assert notes(Source(rows(0, 2)), pagination=Pagination(next=place), parameters=given) == [
        LIKELY_LAST
    ]


@pytest.mark.parametrize("place", ["links.nxt", "$.links[?@.rel=='nxet'].href"])
def test_a_deep_address_that_a_page_below_its_limit_lacks_may_be_misspelt(place):
    source = Source(rows(0, 2, links={"next": "/2"}))
    source.uri = "https://shop.test/1?limit=1000"
    assert notes(source, pagination=Pagination(next=place)) == [NO_NEXT]


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        *dict.fromkeys(
            (
                "limit", "_limit", "$limit", "sysparm_limit", "size", "pageSize", "page_size",
                "page[size]", "per_page", "hitsPerPage", "maxResults", "$top", "rows", "count",
                "first",
            ),
            60,
        ).items(),
        *dict.fromkeys(("min_size", "imageSize", "rateLimit", "discount", "no_limit")).items(),
    ],
)  # fmt: skip
def test_only_whole_names_say_how_many_rows_a_request_asks_for(name, asked):
    assert asked_rows({name: 60}, "https://shop.test/1?a=99") == asked


@pytest.mark.parametrize("place", ["header:Next-Page", "nxet"])
def test_a_page_below_its_limit_does_not_settle_the_doubt_of_a_strict_walk(place):
    given = (Parameter(name="_limit", value="100"),)
    with pytest.raises(SourceContractError, match="paging is strict, and no response had `next`"):
        notes(Source(rows(0, 2)), pagination=Pagination(next=place, strict=True), parameters=given)


def test_ends_that_a_person_has_to_check_are_said_loudly():
    for note in (
        NO_KEY, NO_NEXT, NO_LINK, NO_FLAG_LEFT, NO_DATA_FIELD, TOTAL_NOT_REACHED, SHORT_PAGE,
        SHORT_LEFT,
    ):  # fmt: skip
        assert emphasized(note) == EMPHASIS + note
    for note in (LIKELY_LAST, NO_FLAG):
        assert emphasized(note) == note


# Pages that the source caps


def test_a_page_that_is_not_full_and_not_the_last_is_told():
    capped = Pagination(initial_values=(0, 4))
    source = Source(rows(0, 2), rows(4, 2), rows(8, 0))
    assert notes(source, pagination=capped, parameters=START) == [SHORT_PAGE]


def test_a_dropped_row_counts_once_where_a_page_is_not_full():
    """The source gives three of the four rows that were asked for; one of them is no number."""
    spec = ExtractionSpec(
        REF, pagination=Pagination(initial_values=(0, 4)), parameters=START,
        csv=CsvSpec(CsvSettings(column_header_index=-1, max_failures=1)),
        output_schema=(Column("id", Primitive("long"), nullable=True),),
    )  # fmt: skip
    assert csv_notes(spec, "1\nx\n3\n4\n", "5\n6\n7\n8\n", "") == [DROPPED]
    assert csv_notes(spec, "1\nx\n3\n", "5\n", "") == [DROPPED, SHORT_PAGE]


def test_a_page_that_is_not_full_and_not_the_last_fails_a_strict_walk():
    capped = Pagination(initial_values=(0, 4), strict=True)
    with pytest.raises(SourceContractError, match="the source may cap its pages"):
        notes(Source(rows(0, 2), rows(4, 2)), pagination=capped, parameters=START)


BY_ROW = SessionKeyField(name="data.-1.id")


@pytest.mark.parametrize(
    ("first", "headers", "members", "expected"),
    [
        ({"n": 9}, {}, {"total_count_field": "n"}, [SHORT_LEFT]),
        ({"nxet": "b"}, {}, {"session": SESSION}, [SHORT_LEFT]),
        ({}, LINKS, {}, [SHORT_LEFT]),
        ({"n": 2}, {}, {"total_count_field": "n"}, []),
        ({}, {}, {"session": BY_ROW}, []),
        ({}, {}, {}, []),
    ],
)
def test_a_short_page_that_ends_paging_is_noted_if_the_source_says_that_it_has_more(
    first, headers, members, expected
):
    short = Pagination(initial_values=(0, 4), stop_on_short_page=True)
    given = {"pagination": short, "parameters": (*START, CURSOR), **members}
    assert notes(Source(rows(0, 2, **first), headers=headers), **given) == expected
    if expected:
        strict = {**given, "pagination": replace(short, strict=True)}
        with pytest.raises(SourceContractError, match="the source says that there is more"):
            notes(Source(rows(0, 2, **first), headers=headers), **strict)


@pytest.mark.parametrize(
    ("members", "answers"),
    [
        ({}, [rows(0, 4), rows(4, 2), rows(8, 0)]),
        ({"parameters": NUMBER}, [rows(0, 2), rows(2, 2), rows(4, 0)]),
        ({"total_count_field": "n"}, [rows(0, 2, n=4), rows(2, 2, n=4)]),
    ],
)
def test_a_short_page_is_no_doubt_where_it_is_the_last_or_pages_are_counted(members, answers):
    paged = Pagination(initial_values=(0, 4, 1), strict=True)
    given = {"parameters": START, "pagination": paged, **members}
    assert notes(Source(*answers), **given) == []


def test_a_source_that_tells_its_page_size_may_cap_it():
    paged = Pagination(fields=("o", "n"), initial_values=(0, 4), strict=True)
    pages = [rows(0, 2, o=0, n=2), rows(2, 2, o=2, n=2), rows(4, 0)]
    assert notes(Source(*pages), pagination=paged, parameters=START) == []


CAPPED = Pagination(initial_values=(0, 4, 1))
STOPPING = replace(CAPPED, stop_on_short_page=True)
GONE = Response(body=None, warning="HTTP status 204 No Content, taken as no rows")


@pytest.mark.parametrize(
    ("members", "answers"),
    [
        ({}, [rows(0, 2), rows(4, 0)]),
        ({}, [rows(0, 2), GONE]),
        ({"pagination": STOPPING}, [rows(0, 2)]),
        ({"pagination": STOPPING, "parameters": NUMBER}, [rows(0, 2)]),
        ({"pagination": STOPPING, "session": BY_ROW, "parameters": (CURSOR,)}, [rows(0, 2)]),
    ],
)
def test_a_walk_whose_only_page_is_short_remembers_the_size_that_it_asked_for(members, answers):
    given = {"parameters": START, "pagination": CAPPED, **members}
    found = walked(Source(*answers), **given)
    assert (found.rows, found.short_of, found.notes) == (2, 4, [])


@pytest.mark.parametrize(
    ("members", "answers"),
    [
        ({}, [rows(0, 4), rows(4, 0)]),
        ({}, [rows(0, 0)]),
        ({}, [rows(0, 2), rows(4, 2), rows(8, 0)]),
        ({"parameters": NUMBER}, [rows(0, 2), rows(4, 0)]),
        ({"pagination": replace(CAPPED, initial_values=(0,))}, [rows(0, 2), rows(2, 0)]),
        ({"pagination": replace(CAPPED, fields=("o",))}, [rows(0, 2, o=0), rows(4, 0, o=4)]),
        ({"pagination": replace(CAPPED, fields=("", "n"))}, [rows(0, 2, n=2), rows(2, 0, n=2)]),
        ({"total_count_field": "n"}, [rows(0, 2, n=2)]),
        ({"total_count_field": "n"}, [rows(0, 2, n=9), rows(4, 0, n=9)]),
        ({"session": SESSION, "parameters": (*START, CURSOR)}, [rows(0, 2, nxet=None)]),
        ({"pagination": replace(CAPPED, more="m")}, [rows(0, 2, m=True), rows(4, 0, m=False)]),
        ({"pagination": replace(CAPPED, more="m")}, [rows(0, 2, m=True), rows(4, 0)]),
        ({"pagination": replace(CAPPED, next="n")}, [rows(0, 2, n=None)]),
        (
            {"pagination": STOPPING, "session": SESSION, "parameters": (CURSOR,)},
            [rows(0, 2, nxet=None)],
        ),
        ({"pagination": replace(CAPPED, max_pages=1)}, [rows(0, 2)]),
        ({"pagination": replace(STOPPING, fields=("", "n"))}, [rows(0, 2, n=2), rows(2, 0, n=2)]),
        ({"pagination": STOPPING, "total_count_field": "n"}, [rows(0, 2, n=9)]),
    ],
)
def test_a_walk_that_was_full_or_noted_or_that_the_source_ended_remembers_no_size(members, answers):
    given = {"parameters": START, "pagination": CAPPED, **members}
    assert walked(Source(*answers), **given).short_of is None


def test_a_walk_that_goes_on_after_a_short_page_remembers_the_size():
    start = PagingPosition(
        1, PageValues(start=4, size=4), processed=2, last=LastPage(is_short=True)
    )
    given = {"parameters": START, "pagination": CAPPED}
    assert walked(Source(rows(4, 0)), start, **given).short_of == 4


def test_the_source_says_by_a_link_that_a_short_page_is_not_the_last_in_one_note():
    found = walked(Source(rows(0, 2), headers=LINKS), parameters=START, pagination=STOPPING)
    assert (found.notes, found.short_of) == ([SHORT_LEFT], None)


class Patient(Answers):
    """Sends a request again at most twice."""

    def waits_to_repeat(self, response, failure, repeats):
        return repeats < 2


def test_a_session_is_told_how_often_it_has_repeated_a_request():
    source = Patient([Response(io.BytesIO(b'{"error": "busy"}')) for _ in range(9)])
    failing = FailCondition(name="error", retry=SessionCondition(regexp="busy"))
    with pytest.raises(TransientSourceError):
        notes(source, failing=failing)
    assert len(source.answers) == 9 - 3
