"""Laws of the one text that a number has in a column of texts."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.types.number_texts import number_text, texts_of_numbers

FOUND = pa.decimal128(38, 10)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_has_the_text_of_its_shortest_form(number: float) -> None:
    (text,) = texts_of_numbers(pa.array([number])).to_pylist()
    assert text == number_text(repr(number))
    assert float(text) == number


@given(st.decimals(-(10**27), 10**27, allow_nan=False, places=10))
def test_places_that_other_rows_need_are_no_part_of_a_text(number: Decimal) -> None:
    (text,) = texts_of_numbers(pa.array([number], FOUND)).to_pylist()
    assert text == number_text(str(number))
    assert Decimal(text) == number


@given(st.integers(-(2**63), 2**63 - 1))
def test_whole_numbers_have_their_digits_whatever_they_are_written_with(number: int) -> None:
    spelt = {str(number), f"{number}.0", f"{number}0e-1", f"{Decimal(number):E}"}
    assert {number_text(each) for each in spelt} == {str(number)}
    assert texts_of_numbers(pa.array([number])).to_pylist() == [str(number)]


def test_declared_decimals_keep_the_places_that_their_database_writes() -> None:
    prices = pa.array([Decimal("1.50"), None], pa.decimal128(9, 2))
    assert texts_of_numbers(prices).to_pylist() == ["1.50", None]


@pytest.mark.parametrize("text", ["1e401", "1e-9999", "-25e500"])
def test_very_long_numbers_keep_an_exponent(text: str) -> None:
    assert Decimal(number_text(text)) == Decimal(text)
    assert len(number_text(text)) < 12
