"""Converts columns to the typed form, nested columns too.

``column_target`` finds what a column and its parts become; ``ColumnReader`` converts the values.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dil.conversion.failures import NULL, RowFailures
from dil.conversion.values import Values, plain_storage
from dil.model.arrow import TYPE_KEY, type_word
from dil.model.schema import (
    JSON,
    ArrayType,
    Column,
    DataType,
    EnumType,
    MapType,
    Primitive,
    RecordType,
)
from dil.types.nested import (
    has_not_null,
    items_of,
    keys_of,
    positions,
    rebuilt,
    rows_of_items,
    spread,
)


@dataclass(frozen=True, slots=True)
class ColumnTarget:
    """The target of a column, member or item.

    ``children`` are the members of a record, or the one item of a list or map. ``is_plain`` is true
    if values of the raw type need no conversion, only a check for nulls.
    """

    path: str
    field: pa.Field
    word: str
    symbols: tuple[str, ...]
    children: tuple[ColumnTarget, ...]
    is_plain: bool


def column_target(
    field: pa.Field, declared: Column | None, values: Values, path: str = ""
) -> ColumnTarget:
    """Return the target of a raw field; the declaration in the job's schema comes first.

    ``path`` is the path of a member of a record, empty for a column.
    """
    nullable = declared.nullable if declared else field.nullable
    data_type = declared.type if declared else None
    return _target(field.with_nullable(nullable), data_type, path or field.name, values)


def _target(field: pa.Field, declared: DataType | None, path: str, values: Values) -> ColumnTarget:
    stored = plain_storage(field.type)
    children = _children(stored, declared, path, values)
    word = declared.word if isinstance(declared, Primitive) else type_word(field)
    symbols = declared.symbols if isinstance(declared, EnumType) else ()
    if children is None:
        data_type = values.leaf_type(word, stored, declared, path)
        children = ()
    elif pa.types.is_struct(stored):
        data_type = pa.struct([child.field for child in children])
    elif pa.types.is_map(stored):
        data_type = pa.map_(pa.string(), children[0].field)
    else:
        data_type = pa.list_(children[0].field)
    # A json column is a way to declare a column of texts, not a type of its own.
    stored_word = "string" if word == JSON else word
    metadata = {TYPE_KEY: stored_word.encode()} if word else None
    return ColumnTarget(
        path,
        pa.field(field.name, data_type, field.nullable, metadata),
        word,
        symbols,
        children,
        is_plain=field.type == data_type and not has_not_null(data_type) and not symbols,
    )


def _children(
    stored: pa.DataType, declared: DataType | None, path: str, values: Values
) -> tuple[ColumnTarget, ...] | None:
    """Return the targets inside a nested type, None for a flat type."""
    if isinstance(declared, Primitive | EnumType):
        return None
    if pa.types.is_struct(stored):
        columns = declared.columns if isinstance(declared, RecordType) else ()
        known = {column.name: column for column in columns}
        return tuple(
            column_target(member, known.get(member.name), values, f"{path}.{member.name}")
            for member in stored
        )
    if pa.types.is_map(stored):
        item = stored.item_field
        if isinstance(declared, MapType):
            item = item.with_nullable(declared.values_nullable)
        inner = declared.values if isinstance(declared, MapType) else None
        return (_target(item, inner, f"{path}.*", values),)
    if pa.types.is_list(stored):
        item = stored.value_field
        if isinstance(declared, ArrayType):
            item = item.with_nullable(declared.items_nullable)
        inner = declared.items if isinstance(declared, ArrayType) else None
        return (_target(item, inner, f"{path}[]", values),)
    return None


class ColumnReader:
    """Converts the columns of one batch to their targets, and records the rows that failed."""

    def __init__(self, values: Values, failures: RowFailures) -> None:
        self._values = values
        self._failures = failures
        self._rows: pa.Array | None = None

    def read(self, array: pa.Array, target: ColumnTarget) -> pa.Array:
        """Return the typed column; the values of failed rows have no meaning."""
        if target.is_plain and (target.field.nullable or array.null_count == 0):
            return array
        if self._rows is None:
            self._rows = positions(len(array))
        return self._read(array, target, self._rows)

    def _read(self, array: pa.Array, target: ColumnTarget, rows: pa.Array) -> pa.Array:
        """Return a part of a column, typed; ``rows`` has the batch's row for each position."""
        stored = self._values.unpack(array)
        if not target.children:
            result = self._leaf(stored, target, rows)
        elif pa.types.is_struct(stored.type):
            result = self._struct(stored, target, rows)
        else:
            keys = None
            if pa.types.is_map(stored.type):
                keys, _ = self._values.convert(keys_of(stored), "string", pa.string(), ())
            inside = rows_of_items(stored, rows)
            items = self._read(items_of(stored), target.children[0], inside)
            result = rebuilt(stored, items, target.field.type, keys)
        if not target.field.nullable and result.null_count:
            # A value that failed to convert is recorded already, and only the first reason counts.
            self._failures.add(target.path, NULL, rows.filter(result.is_null()))
        return result

    def _leaf(self, array: pa.Array, target: ColumnTarget, rows: pa.Array) -> pa.Array:
        result, reason = self._values.convert(array, target.word, target.field.type, target.symbols)
        if result.null_count > array.null_count:
            bad = pc.and_(result.is_null(), array.is_valid())
            self._failures.add(target.path, reason, rows.filter(bad), array.filter(bad))
        return result

    def _struct(self, array: pa.StructArray, target: ColumnTarget, rows: pa.Array) -> pa.Array:
        valid = array.is_valid()
        there = rows if not array.null_count else rows.filter(valid)
        columns = []
        for child, member in zip(array.flatten(), target.children, strict=True):
            inside = child if not array.null_count else child.filter(valid)
            columns.append(self._read(inside, member, there))
        if not array.null_count:
            return pa.StructArray.from_arrays(columns, fields=list(target.field.type))
        # The members were read only for the rows that have a record.
        dense = pa.StructArray.from_arrays(columns, fields=list(target.field.type))
        return spread(dense, valid)
