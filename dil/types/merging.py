"""Merges two schemas: the merged types, also nested ones, hold all values of both exactly.

Members of records are matched by name, and a column that one side lacks may be null. A column
that never had a value takes the other side's type, because the type of nulls is only a guess.
See rule F17.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa

from dil.errors import ConversionError
from dil.model.arrow import TYPE_KEY
from dil.types.lattice import widened_word, wider_flat

Clash = Callable[[str], pa.DataType]
"""Takes the path of a column that is nested on one side only; returns its type, or raises."""


@dataclass(frozen=True, slots=True)
class SeenType:
    """A type, and the type of the values that occurred; parts without any value are null."""

    declared: pa.DataType
    seen: pa.DataType

    def child(self, index: int) -> SeenType:
        """Return a member of a record."""
        field = self.declared.field(index)
        at = self.seen.get_field_index(field.name) if pa.types.is_struct(self.seen) else -1
        return SeenType(field.type, self.seen.field(at).type if at >= 0 else pa.null())

    def item(self) -> SeenType:
        """Return the items of a list, or the values of a map."""
        if pa.types.is_map(self.declared):
            inner = self.seen.item_type if pa.types.is_map(self.seen) else pa.null()
            return SeenType(self.declared.item_type, inner)
        inner = self.seen.value_type if pa.types.is_list(self.seen) else pa.null()
        return SeenType(self.declared.value_type, inner)


def wider(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Return a type that holds the values of both exactly; text if no other type does."""
    return _merged(SeenType(a, a), SeenType(b, b), lambda _path: pa.string(), "")


def wider_schema(a: pa.Schema, b: pa.Schema) -> pa.Schema:
    """Return a schema for the rows of both schemas, with columns in order of appearance."""
    one, other = pa.struct(list(a)), pa.struct(list(b))
    return pa.schema(list(wider(one, other)))


def merged_records(old: SeenType, new: SeenType, clash: Clash, path: str = "") -> pa.StructType:
    """Return the record type that holds the values of both, with members in order of appearance.

    ``path`` is the path of the column, empty for whole rows.
    """
    added = {field.name: index for index, field in enumerate(new.declared)}
    fields = []
    for index, field in enumerate(old.declared):
        at = added.pop(field.name, None)
        if at is None:
            fields.append(field.with_nullable(nullable=True))
            continue
        place = f"{path}.{field.name}" if path else field.name
        merged = _merged(old.child(index), new.child(at), clash, place)
        fields.append(_field(field, new.declared.field(at), merged))
    fields.extend(new.declared.field(at).with_nullable(nullable=True) for at in added.values())
    return pa.struct(fields)


def union_of_seen(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Return the merged type of two types of values that occurred in a column."""
    if pa.types.is_null(a) or a.equals(b):
        return b
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        seen = {field.name: field.type for field in a}
        for field in b:
            seen[field.name] = union_of_seen(seen.get(field.name, pa.null()), field.type)
        return pa.struct(list(seen.items()))
    if pa.types.is_map(a) and pa.types.is_map(b):
        return pa.map_(pa.string(), union_of_seen(a.item_type, b.item_type))
    if pa.types.is_list(a) and pa.types.is_list(b):
        return pa.list_(union_of_seen(a.value_type, b.value_type))
    return a


def is_all_seen(declared: pa.DataType, seen: pa.DataType) -> bool:
    """Return whether every nested type occurred with values, so that more rows add nothing."""
    if pa.types.is_null(seen):
        return False
    if pa.types.is_struct(declared):
        return all(is_all_seen(field.type, seen.field(field.name).type) for field in declared)
    if pa.types.is_map(declared):
        return is_all_seen(declared.item_type, seen.item_type)
    if pa.types.is_list(declared):
        return is_all_seen(declared.value_type, seen.value_type)
    return True


def _merged(old: SeenType, new: SeenType, clash: Clash, path: str) -> pa.DataType:
    a, b = old.declared, new.declared
    if a == b:
        return a
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        return merged_records(old, new, clash, path)
    if pa.types.is_map(a) and pa.types.is_map(b):
        merged = _merged(old.item(), new.item(), clash, f"{path}.*")
        return pa.map_(a.key_type, _field(a.item_field, b.item_field, merged))
    if pa.types.is_list(a) and pa.types.is_list(b):
        merged = _merged(old.item(), new.item(), clash, f"{path}[]")
        return pa.list_(_field(a.value_field, b.value_field, merged))
    return _merged_kinds(old, new, clash, path)


def _merged_kinds(old: SeenType, new: SeenType, clash: Clash, path: str) -> pa.DataType:
    """Return the merge of two types if at least one is flat, or if their nesting differs."""
    a, b = old.declared, new.declared
    if pa.types.is_null(new.seen):
        return b if pa.types.is_null(a) else a
    if pa.types.is_null(old.seen):
        return b
    return clash(path) if pa.types.is_nested(a) or pa.types.is_nested(b) else wider_flat(a, b)


def _field(old: pa.Field, new: pa.Field, merged: pa.DataType) -> pa.Field:
    nullable = old.nullable or new.nullable
    if merged == old.type or pa.types.is_nested(merged):
        return old.with_type(merged).with_nullable(nullable)
    if merged == new.type:
        return new.with_name(old.name).with_nullable(nullable)
    return pa.field(old.name, merged, nullable, {TYPE_KEY: widened_word(merged)})


def refuse_clash(path: str) -> NoReturn:
    """Raise, because a column is nested on one side only.

    Raises:
        ConversionError: always.
    """
    raise ConversionError(
        f'column "{path}" holds records or lists in some rows and plain values in others',
        "Describe the columns of this job in ms.output.schema, without this column.",
    )
