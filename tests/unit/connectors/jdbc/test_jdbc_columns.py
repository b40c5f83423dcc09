"""Decimals out of the texts of a database: exact, or text."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.jdbc.columns import DecimalColumn
from dil.types.fitting import cast_texts

_ANY = st.decimals(allow_nan=False, allow_infinity=False).filter(lambda d: abs(d.adjusted()) < 60)


@given(st.lists(_ANY.map(lambda number: format(number, "f")), min_size=1))
def test_numbers_without_a_precision_are_exact_whatever_their_type(texts: list[str]) -> None:
    column = DecimalColumn().read(pa.array(texts))
    assert [Decimal(value) for value in column.to_pylist()] == [Decimal(text) for text in texts]
    if pa.types.is_string(column.type):
        assert column.to_pylist() == texts


def test_the_usual_type_is_kept_as_long_as_it_fits() -> None:
    column = DecimalColumn()
    assert column.read(pa.array(["1.5", None])).type == pa.decimal128(38, 18)
    assert column.read(pa.array(["12345678901234567890123456"])).type == pa.decimal128(38, 0)
    assert column.read(pa.array(["NaN"])).type == pa.string()
    assert column.read(pa.array(["1.5"])).type == pa.string()


def test_a_declared_precision_is_the_type() -> None:
    assert DecimalColumn(10, 2).read(pa.array(["1.50"])).type == pa.decimal128(10, 2)
    assert DecimalColumn(41, 0).read(pa.array(["15"])).type == pa.decimal128(38, 0)


@given(st.integers(-(10**60), 10**60), st.integers(0, 38))
def test_a_cast_is_exact_or_refused(number: int, scale: int) -> None:
    target = pa.decimal128(38, scale)
    if abs(number) < 10 ** (38 - scale):
        assert cast_texts(pa.array([str(number)]), target)[0].as_py() == number
    else:
        with pytest.raises(pa.ArrowInvalid):
            cast_texts(pa.array([str(number)]), target)
