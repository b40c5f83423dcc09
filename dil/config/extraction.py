"""How responses become rows: the part of a job, the checks of paths and of delimited text.

See docs/formats.md.
"""

from __future__ import annotations

import re

from dil.config.egress import egress_section
from dil.config.findings import Findings
from dil.config.identity import DatasetSection
from dil.config.preprocessing import expansion
from dil.config.running import ExecutionSection
from dil.config.watermarks import PlanningSection
from dil.model.csv_settings import CsvSpec
from dil.model.job import ClassRef, ExtractionSpec, PreprocessorSpec
from dil.model.properties import Properties
from dil.model.schema import ArrayType, MapType, RecordType
from dil.sections.conversion import CSV_ORDER, ConversionSection, DerivedSection
from dil.sections.extraction import CSV, DATA_FIELD, OPTIONAL, CsvSection, ExtractionSection
from dil.sections.grammars import one_place, path_problem, through_members
from dil.sections.http import ContentTypesSection
from dil.sections.paging import PagingSection
from dil.sections.parameters import ParametersSection
from dil.sections.schema import SCHEMA, SchemaSection
from dil.spi.registry import PluginKind, short_name

_EXTRACTOR = "CsvExtractor"
# Formats in which a path leads to the rows without a search, with the paths that they allow.
_FOLLOWED = {
    "avro": one_place,
    "orc": through_members,
    "parquet": through_members,
    "xml": through_members,
}


def extraction_spec(
    values: Properties, extractor: ClassRef, preprocessors: tuple[PreprocessorSpec, ...] = ()
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
    return CsvSpec(
        settings=values.section(CsvSection).settings,
        made_up=frozenset(each.name.lower() for each in derived) - read,
        order=_order(values),
    )


def check_csv(values: Properties, extractor: ClassRef | None, findings: Findings) -> None:
    """Check ``ms.csv`` and the order of cells against the columns of ``ms.output.schema``."""
    if extractor is not None and extractor.qualname == _EXTRACTOR:
        _check_columns(values, findings)
    if not all(findings.is_sound(key) for key in (CSV, CSV_ORDER, SCHEMA)):
        return
    _check_order(values, findings)
    schema = values.section(SchemaSection).columns
    projected = values.section(CsvSection).settings.projected
    if not schema:
        if projected:
            findings.notice(
                CSV,
                "has a columnProjection, which needs ms.output.schema and has no effect",
                "Describe the projected columns in ms.output.schema.",
            )
        if _order(values):
            findings.notice(
                CSV_ORDER, "needs ms.output.schema and has no effect", "Describe the columns there."
            )
        return
    spec = _csv_spec(values)
    count = sum(column.name.lower() not in spec.made_up for column in schema)
    if projected and len(projected) != count:
        findings.problem(
            CSV,
            f"projects {len(projected)} cells, and ms.output.schema has columns for {count}",
            "Columns of derived fields do not count; all others need one cell each.",
        )
    if spec.order and len(spec.order) != len(schema):
        findings.problem(
            CSV_ORDER,
            f"has {len(spec.order)} numbers, and ms.output.schema has {len(schema)} columns",
            "Write one number for each column, -1 for null.",
        )


def _check_columns(values: Properties, findings: Findings) -> None:
    """Refuse nested columns, which no cell can have."""
    for column in values.section(SchemaSection).columns:
        if isinstance(column.type, RecordType | ArrayType | MapType):
            findings.problem(
                SCHEMA,
                f'column "{column.name}" is nested, and a cell of CSV is one value',
                "Give it a plain type, such as string.",
            )


def _order(values: Properties) -> tuple[int, ...]:
    written = values.section(ConversionSection).csv_order
    return tuple(int(text) for text in written if re.fullmatch(r"-?[0-9]{1,5}", text))


def _check_order(values: Properties, findings: Findings) -> None:
    written = values.section(ConversionSection).csv_order
    order = _order(values)
    if len(order) != len(written):
        findings.problem(
            CSV_ORDER, "holds something that is no whole number", "Write numbers: 1,0,-1."
        )
    elif max(order, default=-1) >= len(order):
        findings.problem(
            CSV_ORDER,
            f"names the cell {max(order)}, and there are only as many cells as columns, counted "
            "from 0",
            "Count from 0; -1 gives null.",
        )
