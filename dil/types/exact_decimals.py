"""Decimals out of other values, exactly or not at all.

Arrow's own casts multiply by ten to the scale in 128 bits and, where the digits are too many, may
give another number without an error: 12345678901234567890123456789012345678 as
decimal128(38, 18).
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

_NEARLY = 1e-9
_INTEGERS = pa.decimal128(20, 0)  # every integer of 64 bits, with or without a sign


def exact_cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return flat values in another flat type, as Arrow's safe cast does, decimals exactly.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit the type exactly.
        pyarrow.ArrowNotImplementedError: Arrow has no such cast.
    """
    if not pa.types.is_decimal(target):
        return array.cast(target)
    if pa.types.is_string(array.type):
        return cast_texts(array, target)
    if pa.types.is_floating(array.type):
        return cast_texts(array.cast(pa.string()), target)  # a direct cast would round
    if pa.types.is_integer(array.type):
        array = array.cast(_INTEGERS)
    if pa.types.is_decimal(array.type):
        return _cast_decimals(array, target)
    return array.cast(target)


def _cast_decimals(array: pa.Array, target: pa.DataType) -> pa.Array:
    limits = pc.min_max(array)
    most = Decimal(10) ** (target.precision - target.scale)
    low, high = limits["min"].as_py(), limits["max"].as_py()
    if low is not None and (low <= -most or high >= most):
        raise pa.ArrowInvalid(f"Decimal value does not fit in {target}")
    return array.cast(target)


def cast_texts(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Return texts of numbers as decimals of a type.

    Raises:
        pyarrow.ArrowInvalid: a text is no number, or does not fit the type exactly.
    """
    decimals = texts.cast(target)
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest <= target.precision - target.scale and not _has_exponent(texts):
        return decimals
    wanted, found = texts.cast(pa.float64()), decimals.cast(pa.float64())
    distance = pc.abs(pc.subtract(wanted, found))
    is_near = pc.less_equal(distance, pc.multiply(pc.abs(wanted), _NEARLY))
    if pc.all(is_near).as_py() is False:
        raise pa.ArrowInvalid(f"Decimal value does not fit in {target}")
    return decimals


def _has_exponent(texts: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring(texts, "e", ignore_case=True)).as_py())
