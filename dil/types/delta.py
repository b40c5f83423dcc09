"""Converts Arrow columns to columns of a Delta table, and finds the columns that a table gains.

Every column that a job makes may hold null. Delta tables gain columns, and members of records. A
column's type may change only if all files with the old type are removed. Source: the Delta
transaction protocol, "Schema Serialization Format".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import pyarrow as pa
from deltalake import Field, Schema

from dil.errors import WriteError
from dil.types.table_formats import UTC_ZONES, unfit

_FORBIDDEN = " ,;{}()\n\t="
_FLAT = frozenset(
    {
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(),
        pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.date32(),
    }
)  # fmt: skip


def delta_schema(schema: pa.Schema) -> Schema:
    """Return the Delta schema of a table with these columns.

    Raises:
        WriteError: Delta has no type that holds a column's values exactly, or refuses its name.
    """
    for name in schema.names:
        if not name or set(name) & set(_FORBIDDEN):
            raise unfit(name, "its name", "which has a character that no Delta table's may have")
    return Schema.from_arrow(pa.schema(_fields(schema, "")))


def _fields(fields: Iterable[pa.Field], folder: str) -> list[pa.Field]:
    """Return columns, or members of the record at the path ``folder`` (with a dot), as nullable."""
    seen: dict[str, str] = {}
    found = []
    for field in fields:
        path = f"{folder}{field.name}"
        other = seen.setdefault(field.name.lower(), field.name)
        if other != field.name:
            raise unfit(path, "its name", f'and Delta cannot distinguish it from "{other}"')
        found.append(pa.field(field.name, _type(field.type, path), nullable=True))
    return found


def _type(kind: pa.DataType, path: str) -> pa.DataType:
    """Return a type with all nested fields nullable, except keys of maps."""
    if pa.types.is_struct(kind):
        return pa.struct(_fields(kind, f"{path}."))
    if pa.types.is_map(kind):
        return pa.map_(_type(kind.key_type, f"{path}.key"), _type(kind.item_type, f"{path}.value"))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _type(kind.value_type, f"{path}.element")))
    if pa.types.is_timestamp(kind) and kind.tz in UTC_ZONES and kind.unit in {"ms", "us"}:
        return pa.timestamp("us", tz="UTC")
    if kind in _FLAT or pa.types.is_decimal128(kind):
        return kind
    raise unfit(path, kind, "which no type of Delta holds")


def new_columns(table: Schema, wanted: Schema) -> list[Field]:
    """Return the columns that a table lacks wholly or in part."""
    known = _flat_words(table).keys()
    missing = {path[0] for path in _flat_words(wanted) if path not in known}
    return [field for field in wanted.fields if field.name in missing]


def retyped(table: Schema, wanted: Schema) -> tuple[str, str, str] | None:
    """Return a column with another type: its path, the wanted type, the table's type; else None."""
    known = _flat_words(table)
    for path, word in _flat_words(wanted).items():
        if known.get(path, word) != word:
            return ".".join(path), word, known[path]
    return None


def refuse_respelled(table: Schema, wanted: Schema) -> None:
    """Raise if a column's name and its name in the table differ only in letter case.

    Raises:
        WriteError: the table would have two columns that Delta cannot distinguish.
    """
    known = {".".join(path).lower(): ".".join(path) for path in _flat_words(table)}
    for path in map(".".join, _flat_words(wanted)):
        other = known.get(path.lower(), path)
        if other != path:
            raise WriteError(
                f'column "{path}" is "{other}" in the Delta table, and Delta cannot distinguish'
                " these names",
                f'Nothing was published. Name the column "{other}" at the source, or publish to'
                " another extract.table.name.",
            )


def merged(table: Schema, wanted: Schema) -> Schema:
    """Return the table's columns, and the columns and members of ``wanted`` that it lacks."""
    added = {field.name: field for field in new_columns(table, wanted)}
    fields = [added.pop(field.name, field) for field in table.fields]
    return Schema([*fields, *added.values()])


def replaced(table: Schema, wanted: Schema) -> Schema:
    """Return the columns after all rows are replaced: ``wanted``, and the table's other columns."""
    fields = {field.name: field for field in table.fields}
    fields.update((field.name, field) for field in wanted.fields)
    return Schema(list(fields.values()))


def refuse_unfit(table: Schema, file: pa.Schema, partitions: Collection[str]) -> None:
    """Raise if a file's columns do not fit the table.

    Raises:
        WriteError: the table lacks a column, has it with another type, or requires a column (NOT
            NULL) that the file may lack.
    """
    columns = delta_schema(file)
    if added := new_columns(table, columns):
        raise unfit(added[0].name, "in a file of this run", "and not in the dataset's schema")
    found = retyped(table, columns)
    if found is not None:
        path, word, known = found
        raise unfit(path, f"{word} in a file of this run", f"and {known} in the Delta table")
    sure = {field.name for field in file if not field.nullable}.union(partitions)
    for field in table.fields:
        if not field.nullable and field.name not in sure:
            raise unfit(field.name, "NOT NULL in the Delta table", "and the rows may lack it")


def _flat_words(schema: Schema) -> dict[tuple[str, ...], str]:
    """Return Delta's word for the type of every column and nested field, by path."""
    return {
        path: word
        for field in json.loads(schema.to_json())["fields"]
        for path, word in _words((field["name"],), field["type"])
    }


def _words(path: tuple[str, ...], kind: Any) -> Iterator[tuple[tuple[str, ...], str]]:  # JSON
    if not isinstance(kind, dict):
        yield path, str(kind)
        return
    yield path, str(kind["type"])
    for member in ("elementType", "keyType", "valueType"):
        if member in kind:
            yield from _words((*path, member.removesuffix("Type")), kind[member])
    for field in kind.get("fields", ()):
        yield from _words((*path, field["name"]), field["type"])
