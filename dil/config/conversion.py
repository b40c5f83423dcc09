"""The conversion of rows: the part of a job, and the checks of its properties with each other.

See docs/rows.md, rule F17.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dil.config.egress import COMMIT, progress_key
from dil.config.findings import Findings
from dil.config.writing import WritingSection
from dil.model.job import ClassRef, ConversionSpec, OutputFormat, PlanningSpec, StateSpec
from dil.model.messages import nearest, suggestion
from dil.model.properties import Properties
from dil.model.schema import (
    ArrayType,
    Column,
    ContractMode,
    DataType,
    MapType,
    Primitive,
    QuarantineSpec,
    RecordType,
    Schema,
)
from dil.sections.conversion import (
    ATTRIBUTES,
    BATCH,
    CONVERTERS,
    DERIVED,
    ENCRYPTED,
    MAX_FAILURES,
    ConversionSection,
    DerivedSection,
    EncryptionSection,
    NormalizerSection,
    ValidationSection,
)
from dil.sections.extraction import ExtractionSection
from dil.sections.schema import CONTRACT, SCHEMA, TARGET, SchemaSection
from dil.sections.secondary import SECONDARY, SecondarySection
from dil.sections.source import SourceSection
from dil.spi.registry import PluginKind, short_name
from dil.text.paths import compile_path

_JSON_NORMALIZER = "json-normalizer"
_AVRO_NORMALIZER = "avro-normalizer"
_VALIDATION = "in-flow-validation"
_RANGES = "csv-range-generator"
# Converters that make rows with the columns of ms.target.schema.
WITH_TARGET = (_JSON_NORMALIZER, _AVRO_NORMALIZER, _RANGES)
_RANGE_COLUMNS = 2
_NO_COLUMN = re.compile(r"CURRENTDATE|P[0-9]+D|\{\{[^{}]+\}\}|", re.IGNORECASE)
# The formats whose files hold their types.
_TYPED = {OutputFormat.AVRO, OutputFormat.PARQUET, OutputFormat.ORC}


def conversion_spec(values: Properties, converters: tuple[ClassRef, ...]) -> ConversionSpec:
    """Return the conversion part of a job: the treatment of rows between extractor and writer."""
    section, schema = values.section(ConversionSection), values.section(SchemaSection)
    return ConversionSpec(
        converters=converters,
        encrypted_fields=values.section(EncryptionSection).paths,
        keeps_columns=section.keeps_columns,
        derived_fields=values.section(DerivedSection).fields,
        date_formats=section.date_formats,
        timestamp_formats=section.timestamp_formats,
        time_formats=section.time_formats,
        zone=section.zone,
        binary_charset=section.binary_charset,
        max_failures=section.max_failures,
        target=schema.target,
        contract=schema.contract,
        quarantine=QuarantineSpec(
            schema.keeps_rejects, None if schema.max_rejects < 0 else schema.max_rejects
        ),
    )


def check_contract(values: Properties, state: StateSpec, findings: Findings) -> None:
    """Check that a contract has a schema to compare rows with, and a way to put rows aside."""
    if not findings.is_sound(CONTRACT, COMMIT, SCHEMA):
        return
    schema = values.section(SchemaSection)
    mode = schema.contract
    if mode is not ContractMode.EVOLVE and not state.enabled and not schema.columns:
        findings.problem(
            CONTRACT,
            f"is {mode}, but no schema is known: without a state store, no schema is recorded",
            "Give the columns with ms.output.schema, or set state.store.enabled=true.",
        )
    puts_aside = mode in {ContractMode.DISCARD_ROW, ContractMode.DISCARD_VALUE}
    key = progress_key(values)
    if key and (puts_aside or values.section(ConversionSection).max_failures > 0):
        findings.problem(
            key,
            "keeps progress without the rows that were put aside before",
            f"Leave it out, or set {CONTRACT}=freeze or evolve with {MAX_FAILURES}=0.",
        )


def check_conversion(
    values: Properties, converters: Sequence[ClassRef], findings: Findings
) -> None:
    """Check the built-in converters of a job, and the fields that it encrypts."""
    _check_encryption(values, findings)
    names = [short_name(PluginKind.CONVERTER, ref) for ref in converters]
    if _VALIDATION in names[:-1]:
        behind = names[names.index(_VALIDATION) + 1]
        findings.problem(
            CONVERTERS,
            f"has {behind} after {_VALIDATION}, which gives no rows",
            f"Put {_VALIDATION} last.",
        )
    grouping = [name for name in names if name in WITH_TARGET]
    if len(grouping) > 1:
        findings.problem(
            CONVERTERS,
            f"has both {grouping[0]} and {grouping[1]}, and {TARGET} can describe the rows of only "
            "one of them",
            "Use one of them in each job.",
        )
    for index, source in enumerate(values.section(SecondarySection).inputs):
        if source.category == "validation" and _VALIDATION not in names:
            findings.notice(
                SECONDARY,
                f"[{index}] is of category validation, and nothing reads it",
                f"Add {_VALIDATION} to {CONVERTERS}, or remove the entry.",
            )
    # Only the first converter gets the rows that the job's properties describe: the columns of the
    # schema and derived columns. They are unknown if rows may have more columns.
    schema, given = values.section(SchemaSection), None
    if schema.columns and schema.filters and findings.is_sound(SCHEMA):
        known = {column.name.lower() for column in schema.columns}
        added = (
            Column(field.name, Primitive("string"))
            for field in values.section(DerivedSection).fields
            if field.name.lower() not in known
        )
        given = (*schema.columns, *added)
    for name in dict.fromkeys(names):
        if name in WITH_TARGET:
            _check_grouping(name, given if name == names[0] else None, values, findings)
        elif name == _VALIDATION:
            _check_validation(given if name == names[0] else None, values, findings)


def _check_grouping(
    name: str, given: Schema | None, values: Properties, findings: Findings
) -> None:
    """Check the columns of the rows that a normaliser or range generator makes."""
    target = values.section(SchemaSection).target
    if not findings.is_sound(TARGET):
        return
    known = {column.name for column in given or ()}
    new = next((column for column in target if column.name not in known), None)
    if not target:
        findings.problem(
            CONVERTERS,
            f"has {name}, which needs {TARGET}, and that is not set",
            f"List the columns of the rows that {name} makes in {TARGET}.",
        )
    elif name == _RANGES:
        if len(target) != _RANGE_COLUMNS:
            what = f"has {len(target)} columns, and {name} makes two: start and end"
            findings.problem(TARGET, what, "List these two.")
    elif given is None:
        return
    elif new is None:
        findings.problem(
            TARGET,
            f"has no column that {name} could fill: the rows have all of them already",
            "Add the column that takes the other columns' values, of type array, map or record.",
        )
    elif known <= {column.name for column in target}:
        findings.problem(
            TARGET,
            f'has every column of the rows, so nothing goes into "{new.name}"',
            f'Leave out the columns that belong into "{new.name}".',
        )
    elif name == _JSON_NORMALIZER:
        rows = values.section(NormalizerSection).batch_size
        if found := _unfit_for_rows(new, rows):
            what, fix = found
            findings.problem(TARGET, f'"{new.name}" {what}', fix)


def _unfit_for_rows(column: Column, rows: int) -> tuple[str, str] | None:
    """Return why a column cannot take the values of so many rows, and what to do; else None."""
    match column.type:
        case ArrayType(items=RecordType() | MapType()):
            return None
        case ArrayType():
            return (
                "is an array of values other than records or maps",
                'For example "items":{"name":"row","dataType":{"type":"record","values":[...]}}.',
            )
        case RecordType() | MapType() if rows <= 1:
            return None
        case RecordType() | MapType():
            word = "map" if isinstance(column.type, MapType) else "record"
            return (
                f"is of type {word}, which holds one row, and {BATCH} is {rows}",
                f"Set {BATCH}=1, or use type array.",
            )
        case _:
            return (
                "takes the values of other columns, so it has to be of type array, map or record",
                f'Write "dataType":{{"type":"array","name":"{column.name}"}}.',
            )


def _check_validation(given: Schema | None, values: Properties, findings: Findings) -> None:
    if ATTRIBUTES not in values.explicit:
        findings.problem(
            CONVERTERS,
            f"has {_VALIDATION}, and {ATTRIBUTES} is not set; its defaults would always fail",
            f'For example {ATTRIBUTES}={{"threshold":10,"criteria":"fail"}}: 10 % or more fail.',
        )
    counted = values.section(ValidationSection).attributes.error_column
    if not counted or given is None or not findings.is_sound(ATTRIBUTES):
        return
    if len(given) == 1 and isinstance(given[0].type, ArrayType):
        # If the rows are one array, its items are counted.
        items = given[0].type.items
        given = items.columns if isinstance(items, RecordType) else ()
    names = [column.name for column in given]
    if counted not in names and not {*compile_path(counted).steps[:1]} & {*names}:
        findings.problem(
            ATTRIBUTES,
            f'counts values of errorColumn "{counted}", which {SCHEMA} does not have',
            nearest(counted, names, "Add it to the schema."),
        )


def _check_encryption(values: Properties, findings: Findings) -> None:
    """Check encrypted paths against a given schema: they must lead to strings without null."""
    section = values.section(SchemaSection)
    schema, cleansing = section.columns, section.cleansing
    if not schema or not findings.is_sound(SCHEMA, ENCRYPTED):
        return
    for path in values.section(EncryptionSection).paths:
        # Given schemas hold cleansed names; paths hold the names of the source.
        names = [str(name) for name in compile_path(path).steps]
        if cleansing.enabled:
            from dil.text.java_regex import compile_java  # few jobs encrypt

            pattern = compile_java(cleansing.pattern)
            names = [pattern.sub(lambda _: cleansing.replacement, name) for name in names]
        found = _find(names, schema)
        if isinstance(found, str):
            if found or section.filters:
                known = [column.name for column in schema]
                what = found or f"is not in {SCHEMA}, so nothing would be encrypted"
                fix = suggestion(names[0], known) or f"Correct the path, or {SCHEMA}."
                findings.problem(ENCRYPTED, f'"{path}" {what}', fix)
        elif found.type != Primitive("string"):
            what = f'"{path}" becomes text, and {SCHEMA} declares another type'
            findings.problem(ENCRYPTED, what, 'Write "dataType":{"type":"string"} there.')
        elif found.nullable:
            what = f'"{path}" is nullable in {SCHEMA}, and null cannot be encrypted'
            findings.problem(ENCRYPTED, what, 'Write "isNullable":false there.')


def _find(names: Sequence[str], schema: Schema) -> Column | str:
    """Return the column at a path, or else a text that says why nothing there can be encrypted.

    The text is empty if the schema merely lacks the column.
    """
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


def check_sources(values: Properties, findings: Findings) -> None:
    """Add a notice about derived fields that read columns that the schema does not have."""
    schema = values.section(SchemaSection).columns
    extraction = values.section(ExtractionSection)
    if not schema or not findings.is_sound(DERIVED, SCHEMA) or extraction.is_file_dump:
        return
    names = [column.name for column in schema]
    for derived in values.section(DerivedSection).fields:
        source = derived.formula.source.strip()
        if _NO_COLUMN.fullmatch(source) or source in names or _leads_to_value(source, schema):
            continue
        what = f'"{derived.name}": ms.output.schema has no column {source}'
        if extraction.data_field:
            what += ", so it has a value only if the root of the response has that path"
        else:
            what += f", so it is always {derived.formula.value or 'null'}"
        fix = "Add the column; columns missing in the schema are not read."
        findings.notice(DERIVED, what, nearest(source, names, fix))


def _leads_to_value(path: str, schema: Schema) -> bool:
    """Return whether a path leads to a column or a member of the schema (rule F12)."""
    found: DataType | None = RecordType(schema)
    for step in compile_path(path).steps:  # a path with a search has only the steps before it
        match found:
            case RecordType(columns=columns):
                found = next((column.type for column in columns if column.name == step), None)
            case MapType(values=values):
                found = values
            case ArrayType(items=items) if isinstance(step, int) or step.isdigit():
                found = items
            case _:
                return False
    return found is not None


def check_rows(values: Properties, planning: PlanningSpec, findings: Findings) -> None:
    """Add a notice to ``findings`` if the types of the job's files can differ."""
    if values.section(SchemaSection).columns or not findings.is_sound(SCHEMA):
        return
    units, uri = planning.units, values.section(SourceSection).uri.lower()
    are_several = units is None or len(units) > 1 or planning.partition != "none"
    # Databases have types of their own, except SQLite, in which each value has its own type.
    has_types = uri.startswith("jdbc:") and not uri.startswith("jdbc:sqlite")
    is_typed = values.section(WritingSection).format in _TYPED
    is_dump = values.section(ExtractionSection).is_file_dump
    if are_several and is_typed and not has_types and not is_dump:
        findings.notice(
            SCHEMA,
            "is not set: types are inferred from the rows of each work unit; files with different "
            "types are rewritten with one schema, and types that have no common type fail the run",
            "List the columns; `dil preview` prints the inferred columns, to paste.",
        )
