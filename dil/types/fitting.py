"""Casts values to flat types; refuses a value that does not fit exactly, or makes it null.

Arrow's own casts to decimals multiply by ten to the scale in 128 bits. If there are too many
digits, they may return a wrong number without an error: 12345678901234567890123456789012345678
as decimal128(38, 18).
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from dil.types.lattice import is_number
from dil.types.number_texts import texts_of_numbers

_INTEGER_TEXT = r"^-?(0|[1-9][0-9]*)$"
_NUMBER_TEXT = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_NEARLY = 1e-9
_INTEGERS = pa.decimal128(20, 0)  # Every integer of 64 bits, with or without a sign.


def exact_cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return flat values in another flat type, as Arrow's safe cast, but with exact decimals.

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
        limits = pc.min_max(array)
        most = Decimal(10) ** (target.precision - target.scale)
        low, high = limits["min"].as_py(), limits["max"].as_py()
        if low is not None and (low <= -most or high >= most):
            raise pa.ArrowInvalid(f"Decimal value does not fit in {target}")
    return array.cast(target)


def exact_or_null(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return values as ``exact_cast`` does, but with null for a value that does not fit."""
    try:
        return exact_cast(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        encoded = array.dictionary_encode()
        values = [_one_or_null(value, target) for value in encoded.dictionary]
        return pa.array(values, target).take(encoded.indices)


def _one_or_null(value: pa.Scalar, target: pa.DataType) -> object:
    try:
        return exact_cast(pa.array([value.as_py()], value.type), target)[0].as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def fit_leaf(array: pa.Array, target: pa.DataType, *, declared: bool = False) -> pa.Array:
    """Return flat values in another flat type, null if they do not fit exactly.

    Numbers fit text. A text fits a number type if it is the text that DIL writes for the number. If
    ``declared`` is true, a person wrote the target type: then numbers may be rounded into float and
    double, and a text may be any form of its number.
    """
    source = array.type
    if source == target:
        return array
    if pa.types.is_string(target):
        return texts_of_numbers(array) if is_number(source) else exact_or_null(array, target)
    if is_number(source) and is_number(target):
        return _numbers(array, target, rounds=declared)
    if pa.types.is_string(source):
        return _from_text(array, target, declared=declared)
    if _same_time(source, target):
        return exact_or_null(array, target)
    return pa.nulls(len(array), target)


def _numbers(array: pa.Array, target: pa.DataType, *, rounds: bool) -> pa.Array:
    if not pa.types.is_floating(target):
        return exact_or_null(array, target)
    # Through text, a decimal becomes the nearest float; Arrow's own cast may miss it by one step.
    is_decimal = pa.types.is_decimal(array.type)
    fitted = (array.cast(pa.string()) if is_decimal else array).cast(target, safe=False)
    if rounds:
        return fitted
    back = exact_or_null(fitted.cast(pa.string()) if is_decimal else fitted, array.type)
    return pc.if_else(pc.fill_null(pc.equal(back, array), fill_value=False), fitted, None)


def _from_text(array: pa.Array, target: pa.DataType, *, declared: bool) -> pa.Array:
    """Return the values of texts; a text counts as a number only in the form of a number."""
    if pa.types.is_boolean(target):
        is_word = pc.is_in(array, pa.array(["true", "false"]))
        return pc.if_else(is_word, array, None).cast(target)
    if not is_number(target):
        return pa.nulls(len(array), target)
    pattern = _INTEGER_TEXT if pa.types.is_integer(target) else _NUMBER_TEXT
    is_number_text = pc.match_substring_regex(array, pattern)
    numbers = exact_or_null(pc.if_else(is_number_text, array, None), target)
    if declared:
        return numbers
    is_same = pc.equal(texts_of_numbers(numbers), array)
    return pc.if_else(pc.fill_null(is_same, fill_value=False), numbers, None)


def _same_time(a: pa.DataType, b: pa.DataType) -> bool:
    """Return whether two types count the same kind of time in different units."""
    if pa.types.is_timestamp(a) and pa.types.is_timestamp(b):
        return bool(a.tz == b.tz)
    return bool(
        (pa.types.is_time(a) and pa.types.is_time(b))
        or (pa.types.is_date(a) and pa.types.is_date(b))
    )


def cast_texts(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Return texts of numbers as decimals of a type.

    Raises:
        pyarrow.ArrowInvalid: a text is no number, or does not fit the type exactly.
    """
    decimals = texts.cast(target)
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest <= target.precision - target.scale:
        has_exponent = pc.any(pc.match_substring(texts, "e", ignore_case=True)).as_py()
        if not has_exponent:
            return decimals
    wanted, found = texts.cast(pa.float64()), decimals.cast(pa.float64())
    distance = pc.abs(pc.subtract(wanted, found))
    is_near = pc.less_equal(distance, pc.multiply(pc.abs(wanted), _NEARLY))
    if pc.all(is_near).as_py() is False:
        raise pa.ArrowInvalid(f"Decimal value does not fit in {target}")
    return decimals
