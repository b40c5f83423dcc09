"""Maps the Arrow types of other systems to the few types of the typed form (rule F19)."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from dil.errors import ConversionError
from dil.types.lattice import MOST_DIGITS

_UINT64_DIGITS = 20

INSTANT = pa.timestamp("us", tz="UTC")

_WIDTHS: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...] = (
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
    for matches, form in _WIDTHS:
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
