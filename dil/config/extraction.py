"""How responses become rows, or files as they are: the part of a job, and its checks.

See docs/formats.md, rule U6.
"""

from __future__ import annotations

import re

from dil.config.catalog import CATALOG_TYPE, CatalogSection
from dil.config.destinations import (
    DESTINATION,
    FIELDS,
    TABLE_FORMAT,
    URL,
    DestinationSection,
    TablesSection,
    WarehouseSection,
)
from dil.config.egress import COMMIT, RESUME, EgressSection, ProgressSection, egress_section
from dil.config.event_time import EVENT_COLUMN, EventTimeSection
from dil.config.findings import Findings
from dil.config.identity import DatasetSection
from dil.config.output_classes import WRITER, WriterSection
from dil.config.preprocessing import dump_name, expansion
from dil.config.publishing import FILE_EACH, PUBLISH_MODE, PublishingSection
from dil.config.running import ExecutionSection
from dil.config.timelabels import LABEL_COLUMN, TimelabelsSection
from dil.config.watermarks import PlanningSection
from dil.config.writing import SYSTEM, WritingSection
from dil.model.csv_settings import CsvSpec
from dil.model.destination import TableFormat
from dil.model.job import ClassRef, ExtractionSpec, PreprocessorSpec, PublishMode
from dil.model.properties import Properties
from dil.model.schema import ArrayType, MapType, RecordType, Schema
from dil.sections.conversion import CSV_ORDER, ConversionSection, DerivedSection
from dil.sections.extraction import (
    CSV,
    DATA_FIELD,
    FILE_NAME,
    OPTIONAL,
    CsvSection,
    ExtractionSection,
)
from dil.sections.grammars import one_place, path_problem, through_members
from dil.sections.http import ContentTypesSection
from dil.sections.paging import PagingSection
from dil.sections.parameters import ParametersSection
from dil.sections.schema import SCHEMA, SchemaSection
from dil.spi.registry import PluginKind, short_name

# Formats in which a path leads to the rows without a search, with the paths that they allow.
_FOLLOWED = {
    "avro": one_place,
    "orc": through_members,
    "parquet": through_members,
    "xml": through_members,
}
_DUMP_FIX = "Leave it out, or read the files with another ms.extractor.class."


def extraction_spec(
    values: Properties, extractor: ClassRef, preprocessors: tuple[PreprocessorSpec, ...]
) -> ExtractionSpec:
    """Return the extraction part of a job: how pages are requested, and responses become rows."""
    section = values.section(ExtractionSection)
    paging, schema = values.section(PagingSection), values.section(SchemaSection)
    dataset = values.section(DatasetSection)
    return ExtractionSpec(
        extractor=extractor,
        parameters=values.section(ParametersSection).parameters,
        memory_bytes=values.section(ExecutionSection).memory_bytes,
        pagination=paging.pagination,
        session=paging.session,
        failing=paging.failing,
        total_count_field=paging.total_count_field,
        call_interval_ms=paging.call_interval_ms,
        wait_timeout_s=paging.wait_timeout_s,
        data_field=section.data_field,
        data_field_optional=section.data_field_optional,
        csv=_csv_spec(values),
        output_schema=schema.columns or None,
        filters_by_schema=schema.filters,
        cleansing=schema.cleansing if schema.cleansing.enabled else None,
        default_types=tuple(section.default_types.items()),
        charset=section.charset,
        extra_content_types=values.section(ContentTypesSection).accepted,
        primary_keys=dataset.primary_keys,
        delta_fields=dataset.delta_fields,
        min_records=values.section(PlanningSection).min_records,
        egress=egress_section(values),
        preprocessors=preprocessors,
        expansion=expansion(values),
        most_columns=section.most_columns,
    )


def check_data_field(values: Properties, extractor: ClassRef | None, findings: Findings) -> None:
    """Refuse paths of rows that the extractor cannot follow."""
    name = short_name(PluginKind.EXTRACTOR, extractor)
    section = values.section(ExtractionSection)
    if section.data_field_optional and not section.data_field:
        findings.notice(OPTIONAL, f"has no effect without {DATA_FIELD}", f"Set {DATA_FIELD} too.")
    if name not in _FOLLOWED or not findings.is_sound(DATA_FIELD):
        return
    if found := path_problem("", section.data_field, _FOLLOWED[name]):
        what, fix = found
        findings.problem(DATA_FIELD, f"{what} in {name}", fix)


def _csv_spec(values: Properties) -> CsvSpec:
    """Return the settings of delimited text."""
    derived = values.section(DerivedSection).fields
    # A derived field that reads the column of its own name needs that column's cell.
    read = {each.formula.source.strip().lower() for each in derived}
    written = values.section(ConversionSection).csv_order
    return CsvSpec(
        settings=values.section(CsvSection).settings,
        made_up=frozenset(each.name.lower() for each in derived) - read,
        order=tuple(int(text) for text in written if re.fullmatch(r"-?[0-9]{1,5}", text)),
    )


def check_csv(values: Properties, extractor: ClassRef | None, findings: Findings) -> None:
    """Check ``ms.csv`` and the order of cells, alone and against ``ms.output.schema``."""
    schema = values.section(SchemaSection).columns
    is_csv = extractor is not None and extractor.qualname == "CsvExtractor"
    for column in schema if is_csv else ():
        if isinstance(column.type, RecordType | ArrayType | MapType):
            findings.problem(
                SCHEMA,
                f'column "{column.name}" is nested, and a cell of CSV is one value',
                "Give it a plain type, such as string.",
            )
    if not findings.is_sound(CSV, CSV_ORDER, SCHEMA):
        return
    spec = _csv_spec(values)
    if len(spec.order) != len(values.section(ConversionSection).csv_order):
        what = "holds something that is no whole number"
        findings.problem(CSV_ORDER, what, "Write numbers: 1,0,-1.")
    elif max(spec.order, default=-1) >= len(spec.order):
        findings.problem(
            CSV_ORDER,
            f"names the cell {max(spec.order)}, and there are only as many cells as columns, "
            "counted from 0",
            "Count from 0; -1 gives null.",
        )
    projected = spec.settings.projected
    if schema:
        _check_counts(spec, schema, findings)
        return
    if projected:
        what = "has a columnProjection, which needs ms.output.schema and has no effect"
        findings.notice(CSV, what, "Describe the projected columns in ms.output.schema.")
    if spec.order:
        what = "needs ms.output.schema and has no effect"
        findings.notice(CSV_ORDER, what, "Describe the columns there.")


def _check_counts(spec: CsvSpec, schema: Schema, findings: Findings) -> None:
    """Refuse numbers of projected or ordered cells that differ from the number of columns."""
    count = sum(column.name.lower() not in spec.made_up for column in schema)
    if spec.settings.projected and len(spec.settings.projected) != count:
        findings.problem(
            CSV,
            f"projects {len(spec.settings.projected)} cells, and ms.output.schema has columns for "
            f"{count}",
            "Columns of derived fields do not count; all others need one cell each.",
        )
    if spec.order and len(spec.order) != len(schema):
        findings.problem(
            CSV_ORDER,
            f"has {len(spec.order)} numbers, and ms.output.schema has {len(schema)} columns",
            "Write one number for each column, -1 for null.",
        )


def check_dump(values: Properties, findings: Findings) -> None:
    """Check that a file dump has a file name, and no property that is about rows."""
    if not values.section(ExtractionSection).is_file_dump:
        return
    if not dump_name(values):
        findings.problem(
            FILE_NAME,
            "is required by a file dump and not set",
            "Name the file below data.publisher.final.dir; {{variables}} distinguish work units.",
        )
    about_rows = {
        TABLE_FORMAT: values.section(TablesSection).format is not TableFormat.FILES,
        FIELDS: values.section(TablesSection).partition_fields,
        URL: values.section(WarehouseSection).url is not None,
        CATALOG_TYPE: values.section(CatalogSection).type != "none",
        DESTINATION: values.section(DestinationSection).name,
        WRITER: values.section(WriterSection).name,
        SYSTEM: values.section(WritingSection).system_columns,
        LABEL_COLUMN: values.section(TimelabelsSection).column,
        EVENT_COLUMN: values.section(EventTimeSection).column,
        COMMIT: values.section(ProgressSection).commit == "page",
        RESUME: values.section(EgressSection).resumes,
    }
    for key, is_set in about_rows.items():
        if is_set:
            what = "is about rows, and this job dumps files as they are"
            findings.problem(key, what, _DUMP_FIX)
    publishing = values.section(PublishingSection)
    if not publishing.file_per_unit:
        what = "is false, and files are dumped as they are: two files cannot be combined"
        findings.problem(FILE_EACH, what, _DUMP_FIX)
    if publishing.mode not in (None, PublishMode.APPEND):
        what = "does not go with a file dump: a file replaces only the file of the same name"
        findings.problem(PUBLISH_MODE, what, "Leave it out.")
