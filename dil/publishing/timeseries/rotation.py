"""Turns the rows of an events table into rows of a timelabel (rules T25 to T27).

Other programs write into ``<table>``. A rotation turns it into ``_<table>_<timelabel>`` and puts an
empty table in its place, without a moment in which a row is invisible, doubled, or refused.
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


def rotate(place: TimeseriesTable, connection: Connection, rotation: Rotation) -> LabelEntry | None:
    """Rotate the table once; return the label's entry, None if it had no rows to rotate.

    Raises:
        WriteError: the table does not exist, or has a property that its successor would lack.
    """
    if place.dialect.table(connection, place.names.base) is None:
        raise WriteError(
            f"there is no table {place.dialect.full(place.names.base)}",
            "Create it, or correct extract.table.name or extract.namespace.",
        )
    place.registry.make(connection)
    place.tables.lock(connection)
    if isinstance(place.tables, MysqlTables):
        return rotate_in_steps(place, place.tables, connection, rotation)
    return _in_transaction(place, connection, rotation)


def _in_transaction(
    place: TimeseriesTable, connection: Connection, rotation: Rotation
) -> LabelEntry | None:
    """Rotate in one transaction, which locks the view first and then the table."""
    tables, name = place.tables, place.names.base
    connection.begin()
    tables.limit_waiting(connection)
    base = place.base(connection)
    known = place.registry.entries(connection)
    entry = entry_of(known, rotation.label, place.windows)
    require_rotatable(place, connection, entry, base)
    tables.show(connection, base, view_branches(place, known.values(), base))
    if isinstance(tables, PostgresqlTables):
        connection.change(f"LOCK TABLE {place.dialect.full(name)} IN ACCESS EXCLUSIVE MODE")
    count = tables.count(connection, name)
    if not count and (entry.is_live or not rotation.takes_empty):
        connection.commit()  # The view exists from the first call on.
        return None
    target = place.names.label(rotation.label)
    if isinstance(tables, PostgresqlTables) and not entry.is_live:
        tables.drop(connection, target)
        tables.rename(connection, name, target)
        give_next_base(place, connection, target)
    else:
        _move_rows(place, connection, entry, base, target)
    after = rotated(place, entry, base, entry.rows + count, rotation)
    place.registry.put(connection, after)
    tables.show(
        connection, base, view_branches(place, {**known, rotation.label: after}.values(), base)
    )
    connection.commit()
    return after


def _move_rows(
    place: TimeseriesTable,
    connection: Connection,
    entry: LabelEntry,
    base: Table,
    target: TableName,
) -> None:
    """Move the rows into the label's table, which is created if it is missing."""
    columns = [each.name for each in base.columns]
    if not entry.is_live:
        place.tables.like(connection, target, base)
    move_into(place, connection, entry, base, place.names.base, columns)
    connection.change(f"DELETE FROM {place.dialect.full(place.names.base)}")  # noqa: S608
