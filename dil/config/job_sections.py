"""Effective properties to the sections of a job."""

from __future__ import annotations

from dil.config.delimited import csv_spec
from dil.config.egress import egress_section
from dil.config.extraction import ExtractionSection
from dil.config.identity import DatasetSection
from dil.config.paging import PagingSection
from dil.config.parameters import ParametersSection
from dil.config.preprocessing import expansion
from dil.config.schema import SchemaSection
from dil.config.watermarks import PlanningSection
from dil.model.job import (
    ClassRef,
    ExtractionSpec,
    PreprocessorSpec,
    SourceSpec,
)
from dil.model.properties import Properties
from dil.spi.http import ContentTypesSection
from dil.spi.source import SourceSection


def source_section(values: Properties, connector: ClassRef) -> SourceSpec:
    """Return where rows come from."""
    source = values.section(SourceSection)
    return SourceSpec(connector, source.uri, source.username, source.password)


def extraction_section(
    values: Properties, extractor: ClassRef, preprocessors: tuple[PreprocessorSpec, ...] = ()
) -> ExtractionSpec:
    """Return how responses become rows and how pages are walked."""
    section = values.section(ExtractionSection)
    paging, schema = values.section(PagingSection), values.section(SchemaSection)
    dataset = values.section(DatasetSection)
    return ExtractionSpec(
        extractor=extractor,
        parameters=values.section(ParametersSection).parameters,
        pagination=paging.pagination,
        session=paging.session,
        total_count_field=paging.total_count_field,
        call_interval_ms=paging.call_interval_ms,
        wait_timeout_s=paging.wait_timeout_s,
        data_field=section.data_field,
        csv=csv_spec(values),
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
    )
