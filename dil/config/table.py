"""The one table of all properties, from which reading, checks and documentation are derived."""

from __future__ import annotations

from collections.abc import Mapping

from dil.config.catalog import CatalogSection
from dil.config.destinations import DestinationSection, TablesSection, WarehouseSection
from dil.config.egress import EgressSection, ProgressSection
from dil.config.event_time import EventTimeSection
from dil.config.grace import GraceSection
from dil.config.identity import DatasetSection, JobSection
from dil.config.merging import MergingSection
from dil.config.output_classes import WriterSection
from dil.config.preprocessing import PreprocessingSection
from dil.config.property import Group, Property, properties_of
from dil.config.publishing import PublishingSection
from dil.config.running import EventsSection, ExecutionSection
from dil.config.secrets import SecretsSection
from dil.config.state import StateSection
from dil.config.streaming import StreamSection
from dil.config.text_checks import LintSection
from dil.config.timelabels import TimelabelsSection
from dil.config.timeseries import TimeseriesSection
from dil.config.watermarks import PlanningSection
from dil.config.writing import WritingSection
from dil.model.section import Section
from dil.sections.conversion import (
    ConversionSection,
    DerivedSection,
    EncryptionSection,
    NormalizerSection,
    RangesSection,
    ValidationSection,
)
from dil.sections.extraction import CsvSection, DumpSection, ExtractionSection
from dil.sections.file_systems import FileSystemsSection
from dil.sections.paging import PagingSection
from dil.sections.parameters import ParametersSection
from dil.sections.query import DedupeSection, QuerySection, WindowSection
from dil.sections.schema import SchemaSection
from dil.sections.secondary import SecondarySection
from dil.sections.source import SourceSection
from dil.spi.registry import built_in_sections


def _group(slug: str, title: str, *sections: type[Section]) -> Group:
    """Return a reference group: sections of this package, then sections of built-in classes."""
    every = (*sections, *built_in_sections(slug))
    entries = tuple(entry for each in every for entry in properties_of(each))
    return Group(slug, title, entries, every)


GROUPS: tuple[Group, ...] = (
    _group("identity", "Identity of a job", JobSection, DatasetSection),
    _group(
        "planning",
        "Watermarks and work units",
        PlanningSection,
        GraceSection,
        SecondarySection,
        ProgressSection,
    ),
    _group("timelabels", "Timelabels", TimelabelsSection),
    _group("event-time", "Event time and late rows", EventTimeSection),
    _group("source", "Source and connection", SourceSection),
    _group("http", "HTTP"),
    _group("paging", "Parameters, paging and sessions", ParametersSection, PagingSection),
    _group(
        "extraction",
        "Extraction",
        ExtractionSection,
        CsvSection,
        PreprocessingSection,
        DumpSection,
        EncryptionSection,
        DerivedSection,
    ),
    _group("schema", "Schema", SchemaSection),
    _group("queries", "Derived datasets", QuerySection, WindowSection, DedupeSection),
    _group(
        "conversion",
        "Conversion",
        ConversionSection,
        LintSection,
        NormalizerSection,
        ValidationSection,
        RangesSection,
    ),
    _group("writing", "Writing files", WritingSection, WriterSection),
    _group("publishing", "Publishing", PublishingSection, DestinationSection),
    _group("file-systems", "File systems", FileSystemsSection),
    _group("tables", "Tables of files", TablesSection),
    _group("merging", "Merging by key", MergingSection),
    _group("warehouse", "Warehouse tables", WarehouseSection, TimeseriesSection),
    _group("catalogs", "Catalogs", CatalogSection),
    _group("execution", "Execution", ExecutionSection),
    _group("streaming", "Streaming", StreamSection),
    _group("state", "State", StateSection),
    _group("secrets", "Secrets", SecretsSection),
    _group("egress", "Sending rows, and the audit", EgressSection),
    _group("events", "Events", EventsSection),
)

TABLE: Mapping[str, Property] = {
    entry.name: entry for group in GROUPS for entry in group.properties
}

# The sections into which a job's properties are read.
SECTIONS: tuple[type[Section], ...] = tuple(each for group in GROUPS for each in group.sections)

ALIASES: Mapping[str, str] = {
    alias: entry.name for entry in TABLE.values() for alias in entry.aliases
}


def group_of(name: str) -> Group:
    """Return the group that holds a property of the table."""
    return next(group for group in GROUPS if TABLE[name] in group.properties)


PLUGIN_PREFIX = "ms.x."
OWN_PREFIX = "ms."


def lookup(name: str) -> Property | None:
    """Return a property by its name or one of its aliases."""
    return TABLE.get(ALIASES.get(name, name))
