"""JSON properties of converters as frozen models."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dil.config.path_checks import path_problem, through_members
from dil.config.schema_json import output_schema
from dil.model.json import JsonValue
from dil.model.schema import ArrayType, DataType, MapType, Primitive, RecordType, Schema
from dil.spi.reading import ShapeError, Surroundings, as_array, as_object
from dil.text.paths import Steps, compile_path, is_jsonpath

# The record whose members are the moved columns, whatever these are (B11.4).
_MOVED = RecordType(())


def _encryption_fields(value: JsonValue, around: Surroundings) -> tuple[str, ...]:
    """Return the paths, each once.

    Raises:
        ShapeError: a path is blank or leads into another one, or there is no master password.
    """
    findings: list[tuple[str, str]] = []
    paths: dict[str, Steps] = {}
    for index, item in enumerate(as_array(value)):
        if not isinstance(item, str) or not (is_jsonpath(item) or all(item.split("."))):
            findings.append((f"[{index}] is no path", 'Write names with dots: "user.token".'))
        elif found := path_problem(f"[{index}]", item, through_members):
            findings.append(found)
        else:
            paths[item] = compile_path(item).steps
    findings.extend(
        (f'has "{inner}", which lies inside "{outer}"', "Name only the values themselves.")
        for outer, steps in paths.items()
        for inner, deeper in paths.items()
        if inner != outer and deeper[: len(steps)] == steps
    )
    if findings:
        raise ShapeError(*findings)
    if paths:
        around.require_password("asks for encryption")
    return tuple(paths)


def _target_schema(value: JsonValue, around: Surroundings) -> Schema:
    """Return the columns; a container without a definition holds the moved columns (B11.4).

    Raises:
        ShapeError: as ms.output.schema.
    """
    items = as_array(value)
    open_types = {index: found for index, item in enumerate(items) if (found := _open_type(item))}
    closed = [
        {**as_object(item), "dataType": "string"} if index in open_types else item
        for index, item in enumerate(items)
    ]
    columns = output_schema(closed, around)
    return tuple(
        type(column)(column.name, open_types[index], column.nullable, column.comment)
        if index in open_types
        else column
        for index, column in enumerate(columns)
    )


def _open_type(column: JsonValue) -> DataType | None:
    """Return the type of a column that leaves open what its array, map or record holds."""
    data_type = column.get("dataType") if isinstance(column, Mapping) else None
    word, members = _word(data_type)
    if word in {"record", "object"} and not {"values", "fields"} & members.keys():
        return _MOVED
    if word == "map" and "values" not in members:
        return MapType(Primitive("string"), name=_name(members))
    if word == "array":
        items = members.get("items")
        if isinstance(items, Mapping) and "dataType" in items:
            items = items["dataType"]
        inner, inside = _word(items)
        is_open = items is None or (
            inner in {"record", "object"} and not {"values", "fields"} & inside.keys()
        )
        return ArrayType(_MOVED, name=_name(members)) if is_open else None
    return None


def _word(data_type: JsonValue) -> tuple[str, Mapping[str, JsonValue]]:
    """Return the type word in lower case, and the members that stand beside it."""
    if isinstance(data_type, str):
        return data_type.lower(), {}
    if not isinstance(data_type, Mapping):
        return "", {}
    word = data_type.get("type")
    return (word.lower(), data_type) if isinstance(word, str) else ("", {})


def _name(members: Mapping[str, JsonValue]) -> str:
    name = members.get("name")
    return name if isinstance(name, str) else ""


READERS: Mapping[str, Callable[[JsonValue, Surroundings], object]] = {
    "ms.encryption.fields": _encryption_fields,
    "ms.target.schema": _target_schema,
}
EMPTY: Mapping[str, Callable[[], object]] = {
    "ms.encryption.fields": tuple,
    "ms.target.schema": tuple,
}
