"""Loads and shows labels in one transaction: PostgreSQL, DuckDB, SQLite (rule T25).

On a server each label is loaded before the transaction. The transaction then only changes names, so
that readers wait only for moments.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dil.databases.statements import MARK
from dil.model.dataset import Intent
from dil.publishing.timeseries.changes import LabelChanges
from dil.publishing.timeseries.loading import TimeseriesTable, oldest, with_columns
from dil.publishing.timeseries.names import LABEL
from dil.publishing.timeseries.registry import LabelEntry, LabelState
from dil.publishing.timeseries.view import branches
from dil.publishing.warehouse.dialect import BUSY, Connection, Table, TableName

log = logging.getLogger(__name__)

# The number of attempts to change the names if a reader blocks them; loaded rows are kept.
_TRIES = 5
_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class TransactionLoader:
    """Changes the labels of a table through one connection."""

    series: TimeseriesTable
    connection: Connection

    def carry_out(self, intent: Intent) -> None:
        """Load the labels of an intent, unless they are loaded; repeating it changes nothing."""
        series, connection = self.series, self.connection
        series.make(connection)
        series.tables.lock(connection)
        series.tables.require_own(connection)
        if series.records.has(connection, intent.commit.run_id):
            return
        if series.tables.loads_inside:
            connection.begin()
        table_changes = series.table_changes(connection, series.rows(intent))
        series.tables.alter(connection, table_changes.statements)
        base = series.base(connection)
        known = series.registry.entries(connection)
        label_changes = series.label_changes(intent, known)
        if not series.tables.loads_inside:
            for label in sorted(label_changes.changes.keys() - known.keys()):
                series.registry.put(connection, series.entry(known, label))
        built = series.build(connection, label_changes, known, base, table_changes, intent)
        if not series.tables.loads_inside:
            connection.begin()
        self._switch_when_free(intent, base, built)

    def drop_empty(self, labels: frozenset[str]) -> None:
        """Drop labels that have no rows, and so no files that a commit could remove."""
        self.series.tables.lock(self.connection)
        self.series.tables.require_own(self.connection)
        base = self.series.base(self.connection)
        self.connection.begin()
        switch = _Switch.begun(self.series, self.connection, base)
        switch.drop(labels)
        switch.show()
        for entry in switch.changed_entries():
            self.series.registry.put(self.connection, entry)
        self.connection.commit()

    def _switch_when_free(
        self, intent: Intent, base: Table, built: Mapping[str, TableName]
    ) -> None:
        series = self.series
        for number in range(_TRIES):
            try:
                self._switch(intent, base, built)
            except series.dialect.errors() as error:
                found = series.dialect.diagnose(error)
                is_last = number + 1 == _TRIES or series.tables.loads_inside
                if found.fault not in BUSY or is_last:
                    raise
                log.info("%s: %s; trying again", series.names.base.name, found.text)
                self.connection.rollback()
                time.sleep(_PAUSE_S * 2**number)
                self.connection.begin()
            else:
                return

    def _switch(self, intent: Intent, base: Table, built: Mapping[str, TableName]) -> None:
        """Show the loaded tables in place of the earlier ones."""
        series, connection = self.series, self.connection
        switch = _Switch.begun(series, connection, base)
        known = dict(switch.entries)
        label_changes = series.label_changes(intent, known)
        for label, change in label_changes.changes.items():
            entry = series.entry(known, label)
            is_shared = entry.is_live and label not in switch.now
            name = series.names.of(entry.object) if is_shared else series.names.label(label)
            if is_shared:
                series.tables.grow(connection, name, base)
                columns = [each.name for each in base.columns]
                series.replace_in_shared(connection, name, change, built[label], columns)
                switch.drops.append(built[label])
                switch.shares = True
                condition = f"{series.dialect.quote(LABEL)} = '{label}'"
                rows = series.tables.count(connection, name, condition)
            else:
                rows = series.tables.count(connection, built[label])
                switch.drops.append(name)
                switch.renames.append((built[label], name))
                switch.coming[name] = (label,)
                switch.now[label] = built[label]
            switch.entries[label] = series.loaded(entry, name, base, rows, intent)
            switch.changed.add(label)
            if is_shared:
                shared = with_columns(switch.entries, name.name, switch.entries[label].columns)
                switch.entries.update(shared)
                switch.changed.update(shared)
        switch.drop(label_changes.gone, intent.sequence)
        switch.compact()
        switch.show()
        series.record(connection, intent, switch.changed_entries(), label_changes.gone)


@dataclass
class _Switch:
    """Pending names in a transaction: the present table of each label, and tables that change.

    ``coming`` are the labels of tables that readers have not seen yet, by the tables' final names;
    ``shares`` is true if rows of a table with many labels changed.
    """

    series: TimeseriesTable
    connection: Connection
    base: Table
    entries: dict[str, LabelEntry]
    now: dict[str, TableName]
    drops: list[TableName] = field(default_factory=list)
    renames: list[tuple[TableName, TableName]] = field(default_factory=list)
    coming: dict[TableName, tuple[str, ...]] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    shares: bool = False

    @classmethod
    def begun(cls, series: TimeseriesTable, connection: Connection, base: Table) -> _Switch:
        """Return the names as they are now, in a transaction that does not wait long for locks."""
        series.tables.limit_waiting(connection)
        known = series.registry.entries(connection)
        return cls(series, connection, base, known, series.own_tables(known.values()))

    def changed_entries(self) -> list[LabelEntry]:
        return [self.entries[label] for label in sorted(self.changed)]

    def drop(self, gone: frozenset[str], sequence: int | None = None) -> None:
        series = self.series
        for label in sorted(gone):
            entry = series.entry(self.entries, label)
            own = self.now.pop(label, None)
            if own is not None:
                self.drops.append(own)
            elif entry.is_live:
                full = series.dialect.full(series.names.of(entry.object))
                quoted = series.dialect.quote(LABEL)
                self.connection.change(f"DELETE FROM {full} WHERE {quoted} = {MARK}", label)
                self.shares = True
            self.entries[label] = series.gone(entry, sequence)
            self.changed.add(label)
            held = {each.object for each in self.entries.values() if each.is_live}
            if entry.object and own is None and entry.object not in held:
                self.drops.append(series.names.of(entry.object))

    def compact(self) -> None:
        """Merge the oldest labels into one table if the view would read too many tables."""
        series = self.series
        ordered = [self.entries[label] for label in sorted(self.entries)]
        labels = oldest(ordered, self.now, series.spec.max_partitions)
        if not labels:
            return
        sources = {label: (self.now[label], self.entries[label]) for label in labels}
        taken = {each.object for each in ordered} | {table.name for table in self.drops}
        name, columns = series.compact(self.connection, sources, self.base, taken)
        for label in labels:
            self.drops.append(self.now.pop(label))
            self.coming.pop(series.names.label(label), None)
            self.renames = [pair for pair in self.renames if pair[0] != sources[label][0]]
            self.entries[label] = replace(self.entries[label], object=name.name, columns=columns)
            self.changed.add(label)
        self.coming[name] = labels

    def show(self) -> None:
        """Change the view and the names; if a view follows tables, change the view first.

        Readers of the view hold a lock on the view, so this function waits for the view first. If
        the transaction already held a table for which a reader waits, both would be in a deadlock.
        """
        series, connection, tables = self.series, self.connection, self.series.tables
        before = tables.present_view(connection)
        entries = [self.entries[label] for label in sorted(self.entries)]
        schema = series.names.base.schema
        if tables.follows_tables:
            tables.show(connection, self.base, branches(entries, self.now, schema))
        else:
            view = series.dialect.full(series.names.view)
            connection.change(f"DROP VIEW IF EXISTS {view}")
        if self.shares:
            tables.hold(connection)
        for table in dict.fromkeys(self.drops):
            tables.drop(connection, table)
        for old, new in self.renames:
            tables.rename(connection, old, new)
        tables.attach(connection, self.coming)
        if not tables.follows_tables:
            now = {label: series.names.label(label) for label in self.now}
            tables.create_view(connection, self.base, branches(entries, now, schema), before)


def dropped_by(
    series: TimeseriesTable, known: Mapping[str, LabelEntry], label_changes: LabelChanges
) -> frozenset[str]:
    """Return the names of the tables that a commit or its compaction drops."""
    own = series.own_tables(known.values())
    after = dict(known)
    for label in label_changes.changes:
        entry = series.entry(known, label)
        if label in own or not entry.is_live:
            name = series.names.label(label).name
            after[label] = replace(entry, state=LabelState.LOADED, object=name)
    for label in label_changes.gone & known.keys():
        after[label] = series.gone(known[label])
    ordered = [after[label] for label in sorted(after)]
    shared = oldest(ordered, series.own_tables(ordered), series.spec.max_partitions)
    going = {own[label].name for label in {*label_changes.changes, *shared} & own.keys()}
    return frozenset(going | {known[label].object for label in label_changes.gone & known.keys()})
