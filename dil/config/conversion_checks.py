"""Checks of the built-in converters against the schemas and each other.

Source: behaviour.md B11.1, B11.4 to B11.7; B19, checks 17, 26 and 27.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dil.config.derived_fields import DerivedSection
from dil.config.encryption import check_encryption
from dil.config.findings import Findings
from dil.config.schema import SchemaSection
from dil.config.secondary import KEY as SECONDARY
from dil.config.secondary import SecondarySection
from dil.model.job import ClassRef
from dil.model.properties import Properties
from dil.model.schema import ArrayType, Column, MapType, Primitive, RecordType, Schema
from dil.model.suggestions import nearest
from dil.model.validation_attributes import ValidationAttributes
from dil.spi.registry import BUILT_IN, PluginKind
from dil.text.paths import compile_path

_CLASSES = "converter.classes"
_SCHEMA = "ms.output.schema"
_TARGET = "ms.target.schema"
_BATCH = "ms.normalizer.batch.size"
_ATTRIBUTES = "ms.validation.attributes"
_JSON_NORMALIZER = "json-normalizer"
_AVRO_NORMALIZER = "avro-normalizer"
_VALIDATION = "in-flow-validation"
_RANGES = "csv-range-generator"
_WITH_TARGET = (_JSON_NORMALIZER, _AVRO_NORMALIZER, _RANGES)
_RANGE_COLUMNS = 2


def check_conversion(
    values: Properties, converters: Sequence[ClassRef], findings: Findings
) -> None:
    """Check the built-in converters of a job, and the fields that it encrypts."""
    check_encryption(values, findings)
    names = [_name(ref) for ref in converters]
    _check_order(names, findings)
    if _VALIDATION not in names:
        _note_unread_input(values, findings)
    for name in dict.fromkeys(names):
        # Only the first converter gets the rows that the job's properties describe.
        given = _given(values, findings) if names.index(name) == 0 else None
        _CHECKS.get(name, _nothing)(_Case(name, given, values, findings))


@dataclass(frozen=True, slots=True)
class _Case:
    """One built-in converter; ``given`` are the columns of its rows, None when not known."""

    name: str
    given: Schema | None
    values: Properties
    findings: Findings

    @property
    def target(self) -> Schema:
        return self.values.section(SchemaSection).target


def _name(ref: ClassRef) -> str:
    """Return the short name of a built-in converter, else its full name."""
    known = BUILT_IN[PluginKind.CONVERTER].items()
    return next((name for name, text in known if text == str(ref)), str(ref))


def _given(values: Properties, findings: Findings) -> Schema | None:
    """Return the columns of rows in front of the converters: the schema's and derived ones."""
    schema = values.section(SchemaSection)
    if not schema.columns or not findings.is_sound(_SCHEMA):
        return None
    if not schema.filters:
        return None  # rows may have more columns
    known = {column.name.lower() for column in schema.columns}
    added = (
        Column(field.name, Primitive("string"))
        for field in values.section(DerivedSection).fields
        if field.name.lower() not in known
    )
    return (*schema.columns, *added)


def _check_order(names: Sequence[str], findings: Findings) -> None:
    if _VALIDATION in names[:-1]:
        behind = names[names.index(_VALIDATION) + 1]
        findings.problem(
            _CLASSES,
            f"has {behind} behind {_VALIDATION}, which gives no rows",
            f"Put {_VALIDATION} last.",
        )
    grouping = [name for name in names if name in _WITH_TARGET]
    if len(grouping) > 1:
        findings.problem(
            _CLASSES,
            f"has both {grouping[0]} and {grouping[1]}, and {_TARGET} can describe the rows of one",
            "Use one of them in each job.",
        )


def _note_unread_input(values: Properties, findings: Findings) -> None:
    for index, source in enumerate(values.section(SecondarySection).inputs):
        if source.category == "validation":
            findings.notice(
                SECONDARY,
                f"[{index}] is of category validation, and nothing reads it",
                f"Add {_VALIDATION} to {_CLASSES}, or remove the entry.",
            )


def _nothing(case: _Case) -> None:
    del case


def _has_target(case: _Case) -> bool:
    """Return whether there is a target schema to check; report when it was not given."""
    if not case.findings.is_sound(_TARGET):
        return False
    if not case.target:
        case.findings.problem(
            _CLASSES,
            f"has {case.name}, which needs {_TARGET}, and that is not set",
            f"List the columns of the rows that {case.name} makes in {_TARGET}.",
        )
    return bool(case.target)


def _check_normalizer(case: _Case) -> None:
    if not _has_target(case) or case.given is None:
        return
    known = {column.name for column in case.given}
    new = next((column for column in case.target if column.name not in known), None)
    if new is None:
        case.findings.problem(
            _TARGET,
            f"has no column that {case.name} could fill: the rows have all of them already",
            "Add the column that takes the others' values, of type array, map or record.",
        )
    elif len(known - {column.name for column in case.target}) == 0:
        case.findings.problem(
            _TARGET,
            f'has every column of the rows, so nothing goes into "{new.name}"',
            f'Leave out the columns that belong into "{new.name}".',
        )
    elif case.name == _JSON_NORMALIZER:
        _check_container(case, new)


def _check_container(case: _Case, new: Column) -> None:
    kind = new.type
    if isinstance(kind, ArrayType):
        if not isinstance(kind.items, RecordType | MapType):
            case.findings.problem(
                _TARGET,
                f'"{new.name}" is an array of something else than records or maps',
                'For example "items":{"name":"row","dataType":{"type":"record","values":[...]}}.',
            )
    elif not isinstance(kind, RecordType | MapType):
        case.findings.problem(
            _TARGET,
            f'"{new.name}" takes the values of other columns, so it has to be of type array, map '
            "or record",
            f'Write "dataType":{{"type":"array","name":"{new.name}"}}.',
        )
    elif case.values.integer(_BATCH) > 1:
        word = "map" if isinstance(kind, MapType) else "record"
        case.findings.problem(
            _TARGET,
            f'"{new.name}" is of type {word}, which holds one row, and {_BATCH} is '
            f"{case.values.integer(_BATCH)}",
            f"Set {_BATCH}=1, or use type array.",
        )


def _check_ranges(case: _Case) -> None:
    if _has_target(case) and len(case.target) != _RANGE_COLUMNS:
        case.findings.problem(
            _TARGET,
            f"has {len(case.target)} columns, and {case.name} makes two: start and end",
            "List these two.",
        )


def _check_validation(case: _Case) -> None:
    if _ATTRIBUTES not in case.values.explicit:
        case.findings.problem(
            _CLASSES,
            f"has {case.name}, and {_ATTRIBUTES} is not set; its defaults would always fail",
            f'For example {_ATTRIBUTES}={{"threshold":10,"criteria":"fail"}}: 10 % or more fail.',
        )
    attributes = case.values[_ATTRIBUTES]
    column = attributes.error_column if isinstance(attributes, ValidationAttributes) else None
    if not column or case.given is None or not case.findings.is_sound(_ATTRIBUTES):
        return
    if _leads_to(column, _judged(case.given)):
        return
    case.findings.problem(
        _ATTRIBUTES,
        f'counts values of errorColumn "{column}", which {_SCHEMA} does not have',
        nearest(column, [each.name for each in _judged(case.given)], "Add it to the schema."),
    )


def _judged(given: Schema) -> Schema:
    """Return the columns of what is counted: of the items, where rows are one array (B11.6)."""
    if len(given) == 1 and isinstance(given[0].type, ArrayType):
        items = given[0].type.items
        return items.columns if isinstance(items, RecordType) else ()
    return given


_CHECKS = {
    _JSON_NORMALIZER: _check_normalizer,
    _AVRO_NORMALIZER: _check_normalizer,
    _RANGES: _check_ranges,
    _VALIDATION: _check_validation,
}


def _leads_to(path: str, columns: Schema) -> bool:
    first = compile_path(path).steps[:1]
    return any(column.name == path or (column.name,) == first for column in columns)
