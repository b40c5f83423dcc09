"""Where a walk goes on, as text and back."""

from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dil.extraction.paging.answers import SessionKey
from dil.extraction.paging.rules import LastPage, PageState, PagingPosition
from dil.extraction.parameters import PageValues

NUMBERS = st.none() | st.integers(0, 10**20)
TEXTS = st.text(max_size=20)
KEYS = st.builds(SessionKey, TEXTS, st.booleans(), st.booleans())
TOTALS = st.none() | st.integers(0, 10**30) | st.floats(0, 1e9) | st.decimals(0, 10**9, places=3)
STATES = st.builds(
    PageState,
    rows=st.integers(0, 5),
    processed=st.integers(0, 10**12),
    key=KEYS,
    key_was_there=st.booleans(),
    total=TOTALS,
    asked=st.integers(1, 10**9),
    next_uri=TEXTS,
    more_was_there=st.booleans(),
)
LAST = st.builds(
    LastPage,
    content=st.binary(max_size=8).map(bytes.hex),
    rows=st.integers(0, 10**9),
    checksum=st.integers(0, 2**32 - 1),
    names_next=st.booleans(),
    is_short=st.booleans(),
)
VALUES = st.builds(PageValues, NUMBERS, NUMBERS, NUMBERS, st.none() | TEXTS)


@given(STATES, VALUES, LAST)
def test_a_position_is_the_same_after_it_was_written_down(state, values, last):
    position = PagingPosition.after(state, values, last)
    assert PagingPosition.decoded(position.encoded()) == position


@example(PageState(total=Decimal("1e5000")))
@given(STATES)
def test_a_position_knows_what_the_pages_before_it_told(state):
    found = PagingPosition.after(state, PageValues(), LastPage()).state
    assert (found.processed, found.asked, found.next_uri) == (
        state.processed, state.asked, state.next_uri,
    )  # fmt: skip
    assert (found.key, found.key_was_there, found.more_was_there) == (
        state.key, state.key_was_there, state.more_was_there,
    )  # fmt: skip
    assert found.rows == 0
    if state.total is None:
        assert found.total is None
    else:
        assert Decimal(str(found.total)) == Decimal(str(state.total))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"number":"x"}', '{"values":5}'])
def test_what_is_no_position_is_none(text):
    assert PagingPosition.decoded(text) is None


def test_cursors_and_addresses_do_not_print():
    position = PagingPosition(next_uri="https://h/?token=canary")
    assert "canary" not in repr(position)
