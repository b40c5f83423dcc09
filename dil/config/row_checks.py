"""Checks of what rows are made of: columns of derived fields, inferred schemas.

Source: behaviour.md B10.2, B9.3.
"""

from __future__ import annotations

import re

from dil.config.findings import Findings
from dil.config.preprocessing import is_file_dump
from dil.config.schema import SchemaSection
from dil.config.writing import WritingSection
from dil.model.job import OutputFormat, PlanningSpec
from dil.model.path import Step
from dil.model.properties import Properties
from dil.model.schema import ArrayType, Column, DataType, MapType, RecordType
from dil.model.settings import DerivedField
from dil.model.suggestions import nearest
from dil.spi.source import SourceSection
from dil.text.paths import compile_path

_DERIVED = "ms.derived.fields"
_SCHEMA = "ms.output.schema"
_NO_COLUMN = re.compile(r"CURRENTDATE|P[0-9]+D|\{\{[^{}]+\}\}|", re.IGNORECASE)
# The formats whose files hold their types.
_TYPED = {OutputFormat.AVRO, OutputFormat.PARQUET, OutputFormat.ORC}


def check_rows(values: Properties, planning: PlanningSpec, findings: Findings) -> None:
    """Check the sources of derived fields, and whether the types of files can differ."""
    schema = values.section(SchemaSection).columns
    if not findings.is_sound(_SCHEMA) or is_file_dump(values):
        return
    if schema:
        _check_sources(values, schema, findings)
    elif _types_may_differ(values, planning):
        findings.notice(
            _SCHEMA,
            "is not set: types are inferred from the rows of each work unit; files that differ are "
            "written again with one schema, and types that cannot be one fail the run",
            "List the columns; `dil explain ms.output.schema` shows how.",
        )


def _types_may_differ(values: Properties, planning: PlanningSpec) -> bool:
    units = planning.units
    are_several = units is None or len(units) > 1 or planning.partition != "none"
    uri = values.section(SourceSection).uri.lower()
    # Databases have types of their own, but for SQLite, where each value has one.
    has_types = uri.startswith("jdbc:") and not uri.startswith("jdbc:sqlite")
    is_typed = values.section(WritingSection).format in _TYPED
    return are_several and is_typed and not has_types


def _check_sources(values: Properties, schema: tuple[Column, ...], findings: Findings) -> None:
    fields = values[_DERIVED] if findings.is_sound(_DERIVED) else ()
    for derived in fields if isinstance(fields, tuple) else ():
        if not isinstance(derived, DerivedField):
            continue
        source = derived.formula.source.strip()
        if _NO_COLUMN.fullmatch(source) or _is_column(source, schema):
            continue
        what = f'"{derived.name}": ms.output.schema has no column {source}'
        if values.text("ms.data.field"):
            what += ", so it has a value only where the root of the response has that path"
        else:
            what += f", so it is always {derived.formula.value or 'null'}"
        names = [column.name for column in schema]
        findings.notice(
            _DERIVED,
            what,
            nearest(source, names, "Add the column; what the schema leaves out is not read."),
        )


def _is_column(path: str, schema: tuple[Column, ...]) -> bool:
    """Tell whether a path leads to something in the schema (B9.1)."""
    if any(column.name == path for column in schema):
        return True
    steps = compile_path(path).steps  # of a search, those before it
    if not steps:
        return True
    found = next((column.type for column in schema if column.name == steps[0]), None)
    for step in steps[1:]:
        if found is None:
            return False
        found = _member(found, step)
    return found is not None


def _member(data_type: DataType, step: Step) -> DataType | None:
    match data_type:
        case RecordType():
            columns = (column.type for column in data_type.columns if column.name == step)
            return next(columns, None)
        case MapType():
            return data_type.values
        case ArrayType():
            is_index = isinstance(step, int) or step.isdigit()
            return data_type.items if is_index else None
        case _:
            return None
