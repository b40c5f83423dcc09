"""Checks of ``ms.encryption.fields`` against the schema.

Source: behaviour.md B9.11; B19, check 8.
"""

from __future__ import annotations

from collections.abc import Sequence

from dil.config.findings import Findings
from dil.config.schema import SchemaSection
from dil.model.properties import Properties
from dil.model.schema import ArrayType, Column, DataType, MapType, Primitive, RecordType, Schema
from dil.model.settings import SchemaCleansing
from dil.model.suggestions import suggestion
from dil.text.paths import compile_path

_SCHEMA = "ms.output.schema"
_ENCRYPTED = "ms.encryption.fields"
_ABSENT = f"is not in {_SCHEMA}, so nothing would be encrypted"


def check_encryption(values: Properties, findings: Findings) -> None:
    """Check the paths against the schema, where it is given: strings that are never null."""
    section, paths = values.section(SchemaSection), values[_ENCRYPTED]
    schema = section.columns
    if not schema or not isinstance(paths, tuple):
        return
    if not findings.is_sound(_SCHEMA, _ENCRYPTED):
        return
    for path in paths:
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
