"""Encryption of fields: its property, its JSON, and the check against the schema.

Source: behaviour.md B9.11; B19, check 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from dil.config.findings import Findings
from dil.config.schema import SchemaSection
from dil.model.json import JsonValue
from dil.model.path import Steps, is_jsonpath
from dil.model.properties import Properties
from dil.model.schema import ArrayType, Column, DataType, MapType, Primitive, RecordType, Schema
from dil.model.section import Scope, Section, ValueType, Written, prop
from dil.model.settings import SchemaCleansing
from dil.model.suggestions import suggestion
from dil.spi.reading import ShapeError, Surroundings, as_array
from dil.text.paths import compile_path
from dil.text.property_paths import path_problem, through_members

_SCHEMA = "ms.output.schema"
_ENCRYPTED = "ms.encryption.fields"
_ABSENT = f"is not in {_SCHEMA}, so nothing would be encrypted"


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


_Paths = Annotated[tuple[str, ...], Written(ValueType.JSON_ARRAY, read=_encryption_fields)]


@dataclass(frozen=True, slots=True)
class EncryptionSection(Section):
    """Values that are written encrypted."""

    paths: _Paths = prop(
        "ms.encryption.fields",
        "Paths, by the names of the source, of values that are replaced by `ENC(...)` of "
        "their text under the first master password. Not inside arrays; null stays null.",
        default=(),
        example='["address.city"]',
        scope=Scope.TASK,
    )


def check_encryption(values: Properties, findings: Findings) -> None:
    """Check the paths against the schema, where it is given: strings that are never null."""
    section = values.section(SchemaSection)
    schema = section.columns
    if not schema or not findings.is_sound(_SCHEMA, _ENCRYPTED):
        return
    for path in values.section(EncryptionSection).paths:
        # Given schemas hold cleansed names, paths those of the source.
        names = _cleansed([str(name) for name in compile_path(path).steps], section.cleansing)
        found = _find(names, schema)
        if isinstance(found, Column):
            _check_encrypted(path, found, findings)
        elif found or section.filters:
            known = [column.name for column in schema]
            findings.problem(
                _ENCRYPTED,
                f'"{path}" {found or _ABSENT}',
                suggestion(names[0], known) or f"Correct the path, or {_SCHEMA}.",
            )


def _check_encrypted(path: str, column: Column, findings: Findings) -> None:
    if column.type != Primitive("string"):
        findings.problem(
            _ENCRYPTED,
            f'"{path}" becomes text, and {_SCHEMA} declares another type',
            'Write "dataType":{"type":"string"} there.',
        )
    elif column.nullable:
        findings.problem(
            _ENCRYPTED,
            f'"{path}" is nullable in {_SCHEMA}, and null cannot be encrypted',
            'Write "isNullable":false there.',
        )


def _cleansed(names: Sequence[str], cleansing: SchemaCleansing) -> list[str]:
    if not cleansing.enabled:
        return list(names)
    from dil.text.java_regex import compile_java

    pattern = compile_java(cleansing.pattern)
    return [pattern.sub(lambda _: cleansing.replacement, name) for name in names]


def _find(names: Sequence[str], schema: Schema) -> Column | str:
    """Return the column at a path, why there can be none, or empty text when it is just absent."""
    data_type: DataType = RecordType(schema)
    column = Column("", data_type)
    for index, name in enumerate(names):
        if isinstance(data_type, ArrayType):
            return "leads through an array, inside which nothing can be encrypted"
        if isinstance(data_type, MapType):
            column = Column(name, data_type.values, nullable=False)
        elif isinstance(data_type, RecordType):
            known = {each.name: each for each in data_type.columns}
            if name not in known:
                return ""
            column = known[name]
        else:
            return f'leads into "{names[index - 1]}", which is no record'
        data_type = column.type
    return column
