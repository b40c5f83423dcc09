"""Pages that the answers themselves lead to: next addresses, flags, caps, short pages, circles."""

import io
import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.errors import RefusedAnswer, SourceContractError, SourceError
from dil.extraction.json.extractor import JsonExtractor
from dil.extraction.paging.notes import CAPPED, MORE_LEFT, NEXT_LEFT, NO_FLAG
from dil.extraction.paging.walk import Walk, walk_pages
from dil.extraction.parameters import ParameterScope, first_request
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.settings import Pagination, Parameter, SessionCondition, SessionKeyField
from dil.spi.connector import ByteSession, Response
from tests.unit.extraction.clocks import Instant

REF = ClassRef("m", "c")
URI = "https://h/v1/rows?a=1"
IDS = itertools.count()


class Source(ByteSession):
    """Answers with its pages in turn, the last one again and again."""

    def __init__(self, *pages, headers=()):
        self.pages = pages
        self.headers = headers
        self.asked = []

    def fetch(self, values):
        self.asked.append(values)
        number = min(len(self.asked), len(self.pages)) - 1
        found = self.pages[number]
        headers = self.headers[number] if number < len(self.headers) else {}
        if isinstance(found, Response):
            return found
        return Response(io.BytesIO(json.dumps(found).encode()), headers, uri=URI)


def walked(source, *, most=50, **members):
    """Walk at most so many pages; return the rows of each, and the walk."""
    spec = ExtractionSpec(REF, data_field="data", **members)
    walk = Walk(spec, ParameterScope(0, 1, full_extract=True), Instant())
    pages = walk_pages(source, JsonExtractor(spec), walk)
    rows = [
        sum(batch.num_rows for batch in page.batches) for page, _ in itertools.islice(pages, most)
    ]
    return rows, walk


def page(count, **more):
    return {"data": [{"id": next(IDS)} for _ in range(count)], **more}


def same(count, **more):
    return {"data": [{"id": number} for number in range(count)], **more}


OFFSETS = (Parameter(name="o", type="pagestart"), Parameter(name="n", type="pagesize"))
CURSOR = (Parameter(name="cursor", type="session"),)
NUMBERS = (Parameter(name="page", type="pageno"),)


# Cursors of several members

MEMBERS = {
    "parameters": (Parameter(name="c", type="session", format="members"),),
    "session": SessionKeyField(name="continue"),
}


def test_only_the_members_of_the_last_answer_are_sent_and_none_at_first():
    source = Source(
        page(2, **{"continue": {"p": "b", "continue": "||"}}),
        page(2, **{"continue": {"gap": 17, "continue": "-||"}}),
        page(1),
    )
    rows, walk = walked(source, **MEMBERS)
    assert rows == [2, 2, 1]
    assert [values.parameters for values in source.asked] == [
        {},
        {"p": "b", "continue": "||"},
        {"gap": 17, "continue": "-||"},
    ]
    assert [values.given for values in source.asked] == [
        set(),
        {"p", "continue"},
        {"gap", "continue"},
    ]
    assert walk.progress.notes == []


@pytest.mark.parametrize("end", [{}, [], {"p": None}, None, ""])
def test_an_object_without_values_is_the_end(end):
    source = Source(page(1, **{"continue": {"p": 1}}), page(1, **{"continue": end}), page(1))
    assert walked(source, **MEMBERS)[0] == [1, 1]


def test_members_in_another_order_are_the_same_cursor():
    answers = [{"a": 1, "b": 2}, {"a": 2}, {"b": 2, "a": 1}]
    source = Source(*(page(1, **{"continue": each}) for each in answers))
    with pytest.raises(SourceContractError, match="circles"):
        walked(source, **MEMBERS)
    assert len(source.asked) == 3


@pytest.mark.parametrize("key", ["text", 7, [1], True])
def test_a_cursor_without_members_fails_where_its_members_are_to_be_sent(key):
    with pytest.raises(SourceContractError):
        walked(Source(page(1, **{"continue": key})), **MEMBERS)


# The address of the next page


def test_a_link_header_leads_from_page_to_page_without_initial_values():
    links = [
        {"Link": '<https://h/v1/rows?after=A>; rel="next", <https://h/>; rel="first"'},
        {"link": "<?after=B>; rel=next"},
        {},
    ]
    source = Source(page(2), page(2), page(1), headers=links)
    rows, walk = walked(source, pagination=Pagination(next="link"))
    assert rows == [2, 2, 1]
    assert [values.next_uri for values in source.asked] == [
        "",
        "https://h/v1/rows?after=A",
        "https://h/v1/rows?after=B",
    ]
    assert walk.progress.notes == []


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("https://other/x%2c y", "https://other/x%2c y"),  # as it is, byte for byte
        ("/v2/rows?p=2", "https://h/v2/rows?p=2"),
        ("more?p=2", "https://h/v1/more?p=2"),
        ("?p=2", "https://h/v1/rows?p=2"),
        ("//mirror/r", "https://mirror/r"),
    ],
)
def test_a_path_in_the_body_names_it_relative_or_not(written, asked):
    source = Source(page(1, paging={"next": written}), page(1, paging={"next": None}))
    walked(source, pagination=Pagination(next="paging.next"))
    assert [values.next_uri for values in source.asked] == ["", asked]


@pytest.mark.parametrize("end", [{"next": ""}, {"next": None}, {"next": False}, {}])
def test_an_empty_null_false_or_absent_address_is_the_end(end):
    source = Source(page(1, next="/2"), page(1, **end))
    assert walked(source, pagination=Pagination(next="next"))[0] == [1, 1]


def test_any_header_may_hold_the_address():
    source = Source(page(1), page(1), headers=[{"X-Next-Page": "/2"}, {}])
    walked(source, pagination=Pagination(next="header:x-next-page"))
    assert [values.next_uri for values in source.asked] == ["", "https://h/2"]


def test_a_named_page_is_read_even_after_a_page_without_rows():
    source = Source(page(1, next="/2"), page(0, next="/3"), page(4))
    assert walked(source, pagination=Pagination(next="next"))[0] == [1, 0, 4]


def test_an_address_that_is_no_text_fails():
    with pytest.raises(SourceContractError, match="a number, not an address"):
        walked(Source(page(1, next=7)), pagination=Pagination(next="next"))


def test_a_relative_address_without_an_address_to_start_from_fails():
    lost = Response(io.BytesIO(b'{"data":[{"id":1}],"next":"/2"}'))
    with pytest.raises(SourceContractError, match="relative"):
        walked(Source(lost), pagination=Pagination(next="next"))


@pytest.mark.parametrize("circle", [1, 2, 7])
def test_an_address_that_came_before_fails_however_long_the_circle(circle):
    pages = [page(1, next=f"/{number % circle}") for number in range(40)]
    source = Source(*pages)
    with pytest.raises(SourceContractError, match="in circles"):
        walked(source, pagination=Pagination(next="next"))
    assert len(source.asked) == circle + 1


def test_of_many_addresses_the_newest_are_remembered(monkeypatch):
    monkeypatch.setattr("dil.extraction.paging.watch._REMEMBERED", 2)
    source = Source(*[page(1, next=f"/{name}") for name in "abcb"])
    with pytest.raises(SourceContractError, match="in circles"):
        walked(source, pagination=Pagination(next="next"))
    assert len(source.asked) == 4


def test_a_page_that_names_itself_by_its_query_is_not_asked_for_again():
    source = Source(page(1, next="?a=1"))
    with pytest.raises(SourceContractError, match="in circles"):
        walked(source, pagination=Pagination(next="next", query_only=True))
    assert len(source.asked) == 1


def test_a_cursor_that_came_before_fails():
    source = Source(*[page(1, next="AB"[number % 2]) for number in range(9)])
    with pytest.raises(SourceContractError, match="in circles"):
        walked(source, parameters=CURSOR, session=SessionKeyField(name="next"))
    assert len(source.asked) == 3


def test_a_total_that_is_reached_ends_the_walk_and_a_page_that_is_left_is_noted():
    source = Source(page(5, next="/2", total=5), page(1))
    rows, walk = walked(source, pagination=Pagination(next="next"), total_count_field="total")
    assert rows == [5]
    assert walk.progress.notes == [NEXT_LEFT]


# The flag


@pytest.mark.parametrize("no", [False, 0, "false", "False", "0", "", None, "no", " No "])
def test_a_flag_that_says_no_ends_the_walk_without_an_empty_page(no):
    source = Source(page(2, more=True), page(2, more=no), page(2))
    rows, walk = walked(source, parameters=NUMBERS, pagination=Pagination(more="more"))
    assert rows == [2, 2]
    assert walk.progress.notes == []


@pytest.mark.parametrize("yes", [True, 1, "true", "/v1/next"])
def test_a_flag_that_says_yes_asks_for_the_next_page_number(yes):
    source = Source(page(2, more=yes), page(0, more=yes), page(2, more=False))
    rows, _ = walked(
        source,
        parameters=NUMBERS,
        pagination=Pagination(initial_values=(0, 2, 1), more="more"),
    )
    assert rows == [2, 0, 2]  # the page without rows is not the end
    assert [values.parameters["page"] for values in source.asked] == [1, 2, 3]


def test_a_flag_may_be_a_header():
    source = Source(page(2), page(2), headers=[{"X-More": "true"}, {"X-More": "false"}])
    assert walked(source, parameters=NUMBERS, pagination=Pagination(more="header:X-More"))[0] == [
        2,
        2,
    ]


def test_a_flag_that_is_absent_leaves_the_decision_to_the_table_and_is_noted():
    paged = Pagination(initial_values=(0, 2), more="mroe")
    rows, walk = walked(Source(page(2), page(2), page(0)), parameters=OFFSETS, pagination=paged)
    assert rows == [2, 2, 0]
    assert walk.progress.notes == [NO_FLAG]


def test_a_flag_that_is_an_object_fails():
    with pytest.raises(SourceContractError, match="not true or false"):
        walked(Source(page(1, more={})), pagination=Pagination(more="more"))


def test_a_cursor_leads_on_through_pages_without_rows_when_the_flag_says_yes():
    source = Source(
        page(1, next="A", more=True), page(0, next="B", more=True), page(1, next="C", more=False)
    )
    rows, walk = walked(
        source,
        parameters=CURSOR,
        session=SessionKeyField(name="next"),
        pagination=Pagination(more="more"),
    )
    assert rows == [1, 0, 1]
    assert [values.parameters.get("cursor") for values in source.asked] == [None, "A", "B"]
    assert walk.progress.notes == []


def test_a_flag_never_begins_a_cursors_walk_anew():
    source = Source(page(1, next="A", more=True), page(1, next="", more=True))
    rows, walk = walked(
        source,
        parameters=CURSOR,
        session=SessionKeyField(name="next"),
        pagination=Pagination(more="more"),
    )
    assert rows == [1, 1]
    assert walk.progress.notes == [MORE_LEFT]


def test_an_address_wins_over_a_flag_that_says_yes():
    source = Source(page(1, next="/2", more=True), page(1, next=None, more=True))
    rows, walk = walked(source, pagination=Pagination(next="next", more="more"))
    assert rows == [1, 1]
    assert walk.progress.notes == [MORE_LEFT]


def test_a_flag_that_says_no_wins_over_an_address():
    source = Source(page(1, next="/2", more=False), page(1))
    assert walked(source, pagination=Pagination(next="next", more="more"))[0] == [1]


def test_a_source_that_leads_through_pages_without_rows_for_ever_fails():
    spec = {"parameters": NUMBERS, "pagination": Pagination(more="more")}
    source = Source(page(0, more=True))
    with pytest.raises(SourceContractError, match="1000 pages in a row had no rows"):
        walked(source, most=5000, **spec)
    assert len(source.asked) == 1001


def test_pages_without_rows_are_counted_anew_after_each_page_with_rows():
    empty = [page(0, more=True)] * 600
    source = Source(*empty, page(1, more=True), *empty, page(2, more=False))
    rows, _ = walked(
        source, most=5000, parameters=NUMBERS, pagination=Pagination(more="more", equal_pages=True)
    )
    assert sum(rows) == 3


# Caps and short pages


def test_a_cap_of_pages_stops_the_walk_and_says_that_rows_are_missing():
    source = Source(*[page(2) for _ in range(9)])
    paged = Pagination(initial_values=(0, 2), max_pages=3)
    rows, walk = walked(source, parameters=OFFSETS, pagination=paged)
    assert rows == [2, 2, 2]
    assert walk.progress.notes == [CAPPED]


def test_a_cap_of_rows_is_looked_at_after_each_page():
    source = Source(*[page(4) for _ in range(9)])
    paged = Pagination(initial_values=(0, 4), max_rows=9)
    rows, walk = walked(source, parameters=OFFSETS, pagination=paged)
    assert rows == [4, 4, 4]
    assert walk.progress.notes == [CAPPED]


def test_a_walk_that_ends_at_its_cap_by_itself_has_no_note():
    paged = Pagination(initial_values=(0, 2), max_pages=2, max_rows=2)
    rows, walk = walked(Source(page(2), page(0)), parameters=OFFSETS, pagination=paged)
    assert rows == [2]  # two rows are the cap of rows; nothing said that there was no more
    assert walk.progress.notes == [CAPPED]
    paged = Pagination(initial_values=(0, 2), max_pages=2)
    rows, walk = walked(Source(page(2), page(0)), parameters=OFFSETS, pagination=paged)
    assert (rows, walk.progress.notes) == ([2, 0], [])


@pytest.mark.parametrize(
    "members",
    [
        {"pagination": Pagination(next="next", max_pages=2)},
        {"pagination": Pagination(more="more", max_pages=2), "parameters": NUMBERS},
        {"pagination": Pagination(max_pages=2), "parameters": CURSOR,
         "session": SessionKeyField(name="key")},
        {"pagination": Pagination(initial_values=(0,), max_pages=2), "parameters": OFFSETS},
        {"pagination": Pagination(max_pages=2), "total_count_field": "total"},
        {"pagination": Pagination(max_pages=2),
         "session": SessionKeyField(name="key", condition=SessionCondition(regexp="DONE"))},
    ],
)  # fmt: skip
def test_a_cap_wins_over_every_reason_to_go_on(members):
    pages = [page(1, next=f"/{n}", more=True, key=f"k{n}", total=99) for n in range(9)]
    rows, walk = walked(Source(*pages), **members)
    assert rows == [1, 1]
    assert CAPPED in walk.progress.notes


def test_a_cap_may_be_a_failure():
    paged = Pagination(initial_values=(0,), max_pages=2, fail_at_cap=True)
    with pytest.raises(SourceContractError, match="maxPages"):
        walked(Source(page(1), page(1), page(1)), parameters=OFFSETS, pagination=paged)


def test_a_short_page_is_the_end_only_where_that_is_said():
    pages = [page(100), page(100), page(40), page(0)]
    paged = Pagination(initial_values=(0, 100), stop_on_short_page=True)
    assert walked(Source(*pages), parameters=OFFSETS, pagination=paged)[0] == [100, 100, 40]
    paged = Pagination(initial_values=(0, 100))
    assert walked(Source(*pages), parameters=OFFSETS, pagination=paged)[0] == [100, 100, 40, 0]


def test_the_page_size_that_the_source_echoes_says_what_is_short():
    pages = [page(50, o=0, n=50), page(50, o=50, n=50), page(3, o=100, n=50)]
    paged = Pagination(fields=("o", "n"), initial_values=(0, 100), stop_on_short_page=True)
    assert walked(Source(*pages), parameters=OFFSETS, pagination=paged)[0] == [50, 50, 3]


def test_a_page_that_the_answer_names_is_read_after_a_short_one():
    pages = [page(1, more=True), page(2, more=True), page(1, more=False)]
    paged = Pagination(initial_values=(0, 2), stop_on_short_page=True, more="more")
    assert walked(Source(*pages), parameters=OFFSETS, pagination=paged)[0] == [1, 2, 1]


# Pages that repeat


def test_a_source_that_ignores_the_page_parameter_fails_at_the_second_page():
    source = Source(same(3), same(3))
    with pytest.raises(SourceContractError, match="ignores the parameter"):
        walked(source, parameters=OFFSETS, pagination=Pagination(initial_values=(0, 3)))
    assert len(source.asked) == 2


def test_equal_pages_may_be_allowed():
    paged = Pagination(initial_values=(0, 3), equal_pages=True)
    source = Source(same(3), same(3), same(0))
    assert walked(source, parameters=OFFSETS, pagination=paged)[0] == [3, 3, 0]


def test_equal_pages_that_do_not_follow_each_other_are_fine():
    source = Source(same(3), same(2), same(3), same(0))
    paged = Pagination(initial_values=(0, 3))
    assert walked(source, parameters=OFFSETS, pagination=paged)[0] == [3, 2, 3, 0]


def test_polling_may_give_the_same_answer_many_times():
    session = SessionKeyField(name="status", condition=SessionCondition(regexp="DONE"))
    source = Source(*[same(1, status="RUN")] * 4, same(1, status="DONE"))
    assert walked(source, session=session)[0] == [1] * 5


def test_a_refusal_beyond_the_last_page_is_answered_with_how_to_end_before():
    class Refusing(Source):
        def fetch(self, values):
            if len(self.asked) == 2:
                error = SourceError("HTTP status 404", "Correct the request.")
                error.refused = RefusedAnswer(404, "Not Found", "no such page")
                raise error
            return super().fetch(values)

    paged = Pagination(initial_values=(0, 2))
    with pytest.raises(SourceError) as caught:
        walked(Refusing(same(1), same(2)), parameters=OFFSETS, pagination=paged)
    assert "beyond its last page" in caught.value.fix


def test_an_answer_that_is_read_twice_because_the_total_is_not_reached_fails():
    with pytest.raises(SourceContractError, match="the same, byte for byte") as caught:
        walked(Source(same(2, total=9)), total_count_field="total")
    assert "its last page again" in caught.value.fix
    assert caught.value.retryable  # the source may have answered wrongly once


def test_a_source_that_keeps_one_cursor_is_answered_with_other_ways_to_page():
    cursor = {"parameters": CURSOR, "session": SessionKeyField(name="next")}
    with pytest.raises(SourceContractError, match="twice in a row") as caught:
        walked(Source(page(1, next="A"), page(1, next="A")), **cursor)
    assert "keeps one cursor for all pages" in caught.value.fix


def test_pages_that_begin_with_the_row_of_the_key_are_answered_with_a_way_to_end():
    inclusive = {"parameters": CURSOR, "session": SessionKeyField(name="data.-1.id")}
    rows = [{"id": "A"}, {"id": "B"}, {"id": "C"}]
    pages = [{"data": rows[:2]}, {"data": rows[1:]}, {"data": rows[2:]}]
    with pytest.raises(SourceContractError, match="twice in a row") as caught:
        walked(Source(*pages), **inclusive)
    assert "stopOnShortPage" in caught.value.fix
    assert "scroll" not in caught.value.fix


# Tokens in bodies


def test_a_cursor_inside_an_object_or_json_parameter_lands_in_the_body():
    parameters = (
        Parameter(name="q", type="object", value=[Parameter(name="after", type="session")]),
        Parameter(name="j", type="jsonobject", value={"from": ["{{cursor}}"]}),
        Parameter(name="cursor", type="session"),
    )
    source = Source(page(1, next="A"), page(1, next=""))
    walked(source, parameters=parameters, session=SessionKeyField(name="next"))
    assert [dict(values.parameters) for values in source.asked] == [
        {"q": {}, "j": {"from": ["{{cursor}}"]}},
        {"q": {"after": "A"}, "j": {"from": ["A"]}, "cursor": "A"},
    ]


def test_a_cursor_that_only_an_object_sends_leads_on():
    nested = Parameter(name="q", type="object", value=Parameter(name="after", type="session"))
    source = Source(page(1, next="A"), page(1, next="B"), page(1, next=""))
    rows, _ = walked(source, parameters=(nested,), session=SessionKeyField(name="next"))
    assert rows == [1, 1, 1]


def test_the_request_of_a_named_page_still_has_its_variables():
    spec = ExtractionSpec(REF, parameters=(Parameter(name="a", value="x"),))
    first = first_request(spec, ParameterScope(0, 1, full_extract=True))
    source = Source(page(1, next="/2"), page(1))
    walked(source, parameters=spec.parameters, pagination=Pagination(next="next"))
    assert source.asked[1].variables == first.variables


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.integers(1, 14))
def test_all_named_pages_are_read_up_to_the_cap(sizes, cap):
    pages = [page(size, next=f"/{n + 1}") for n, size in enumerate(sizes[:-1])]
    source = Source(*pages, page(sizes[-1], next=None))
    rows, walk = walked(source, pagination=Pagination(next="next", max_pages=cap))
    assert rows == sizes[:cap]
    assert (CAPPED in walk.progress.notes) == (cap < len(sizes))
