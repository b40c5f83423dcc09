"""``ms.warehouse.table.kind=timeseries`` and ``ms.timeseries.*``. See rules T18 and T29."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Ge

from dil.config.destinations import (
    FIELDS,
    OPERATION,
    TABLE_KIND,
    URL,
    TablesSection,
    WarehouseSection,
    is_timeseries,
)
from dil.config.findings import Findings
from dil.config.identity import TABLE_NAME
from dil.config.publishing import PUBLISH_MODE, PublishingSection, publish_mode
from dil.config.timelabels import require_labels
from dil.model.destination import (
    MAX_PARTITIONS,
    Operation,
    Physical,
    TableFormat,
    WarehouseSpec,
)
from dil.model.job import PublishMode
from dil.model.messages import quote
from dil.model.properties import Properties
from dil.model.section import ONE_OF, Duration, Int, Section, prop
from dil.model.timelabels import TimelabelSpec

RETENTION, MOST = "ms.timeseries.retention", "ms.timeseries.max.partitions"
PHYSICAL = "ms.timeseries.physical"
_REGISTRY = "timelabel_registry"
# `_<table>_<timelabel>` has 16 bytes more than the table's name; PostgreSQL cuts long names.
_PG_NAME_BYTES, _MYSQL_NAME_LENGTH = 47, 48
# SQLite takes 500 terms of UNION ALL (rule T22).
_SQLITE_PARTITIONS, _SQLITE_TERMS = 400, 500


@dataclass(frozen=True, slots=True)
class TimeseriesSection(Section):
    """How the timelabels of a table are separated, and how long they are kept."""

    retention_ms: Duration | None = prop(
        RETENTION,
        "How long a timelabel is kept after its end, such as `P90D`; a run that publishes drops "
        "older ones. Unset: for ever.",
        default=None,
        identity=False,
    )
    max_partitions: Annotated[Int, Ge(2)] | None = prop(
        MOST,
        "Most tables that the view reads, or most partitions; if there are more, the oldest ones "
        "are combined into one. Unset: 1000, SQLite 400.",
        default=None,
        identity=False,
    )
    physical: Annotated[Physical, ONE_OF] = prop(
        PHYSICAL,
        "How timelabels are separated: tables gives each a table of its own; with native "
        "`<table>` is partitioned by a column `_timelabel`, and each label is a partition of "
        "it. native is for PostgreSQL.",
        default=Physical.TABLES,
    )


def with_labels(
    warehouse: WarehouseSpec | None,
    labels: TimelabelSpec | None,
    values: Properties,
    findings: Findings,
) -> WarehouseSpec | None:
    """Return the table to load rows into, with the settings that separate its timelabels."""
    if warehouse is None or not warehouse.url.reveal():
        _note_unused(values, findings, f"{URL} is not set")
        return warehouse
    engine = warehouse.url.reveal().partition(":")[0]
    is_timeless = labels is not None and not labels.is_dated
    if is_timeseries(values):
        _check(values, warehouse.table, engine, findings)
    else:
        _note_unused(values, findings, f"{TABLE_KIND} is regular")
        is_asked = values.section(PublishingSection).mode is not None
        if is_timeless and publish_mode(values) is PublishMode.APPEND and not is_asked:
            findings.notice(
                URL,
                "has a table that rows are added to, and a second run in one period of the "
                "schedule adds the rows of its timelabel once more",
                f"Set {PUBLISH_MODE}=window_replace: a label's rows then replace its earlier rows. "
                f"Or set {PUBLISH_MODE}=append if that is meant.",
            )
    section = values.section(TimeseriesSection)
    default = _SQLITE_PARTITIONS if engine == "sqlite" else MAX_PARTITIONS
    return replace(
        warehouse,
        labels=labels,
        retention_ms=section.retention_ms,
        max_partitions=section.max_partitions or default,
        physical=section.physical,
    )


def _check(values: Properties, table: str, engine: str, findings: Findings) -> None:
    """Refuse settings that a timeseries, or a timeseries on this engine, cannot have."""
    require_labels(TABLE_KIND, 'is "timeseries"', values, findings)
    operation = values.section(WarehouseSection).operation
    mode, regular = (
        values.section(PublishingSection).mode,
        f"Leave it out, or set {TABLE_KIND}=regular.",
    )
    if operation in {Operation.REPLACE, Operation.UPSERT}:
        what = f"is {quote(str(operation))}, and a timeseries has one way to load: a timelabel's"
        findings.problem(OPERATION, f"{what} rows replace its earlier rows", regular)
    if mode not in (None, PublishMode.WINDOW_REPLACE):
        what = f"is {quote(str(mode))}, and a timeseries is published by window_replace"
        findings.problem(PUBLISH_MODE, what, regular)
    if table.lower() == _REGISTRY:
        what = f"is {quote(table)}, the name of the registry of timelabels"
        findings.problem(TABLE_NAME, what, "Choose another.")
    if engine == "postgresql" and len(table.encode()) > _PG_NAME_BYTES:
        size = f"{len(table.encode())} bytes"
        what = f"is {quote(table)}, of {size}, and each timelabel's table has 16 more"
        fix = f"PostgreSQL keeps 63 bytes of a name: use at most {_PG_NAME_BYTES}."
        findings.problem(TABLE_NAME, what, fix)
    elif engine == "mysql" and len(table) > _MYSQL_NAME_LENGTH:
        size = f"{len(table)} characters"
        what = f"is {quote(table)}, of {size}, and each timelabel's table has 16 more"
        fix = f"MySQL takes names of 64 characters: use at most {_MYSQL_NAME_LENGTH}."
        findings.problem(TABLE_NAME, what, fix)
    section = values.section(TimeseriesSection)
    most = section.max_partitions or 0
    if section.physical is Physical.NATIVE and engine != "postgresql":
        what = (
            f'is "native", and {TABLE_KIND}=timeseries has partitions of the database on PostgreSQL'
        )
        findings.problem(PHYSICAL, f"{what} only", f"Set {PHYSICAL}=tables.")
    if engine == "sqlite" and most > _SQLITE_TERMS:
        fix = f"SQLite reads at most {_SQLITE_TERMS} tables in a view."
        findings.problem(MOST, f"is {most}", fix)


def _note_unused(values: Properties, findings: Findings, why: str) -> None:
    what, fix = f"has no effect: {why}", f"Set {TABLE_KIND}=timeseries too."
    findings.unused((RETENTION, MOST), what, fix)
    if values.section(TablesSection).format is not TableFormat.FILES:
        fix = f"Leave it out; {FIELDS} names the partitions of tables of files."
    findings.unused((PHYSICAL,), what, fix)
    if TABLE_KIND in values.explicit and not values.section(WarehouseSection).url:
        findings.notice(TABLE_KIND, what, f"Set {URL} too.")
