"""Turns the rows of an events table into rows of a timelabel (rules T25 to T27).

Other programs write into ``<table>``. A rotation turns this table into ``_<table>_<timelabel>`` and
puts an empty table in its place. At no moment is a row invisible, doubled, or refused.
"""

from __future__ import annotations

from dil.errors import WriteError
from dil.publishing.timeseries.changes import entry_of
from dil.publishing.timeseries.engines import MysqlTables, PostgresqlTables
from dil.publishing.timeseries.inherited import give_next_base
from dil.publishing.timeseries.loading import TimeseriesTable
from dil.publishing.timeseries.registry import LabelEntry
from dil.publishing.timeseries.rotation_in_steps import rotate_in_steps
from dil.publishing.timeseries.rotation_rules import (
    Rotation,
    move_into,
    require_rotatable,
    rotated,
    view_branches,
)
from dil.publishing.warehouse.dialect import Connection, Table, TableName


def rotate(
    series: TimeseriesTable, connection: Connection, rotation: Rotation
) -> LabelEntry | None:
    """Rotate the table once; return the label's entry, None if the table had no rows to rotate.

    Raises:
        WriteError: the table does not exist, or has a property that its successor would lack.
    """
    if series.dialect.table(connection, series.names.base) is None:
        raise WriteError(
            f"there is no table {series.dialect.full(series.names.base)}",
            "Create the table, or correct extract.table.name or extract.namespace.",
        )
    series.registry.make(connection)
    series.tables.lock(connection)
    if isinstance(series.tables, MysqlTables):
        return rotate_in_steps(series, series.tables, connection, rotation)
    return _in_transaction(series, connection, rotation)


def _in_transaction(
    series: TimeseriesTable, connection: Connection, rotation: Rotation
) -> LabelEntry | None:
    """Rotate in one transaction and return the entry; the view is locked first, then the table."""
    tables, name = series.tables, series.names.base
    connection.begin()
    tables.limit_waiting(connection)
    base = series.base(connection)
    known = series.registry.entries(connection)
    entry = entry_of(known, rotation.label, series.windows)
    require_rotatable(series, connection, entry, base)
    tables.show(connection, base, view_branches(series, known.values(), base))
    if isinstance(tables, PostgresqlTables):
        connection.change(f"LOCK TABLE {series.dialect.full(name)} IN ACCESS EXCLUSIVE MODE")
    count = tables.count(connection, name)
    if not count and (entry.is_live or not rotation.takes_empty):
        connection.commit()  # The view exists from the first call on.
        return None
    target = series.names.label(rotation.label)
    if isinstance(tables, PostgresqlTables) and not entry.is_live:
        tables.drop(connection, target)
        tables.rename(connection, name, target)
        give_next_base(series, connection, target)
    else:
        _move_rows(series, connection, entry, base, target)
    after = rotated(series, entry, base, entry.rows + count, rotation)
    series.registry.put(connection, after)
    tables.show(
        connection, base, view_branches(series, {**known, rotation.label: after}.values(), base)
    )
    connection.commit()
    return after


def _move_rows(
    series: TimeseriesTable,
    connection: Connection,
    entry: LabelEntry,
    base: Table,
    target: TableName,
) -> None:
    """Move the rows into the label's table, which is created if it is missing."""
    columns = [each.name for each in base.columns]
    if not entry.is_live:
        series.tables.like(connection, target, base)
    move_into(series, connection, entry, base, series.names.base, columns)
    connection.change(f"DELETE FROM {series.dialect.full(series.names.base)}")
