"""Derived fields: their property, its JSON, and the columns they are made of.

Source: behaviour.md B10, B19, check 7.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from dil.config.extraction import ExtractionSection
from dil.config.findings import Findings
from dil.config.preprocessing import is_file_dump
from dil.config.schema import SchemaSection
from dil.model.json import JsonValue
from dil.model.path import Step
from dil.model.properties import Properties
from dil.model.schema import ArrayType, Column, DataType, MapType, RecordType
from dil.model.section import Scope, Section, ValueType, Written, prop
from dil.model.settings import DerivedField, Formula
from dil.model.suggestions import REGEX_FIX, ZONE_FIX, nearest
from dil.spi.reading import (
    ShapeError,
    Surroundings,
    as_array,
    as_object,
    build,
    each,
    texts,
)
from dil.text.paths import compile_path
from dil.text.property_paths import path_problem
from dil.text.zones import find_zone

_DERIVED = "ms.derived.fields"
_SCHEMA = "ms.output.schema"
_NO_COLUMN = re.compile(r"CURRENTDATE|P[0-9]+D|\{\{[^{}]+\}\}|", re.IGNORECASE)
_CLOCK = re.compile(r"CURRENTDATE|P[0-9]+D", re.IGNORECASE)
_EXAMPLE = """\
[
  {"name": "region", "formula": {"type": "string", "source": "{{region}}"}},
  {"name": "source", "formula": {"type": "string", "value": "shop"}},
  {"name": "extracted_at", "formula": {"type": "epoc", "source": "CURRENTDATE"}},
  {"name": "ordered_ms", "formula": {"type": "epoc", "source": "ordered",
    "format": "yyyy-MM-dd", "timezone": "UTC"}},
  {"name": "year", "formula": {"type": "regexp", "source": "ordered", "format": "^([0-9]{4})"}},
  {"name": "is_open", "formula": {"type": "boolean", "source": "open", "value": "false"}},
  {"name": "lines", "formula": {"type": "int", "source": "address.line"}},
  {"name": "total", "formula": {"type": "number", "source": "amount"}}]"""


def _derived_fields(value: JsonValue, around: Surroundings) -> tuple[DerivedField, ...]:
    del around
    found = each(as_array(value), _derived_field)
    names = [field.name.lower() for field in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ShapeError((f'defines "{twice[0]}" more than once', "Names ignore letter case."))
    return found


def _derived_field(item: JsonValue, where: str) -> DerivedField:
    written = as_object(item, where)
    members: dict[str, object] = dict(written)
    if "formula" in written:
        members["formula"] = texts(as_object(written["formula"], f"{where}.formula"))
    field = build(DerivedField, members, where)
    place = f'{where} "{field.name}"'
    if _CLOCK.fullmatch(field.formula.source) and field.formula.type != "epoc":
        raise ShapeError(
            (f"{place} takes {field.formula.source}, which only type epoc can", "Use type epoc.")
        )
    if found := path_problem(f"{where}.formula.source", field.formula.source.strip()):
        raise ShapeError(found)
    _CHECKS.get(field.formula.type, _nothing)(field.formula, place)
    return field


def _nothing(formula: Formula, place: str) -> None:
    del formula, place


def _epoc(formula: Formula, place: str) -> None:
    try:
        if formula.timezone:
            find_zone(formula.timezone)
    except ValueError as error:
        raise ShapeError((f"{place}: {error}", ZONE_FIX)) from error
    if formula.format and formula.format.lower() != "iso":
        from dil.text.joda import compile_pattern  # few jobs have patterns
        from dil.text.joda_mistakes import pattern_fix

        try:
            compile_pattern(formula.format)
        except ValueError as error:
            raise ShapeError((f"{place}: {error}", pattern_fix(formula.format))) from error


def _regexp(formula: Formula, place: str) -> None:
    from dil.text.java_regex import compile_java

    try:
        compile_java(formula.format or "(.*)")
    except ValueError as error:
        raise ShapeError((f"{place}: {error}", REGEX_FIX)) from error


_CHECKS = {"epoc": _epoc, "regexp": _regexp}


_Fields = Annotated[tuple[DerivedField, ...], Written(ValueType.JSON_ARRAY, read=_derived_fields)]


@dataclass(frozen=True, slots=True)
class DerivedSection(Section):
    """Columns that are calculated."""

    fields: _Fields = prop(
        "ms.derived.fields",
        "Columns calculated for each row and added after its own.",
        default=(),
        example=_EXAMPLE,
        variables=True,
        scope=Scope.TASK,
    )


def check_sources(values: Properties, findings: Findings) -> None:
    """Notice derived fields of columns that the schema does not have."""
    schema = values.section(SchemaSection).columns
    if not schema or not findings.is_sound(_DERIVED, _SCHEMA) or is_file_dump(values):
        return
    for derived in values.section(DerivedSection).fields:
        source = derived.formula.source.strip()
        if _NO_COLUMN.fullmatch(source) or _is_column(source, schema):
            continue
        what = f'"{derived.name}": ms.output.schema has no column {source}'
        if values.section(ExtractionSection).data_field:
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
    """Return whether a path leads to something in the schema (B9.1)."""
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
