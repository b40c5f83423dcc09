"""Avro types as Arrow types, and functions that convert values of Avro into values for Arrow.

Source: Apache Avro 1.12 specification, "Schema Declaration" and "Logical Types"; fastavro gives
dates, times, decimals and UUIDs as Python's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

import pyarrow as pa

from dil.errors import SourceContractError
from dil.extraction.sizes import Width
from dil.model.arrow import raw_schema
from dil.model.json import JsonValue, as_text
from dil.model.schema import ArrayType, Column, DataType, MapType, RecordType
from dil.types.lattice import decimal_type

Fit: TypeAlias = Callable[[Any], Any]
AvroType: TypeAlias = Any  # the JSON of a schema: a word, a list for a union, or an object

_PLAIN: Mapping[str, pa.DataType] = {
    "null": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time64("us"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("string", "uuid"): pa.string(),
    ("fixed", "uuid"): pa.string(),
}
_NESTED = frozenset({"record", "error", "array", "map"})
_DECIMAL256_DIGITS = 76


@dataclass(frozen=True, slots=True)
class Form:
    """An Arrow type; ``fit`` converts values into this type, None if they fit already."""

    type: pa.DataType
    fit: Fit | None = None


class AvroTypes:
    """The types of one schema in fastavro's parsed form, in which names refer to named types.

    ``left_out`` are the paths of members that the forms made so far leave out of records.
    """

    def __init__(self, root: AvroType) -> None:
        self._named: dict[str, AvroType] = {}
        self._collect(root)
        self._open: list[str] = []
        self.left_out: list[str] = []

    def resolved(self, avro: AvroType) -> AvroType:
        """Return the type that a name refers to, and type T for the union of null and T."""
        if isinstance(avro, list):
            others = [branch for branch in avro if branch != "null"]
            return self.resolved(others[0]) if len(others) == 1 else avro
        if isinstance(avro, str):
            return self._named.get(avro, avro)
        if isinstance(avro, dict) and isinstance(avro["type"], dict | list):
            return self.resolved(avro["type"])
        return avro

    def count(self, avro: AvroType, width: Width, inside: frozenset[str] = frozenset()) -> None:
        """Add the columns of a type to a width; each use of a named type adds its columns again.

        Raises:
            SourceContractError: there are too many columns.
        """
        found = self.resolved(avro)
        if isinstance(found, list):
            for branch in found:
                self.count(branch, width, inside)
        elif isinstance(found, dict) and "fields" in found and found["name"] not in inside:
            width.add(len(found["fields"]))
            for member in found["fields"]:
                self.count(member["type"], width, inside | {found["name"]})
        elif isinstance(found, dict) and (inner := found.get("items") or found.get("values")):
            self.count(inner, width, inside)

    def form(self, avro: AvroType, path: str, declared: DataType | None = None) -> Form:
        """Return the Arrow form of a type; if ``declared`` is a record, it gives the members.

        Raises:
            SourceContractError: a record contains itself, a union has nested branches, or a column
                is declared as nested but its Avro type is not.
        """
        found = self.resolved(avro)
        if isinstance(found, list):
            return self._union(found, path)
        word = found if isinstance(found, str) else found["type"]
        if word in _NESTED:
            return self._nested(word, found, path, declared)
        if isinstance(declared, RecordType | ArrayType | MapType):
            raise SourceContractError(
                f'column "{path}" is declared as nested, but its Avro type is {word}',
                "Correct its type in ms.output.schema.",
            )
        return Form(_PLAIN[word]) if isinstance(found, str) else _annotated(word, found, path)

    def _nested(self, word: str, avro: AvroType, path: str, declared: DataType | None) -> Form:
        if word == "array":
            inner = declared.items if isinstance(declared, ArrayType) else None
            form = self.form(avro["items"], f"{path}[]", inner)
            return Form(pa.list_(form.type), form.fit and _fit_items(form.fit))
        if word == "map":
            inner = declared.values if isinstance(declared, MapType) else None
            form = self.form(avro["values"], f"{path}.*", inner)
            return Form(pa.map_(pa.string(), form.type), _fit_entries(form.fit))
        if avro["name"] in self._open:
            raise SourceContractError(
                f'column "{path}" has records of type {avro["name"]} that contain records of'
                " this type, which no table can hold",
                "Leave the column out of ms.output.schema.",
            )
        self._open.append(avro["name"])
        try:
            return self._record(avro["fields"], path, declared)
        finally:
            self._open.pop()

    def _record(self, members: list[dict[str, Any]], path: str, declared: DataType | None) -> Form:
        types = {member["name"]: member["type"] for member in members}
        names: list[tuple[str, Column | None]] = [(name, None) for name in types]
        if isinstance(declared, RecordType):
            names = [(column.name, column) for column in declared.columns]
        fields: list[pa.Field] = []
        fits: dict[str, Fit] = {}
        for name, column in names:
            if name not in types and column is not None:
                fields.append(raw_schema((column,)).field(0))
                continue
            form = self.form(types[name], f"{path}.{name}", column.type if column else None)
            fields.append(pa.field(name, form.type))
            if form.fit is not None:
                fits[name] = form.fit
        kept = {name for name, _ in names}
        self.left_out += [f"{path}.{name}" for name in types if name not in kept]
        return Form(pa.struct(fields), _fit_members(fits) if fits else None)

    def _union(self, branches: list[AvroType], path: str) -> Form:
        """Return the form of a union: the widest type if all are numbers, else text."""
        others = [self.resolved(branch) for branch in branches if branch != "null"]
        if not others:
            return Form(pa.string())
        words = {branch if isinstance(branch, str) else branch["type"] for branch in others}
        if words & _NESTED:
            raise SourceContractError(
                f'column "{path}" is a union of {", ".join(sorted(words))}, for which no'
                " column type exists",
                "Leave the column out of ms.output.schema.",
            )
        if all(isinstance(branch, str) for branch in others):
            for widest, narrower in (("long", {"int"}), ("double", {"float", "int"})):
                if words <= narrower | {widest}:
                    return Form(_PLAIN[widest])
        return Form(pa.string(), _optional(_text))

    def _collect(self, avro: AvroType) -> None:
        """Keep the named types of a schema by their names."""
        if isinstance(avro, list):
            for branch in avro:
                self._collect(branch)
        elif isinstance(avro, dict):
            if "name" in avro:
                self._named[avro["name"]] = avro
            for member in avro.get("fields", ()):
                self._collect(member["type"])
            for part in ("items", "values", "type"):
                self._collect(avro.get(part))


def _annotated(word: str, avro: dict[str, Any], path: str) -> Form:
    """Return the form of a type with attributes: a logical type, a fixed, an enum."""
    logical = avro.get("logicalType", "")
    if logical == "decimal" and word in {"bytes", "fixed"}:
        digits, scale = avro["precision"], avro.get("scale", 0)
        if digits > _DECIMAL256_DIGITS:
            raise SourceContractError(
                f'column "{path}" has decimals of {digits} digits, more than any output holds',
                "Leave the column out of ms.output.schema.",
            )
        return Form(decimal_type(digits, scale))
    kind = _LOGICAL.get((word, logical))
    if kind is None:
        return Form(_PLAIN[word])
    return Form(kind, _optional(_uuid_text) if logical == "uuid" else None)


def _optional(fit: Fit) -> Fit:
    return lambda value: None if value is None else fit(value)


def _fit_members(fits: Mapping[str, Fit]) -> Fit:
    def fit(record: dict[str, Any]) -> dict[str, Any]:
        return {**record, **{name: each(record[name]) for name, each in fits.items()}}

    return _optional(fit)


def _fit_items(fit: Fit) -> Fit:
    return _optional(lambda items: [fit(item) for item in items])


def _fit_entries(fit: Fit | None) -> Fit:
    if fit is None:
        return _optional(lambda entries: list(entries.items()))
    return _optional(lambda entries: [(key, fit(value)) for key, value in entries.items()])


def _uuid_text(value: UUID | bytes) -> str:
    return str(UUID(bytes=value) if isinstance(value, bytes) else value)


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode()
    is_plain = isinstance(value, str | int | float)
    plain: JsonValue = value if is_plain else str(value)  # type: ignore[assignment] # checked
    return as_text(plain)
