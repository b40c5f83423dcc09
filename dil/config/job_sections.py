"""Effective properties to the sections of a job."""

from __future__ import annotations

from dil.config.conversion import ConversionSection
from dil.config.csv_json import csv_section
from dil.config.egress import egress_section
from dil.config.output_checks import FILE_NAME
from dil.config.paging import PagingSection
from dil.config.parameters import ParametersSection
from dil.config.preprocessing import dump_name, expansion
from dil.config.schema import SchemaSection
from dil.config.tables import is_of_files
from dil.config.watermarks import PlanningSection
from dil.model.job import (
    Blocks,
    ClassRef,
    ExtractionSpec,
    OutputFormat,
    PreprocessorSpec,
    SourceSpec,
    WritingSpec,
)
from dil.model.properties import Properties
from dil.spi.source import SourceSection


def source_section(values: Properties, connector: ClassRef) -> SourceSpec:
    """Return where rows come from."""
    source = values.section(SourceSection)
    return SourceSpec(connector, source.uri, source.username, source.password)


def extraction_section(
    values: Properties, extractor: ClassRef, preprocessors: tuple[PreprocessorSpec, ...] = ()
) -> ExtractionSpec:
    """Return how responses become rows and how pages are walked."""
    paging, schema = values.section(PagingSection), values.section(SchemaSection)
    return ExtractionSpec(
        extractor=extractor,
        parameters=values.section(ParametersSection).parameters,
        pagination=paging.pagination,
        session=paging.session,
        total_count_field=paging.total_count_field,
        call_interval_ms=paging.call_interval_ms,
        wait_timeout_s=paging.wait_timeout_s,
        data_field=values.text("ms.data.field"),
        csv=csv_section(values),
        output_schema=schema.columns or None,
        filters_by_schema=schema.filters,
        cleansing=schema.cleansing if schema.cleansing.enabled else None,
        default_types=tuple(values.typed("ms.data.default.type", dict).items()),
        charset=values.text("ms.source.data.character.set"),
        extra_content_types=_content_types(values.typed("ms.http.response.type", dict)),
        primary_keys=values.typed("extract.primary.key.fields", tuple),
        delta_fields=values.typed("extract.delta.fields", tuple),
        min_records=values.section(PlanningSection).min_records,
        egress=egress_section(values),
        preprocessors=preprocessors,
        expansion=expansion(values),
    )


def _content_types(members: dict[str, str]) -> tuple[str, ...]:
    """Return the accepted types in lower case, none without a Content-Type (B7.8)."""
    if "content-type" not in {name.lower() for name in members}:
        return ()
    return tuple(media_type.lower() for media_type in members.values())


def writing_section(values: Properties) -> WritingSpec:
    """Return how rows become files; OTHER stands for Avro (spec README 15)."""
    return WritingSpec(
        format=_output_format(values),
        codec=values.text("writer.codec.type"),
        deflate_level=values.integer("writer.deflate.level"),
        record_count_in_names=values.boolean("writer.include.record.count.in.file.names"),
        target_bytes=values.integer("ms.writer.target.bytes"),
        row_group_rows=values.integer("ms.writer.row.group.rows"),
        epoch_seconds=values.section(ConversionSection).epoch_seconds,
        record_name=values.text("extract.table.name"),
        record_namespace=values.text("extract.namespace"),
        file_name=dump_name(values),
        file_prefix=values.text(FILE_NAME) or "part",
        blocks=Blocks(
            values.optional_integer("writer.file.replication.factor"),
            values.optional_integer("writer.file.block.size"),
        ),
        system_columns=values.typed("ms.output.system.columns", tuple),
        most_open_files=values.integer("ms.writer.open.files.max"),
        owner=values.text("writer.file.owner"),
        group=values.text("writer.file.group"),
    )


def _output_format(values: Properties) -> OutputFormat:
    """Return the format of files; those of tables and of what is loaded are Parquet."""
    if not is_of_files(values):
        return OutputFormat.PARQUET
    word = values.text("writer.output.format").lower()
    return OutputFormat.AVRO if word == "other" else OutputFormat(word)
