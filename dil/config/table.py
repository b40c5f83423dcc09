"""The one table of all properties, from which reading, checks and documentation are derived."""

from __future__ import annotations

from collections.abc import Mapping

from dil.config.property import Group, Property
from dil.config.table_catalog import CATALOGS
from dil.config.table_conversion import CONVERSION
from dil.config.table_egress import EGRESS
from dil.config.table_http import HTTP
from dil.config.table_job import IDENTITY, SECRETS
from dil.config.table_output import PUBLISHING, WRITING
from dil.config.table_paging import PAGING
from dil.config.table_planning import PLANNING
from dil.config.table_rows import EXTRACTION
from dil.config.table_running import EVENTS, EXECUTION, STATE
from dil.config.table_schema import SCHEMA
from dil.config.table_source import SOURCE
from dil.config.table_tables import MERGING, TABLES
from dil.config.table_timelabels import TIMELABELS
from dil.config.table_warehouse import WAREHOUSE

GROUPS: tuple[Group, ...] = (
    IDENTITY,
    PLANNING,
    TIMELABELS,
    SOURCE,
    HTTP,
    PAGING,
    EXTRACTION,
    SCHEMA,
    CONVERSION,
    WRITING,
    PUBLISHING,
    TABLES,
    MERGING,
    WAREHOUSE,
    CATALOGS,
    EXECUTION,
    STATE,
    SECRETS,
    EGRESS,
    EVENTS,
)

TABLE: Mapping[str, Property] = {
    entry.name: entry for group in GROUPS for entry in group.properties
}

ALIASES: Mapping[str, str] = {
    alias: entry.name for entry in TABLE.values() for alias in entry.aliases
}

PLUGIN_PREFIX = "ms.x."
OWN_PREFIX = "ms."


def lookup(name: str) -> Property | None:
    """Return a property by its name or one of its aliases."""
    return TABLE.get(ALIASES.get(name, name))


def spans_lines(name: str) -> bool:
    """Tell whether a value of this key may go on until its brackets balance (spec README 11).

    Keys that are no property may hold JSON for ``${}``, so they may.
    """
    entry = lookup(name)
    return entry is None or entry.type.spans_lines
