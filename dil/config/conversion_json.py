"""JSON properties of converters as frozen models."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dil.config.schema_json import output_schema
from dil.config.shape import ShapeError, Surroundings, as_array, as_object, build
from dil.model.json import JsonValue
from dil.model.schema import ArrayType, DataType, MapType, Primitive, RecordType, Schema
from dil.model.validation_attributes import ValidationAttributes

# The record whose members are the moved columns, whatever these are (B11.4).
_MOVED = RecordType(())


def _encryption_fields(value: JsonValue, around: Surroundings) -> tuple[str, ...]:
    """Return the paths, each once.

    Raises:
        ShapeError: a path is blank or leads into another one, or there is no master password.
    """
    findings: list[tuple[str, str]] = []
    paths: list[str] = []
    for index, item in enumerate(as_array(value)):
        if not isinstance(item, str) or not all(item.split(".")):
            findings.append((f"[{index}] is no path", 'Write names with dots: "user.token".'))
        elif item not in paths:
            paths.append(item)
    findings.extend(
        (f'has "{inner}", which lies inside "{outer}"', "Name only the values themselves.")
        for outer in paths
        for inner in paths
        if inner.startswith(f"{outer}.")
    )
    if findings:
        raise ShapeError(*findings)
    if paths and not around.resolver.passwords:
        _report_no_password(around)
    return tuple(paths)


def _report_no_password(around: Surroundings) -> None:
    missing = " and ".join(map(str, around.resolver.missing))
    what = "asks for encryption, and there is no master password"
    what += f": {missing} cannot be found" if missing else ""
    fix = "Name the file that holds the master password in encrypt.key.loc."
    if around.needs_secrets:
        raise ShapeError((what, fix))
    around.notice(f"{what}; a run would refuse it", fix)


def _validation_attributes(value: JsonValue, around: Surroundings) -> ValidationAttributes:
    del around
    return build(ValidationAttributes, as_object(value))


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
    "ms.validation.attributes": _validation_attributes,
}
EMPTY: Mapping[str, Callable[[], object]] = {
    "ms.encryption.fields": tuple,
    "ms.target.schema": tuple,
    "ms.validation.attributes": ValidationAttributes,
}
