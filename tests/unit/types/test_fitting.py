"""Numbers that fit a type exactly, and the texts that they have."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from dil.types.fitting import exact_cast
from dil.types.number_texts import number_text


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_finite_number_keeps_its_text(text: str) -> None:
    assert number_text(text) == text


@pytest.mark.parametrize(
    ("array", "target", "found"),
    [
        (pa.array([1, None], pa.int64()), pa.decimal128(5, 2), [Decimal("1.00"), None]),
        (pa.array([0.1]), pa.decimal128(5, 2), [Decimal("0.10")]),
        (pa.array(["1e2"]), pa.decimal128(5, 2), [Decimal("100.00")]),
        (pa.array([Decimal("1.5")]), pa.decimal128(9, 3), [Decimal("1.500")]),
        (pa.array([True]), pa.int64(), [1]),
        (pa.array([], pa.decimal128(9, 3)), pa.decimal128(5, 2), []),
        (pa.array([None], pa.null()), pa.decimal128(5, 2), [None]),
    ],
)
def test_decimals_are_exact(array: pa.Array, target: pa.DataType, found: list[object]) -> None:
    assert exact_cast(array, target).to_pylist() == found


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1000]),
        pa.array([0.125]),
        pa.array(["1e3"]),
        pa.array(["one"]),
        pa.array([Decimal(12345678901234567890123456789012345678)], pa.decimal128(38, 0)),
    ],
)
def test_what_is_no_such_decimal_is_refused(array: pa.Array) -> None:
    with pytest.raises(pa.ArrowInvalid):
        exact_cast(array, pa.decimal128(5, 2))
