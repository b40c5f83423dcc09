"""Inferred schemas: where the types of files can differ. Source: behaviour.md B9.3."""

from __future__ import annotations

from dil.config.findings import Findings
from dil.config.preprocessing import is_file_dump
from dil.config.schema import SchemaSection
from dil.config.writing import WritingSection
from dil.model.job import OutputFormat, PlanningSpec
from dil.model.properties import Properties
from dil.spi.source import SourceSection

_SCHEMA = "ms.output.schema"
# The formats whose files hold their types.
_TYPED = {OutputFormat.AVRO, OutputFormat.PARQUET, OutputFormat.ORC}


def check_rows(values: Properties, planning: PlanningSpec, findings: Findings) -> None:
    """Notice where the types of files can differ."""
    schema = values.section(SchemaSection).columns
    if not findings.is_sound(_SCHEMA) or is_file_dump(values):
        return
    if not schema and _types_may_differ(values, planning):
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
