"""Loads and shows labels in repeatable steps: MySQL (rule T26).

Views bind by name and every change of a table commits. A label's new table gets its name in one
RENAME with all other tables of the commit; until then the view reads the old table, or an empty
one. If a table has a name that ``Names.old`` made for a run, the run's RENAME is done. The record
of the commit is written last. If a run finds tables that another run renamed but did not record, it
first reverses that RENAME.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dil.databases.statements import MARK
from dil.model.dataset import Intent
from dil.publishing.timeseries.changes import LabelChanges
from dil.publishing.timeseries.engines import MysqlTables
from dil.publishing.timeseries.loading import TimeseriesTable, oldest, with_columns
from dil.publishing.timeseries.names import LABEL
from dil.publishing.timeseries.registry import LabelEntry
from dil.publishing.timeseries.view import branches
from dil.publishing.warehouse.dialect import Connection, Table
from dil.publishing.warehouse.shape import TableChanges

Entries = Mapping[str, LabelEntry]


@dataclass(frozen=True, slots=True)
class StepLoader:
    """Changes the labels of a table through one connection."""

    series: TimeseriesTable
    tables: MysqlTables
    connection: Connection

    def carry_out(self, intent: Intent) -> None:
        """Load the labels of an intent, unless they are loaded; repeating it changes nothing."""
        series, connection, run_id = self.series, self.connection, intent.commit.run_id
        series.make(connection)
        self.tables.lock(connection)
        if not series.records.has(connection, run_id):
            table_changes = series.table_changes(connection, series.rows(intent))
            self.tables.alter(connection, table_changes.statements)
            series.late.prepare(connection, intent.commit)
            base = series.base(connection)
            known = series.registry.entries(connection)
            self._take_back_others(known, run_id)
            label_changes = series.label_changes(intent, known)
            after = self._after(known, base, label_changes, intent)
            is_swapped = any(
                series.dialect.table(
                    connection,
                    series.names.old(label, series.entry(known, label).attempt + 1, run_id),
                )
                is not None
                for label in label_changes.changes
            )
            if not is_swapped:
                self._prepare(intent, base, table_changes)
                self._show(base, after)
                self._swap(label_changes, known, run_id)
            if not self._record(intent, label_changes, after):
                return
        self._tidy(intent)
        self._compact(intent)

    def drop_empty(self, labels: frozenset[str]) -> None:
        """Drop labels that have no rows, and so no files that a commit could remove."""
        series, connection = self.series, self.connection
        self.tables.lock(connection)
        base = series.base(connection)
        known = series.registry.entries(connection)
        gone = {label: series.gone(known[label]) for label in sorted(labels & known.keys())}
        self._show(base, {**known, **gone})
        connection.begin()
        for entry in gone.values():
            series.registry.put(connection, entry)
        connection.commit()
        own = series.own_tables(known.values())
        for label in gone.keys() & own.keys():
            self.tables.drop(connection, own[label])

    def _after(
        self, known: Entries, base: Table, label_changes: LabelChanges, intent: Intent
    ) -> dict[str, LabelEntry]:
        """Return the registry after the commit, except for the numbers of rows."""
        series, after = self.series, dict(known)
        own = series.own_tables(known.values())
        for label in label_changes.changes:
            entry = series.entry(known, label)
            is_shared = entry.is_live and label not in own
            name = series.names.of(entry.object) if is_shared else series.names.label(label)
            after[label] = series.loaded(entry, name, base, 0, intent)
            if is_shared:
                after.update(with_columns(after, name.name, after[label].columns))
        for label in label_changes.gone:
            after[label] = series.gone(series.entry(known, label), intent.sequence)
        return after

    def _take_back_others(self, known: Entries, run_id: str) -> None:
        """Show each label by its table in the registry, not by the table of an unrecorded run.

        If a later run finishes the unrecorded run, it renames the tables again. The ``old`` tables
        of recorded runs are dropped.
        """
        names, pairs, drops = self.series.names, [], []
        for name in self.tables.beginning_with(self.connection, names.making):
            parts = names.old_parts(name)
            if parts is None or name == names.old(*parts, run_id).name:
                continue
            label, number = parts
            if number <= self.series.entry(known, label).attempt:
                drops.append(names.of(name))
                continue
            new, own = names.attempt(label, number), names.label(label)
            self.tables.drop(self.connection, new)
            pairs += [(own, new), (names.of(name), own)]
            drops.append(new)
        if pairs:
            self.tables.swap(self.connection, pairs)
        for table in drops:
            self.tables.drop(self.connection, table)

    def _prepare(self, intent: Intent, base: Table, table_changes: TableChanges) -> None:
        """Fill the new tables, and add the base's columns to the tables that the view reads."""
        series, tables, connection = self.series, self.tables, self.connection
        known = series.registry.entries(connection)
        own, label_changes = series.own_tables(known.values()), series.label_changes(intent, known)
        for label in sorted(label_changes.changes.keys() - known.keys()):
            series.registry.put(connection, series.entry(known, label))
        series.build(connection, label_changes, known, base, table_changes, intent)
        for label in label_changes.changes:
            entry, name = series.entry(known, label), series.names.label(label)
            if label in own:
                tables.grow(connection, own[label], base)
                continue
            if entry.is_live:
                tables.grow(connection, series.names.of(entry.object), base)
                continue
            # The view may already read an empty table of this name.
            found = series.dialect.table(connection, name)
            is_ready = found is not None and found.columns == base.columns
            if not is_ready or tables.count(connection, name):
                tables.like(connection, name, base)

    def _show(self, base: Table, after: Entries) -> None:
        entries = [after[label] for label in sorted(after)]
        own, schema = self.series.own_tables(entries), self.series.names.base.schema
        self.tables.show(self.connection, base, branches(entries, own, schema))

    def _swap(self, label_changes: LabelChanges, known: Entries, run_id: str) -> None:
        series, pairs = self.series, []
        own = series.own_tables(known.values())
        for label in label_changes.changes:
            entry = series.entry(known, label)
            if label in own or not entry.is_live:
                number, name = entry.attempt + 1, series.names.label(label)
                pairs += [(name, series.names.old(label, number, run_id))]
                pairs += [(series.names.attempt(label, number), name)]
        if pairs:
            self.tables.swap(self.connection, pairs)

    def _record(self, intent: Intent, label_changes: LabelChanges, after: Entries) -> bool:
        """Record the commit, with the rows of labels that share a table, in one transaction."""
        series, connection = self.series, self.connection
        known = series.registry.entries(connection)
        quoted = series.dialect.quote(LABEL)
        connection.begin()
        own = series.own_tables(known.values())
        entries = {label: each for label, each in after.items() if each != known.get(label)}
        for label, change in label_changes.changes.items():
            entry = series.entry(known, label)
            condition, name = "", series.names.of(after[label].object)
            if entry.is_live and label not in own:
                name, condition = series.names.of(entry.object), f"{quoted} = '{label}'"
                new = series.names.attempt(label, entry.attempt + 1)
                columns = series.columns_of(connection, new)
                series.replace_in_shared(connection, name, change, new, columns)
            rows = self.tables.count(connection, name, condition)
            entries[label] = replace(after[label], rows=rows)
        for label in label_changes.gone:
            entry = series.entry(known, label)
            if entry.is_live and label not in own:
                full = series.dialect.full(series.names.of(entry.object))
                connection.change(f"DELETE FROM {full} WHERE {quoted} = {MARK}", label)
        return series.record(connection, intent, entries.values(), label_changes.gone)

    def _tidy(self, intent: Intent) -> None:
        """Drop the tables that are no longer needed after the commit."""
        series, connection = self.series, self.connection
        entries = series.registry.entries(connection)
        for label in series.label_changes(intent, entries).changes:
            number = entries[label].attempt if label in entries else 0
            old = series.names.old(label, number, intent.commit.run_id)
            self.tables.drop(connection, old)
            self.tables.drop(connection, series.names.attempt(label, number))
        own = series.own_tables(entries.values())
        for label, entry in entries.items():
            if entry.seq == intent.sequence and label not in own:
                self.tables.drop(connection, series.names.label(label))

    def _compact(self, intent: Intent) -> None:
        """Merge the oldest labels into one table if the view reads too many tables."""
        series, connection = self.series, self.connection
        known = series.registry.entries(connection)
        own = series.own_tables(known.values())
        labels = oldest(list(known.values()), own, series.spec.max_partitions)
        if not labels:
            return
        base = series.base(connection)
        # A view that reads a table of an earlier attempt must not lose that table.
        self._show(base, known)
        sources = {label: (own[label], known[label]) for label in labels}
        taken = {each.object for each in known.values()}
        name, columns = series.compact(connection, sources, base, taken)
        after = {
            label: replace(entry, object=name.name, columns=columns, seq=intent.sequence)
            if label in sources
            else entry
            for label, entry in known.items()
        }
        self._show(base, after)
        connection.begin()
        for label in labels:
            series.registry.put(connection, after[label])
        connection.commit()
        for label in labels:
            self.tables.drop(connection, own[label])
