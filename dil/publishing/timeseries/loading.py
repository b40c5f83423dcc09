"""Loads labels on any database: their rows, and their entries in the registry.

So that a view reads few tables, the oldest labels are merged into one table (rule T22).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from dil.errors import WriteError
from dil.model.dataset import Intent, PublishedFile
from dil.model.destination import WarehouseSpec
from dil.model.interval import Interval
from dil.publishing.timeseries.changes import (
    LabelChange,
    LabelChanges,
    entry_of,
    label_changes_of,
)
from dil.publishing.timeseries.engines import Tables
from dil.publishing.timeseries.names import LABEL, Names
from dil.publishing.timeseries.registry import LabelEntry, LabelState, Registry
from dil.publishing.warehouse.attempts import CommitLostError
from dil.publishing.warehouse.dialect import Connection, Dialect, Table, TableName
from dil.publishing.warehouse.loading import Loading, SideTableRows
from dil.publishing.warehouse.records import Records, delete_by
from dil.publishing.warehouse.rows import SIGNATURE, WarehouseFiles, WarehouseRows
from dil.publishing.warehouse.shape import TableChanges
from dil.text.windows import Windows
from dil.types.warehouse import TEXT

_IN_A_STATEMENT = 200


@dataclass(frozen=True, slots=True)
class LabelLoading(Loading):
    """Checks that rows fit the base table of labels."""

    tables: Tables = field(kw_only=True)

    def _table_changes(self, connection: Connection, rows: WarehouseRows) -> TableChanges:
        return self.tables.table_changes(self.dialect.table(connection, self.table), rows)


@dataclass(frozen=True, slots=True)
class TimeseriesTable:
    """One timeseries table: its database, its names, and its records."""

    dialect: Dialect
    tables: Tables
    names: Names
    registry: Registry
    records: Records
    windows: Windows
    spec: WarehouseSpec
    files: WarehouseFiles
    late: SideTableRows

    def make(self, connection: Connection) -> None:
        """Create the tables of records; it may be repeated."""
        self.records.make(connection)
        self.registry.make(connection)

    def rows(self, intent: Intent) -> WarehouseRows:
        """Return the rows of all labels."""
        return WarehouseRows(intent.commit, self.files, adds_signature=True)

    def table_changes(self, connection: Connection, rows: WarehouseRows) -> TableChanges:
        """Return the changes that the base table needs for rows."""
        table = self.dialect.table(connection, self.names.base)
        return self.tables.table_changes(table, rows)

    def base(self, connection: Connection) -> Table:
        """Return the form of the base table.

        Raises:
            WriteError: the base table does not exist.
        """
        found = self.dialect.table(connection, self.names.base)
        if found is None:
            raise WriteError(
                f"the table {self.names.base.name}, which has the columns of all labels, does not"
                " exist",
                "Create the table again with those columns and without rows.",
            )
        return found

    def label_changes(self, intent: Intent, known: Mapping[str, LabelEntry]) -> LabelChanges:
        """Return the changes that an intent makes to labels."""
        return label_changes_of(intent.commit, known, self.windows, self.spec.retention_ms)

    def entry(self, known: Mapping[str, LabelEntry], label: str) -> LabelEntry:
        """Return the registry's entry of a label."""
        return entry_of(known, label, self.windows)

    def own_tables(self, entries: Iterable[LabelEntry]) -> dict[str, TableName]:
        """Return, by label, the tables of labels that have a table of their own."""
        return {
            each.label: name
            for each in entries
            if each.is_live and each.object == (name := self.names.label(each.label)).name
        }

    def build(
        self,
        connection: Connection,
        label_changes: LabelChanges,
        known: Mapping[str, LabelEntry],
        base: Table,
        table_changes: TableChanges,
        intent: Intent,
    ) -> dict[str, TableName]:
        """Fill a new table for each label that changes; return the new tables by label.

        If a label has a table of its own, the new table gets all rows of the label: the rows of
        work units that are not replaced are copied from the present table. If a label shares a
        table, the new table has only the new rows.
        """
        own = self.own_tables(known.values())
        has = self.records.signatures(connection, label_changes.changes.keys() & own.keys())
        built = {}
        for label, change in label_changes.changes.items():
            entry = self.entry(known, label)
            target = self.names.attempt(label, entry.attempt + 1)
            self.tables.like(connection, target, base)
            self.tables.keep_to(connection, target, (label,))
            kept = sorted(has.get(label, frozenset()) - change.replaced)
            columns = self.columns_of(connection, own[label]) if kept else []
            for low in range(0, len(kept), _IN_A_STATEMENT):
                condition, given = self.dialect.any_of(SIGNATURE, kept[low : low + _IN_A_STATEMENT])
                self.tables.copy(connection, own[label], target, columns, condition, *given)
            if change.moves:
                rows = replace(self.rows(intent), commit=change.commit(intent.commit))
                connection.load(target, table_changes.columns, rows.batches(table_changes.columns))
            # The table is limited to the label's times, if a column holds the times.
            timed = self.spec.labels.column if self.spec.labels is not None else ""
            for column in base.columns:
                if timed and column.name == timed:
                    window = Interval(entry.start_ms, entry.end_ms)
                    self.tables.bound(connection, target, column, window)
            built[label] = target
        return built

    def columns_of(self, connection: Connection, table: TableName) -> list[str]:
        """Return the names of a table's columns."""
        found = self.dialect.table(connection, table)
        return [] if found is None else [each.name for each in found.columns]

    def labelled_copy(
        self,
        connection: Connection,
        source: TableName,
        target: TableName,
        columns: Sequence[str],
        label: str,
    ) -> None:
        """Copy the rows of a label into a table with many labels."""
        quote = self.dialect.quote
        left_out = {LABEL, *self.tables.computed(connection, target)}
        names = ", ".join(quote(name) for name in columns if name not in left_out)
        connection.change(
            f"INSERT INTO {self.dialect.full(target)} ({names}, {quote(LABEL)}) "
            f"{self.tables.overriding}SELECT {names}, '{label}' FROM {self.dialect.full(source)}"
        )

    def replace_in_shared(
        self,
        connection: Connection,
        shared: TableName,
        change: LabelChange,
        new: TableName,
        columns: Sequence[str],
    ) -> None:
        """Replace rows of a label in a table with many labels by all rows of its new table."""
        which = {SIGNATURE: sorted(change.replaced), LABEL: (change.label,)}
        delete_by(connection, self.dialect, shared, which)
        self.labelled_copy(connection, new, shared, columns, change.label)

    def compact(
        self,
        connection: Connection,
        sources: Mapping[str, tuple[TableName, LabelEntry]],
        base: Table,
        taken: Collection[str],
    ) -> tuple[TableName, Mapping[str, str]]:
        """Copy labels into a new table; return its name and its columns.

        Args:
            connection: The connection to the database.
            sources: The labels in order, each with its present table and its entry.
            base: The base table, whose columns the new table has.
            taken: Names of tables that are in use or are about to be dropped.
        """
        labels = list(sources)
        numbered = (self.names.compacted(labels[0], labels[-1], number) for number in count(1))
        name = next(each for each in numbered if each.name not in taken)
        self.tables.like(connection, name, base)
        self.tables.keep_to(connection, name, labels)
        columns = {each.name: each.words for each in base.columns}
        if LABEL not in columns:
            columns[LABEL] = self.dialect.type_words(TEXT, is_key=False)
            connection.change(
                f"ALTER TABLE {self.dialect.full(name)} "
                f"ADD COLUMN {self.dialect.quote(LABEL)} {columns[LABEL]}"
            )
        for label, (source, entry) in sources.items():
            copied = self.tables.copied(entry, base)
            self.labelled_copy(connection, source, name, copied, label)
        return name, columns

    def loaded(
        self, entry: LabelEntry, name: TableName, base: Table, rows: int, intent: Intent
    ) -> LabelEntry:
        """Return the entry of a label whose table will be called ``name``."""
        is_reopened = entry.state in {LabelState.REOPENED, LabelState.CLOSED}
        return replace(
            entry,
            state=LabelState.REOPENED if is_reopened else LabelState.LOADED,
            rows=rows,
            object=name.name,
            attempt=entry.attempt + 1,
            seq=intent.sequence,
            loaded_at=intent.commit.system_time,
            closed_at=None,
            columns={each.name: each.words for each in base.columns},
        )

    def gone(self, entry: LabelEntry, sequence: int | None = None) -> LabelEntry:
        """Return the entry of a dropped label, with the number of the commit that drops it."""
        number = entry.seq if sequence is None else sequence
        return replace(entry, state=LabelState.DROPPED, rows=0, object="", columns={}, seq=number)

    def record(
        self,
        connection: Connection,
        intent: Intent,
        entries: Iterable[LabelEntry],
        dropped: frozenset[str],
    ) -> bool:
        """Record and commit an intent; if it is recorded already, roll back and return False.

        Raises:
            CommitLostError: it is unknown whether the database committed.
        """
        commit = intent.commit
        if not self.late.load(connection, commit, intent.sequence):
            connection.rollback()
            return False
        changed = list(entries)
        for entry in (*changed, *self._skipped(connection, intent, changed)):
            self.registry.put(connection, entry)
        going: list[PublishedFile] = list(commit.removes)
        if dropped:
            live = self.records.live(connection)
            going += [file for file in live if file.timelabel in dropped]
        self.records.forget_named(connection, {file.uri for file in going})
        if not self.records.enter(connection, commit, intent.sequence):
            connection.rollback()
            return False
        files = (move.target for move in commit.moves if move.target.timelabel not in dropped)
        self.records.list_files(connection, files)
        try:
            connection.commit()
        except self.dialect.errors() as error:
            raise CommitLostError(error) from error
        return True

    def _skipped(
        self, connection: Connection, intent: Intent, changed: Sequence[LabelEntry]
    ) -> Iterator[LabelEntry]:
        """Yield labels that no run reads and that have no entry yet (rule T14)."""
        if not intent.commit.run.skipped:
            return
        known = {**self.registry.entries(connection), **{each.label: each for each in changed}}
        for label in sorted({each.timelabel or "" for each in intent.commit.run.skipped} - {""}):
            if label not in known:
                entry = entry_of(known, label, self.windows)
                yield replace(entry, state=LabelState.SKIPPED, seq=intent.sequence)


def with_columns(
    entries: Mapping[str, LabelEntry], name: str, columns: Mapping[str, str]
) -> dict[str, LabelEntry]:
    """Return the entries of a table with many labels, with the table's present columns."""
    return {
        each.label: replace(each, columns=columns)
        for each in entries.values()
        if each.is_live and each.object == name
    }


def oldest(entries: Sequence[LabelEntry], own: Collection[str], most: int) -> tuple[str, ...]:
    """Return the labels that should share a table, oldest first; empty if the view has room.

    One call frees a quarter of the room, so that not every new label causes a compaction.

    Args:
        entries: The registry, in order of labels.
        own: The labels that have a table of their own.
        most: The most tables that the view may read.
    """
    live = [each for each in entries if each.is_live]
    tables = len({each.object for each in live})
    if tables <= most:
        return ()
    labels = [each.label for each in live if each.label in own]
    return tuple(labels[: tables - most + 1 + most // 4])
