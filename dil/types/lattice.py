"""Widens flat types: finds the type that holds the values of several types exactly (rule F17)."""

from __future__ import annotations

import pyarrow as pa

MOST_DIGITS = 38  # The most digits of a decimal128; a wider number becomes text.
_LONG_DIGITS = 19
_WORDS: dict[pa.DataType, bytes] = {
    pa.int32(): b"int",
    pa.int64(): b"long",
    pa.float64(): b"double",
    pa.string(): b"string",
}


def wider_flat(*types: pa.DataType) -> pa.DataType:
    """Return the type that holds all of these flat types; text if no other type does.

    int widens to long, to decimal, to double. Doubles have no limit of digits: with decimals and
    doubles, the digits of the other types decide, so the caller must check values when casting.
    """
    if len(set(types)) == 1:
        return types[0]
    if all(map(pa.types.is_integer, types)):
        return pa.int64()
    if not all(map(is_number, types)):
        return pa.string()
    if not any(map(pa.types.is_decimal, types)):
        return pa.float64()
    scale = max(kind.scale for kind in types if pa.types.is_decimal(kind))
    whole = max(_whole_digits(kind) for kind in types)
    return pa.decimal128(whole + scale, scale) if whole + scale <= MOST_DIGITS else pa.string()


def widened_word(data_type: pa.DataType) -> bytes:
    """Return the type word of a type that ``wider_flat`` returned."""
    return _WORDS.get(data_type, b"decimal")


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """Return the decimal type with this precision and scale, of 76 digits if 38 are too few."""
    make = pa.decimal128 if precision <= MOST_DIGITS else pa.decimal256
    return make(precision, scale)


def is_number(data_type: pa.DataType) -> bool:
    """Return whether a type is an integer, floating-point or decimal type."""
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(is_kind(data_type) for is_kind in kinds)


def _whole_digits(data_type: pa.DataType) -> int:
    if pa.types.is_decimal(data_type):
        return int(data_type.precision - data_type.scale)
    return _LONG_DIGITS if pa.types.is_integer(data_type) else 0
