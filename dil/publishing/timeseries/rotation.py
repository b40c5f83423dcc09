"""An events table whose rows become those of a timelabel (timelabels.md 5.3 to 5.6).

Others write into ``<table>``. A rotation turns it into ``_<table>_<timelabel>`` and puts an empty
table in its place, without a moment in which a row is invisible, twice there, or refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dil.errors import WriteError
from dil.publishing.timeseries.changes import entry_of
from dil.publishing.timeseries.engines import MysqlTables, PostgresqlTables
from dil.publishing.timeseries.inherited import give_next_base, obstacle
from dil.publishing.timeseries.loading import Place, labelled_copy
from dil.publishing.timeseries.registry import LabelEntry, LabelState
from dil.publishing.timeseries.view import Branch, branches
from dil.publishing.warehouse.dialect import Connection, TableName
from dil.publishing.warehouse.types import Table


@dataclass(frozen=True, slots=True)
class Turn:
    """One rotation: which label the rows get, at which instant (epoch ms UTC) of the real clock.

    ``takes_empty`` tells that a table without rows is rotated, too.
    """

    label: str
    now: int
    takes_empty: bool = False


def rotate(place: Place, connection: Connection, turn: Turn) -> LabelEntry | None:
    """Rotate the table once; return the label's entry, None where there was nothing to rotate.

    Raises:
        WriteError: there is no table, or it has what a new one would not have.
    """
    if place.dialect.table(connection, place.names.base) is None:
        raise WriteError(
            f"there is no table {place.dialect.full(place.names.base)}",
            "Create it, or correct extract.table.name or extract.namespace.",
        )
    place.registry.make(connection)
    place.tables.lock(connection)
    if isinstance(place.tables, MysqlTables):
        from dil.publishing.timeseries.rotation_in_steps import rotate_in_steps

        return rotate_in_steps(place, place.tables, connection, turn)
    return _in_transaction(place, connection, turn)


def view_branches(
    place: Place, entries: Iterable[LabelEntry], base: Table, *more: Branch
) -> tuple[Branch, ...]:
    """Return what the view of an events table reads: labels in order, then the newest rows."""
    ordered = sorted(entries, key=lambda entry: entry.label)
    columns = {each.name: each.words for each in base.columns}
    found = branches(ordered, place.own_tables(ordered), place.names.base.schema)
    return (*found, *more, Branch(place.names.base, "", columns))


def rotated(place: Place, entry: LabelEntry, base: Table, rows: int, turn: Turn) -> LabelEntry:
    """Return the entry of a label that has the rows of a turn."""
    is_live = entry.is_live
    return replace(
        entry,
        state=LabelState.LOADED if entry.state is not LabelState.REOPENED else entry.state,
        rows=rows,
        object=entry.object if is_live else place.names.label(entry.label).name,
        attempt=entry.attempt + 1,
        loaded_at=turn.now,
        columns={each.name: each.words for each in base.columns},
    )


def require_rotatable(place: Place, connection: Connection, entry: LabelEntry, base: Table) -> None:
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


def _in_transaction(place: Place, connection: Connection, turn: Turn) -> LabelEntry | None:
    """Rotate in one transaction; the view is locked first, then the table."""
    tables, name = place.tables, place.names.base
    connection.begin()
    tables.limit_waiting(connection)
    base = place.base(connection)
    known = place.registry.entries(connection)
    entry = entry_of(known, turn.label, place.windows)
    require_rotatable(place, connection, entry, base)
    tables.show(connection, base, view_branches(place, known.values(), base))
    if isinstance(tables, PostgresqlTables):
        connection.change(f"LOCK TABLE {place.dialect.full(name)} IN ACCESS EXCLUSIVE MODE")
    count = tables.count(connection, name)
    if not count and (entry.is_live or not turn.takes_empty):
        connection.commit()  # the view is there from the first call on
        return None
    target = place.names.label(turn.label)
    if isinstance(tables, PostgresqlTables) and not entry.is_live:
        tables.drop(connection, target)
        tables.rename(connection, name, target)
        give_next_base(place, connection, target)
    else:
        _move_rows(place, connection, entry, base, target)
    after = rotated(place, entry, base, entry.rows + count, turn)
    place.registry.put(connection, after)
    tables.show(connection, base, view_branches(place, {**known, turn.label: after}.values(), base))
    connection.commit()
    return after


def _move_rows(
    place: Place, connection: Connection, entry: LabelEntry, base: Table, target: TableName
) -> None:
    """Move the rows into the label's table, which is made where there is none."""
    columns = [each.name for each in base.columns]
    if not entry.is_live:
        place.tables.like(connection, target, base)
    move_into(place, connection, entry, base, place.names.base, columns)
    connection.change(f"DELETE FROM {place.dialect.full(place.names.base)}")  # noqa: S608


def move_into(
    place: Place,
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
