"""Every row of the decision table (rules G1 to G20), and page values (rule G29)."""

import re
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.errors import SourceContractError
from dil.extraction.paging.answers import EchoedPage, SessionKey, page_integer, total_count
from dil.extraction.paging.rules import (
    Action,
    PageState,
    PagingDecision,
    PagingRules,
    decide,
    next_values,
)
from dil.extraction.parameters import PageValues, ParameterScope, initial_values
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.path import MISSING
from dil.model.settings import Pagination, Parameter, SessionCondition, SessionKeyField

POLL = PagingRules(
    has_session=True,
    condition=re.compile("DONE"),
    fail_condition=re.compile("ERR.*"),
    wait_timeout_s=10,
)
CURSOR = PagingRules(has_session=True, sends_session=True)
PAGED = PagingRules(is_paged=True)
TOTAL = PagingRules(has_total=True)
NEXT = PagingRules(has_next=True)
FLAG = PagingRules(has_more=True)
SHORT = PagingRules(is_paged=True, stops_short=True)


def state(key="", rows=10, **more):
    return PageState(rows=rows, key=SessionKey(key), **{"processed": rows, **more})


def both(rules, **more):
    return replace(rules, **more)


@pytest.mark.parametrize(
    ("rules", "page", "action", "row"),
    [
        (POLL, state("DONE"), Action.STOP, 1),
        (POLL, state("DONE", elapsed_s=99), Action.STOP, 1),
        (POLL, state("NOT DONE"), Action.NEXT, 7),  # full match only
        (POLL, state("ERR5"), Action.FAIL, 2),
        (POLL, state("RUN", elapsed_s=10.001), Action.FAIL, 3),
        (POLL, state("RUN", elapsed_s=10), Action.NEXT, 7),
        (both(POLL, wait_timeout_s=0), state("RUN", elapsed_s=0.001), Action.FAIL, 3),
        (PAGED, state(payload_left=0), Action.STOP, 4),
        (PagingRules(), state(payload_left=2, rows=0), Action.NEXT, 5),
        (both(PAGED, has_total=True), state(processed=240, total=240), Action.STOP, 6),
        (both(POLL, has_total=True), state("RUN", processed=240, total=240), Action.STOP, 6),
        (POLL, state("RUN", rows=0), Action.NEXT, 7),
        (PagingRules(), state(rows=0, files_left=True), Action.NEXT, 8),
        (PAGED, state(had_files=True), Action.STOP, 8),
        (PAGED, state(rows=0), Action.STOP, 9),
        (both(POLL, is_paged=True), state("RUN", rows=0), Action.STOP, 9),
        (CURSOR, state("B", rows=0, previous_key=SessionKey("B")), Action.STOP, 9),
        (both(POLL, is_paged=True), state("RUN"), Action.NEXT, 10),
        (CURSOR, state(""), Action.STOP, 11),
        (both(CURSOR, is_paged=True), state(""), Action.STOP, 11),
        (CURSOR, state("A"), Action.NEXT, 12),
        (PagingRules(has_session=True, is_paged=True), state("A"), Action.NEXT, 12),
        (CURSOR, state("B", previous_key=SessionKey("A")), Action.NEXT, 12),
        (CURSOR, state("A", previous_key=SessionKey("A")), Action.FAIL, 0),
        (PAGED, state(rows=3), Action.NEXT, 13),  # a short page is no end
        (TOTAL, state(processed=100, total=240), Action.NEXT, 14),
        (TOTAL, state(total=None), Action.STOP, 15),
        (PagingRules(), state(), Action.STOP, 15),
        (PagingRules(has_session=True), state("A"), Action.STOP, 15),  # nothing can send the key
        (FLAG, state(more=False), Action.STOP, 16),
        (both(CURSOR, has_more=True), state("A", more=False), Action.STOP, 16),
        (both(NEXT, has_more=True), state(next_uri="/2", more=False), Action.STOP, 16),
        (NEXT, state(next_uri="/2"), Action.NEXT, 17),
        (NEXT, state(rows=0, next_uri="/2"), Action.NEXT, 17),
        (NEXT, state(), Action.STOP, 17),
        (both(PAGED, has_next=True), state(), Action.STOP, 17),  # an address wins over values
        (both(CURSOR, has_next=True), state("A"), Action.STOP, 17),  # and over a cursor
        (both(NEXT, has_total=True), state(next_uri="/2", total=10), Action.STOP, 6),
        (both(NEXT, has_more=True), state(more=True), Action.STOP, 17),
        (FLAG, state(more=True), Action.NEXT, 18),
        (FLAG, state(rows=0, more=True), Action.NEXT, 18),
        (FLAG, state(more=None), Action.STOP, 15),
        (both(PAGED, has_more=True), state(more=None), Action.NEXT, 13),
        (both(CURSOR, has_more=True), state("A", rows=0, more=True), Action.NEXT, 12),
        (both(CURSOR, has_more=True), state("", more=True), Action.STOP, 11),
        (both(POLL, has_more=True), state("RUN", rows=0), Action.STOP, 9),
        (SHORT, state(rows=3, page_size=10), Action.STOP, 19),
        (SHORT, state(rows=10, page_size=10), Action.NEXT, 13),
        (SHORT, state(rows=3), Action.NEXT, 13),  # nobody says how large a page is
        (both(SHORT, has_more=True), state(rows=3, page_size=10, more=True), Action.NEXT, 18),
        (both(CURSOR, stops_short=True), state("A", rows=3, page_size=10), Action.STOP, 19),
        (both(PAGED, max_pages=3), state(asked=3), Action.STOP, 20),
        (both(PAGED, max_pages=3), state(asked=2), Action.NEXT, 13),
        (both(PAGED, max_rows=20), state(processed=20), Action.STOP, 20),
        (both(PAGED, max_pages=3, fails_at_cap=True), state(asked=3), Action.FAIL, 20),
        (both(PAGED, max_pages=3, fails_at_cap=True), state(rows=0, asked=3), Action.STOP, 9),
        (both(POLL, max_pages=3), state("DONE", asked=3), Action.STOP, 1),
        (both(POLL, max_pages=3), state("RUN", asked=3), Action.STOP, 20),
    ],
)
def test_the_first_matching_row_decides(rules, page, action, row):
    assert decide(rules, page) == PagingDecision(action, row)


def test_json_null_is_text_for_patterns_and_no_cursor():
    null = SessionKey.of(None)
    until_null = PagingRules(has_session=True, condition=re.compile("null"))
    assert decide(until_null, PageState(rows=1, key=null)) == PagingDecision(Action.STOP, 1)
    assert decide(CURSOR, PageState(rows=1, key=null, previous_key=null)) == PagingDecision(
        Action.STOP, 11
    )
    assert null.cursor == ""


def test_false_and_numbers_are_keys_by_their_text():
    assert SessionKey.of(False).text == "false"
    assert SessionKey.of(12.0).text == "12"
    assert SessionKey.of({"a": 1}).text == '{"a":1}'


@given(
    st.builds(
        PagingRules,
        has_session=st.booleans(),
        sends_session=st.booleans(),
        is_paged=st.booleans(),
        has_total=st.booleans(),
    ),
    st.text(max_size=2),
    st.none() | st.integers(0, 5),
)
def test_without_condition_payload_or_files_an_empty_page_is_the_end(rules, key, total):
    page = PageState(rows=0, processed=0, key=SessionKey(key), total=total)
    assert decide(rules, page).action is Action.STOP


@pytest.mark.parametrize(
    ("previous", "echoed", "expected"),
    [
        (PageValues(0, 100), EchoedPage(), PageValues(100, 100, 1)),
        (PageValues(5), EchoedPage(), PageValues(12, None, 1)),  # size unknown: 7 rows
        (PageValues(0, 100), EchoedPage(start=200, size=50), PageValues(250, 50, 1)),
        (PageValues(0, 100), EchoedPage(start=200), PageValues(100, 100, 1)),  # both are needed
        (PageValues(0, 100), EchoedPage(size=50), PageValues(50, 50, 1)),
        (PageValues(number=1), EchoedPage(), PageValues(7, None, 2)),
        (PageValues(number=1), EchoedPage(number=4), PageValues(7, None, 5)),
        (PageValues(), EchoedPage(), PageValues(7, None, 1)),  # rule G29: none, then 1
    ],
)
def test_next_page_values(previous, echoed, expected):
    assert next_values(previous, echoed, rows=7, cursor="") == expected


def test_an_empty_cursor_is_left_out_of_the_next_request():
    assert next_values(PageValues(session="A"), EchoedPage(), 1, "").session is None
    assert next_values(PageValues(session="A"), EchoedPage(), 1, "B").session == "B"


def test_initial_values_are_by_position():
    spec = ExtractionSpec(
        ClassRef("m", "c"),
        pagination=Pagination(initial_values=(0, 100)),
        session=SessionKeyField(name="next", init_value=""),
    )
    scope = ParameterScope(0, 1, full_extract=True)
    assert initial_values(spec, scope) == PageValues(0, 100, None, "")


def test_the_first_session_key_may_hold_members_of_the_unit():
    session = SessionKeyField(name="next", init_value="{{seq}}-{{}}")
    scope = ParameterScope(0, 1, full_extract=True, members={"seq": 9007199254740993})
    found = initial_values(ExtractionSpec(ClassRef("m", "c"), session=session), scope)
    assert found.session == "9007199254740993-{{}}"


@pytest.mark.parametrize(
    ("members", "lack"), [({}, "this unit lacks it"), ({"seq": None}, "seq is null in this unit")]
)
def test_a_first_session_key_without_its_member_is_refused(members, lack):
    session = SessionKeyField(name="next", init_value="{{seq}}")
    scope = ParameterScope(0, 1, full_extract=True, variables={"seq": "field"}, members=members)
    with pytest.raises(SourceContractError, match=r"initValue .* uses \{\{seq\}\}, and " + lack):
        initial_values(ExtractionSpec(ClassRef("m", "c"), session=session), scope)


def test_rules_are_read_from_the_job():
    spec = ExtractionSpec(
        ClassRef("m", "c"),
        parameters=(Parameter(name="c", type="session"),),
        session=SessionKeyField(name="s", condition=SessionCondition(regexp="false|False")),
        total_count_field="n",
        wait_timeout_s=5,
    )
    rules = PagingRules.of(spec)
    assert rules.condition is not None
    assert rules.condition.fullmatch("False")
    assert (rules.sends_session, rules.has_total, rules.is_paged) == (True, True, False)
    assert rules.fail_condition is None


def test_a_page_without_total_keeps_the_previous_one():
    assert total_count(MISSING, 240, "n") == 240
    assert total_count(100, 240, "n") == 100


def test_a_total_may_be_the_text_of_a_whole_number():
    assert total_count("1234", None, "$['@odata.count']") == 1234
    assert total_count(" 7 ", None, "header:X-Total-Count") == 7


@pytest.mark.parametrize("bad", ["many", "", "2.5", "1,234", "-1", None, True, [240]])
def test_a_total_that_is_no_number_fails(bad):
    with pytest.raises(SourceContractError):
        total_count(bad, None, "n")


def test_page_values_are_whole_numbers_or_their_text():
    assert [page_integer(v, "p") for v in (5, "5", 5.0, None, MISSING)] == [5, 5, 5, None, None]
    for bad in ("x", 5.5, True, [5], "1" * 5000, Decimal("1e5000")):
        with pytest.raises(SourceContractError):
            page_integer(bad, "p")
