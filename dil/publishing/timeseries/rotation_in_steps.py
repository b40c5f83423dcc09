"""Rotates a table on databases that commit every change of a table: MySQL, MariaDB (rule T26).

One RENAME takes the rows out of the base table and puts an empty table there. The view reads the
label's table before that, while the table is still empty. If the empty table has an ``old`` name,
the RENAME is done; the registry's newest entry names the label. Keys are only unique within one
base table, so a table that takes the rows of a second base table cannot have unique keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dil.publishing.timeseries.changes import entry_of
from dil.publishing.timeseries.engines import MysqlTables
from dil.publishing.timeseries.loading import TimeseriesTable
from dil.publishing.timeseries.registry import LabelEntry, LabelState
from dil.publishing.timeseries.rotation_rules import (
    Rotation,
    move_into,
    require_rotatable,
    rotated,
    view_branches,
)
from dil.publishing.timeseries.view import ViewBranch
from dil.publishing.warehouse.dialect import Connection

Entries = Mapping[str, LabelEntry]


def rotate_in_steps(
    series: TimeseriesTable, tables: MysqlTables, connection: Connection, rotation: Rotation
) -> LabelEntry | None:
    """Finish an interrupted rotation, then rotate; return the entry of the label."""
    _recover(series, tables, connection, rotation)
    known = series.registry.entries(connection)
    entry = entry_of(known, rotation.label, series.windows)
    base = series.base(connection)
    require_rotatable(series, connection, entry, base)
    is_empty = not connection.rows(
        f"SELECT 1 FROM {series.dialect.full(series.names.base)} LIMIT 1"
    )
    if is_empty and (entry.is_live or not rotation.takes_empty):
        tables.show(connection, base, view_branches(series, known.values(), base))
        return None
    recorded = replace(entry, seq=max((each.seq for each in known.values()), default=0) + 1)
    series.registry.put(connection, recorded)
    target = series.names.label(rotation.label)
    coming = series.names.attempt(rotation.label, entry.attempt + 1) if entry.is_live else target
    old, following = series.names.old(rotation.label, entry.attempt + 1), series.names.next_base()
    tables.like(connection, coming, base)
    tables.like(connection, following, base)
    if entry.is_live:
        tables.grow(connection, series.names.of(entry.object), base)
        tables.loosen(connection, series.names.of(entry.object))
    columns = {each.name: each.words for each in base.columns}
    more = ViewBranch(coming, rotation.label, columns)
    tables.show(connection, base, view_branches(series, known.values(), base, more))
    pairs = [(coming, old), (series.names.base, coming), (following, series.names.base)]
    tables.swap(connection, pairs)
    return _finish(series, tables, connection, recorded, rotation)


def _finish(
    series: TimeseriesTable,
    tables: MysqlTables,
    connection: Connection,
    entry: LabelEntry,
    rotation: Rotation,
) -> LabelEntry:
    """Record the label and return its entry.

    If the label has rows in a table already, the rotated rows are first moved into this table.
    """
    base = series.base(connection)
    number = entry.attempt + 1
    coming, old = series.names.attempt(entry.label, number), series.names.old(entry.label, number)
    if entry.is_live:
        tables.loosen(connection, series.names.of(entry.object))
    connection.begin()
    if entry.is_live:
        count = tables.count(connection, coming)
        columns = series.columns_of(connection, coming)
        move_into(series, connection, entry, base, coming, columns)
        connection.change(f"DELETE FROM {series.dialect.full(coming)}")
        after = rotated(series, entry, base, entry.rows + count, rotation)
    else:
        count = tables.count(connection, series.names.label(entry.label))
        after = rotated(series, entry, base, count, rotation)
    series.registry.put(connection, after)
    connection.commit()
    known = series.registry.entries(connection)
    tables.show(connection, base, view_branches(series, known.values(), base))
    tables.drop(connection, coming)
    tables.drop(connection, old)
    return after


def _recover(
    series: TimeseriesTable, tables: MysqlTables, connection: Connection, rotation: Rotation
) -> None:
    """Finish the newest rotation, or delete its leftovers."""
    known = series.registry.entries(connection)
    if not known:
        return
    entry = max(known.values(), key=lambda each: each.seq)
    number = entry.attempt + 1
    if series.dialect.table(connection, series.names.old(entry.label, number)) is not None:
        _finish(series, tables, connection, entry, rotation)
        return
    base = series.base(connection)
    tables.show(connection, base, view_branches(series, known.values(), base))
    left = [series.names.attempt(entry.label, number)]
    left += [make(entry.label, entry.attempt) for make in (series.names.attempt, series.names.old)]
    own = series.names.label(entry.label)
    is_placeholder = entry.state is LabelState.PENDING and series.dialect.table(connection, own)
    if is_placeholder and not tables.count(connection, own):
        left.append(own)
    for table in left:
        tables.drop(connection, table)
