"""The common part of both ways to rotate a table: the label's entry, checks, moving rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dil.errors import WriteError
from dil.publishing.timeseries.engines import PostgresqlTables
from dil.publishing.timeseries.inherited import obstacle
from dil.publishing.timeseries.loading import TimeseriesTable, labelled_copy
from dil.publishing.timeseries.registry import LabelEntry, LabelState
from dil.publishing.timeseries.view import ViewBranch, branches
from dil.publishing.warehouse.dialect import Connection, Table, TableName


@dataclass(frozen=True, slots=True)
class Rotation:
    """One rotation: the rows' label, and the rotation's time (epoch ms UTC) on the real clock.

    If ``takes_empty`` is true, a table without rows is rotated too.
    """

    label: str
    now: int
    takes_empty: bool = False


def view_branches(
    series: TimeseriesTable, entries: Iterable[LabelEntry], base: Table, *more: ViewBranch
) -> tuple[ViewBranch, ...]:
    """Return the tables in an events table's view: labels in order, then the newest rows."""
    ordered = sorted(entries, key=lambda entry: entry.label)
    columns = {each.name: each.words for each in base.columns}
    found = branches(ordered, series.own_tables(ordered), series.names.base.schema)
    return (*found, *more, ViewBranch(series.names.base, "", columns))


def rotated(
    series: TimeseriesTable, entry: LabelEntry, base: Table, rows: int, rotation: Rotation
) -> LabelEntry:
    """Return the entry of a label that gets the rows of a rotation."""
    is_live = entry.is_live
    return replace(
        entry,
        state=LabelState.LOADED if entry.state is not LabelState.REOPENED else entry.state,
        rows=rows,
        object=entry.object if is_live else series.names.label(entry.label).name,
        attempt=entry.attempt + 1,
        loaded_at=rotation.now,
        columns={each.name: each.words for each in base.columns},
    )


def require_rotatable(
    series: TimeseriesTable, connection: Connection, entry: LabelEntry, base: Table
) -> None:
    """Raise if a rotation would lose properties of the table.

    Raises:
        WriteError: the label is closed or dropped, or the table has triggers, foreign keys or the
            like, or does not support transactions.
    """
    if entry.state in {LabelState.CLOSED, LabelState.DROPPED}:
        raise WriteError(
            f"timelabel {entry.label} of {series.names.base.name} is {entry.state}",
            f"Let it take rows again: `dil timelabels reopen JOB.conf {entry.label}`.",
        )
    found = obstacle(series, connection)
    if found:
        raise WriteError(
            f"{series.names.base.name} cannot be rotated: it has {found}, which its successor would"
            " lack",
            "Drop that, or move it to the tables from which the rows come. Views can read"
            f" {series.names.view.name}.",
        )
    if base.problem:
        raise WriteError(
            f"{series.names.base.name} cannot be rotated: it {base.problem}",
            "Change the table so that it can be rotated.",
        )


def move_into(
    series: TimeseriesTable,
    connection: Connection,
    entry: LabelEntry,
    base: Table,
    source: TableName,
    columns: list[str],
) -> None:
    """Copy rows to the table of a label, which may also hold other labels."""
    own = series.names.label(entry.label)
    held = series.names.of(entry.object) if entry.is_live else own
    if series.dialect.table(connection, held) is None:
        raise WriteError(
            f"the table {held.name} of timelabel {entry.label} does not exist",
            "Restore the table, or drop the label with `dil timelabels drop`.",
        )
    if series.tables.loads_inside or isinstance(series.tables, PostgresqlTables):
        series.tables.grow(connection, held, base)
    if held == own:
        series.tables.copy(connection, source, held, columns)
    else:
        labelled_copy(series, connection, source, held, columns, entry.label)
