"""Converts columns to the types of a known schema; unfit values become null and are recorded.

A value fits if the known type holds it exactly, as in widening (rule F17): an int fits
long, decimal, double and text. A text of a number fits a number type that a person
declared. It fits an inferred number type only if DIL writes the number in the same way: "1.5", not
"1.50".
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa
import pyarrow.compute as pc

from dil.conversion.failures import NULL, FailureReason, RowFailures
from dil.types.fitting import fit_leaf
from dil.types.lattice import is_number
from dil.types.nested import has_not_null, items_of, keys_of, rebuilt, rows_of_items, spread

UNKNOWN = FailureReason("the column is not in the schema")

Unknown = Callable[[str, pa.Array, pa.Array], None]
"""Takes the path of an unknown column, its values, and the batch's row of each."""


class Fitting:
    """Converts the columns of one batch, and records failures with their rows.

    If ``declared`` is true, a person wrote the known types: numbers may be rounded into float and
    double, and a text may be any form of its number. ``keys`` are columns that distinguish rows: a
    text in them never becomes a number, because two texts, and so two rows, could become equal.
    ``unknown`` is called with members of records that are not in the schema and hold values.
    """

    def __init__(
        self,
        failures: RowFailures,
        unknown: Unknown,
        *,
        declared: bool = False,
        keys: Collection[str],
    ) -> None:
        self._failures = failures
        self._unknown = unknown
        self._declared = declared
        self._keys = keys

    def fit(self, array: pa.Array, field: pa.Field, path: str, rows: pa.Array) -> pa.Array:
        """Return a column in the type of ``field``; ``rows`` has the batch's row of each value."""
        if array.null_count == len(array):
            fitted = pa.nulls(len(array), field.type)
        elif array.type == field.type and not has_not_null(field.type):
            fitted = array
        else:
            fitted = self._by_shape(array, field.type, path, rows)
            if fitted.null_count != array.null_count:
                bad = pc.and_(fitted.is_null(), array.is_valid())
                reason = FailureReason(
                    f"a value read as {_short(array.type)} does not fit the column's"
                    f" {_short(field.type)}"
                )
                self._failures.add(path, reason, rows.filter(bad), array.filter(bad))
        if not field.nullable and fitted.null_count:
            # A value that did not fit is recorded already, and only the first reason counts.
            self._failures.add(path, NULL, rows.filter(fitted.is_null()))
        return fitted

    def _by_shape(
        self, array: pa.Array, target: pa.DataType, path: str, rows: pa.Array
    ) -> pa.Array:
        source = array.type
        if pa.types.is_struct(target) and pa.types.is_struct(source):
            return self._struct(array, target, path, rows)
        if pa.types.is_struct(target) and pa.types.is_map(source):
            return _empty_records(array, target)
        if pa.types.is_list(target) and pa.types.is_list(source):
            inside = rows_of_items(array, rows)
            return rebuilt(
                array, self.fit(items_of(array), target.value_field, f"{path}[]", inside), target
            )
        if pa.types.is_map(target) and pa.types.is_map(source):
            inside, keys = rows_of_items(array, rows), keys_of(array).cast(target.key_type)
            items = self.fit(items_of(array), target.item_field, f"{path}.*", inside)
            return rebuilt(array, items, target, keys)
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
            # A null record has no members that could be missing.
            inside = member.filter(array.is_valid())
            fitted = self.fit(inside, field, f"{path}.{field.name}", there)
            columns.append(spread(fitted, array.is_valid()))
        for name, member in members.items():
            if member.null_count < len(member):
                self._unknown(f"{path}.{name}", member, rows)
        return pa.StructArray.from_arrays(columns, fields=list(target), mask=is_null)


def _empty_records(array: pa.MapArray, target: pa.StructType) -> pa.Array:
    """Return records without members for empty maps, null for all other maps."""
    pairs = pa.list_(pa.struct([array.type.key_field, array.type.item_field]))
    is_empty = pc.equal(pc.list_value_length(array.cast(pairs)), 0)
    columns = [pa.nulls(len(array), field.type) for field in target]
    mask = pc.invert(pc.fill_null(is_empty, fill_value=False))
    return pa.StructArray.from_arrays(columns, fields=list(target), mask=mask)


def _short(data_type: pa.DataType) -> str:
    """Return the word of a type; for a nested type only the word of its kind."""
    if pa.types.is_struct(data_type):
        return "record"
    if pa.types.is_list(data_type):
        return "list"
    return "map" if pa.types.is_map(data_type) else str(data_type)
