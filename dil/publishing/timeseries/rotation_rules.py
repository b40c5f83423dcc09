"""What both ways to rotate a table share: the turn, its label's entry, refusals, moving rows."""

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
    """One rotation: which label the rows get, at which instant (epoch ms UTC) of the real clock.

    ``takes_empty`` says that a table without rows is rotated, too.
    """

    label: str
    now: int
    takes_empty: bool = False


def view_branches(
    place: TimeseriesTable, entries: Iterable[LabelEntry], base: Table, *more: ViewBranch
) -> tuple[ViewBranch, ...]:
    """Return the tables in the view of an events table: labels in order, then the newest rows."""
    ordered = sorted(entries, key=lambda entry: entry.label)
    columns = {each.name: each.words for each in base.columns}
    found = branches(ordered, place.own_tables(ordered), place.names.base.schema)
    return (*found, *more, ViewBranch(place.names.base, "", columns))


def rotated(
    place: TimeseriesTable, entry: LabelEntry, base: Table, rows: int, rotation: Rotation
) -> LabelEntry:
    """Return the entry of a label that has the rows of a turn."""
    is_live = entry.is_live
    return replace(
        entry,
        state=LabelState.LOADED if entry.state is not LabelState.REOPENED else entry.state,
        rows=rows,
        object=entry.object if is_live else place.names.label(entry.label).name,
        attempt=entry.attempt + 1,
        loaded_at=rotation.now,
        columns={each.name: each.words for each in base.columns},
    )


def require_rotatable(
    place: TimeseriesTable, connection: Connection, entry: LabelEntry, base: Table
) -> None:
    """Refuse what would lose more than a name.

    Raises:
        WriteError: the label is shut, or the table has triggers, foreign keys or the like, or knows
            no transactions.
    """
    if entry.state in {LabelState.CLOSED, LabelState.DROPPED}:
        raise WriteError(
            f"timelabel {entry.label} of {place.names.base.name} is {entry.state}",
            f"`dil timelabels reopen JOB.conf {entry.label}` lets it take some.",
        )
    found = obstacle(place, connection)
    if found:
        raise WriteError(
            f"{place.names.base.name} cannot be rotated: it has {found}, which the table that "
            "takes its place would not have",
            "Take that away, or put it on the tables that rows come from. Views can read "
            f"{place.names.view.name}.",
        )
    if base.problem:
        raise WriteError(
            f"{place.names.base.name} cannot be rotated: it {base.problem}", "Change the table."
        )


def move_into(
    place: TimeseriesTable,
    connection: Connection,
    entry: LabelEntry,
    base: Table,
    source: TableName,
    columns: list[str],
) -> None:
    """Copy rows to the table that holds a label, alone or with others."""
    own = place.names.label(entry.label)
    held = place.names.of(entry.object) if entry.is_live else own
    if place.dialect.table(connection, held) is None:
        raise WriteError(
            f"the table {held.name} of timelabel {entry.label} is gone",
            "Restore it, or drop the label with `dil timelabels drop`.",
        )
    if place.tables.loads_inside or isinstance(place.tables, PostgresqlTables):
        place.tables.grow(connection, held, base)
    if held == own:
        place.tables.copy(connection, source, held, columns)
    else:
        labelled_copy(place, connection, source, held, columns, entry.label)
