"""A column that a person declared float or double takes every number by rounding."""

from __future__ import annotations

import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.conversion.failures import FailureReason
from dil.conversion.values import Values
from dil.model.job import ConversionSpec, OutputFormat
from dil.types.fitting import fit_leaf

FLOATS = {"float": pa.float32(), "double": pa.float64()}


def converted(array: pa.Array, word: str) -> list[float | None]:
    values = Values(ConversionSpec(), OutputFormat.PARQUET, run_now=0)
    made, reason = values.convert(array, word, FLOATS[word], ())
    assert isinstance(reason, FailureReason)
    assert made.type == FLOATS[word]
    return made.to_pylist()


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([Decimal("99999.99"), None], pa.decimal128(10, 2), [99999.99, None]),
        ([Decimal("0.1234567890123456789")], pa.decimal128(30, 19), [0.12345678901234568]),
        ([Decimal(10**40)], pa.decimal256(60, 0), [1e40]),
        ([2**63 - 1], pa.int64(), [9.223372036854775807e18]),
        (["12345678901234567890123", "1.50"], pa.string(), [1.2345678901234568e22, 1.5]),
    ],
)
def test_numbers_are_rounded_into_a_declared_double(values, kind, expected) -> None:
    assert converted(pa.array(values, kind), "double") == expected


def test_a_number_beyond_the_range_does_not_fit() -> None:
    assert converted(pa.array([Decimal(10**60)], pa.decimal256(70, 0)), "float") == [None]
    assert converted(pa.array(["1e999", "word"]), "double") == [None, None]


@pytest.mark.parametrize("number", ["0.35", "0.57", "99999.99"])
def test_a_decimal_that_a_double_writes_alike_fits_it_exactly(number: str) -> None:
    array = pa.array([Decimal(number)], pa.decimal128(10, 2))
    assert fit_leaf(array, pa.float64()).to_pylist() == [float(number)]


@given(st.lists(st.decimals(min_value=-(10**15), max_value=10**15, places=4), max_size=20))
def test_a_decimal_becomes_the_nearest_float(numbers: list[Decimal]) -> None:
    array = pa.array(numbers, pa.decimal128(38, 4))
    doubles = [float(str(number)) for number in numbers]
    assert converted(array, "double") == doubles
    assert converted(array, "float") == [
        struct.unpack("f", struct.pack("f", each))[0] for each in doubles
    ]
