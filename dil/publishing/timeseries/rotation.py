"""Turns the rows of an events table into rows of a timelabel (rules T25 to T27).

Other programs write into ``<table>``. A rotation turns this table into ``_<table>_<timelabel>`` and
puts an empty table in its place. At no moment is a row invisible, doubled, or refused.

MySQL and MariaDB commit every change of a table, so there a rotation has steps (rule T26). One
RENAME takes the rows out of the base table and puts an empty table there. The view reads the
label's table before that, while the table is still empty. If the empty table has an ``old`` name,
the RENAME is done; the registry's newest entry names the label. Keys are only unique within one
base table, so a table that takes the rows of a second base table cannot have unique keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dil.errors import WriteError
from dil.publishing.timeseries.changes import entry_of
from dil.publishing.timeseries.engines import MysqlTables, PostgresqlTables
from dil.publishing.timeseries.inherited import give_next_base, obstacle
from dil.publishing.timeseries.loading import TimeseriesTable
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
    rotating = _Rotating(series, connection, rotation)
    if isinstance(series.tables, MysqlTables):
        return rotating.in_steps(series.tables)
    return rotating.in_transaction()


@dataclass(frozen=True, slots=True)
class _Rotating:
    """A rotation of a table through one connection."""

    series: TimeseriesTable
    connection: Connection
    rotation: Rotation

    def in_transaction(self) -> LabelEntry | None:
        """Rotate in one transaction; the view is locked first, then the table."""
        series, connection, rotation = self.series, self.connection, self.rotation
        tables, name = series.tables, series.names.base
        connection.begin()
        tables.limit_waiting(connection)
        base = series.base(connection)
        known = series.registry.entries(connection)
        entry = entry_of(known, rotation.label, series.windows)
        self.require_rotatable(entry, base)
        self.show(base, known.values())
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
            if not entry.is_live:
                tables.like(connection, target, base)
            self.move_rows(entry, base, name, [each.name for each in base.columns])
        after = self.rotated(entry, base, entry.rows + count)
        series.registry.put(connection, after)
        self.show(base, {**known, rotation.label: after}.values())
        connection.commit()
        return after

    def in_steps(self, tables: MysqlTables) -> LabelEntry | None:
        """Finish an interrupted rotation, then rotate."""
        series, connection, rotation = self.series, self.connection, self.rotation
        self.recover(tables)
        known = series.registry.entries(connection)
        entry = entry_of(known, rotation.label, series.windows)
        base, name = series.base(connection), series.names.base
        self.require_rotatable(entry, base)
        has_rows = connection.rows(f"SELECT 1 FROM {series.dialect.full(name)} LIMIT 1")
        if not has_rows and (entry.is_live or not rotation.takes_empty):
            self.show(base, known.values())
            return None
        recorded = replace(entry, seq=max((each.seq for each in known.values()), default=0) + 1)
        series.registry.put(connection, recorded)
        number, coming = entry.attempt + 1, series.names.label(rotation.label)
        if entry.is_live:
            coming = series.names.attempt(rotation.label, number)
        old, following = series.names.old(rotation.label, number), series.names.next_base()
        tables.like(connection, coming, base)
        tables.like(connection, following, base)
        if entry.is_live:
            tables.grow(connection, series.names.of(entry.object), base)
            tables.loosen(connection, series.names.of(entry.object))
        columns = {each.name: each.words for each in base.columns}
        self.show(base, known.values(), ViewBranch(coming, rotation.label, columns))
        tables.swap(connection, [(coming, old), (name, coming), (following, name)])
        return self.finish(tables, recorded)

    def finish(self, tables: MysqlTables, entry: LabelEntry) -> LabelEntry:
        """Record the label after the RENAME.

        If the label has rows in a table already, the rotated rows are first moved into this table.
        """
        series, connection = self.series, self.connection
        base, number = series.base(connection), entry.attempt + 1
        coming = series.names.attempt(entry.label, number)
        old = series.names.old(entry.label, number)
        if entry.is_live:
            tables.loosen(connection, series.names.of(entry.object))
        connection.begin()
        if entry.is_live:
            count = entry.rows + tables.count(connection, coming)
            self.move_rows(entry, base, coming, series.columns_of(connection, coming))
        else:
            count = tables.count(connection, series.names.label(entry.label))
        after = self.rotated(entry, base, count)
        series.registry.put(connection, after)
        connection.commit()
        self.show(base, series.registry.entries(connection).values())
        tables.drop(connection, coming)
        tables.drop(connection, old)
        return after

    def recover(self, tables: MysqlTables) -> None:
        """Finish the newest rotation, or delete its leftovers."""
        series, connection = self.series, self.connection
        known = series.registry.entries(connection)
        if not known:
            return
        entry = max(known.values(), key=lambda each: each.seq)
        names, label, number = series.names, entry.label, entry.attempt + 1
        if series.dialect.table(connection, names.old(label, number)) is not None:
            self.finish(tables, entry)
            return
        self.show(series.base(connection), known.values())
        left = [
            names.attempt(label, number),
            names.attempt(label, entry.attempt),
            names.old(label, entry.attempt),
        ]
        own = names.label(label)
        is_pending = entry.state is LabelState.PENDING
        is_placeholder = is_pending and series.dialect.table(connection, own) is not None
        if is_placeholder and not tables.count(connection, own):
            left.append(own)
        for table in left:
            tables.drop(connection, table)

    def require_rotatable(self, entry: LabelEntry, base: Table) -> None:
        """Raise if a rotation would lose properties of the table.

        Raises:
            WriteError: the label is closed or dropped, or the table has triggers, foreign keys or
                the like, or does not support transactions.
        """
        names = self.series.names
        if entry.state in {LabelState.CLOSED, LabelState.DROPPED}:
            raise WriteError(
                f"timelabel {entry.label} of {names.base.name} is {entry.state}",
                f"Let it take rows again: `dil timelabels reopen JOB.conf {entry.label}`.",
            )
        found = obstacle(self.series, self.connection)
        if found:
            raise WriteError(
                f"{names.base.name} cannot be rotated: it has {found}, which its successor would"
                " lack",
                "Drop that, or move it to the tables from which the rows come. Views can read"
                f" {names.view.name}.",
            )
        if base.problem:
            raise WriteError(
                f"{names.base.name} cannot be rotated: it {base.problem}",
                "Change the table so that it can be rotated.",
            )

    def show(self, base: Table, entries: Iterable[LabelEntry], *more: ViewBranch) -> None:
        """Let the view read these labels in order, then the newest rows."""
        series = self.series
        ordered = sorted(entries, key=lambda entry: entry.label)
        columns = {each.name: each.words for each in base.columns}
        found = branches(ordered, series.own_tables(ordered), series.names.base.schema)
        newest = ViewBranch(series.names.base, "", columns)
        series.tables.show(self.connection, base, (*found, *more, newest))

    def rotated(self, entry: LabelEntry, base: Table, rows: int) -> LabelEntry:
        """Return the entry of a label that gets the rows of the rotation."""
        return replace(
            entry,
            state=LabelState.LOADED if entry.state is not LabelState.REOPENED else entry.state,
            rows=rows,
            object=entry.object if entry.is_live else self.series.names.label(entry.label).name,
            attempt=entry.attempt + 1,
            loaded_at=self.rotation.now,
            columns={each.name: each.words for each in base.columns},
        )

    def move_rows(
        self, entry: LabelEntry, base: Table, source: TableName, columns: list[str]
    ) -> None:
        """Move all rows of a table to the table of a label, which may also hold other labels."""
        series, connection = self.series, self.connection
        own = series.names.label(entry.label)
        held = series.names.of(entry.object) if entry.is_live else own
        if series.dialect.table(connection, held) is None:
            raise WriteError(
                f"the table {held.name} of timelabel {entry.label} does not exist",
                "Restore the table, or drop the label with `dil timelabels drop`.",
            )
        if not isinstance(series.tables, MysqlTables):  # in steps, it has grown already
            series.tables.grow(connection, held, base)
        if held == own:
            series.tables.copy(connection, source, held, columns)
        else:
            series.labelled_copy(connection, source, held, columns, entry.label)
        connection.change(f"DELETE FROM {series.dialect.full(source)}")
