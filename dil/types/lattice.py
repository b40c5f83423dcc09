"""The few types that columns have (rule F19), and how flat ones widen (rule F17).

A type widens to one that holds the values of several types exactly.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from dil.errors import ConversionError

INSTANT = pa.timestamp("us", tz="UTC")
MOST_DIGITS = 38  # The most digits of a decimal128; a wider number becomes text.
_LONG_DIGITS = 19
_UINT64_DIGITS = 20
_WORDS: dict[pa.DataType, bytes] = {
    pa.int32(): b"int",
    pa.int64(): b"long",
    pa.float64(): b"double",
    pa.string(): b"string",
}
_TYPED_FORMS: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...] = (
    (pa.types.is_null, pa.string()),
    (pa.types.is_boolean, pa.bool_()),
    (pa.types.is_int64, pa.int64()),
    (pa.types.is_uint64, pa.decimal128(_UINT64_DIGITS, 0)),
    (pa.types.is_uint32, pa.int64()),
    (pa.types.is_integer, pa.int32()),
    (pa.types.is_float64, pa.float64()),
    (pa.types.is_floating, pa.float32()),
    (pa.types.is_string, pa.string()),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_binary, pa.binary()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_binary_view, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_date, pa.date32()),
    (pa.types.is_time, pa.time64("us")),
    (pa.types.is_timestamp, INSTANT),
)


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


def typed_form(data_type: pa.DataType, name: str) -> pa.DataType:
    """Return the type in which values of ``data_type`` are written; ``name`` is for messages.

    Raises:
        ConversionError: no such type exists, for example for intervals.
    """
    if isinstance(data_type, pa.BaseExtensionType):
        return typed_form(data_type.storage_type, name)
    if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
        return typed_form(data_type.value_type, name)
    if pa.types.is_nested(data_type):
        return _nested_form(data_type, name)
    if pa.types.is_decimal(data_type):
        # A negative scale, as in NUMBER(5,-2), means more digits before the point.
        digits = data_type.precision - min(data_type.scale, 0)
        scale = max(data_type.scale, 0)
        return pa.decimal128(digits, scale) if digits <= MOST_DIGITS else pa.string()
    for matches, form in _TYPED_FORMS:
        if matches(data_type):
            return form
    raise _no_form(data_type, name)


def _nested_form(data_type: pa.DataType, name: str) -> pa.DataType:
    if pa.types.is_struct(data_type):
        members = [f.with_type(typed_form(f.type, f"{name}.{f.name}")) for f in data_type]
        return pa.struct(members)
    if pa.types.is_map(data_type):
        item = data_type.item_field
        return pa.map_(pa.string(), item.with_type(typed_form(item.type, name)))
    if pa.types.is_union(data_type):
        raise _no_form(data_type, name)
    item = data_type.value_field
    return pa.list_(item.with_type(typed_form(item.type, name)))


def _no_form(data_type: pa.DataType, name: str) -> ConversionError:
    return ConversionError(
        f'column "{name}" has the type {data_type}, which no output format can hold',
        "Convert the column at the source, for example in ms.jdbc.statement.",
    )
