"""Texts of others in our messages."""

from hypothesis import given
from hypothesis import strategies as st

from dil.model.messages import SHOWN_CHARACTERS, shortened


def test_a_short_text_stays_but_for_its_line_breaks() -> None:
    assert shortened("no such\n\tunit") == "no such unit"


def test_a_payload_is_cut_between_words() -> None:
    assert shortened("word " * 1000) == "word " * 38 + "word..."
    assert shortened("x" * 1000) == "x" * 197 + "..."


@given(st.text(), st.integers(4, 300))
def test_no_text_takes_more_than_one_line_of_its_limit(text: str, limit: int) -> None:
    short = shortened(text, limit)
    assert len(short) <= limit
    assert len(short.splitlines()) <= 1


def test_the_end_of_a_text_with_many_blanks_is_not_lost_silently() -> None:
    assert shortened("a" + " " * 10 * SHOWN_CHARACTERS + "b") == "a..."
