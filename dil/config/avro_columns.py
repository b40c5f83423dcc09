"""Columns, in DIL's JSON form, from an Avro schema. Source: Avro 1.12 specification, read 2026-11.

A union of null and one other type is a column that may be null. A schema may use the names of
records, enums and fixed types again after their definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dil.model.json import JsonObject, JsonValue
from dil.sections.reading import ShapeError, as_array, as_object

_FLAT = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})
_LOGICAL = {
    "date": "date",
    "time-millis": "time",
    "time-micros": "time",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "timestamp-nanos": "timestamp",
    "local-timestamp-millis": "timestamp",
    "local-timestamp-micros": "timestamp",
}
# Gobblin's writer stores these words of DIL next to a plain long.
_SOURCE_WORDS = frozenset({"date", "time", "timestamp"})


def columns_of_avro(schema: JsonObject) -> list[JsonValue]:
    """Return the columns of a record schema in the form of ``ms.output.schema``.

    Raises:
        ShapeError: the schema is no record, or one of its types cannot be a column, because the
            type contains itself or has an unknown name.
    """
    reader = _Reader()
    name = _full_name(schema, "")
    return reader.columns(schema, "", name.rpartition(".")[0], (name,))


@dataclass(slots=True)
class _Reader:
    """Remembers the named types that were defined so far, by their full names."""

    named: dict[str, tuple[JsonObject, str]] = field(default_factory=dict)

    def columns(
        self, record: JsonObject, path: str, namespace: str, inside: tuple[str, ...]
    ) -> list[JsonValue]:
        """Return the columns of a record's fields; ``inside`` names the records that contain it."""
        self.named[inside[-1]] = record, namespace
        where = path.rstrip(".") or "the schema"
        if record.get("type") != "record":
            raise ShapeError((f"{where} is no record", "Name a schema of type record."))
        fields = as_array(record.get("fields"), f"{where}.fields")
        return [
            self._column(each, index, path, namespace, inside) for index, each in enumerate(fields)
        ]

    def _column(
        self, item: JsonValue, index: int, path: str, namespace: str, inside: tuple[str, ...]
    ) -> JsonObject:
        members = as_object(item, f"{path}fields[{index}]")
        name = str(members.get("name", ""))
        where = f"{path}{name}"
        found, is_nullable = self._typed(members.get("type"), where, namespace, inside)
        if members.get("source.type") in _SOURCE_WORDS and found.get("type") in {"int", "long"}:
            found = {"type": members["source.type"]}
        column: dict[str, JsonValue] = {
            "columnName": name,
            "isNullable": is_nullable,
            "dataType": found,
        }
        if isinstance(members.get("doc"), str):
            column["comment"] = members["doc"]
        return column

    def _typed(
        self, value: JsonValue, where: str, namespace: str, inside: tuple[str, ...]
    ) -> tuple[JsonObject, bool]:
        """Return a type in DIL's form, and whether null is one of its branches."""
        branches = value if isinstance(value, list) else [value]
        others = [branch for branch in branches if branch != "null"]
        if not others:
            raise ShapeError((f"{where} is only ever null", "Leave the column out."))
        found = [self._branch(branch, where, namespace, inside) for branch in others]
        is_nullable = len(others) < len(branches)
        if len(found) == 1:
            return found[0], is_nullable
        return {"type": [each["type"] for each in found]}, is_nullable

    def _branch(
        self, branch: JsonValue, where: str, namespace: str, inside: tuple[str, ...]
    ) -> JsonObject:
        if isinstance(branch, str):
            is_flat = branch in _FLAT
            return {"type": branch} if is_flat else self._again(branch, where, namespace, inside)
        members = as_object(branch, where)
        if "logicalType" in members and (known := _logical(members)):
            return known
        word = members.get("type")
        match word:
            case "array" | "map":
                content = "items" if word == "array" else "values"
                inner, has_null = self._typed(members.get(content), where, namespace, inside)
                held: JsonObject = {"dataType": inner, "isNullable": has_null}
                return {"type": word, "name": where.rpartition(".")[2], content: held}
            case "record" | "enum" | "fixed":
                return self._named(members, where, namespace, inside)
            case _:
                other = word if isinstance(word, Mapping) else str(word)
                return self._branch(other, where, namespace, inside)

    def _named(
        self, members: JsonObject, where: str, namespace: str, inside: tuple[str, ...]
    ) -> JsonObject:
        name = _full_name(members, namespace)
        self.named[name] = members, namespace
        if members["type"] == "fixed":
            return {"type": "bytes"}
        short = name.rpartition(".")[2]
        if members["type"] == "enum":
            return {"type": "enum", "name": short, "symbols": members.get("symbols")}
        if name in inside:
            what = f"{where} is of type {name}, which contains itself without an end"
            raise ShapeError((what, "Leave the column out of the schema."))
        held = self.columns(members, f"{where}.", name.rpartition(".")[0], (*inside, name))
        return {"type": "record", "name": short, "values": held}

    def _again(self, name: str, where: str, namespace: str, inside: tuple[str, ...]) -> JsonObject:
        """Return the type that was defined before under a name."""
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self.named:
            what = f'{where} has the type "{name}", which is not defined before it'
            raise ShapeError((what, "Write out the definition there."))
        members, around = self.named[full]
        return self._named(members, where, around, inside)


def _full_name(members: JsonObject, namespace: str) -> str:
    name = str(members.get("name", ""))
    around = str(members.get("namespace", namespace))
    return name if "." in name or not around else f"{around}.{name}"


def _logical(members: JsonObject) -> JsonObject | None:
    """Return DIL's type for a logical type; None if DIL has no word for it, as for uuid."""
    logical = str(members["logicalType"])
    if logical == "decimal":
        scale = members.get("scale", 0)
        return {"type": "decimal", "precision": members.get("precision"), "scale": scale}
    return {"type": _LOGICAL[logical]} if logical in _LOGICAL else None
