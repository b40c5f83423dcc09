"""Checks properties that name columns of the rows, if a schema names the columns.

Published rows have the columns of ``ms.output.schema`` and of derived fields, or of the
``ms.target.schema`` of a normaliser. Names are compared in the letter case of the rows; a given
schema has cleansed names. If types are inferred, or a class of the job's own makes the rows, the
columns are unknown before the run.
"""

from __future__ import annotations

from collections.abc import Mapping

from dil.config.conversion import WITH_TARGET
from dil.config.destinations import FIELDS, TablesSection
from dil.config.event_time import EVENT_COLUMN, PARTITION_COLUMN, EventTimeSection
from dil.config.findings import Findings
from dil.config.identity import DELTAS, KEYS, DatasetSection
from dil.config.merging import OP_FIELD, MergingSection
from dil.config.publishing import publish_mode
from dil.config.timelabels import LABEL_COLUMN, TimelabelsSection
from dil.config.writing import SYSTEM, WritingSection
from dil.model.job import Plugins, PublishMode
from dil.model.messages import nearest_word, quote
from dil.model.properties import Properties
from dil.model.schema import JSON, ArrayType, DataType, MapType, Primitive, RecordType, Schema
from dil.sections.conversion import DERIVED, ConversionSection, DerivedSection
from dil.sections.extraction import ExtractionSection
from dil.sections.schema import FILTERS, SCHEMA, TARGET, SchemaSection
from dil.spi.registry import BUILT_IN, PluginKind, short_name
from dil.text.paths import compile_path

_EXTRACTORS = ("json", "csv", "avro", "xml", "parquet", "orc")
_DATABASES = "jdbc"
# None stands for a type that the schema does not decide.
_TIMES = {None, Primitive("timestamp"), Primitive("date"), Primitive("long")}
_EVENT_TIMES = {*_TIMES, Primitive("int")}
_NESTED = (ArrayType, MapType, RecordType)
_SHOWN = 10


def check_columns(values: Properties, plugins: Plugins, findings: Findings) -> None:
    """Refuse unknown column names if rows depend on them; else give a notice."""
    is_dump = values.section(ExtractionSection).is_file_dump
    if is_dump or not findings.is_sound(SCHEMA, TARGET, DERIVED, SYSTEM):
        return
    found = _columns(values, plugins)
    if found is None:
        return
    origin, columns = found
    is_merged = publish_mode(values) is PublishMode.MERGE
    dataset, events = values.section(DatasetSection), values.section(EventTimeSection)
    several: dict[str, tuple[str, ...]] = {
        KEYS: dataset.primary_keys,
        DELTAS: dataset.delta_fields,
        FIELDS: values.section(TablesSection).partition_fields,
        OP_FIELD: (values.section(MergingSection).op_field,) if is_merged else (),
        LABEL_COLUMN: (values.section(TimelabelsSection).column,),
        EVENT_COLUMN: (events.column,),
        PARTITION_COLUMN: (events.stream_column,),
    }
    named = ((key, text) for key, texts in several.items() for text in dict.fromkeys(texts) if text)
    for key, text in named:
        name = _column_of(text, columns) if key in {EVENT_COLUMN, PARTITION_COLUMN} else text
        if name not in columns:
            report = findings.problem if is_merged or key not in {KEYS, DELTAS} else findings.notice
            report(key, f"names {quote(name)}, which is no column of {origin}", _fix(name, columns))
        elif is_merged and key in {KEYS, DELTAS, OP_FIELD} and isinstance(columns[name], _NESTED):
            findings.problem(
                key,
                f"names {quote(name)}, a column of records, lists or maps in {origin}: rows can"
                " be compared by plain values only",
                f"Name another column, or take a member out with {DERIVED}.",
            )
        elif key == LABEL_COLUMN and columns[name] not in _TIMES:
            findings.problem(
                key,
                f"names {quote(name)}, which holds no times in {origin}",
                "Name a column of type timestamp, date, or long (epoch milliseconds); texts become "
                "times if the schema declares them as times.",
            )
        elif key == EVENT_COLUMN and name == text and columns[name] not in _EVENT_TIMES:
            findings.problem(
                key,
                f"names {quote(name)}, which holds no times in {origin}",
                "Name a column of type timestamp or date, or of whole numbers (epoch"
                " milliseconds); texts become times if the schema declares them as times.",
            )


def check_json_columns(values: Properties, plugins: Plugins, findings: Findings) -> None:
    """Refuse JSON columns where rows do not come from JSON, or where columns are found in rows."""
    schema = values.section(SchemaSection)
    target = _json_column(schema.target)
    if target:
        findings.problem(
            TARGET, f'"{target}" has the type {JSON}', "Write string: the column holds the text."
        )
    column = _json_column(schema.columns)
    if not column:
        return
    source = short_name(PluginKind.CONNECTOR, plugins.connector)
    extractor = short_name(PluginKind.EXTRACTOR, plugins.extractor)
    is_known = extractor in BUILT_IN[PluginKind.EXTRACTOR] and extractor != "json"
    if source == _DATABASES or is_known:
        findings.problem(
            SCHEMA,
            f'"{column}" has the type {JSON}, which only rows of JSON have',
            "Declare the column as string, or with the type that it has in the source.",
        )
    elif not schema.filters:
        findings.problem(
            SCHEMA,
            f'"{column}" has the type {JSON}, and {FILTERS}=false lets DIL find columns in rows',
            f"Leave {FILTERS} out, and list all columns in {SCHEMA}.",
        )


def _json_column(columns: Schema) -> str:
    """Return the path of the first JSON column, at any depth; empty text if there is none."""
    inner = ((column.name, _json_part(column.type)) for column in columns)
    return next((f"{name}{part}" for name, part in inner if part is not None), "")


def _json_part(data_type: DataType) -> str | None:
    """Return the path of a JSON value below a value of this type, None if there is none."""
    match data_type:
        case Primitive(word=word):
            return "" if word == JSON else None
        case ArrayType(items=inner) | MapType(values=inner):
            part = _json_part(inner)
            return None if part is None else f"[]{part}"
        case RecordType(columns=columns):
            below = _json_column(columns)
            return f".{below}" if below else None
        case _:
            return None


def _column_of(text: str, columns: Mapping[str, object]) -> str:
    """Return the first step of a path; a column's name, and any other text, stays unchanged."""
    if text in columns:
        return text
    try:
        steps = compile_path(text).steps
    except ValueError:
        return text  # another check reports a path that cannot be read
    return str(steps[0]) if len(steps) > 1 else text


def _columns(
    values: Properties, plugins: Plugins
) -> tuple[str, Mapping[str, DataType | None]] | None:
    """Return the property with the schema, and the types by column; None if they are unknown.

    A type is None if the schema does not decide it.
    """
    schema, writing = values.section(SchemaSection), values.section(WritingSection)
    if values.section(ConversionSection).keeps_columns:
        return None  # columns of earlier runs are kept, whatever the schema says now
    names = [short_name(PluginKind.CONVERTER, ref) for ref in plugins.converters]
    if any(name not in WITH_TARGET for name in names):
        return None
    origin, columns = (TARGET, schema.target) if names else (SCHEMA, schema.columns)
    known: dict[str, DataType | None] = {column.name: column.type for column in columns}
    if not names:
        source = short_name(PluginKind.CONNECTOR, plugins.connector)
        extractor = short_name(PluginKind.EXTRACTOR, plugins.extractor)
        is_given = source in BUILT_IN[PluginKind.CONNECTOR] and extractor in _EXTRACTORS
        if not (is_given and schema.filters and known):  # rows may have more
            return None
        if source == _DATABASES:
            known = dict.fromkeys(known)  # columns of a database keep their types
        known |= {field.name: None for field in values.section(DerivedSection).fields}
    return (origin, known | dict.fromkeys(writing.system_columns)) if known else None


def _fix(name: str, columns: Mapping[str, object]) -> str:
    if near := nearest_word(name, columns):
        letters = " Upper and lower case count." if near.lower() == name.lower() else ""
        return f'Did you mean "{near}"?{letters}'
    shown = ", ".join(list(columns)[:_SHOWN])
    more = len(columns) - _SHOWN
    return f"Name one of {shown}{f' and {more:,} more' if more > 0 else ''}; or add the column."
