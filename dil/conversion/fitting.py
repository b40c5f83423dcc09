"""Columns brought to the types of a known schema; what does not fit becomes null and is noted.

A value fits when the known type holds it exactly as it is, as widening does (rule F17):
int in long, decimal, double and text. A text fits a number that a person declared; one that was
only inferred takes a text where the number is written as that text again: "1.5", not "1.50".
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa
import pyarrow.compute as pc

from dil.conversion.failures import Reason, RowFailures
from dil.model.exact_decimals import exact_cast
from dil.model.number_texts import texts_of_numbers
from dil.model.widening import is_number

_INTEGER_TEXT = r"^-?(0|[1-9][0-9]*)$"
_NUMBER_TEXT = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_NULL = Reason("null, but the column is not nullable")
UNKNOWN = Reason("the column is not in the schema")

Unknown = Callable[[str, pa.Array, pa.Array], None]
"""Takes the path of an unknown column, its values, and the batch's row of each."""


class Fitting:
    """Fits the columns of one batch; failures are noted by the batch's rows.

    ``declared`` says that a person wrote the known types: numbers may be rounded into float and
    double, and a text may be any form of its number. ``keys`` are columns by which rows are
    distinguished: there a text never becomes a number, since rows of two texts would become one.
    ``unknown`` is called with members of records that are not in the schema and hold values.
    """

    def __init__(
        self,
        failures: RowFailures,
        unknown: Unknown,
        *,
        declared: bool = False,
        keys: Collection[str] = (),
    ) -> None:
        self._failures = failures
        self._unknown = unknown
        self._declared = declared
        self._keys = keys

    def fit(self, array: pa.Array, field: pa.Field, path: str, rows: pa.Array) -> pa.Array:
        """Return a column in the type of ``field``; ``rows`` are the batch's rows of its values."""
        if array.null_count == len(array):
            fitted = pa.nulls(len(array), field.type)
        elif array.type == field.type and not _has_not_null(field.type):
            fitted = array
        else:
            fitted = self._by_shape(array, field.type, path, rows)
            self._note(array, fitted, field.type, path, rows)
        if not field.nullable and fitted.null_count:
            # A value that did not fit was noted already, and the first reason counts.
            self._failures.add(path, _NULL, rows.filter(fitted.is_null()))
        return fitted

    def _note(
        self, array: pa.Array, fitted: pa.Array, target: pa.DataType, path: str, rows: pa.Array
    ) -> None:
        if fitted.null_count == array.null_count:
            return
        bad = pc.and_(fitted.is_null(), array.is_valid())
        source = _short(array.type)
        reason = Reason(f"a value read as {source} does not fit the column's {_short(target)}")
        self._failures.add(path, reason, rows.filter(bad), array.filter(bad))

    def _by_shape(
        self, array: pa.Array, target: pa.DataType, path: str, rows: pa.Array
    ) -> pa.Array:
        source = array.type
        if pa.types.is_struct(target) and pa.types.is_struct(source):
            return self._struct(array, target, path, rows)
        if pa.types.is_struct(target) and pa.types.is_map(source):
            return _empty_records(array, target)
        if pa.types.is_list(target) and pa.types.is_list(source):
            return self._list(array, target, path, rows)
        if pa.types.is_map(target) and pa.types.is_map(source):
            return self._map(array, target, path, rows)
        is_text_of_key = path in self._keys and pa.types.is_string(source) and is_number(target)
        if pa.types.is_nested(source) or pa.types.is_nested(target) or is_text_of_key:
            return pa.nulls(len(array), target)
        return fit_leaf(array, target, declared=self._declared)

    def _struct(
        self, array: pa.StructArray, target: pa.StructType, path: str, rows: pa.Array
    ) -> pa.Array:
        is_null = array.is_null()
        members = dict(zip(array.type.names, array.flatten(), strict=True))
        there = rows if not array.null_count else rows.filter(array.is_valid())
        columns = []
        for field in target:
            member = members.pop(field.name, None)
            if member is None:
                member = pa.nulls(len(array))
            if not array.null_count:
                columns.append(self.fit(member, field, f"{path}.{field.name}", there))
                continue
            # Where there is no record its members miss nothing.
            inside = member.filter(array.is_valid())
            fitted = self.fit(inside, field, f"{path}.{field.name}", there)
            columns.append(fitted.take(_spread(is_null)))
        for name, member in members.items():
            if member.null_count < len(member):
                self._unknown(f"{path}.{name}", member, rows)
        return pa.StructArray.from_arrays(columns, fields=list(target), mask=is_null)

    def _list(
        self, array: pa.ListArray, target: pa.ListType, path: str, rows: pa.Array
    ) -> pa.Array:
        offsets, start, length = _window(array)
        items = array.values.slice(start, length)
        fitted = self.fit(items, target.value_field, f"{path}[]", _rows_of(offsets, length, rows))
        return pa.ListArray.from_arrays(offsets, fitted, type=target, mask=array.is_null())

    def _map(self, array: pa.MapArray, target: pa.MapType, path: str, rows: pa.Array) -> pa.Array:
        offsets, start, length = _window(array)
        of_items = _rows_of(offsets, length, rows)
        keys = array.keys.slice(start, length).cast(target.key_type)
        items = array.items.slice(start, length)
        fitted = self.fit(items, target.item_field, f"{path}.*", of_items)
        return pa.MapArray.from_arrays(offsets, keys, fitted, type=target, mask=array.is_null())


def fit_leaf(array: pa.Array, target: pa.DataType, *, declared: bool = False) -> pa.Array:
    """Return flat values in another flat type, null where they do not fit exactly.

    ``declared`` is that of ``Fitting``.
    """
    source = array.type
    if source == target:
        return array
    if pa.types.is_string(target):
        return texts_of_numbers(array) if is_number(source) else _cast(array, target)
    if is_number(source) and is_number(target):
        return _numbers(array, target, rounds=declared)
    if pa.types.is_string(source):
        return _from_text(array, target, declared=declared)
    if _same_time(source, target):
        return _cast(array, target)
    return pa.nulls(len(array), target)


def _numbers(array: pa.Array, target: pa.DataType, *, rounds: bool) -> pa.Array:
    if pa.types.is_floating(target):
        # Through text, a decimal becomes the nearest float; Arrow's own cast may miss it by one.
        numbers = array.cast(pa.string()) if _is_decimal(array) else array
        fitted = numbers.cast(target, safe=False)
        if rounds:
            return fitted
        back = _cast(fitted.cast(pa.string()), pa.string()) if _is_decimal(array) else fitted
        back = _cast(back, array.type)
        return pc.if_else(pc.fill_null(pc.equal(back, array), fill_value=False), fitted, None)
    return _cast(array, target)


def _from_text(array: pa.Array, target: pa.DataType, *, declared: bool) -> pa.Array:
    """Return what texts say; a number only where its text is how a number is written."""
    if pa.types.is_boolean(target):
        is_word = pc.is_in(array, pa.array(["true", "false"]))
        return pc.if_else(is_word, array, None).cast(target)
    if not is_number(target):
        return pa.nulls(len(array), target)
    pattern = _INTEGER_TEXT if pa.types.is_integer(target) else _NUMBER_TEXT
    numbers = _cast(pc.if_else(pc.match_substring_regex(array, pattern), array, None), target)
    if declared:
        return numbers
    is_same = pc.equal(texts_of_numbers(numbers), array)
    return pc.if_else(pc.fill_null(is_same, fill_value=False), numbers, None)


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast exactly, value by value where one of them does not fit."""
    try:
        return exact_cast(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        encoded = array.dictionary_encode()
        values = [_cast_one(value, target) for value in encoded.dictionary]
        return pa.array(values, target).take(encoded.indices)


def _cast_one(value: pa.Scalar, target: pa.DataType) -> object:
    try:
        return exact_cast(pa.array([value.as_py()], value.type), target)[0].as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _is_decimal(array: pa.Array) -> bool:
    return bool(pa.types.is_decimal(array.type))


def _same_time(a: pa.DataType, b: pa.DataType) -> bool:
    """Return whether two types count the same kind of time in different units."""
    if pa.types.is_timestamp(a) and pa.types.is_timestamp(b):
        return bool(a.tz == b.tz)
    return bool(
        (pa.types.is_time(a) and pa.types.is_time(b))
        or (pa.types.is_date(a) and pa.types.is_date(b))
    )


def _has_not_null(data_type: pa.DataType) -> bool:
    """Return whether something inside must not be null."""
    if pa.types.is_map(data_type):
        return not data_type.item_field.nullable or _has_not_null(data_type.item_type)
    if not pa.types.is_nested(data_type):
        return False
    fields = [data_type.field(index) for index in range(data_type.num_fields)]
    return any(not field.nullable or _has_not_null(field.type) for field in fields)


def _empty_records(array: pa.MapArray, target: pa.StructType) -> pa.Array:
    """Return records without members for objects without members, null for all others."""
    is_empty = pc.equal(pc.list_value_length(array.cast(_pairs(array.type))), 0)
    columns = [pa.nulls(len(array), field.type) for field in target]
    mask = pc.invert(pc.fill_null(is_empty, fill_value=False))
    return pa.StructArray.from_arrays(columns, fields=list(target), mask=mask)


def _pairs(data_type: pa.MapType) -> pa.DataType:
    return pa.list_(pa.struct([data_type.key_field, data_type.item_field]))


def _spread(is_null: pa.Array) -> pa.Array:
    """Return where each position finds its value when those of nulls were left out."""
    counted = pc.cumulative_sum(pc.invert(is_null).cast(pa.int64()))
    return pc.if_else(is_null, None, pc.subtract(counted, 1))


def _window(array: pa.Array) -> tuple[pa.Array, int, int]:
    """Return offsets that begin at 0, and the stretch of the items that they cover."""
    start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
    moved = pc.subtract(array.offsets, start)
    if moved.offset:
        moved = pa.concat_arrays([moved, moved.slice(0, 0)])
    return moved, start, end - start


def _rows_of(offsets: pa.Array, length: int, rows: pa.Array) -> pa.Array:
    """Return the batch's row of each item."""
    lists = pa.ListArray.from_arrays(offsets, pa.nulls(length, pa.int8()))
    return rows.take(pc.list_parent_indices(lists))


def _short(data_type: pa.DataType) -> str:
    """Return a type's word; of records and the like only what they are."""
    if pa.types.is_struct(data_type):
        return "record"
    if pa.types.is_list(data_type):
        return "list"
    return "map" if pa.types.is_map(data_type) else str(data_type)
