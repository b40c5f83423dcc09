"""Loads and shows labels in repeatable steps: MySQL (rule T26).

Views bind by name and every change of a table commits. A label's new table gets its name in one
RENAME with all other tables of the commit; until then the view reads the old table, or an empty
one. If a table has a name that ``Names.old`` made for a run, the run's RENAME is done. The record
of the commit is written last. If a run finds tables that another run renamed but did not record, it
first reverses that RENAME.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dil.databases.statements import MARK
from dil.model.dataset import Intent
from dil.publishing.timeseries.changes import LabelChanges
from dil.publishing.timeseries.compaction import compact, oldest
from dil.publishing.timeseries.engines import MysqlTables
from dil.publishing.timeseries.loading import TimeseriesTable, labelled_copy, with_columns
from dil.publishing.timeseries.names import LABEL
from dil.publishing.timeseries.registry import LabelEntry
from dil.publishing.timeseries.view import branches
from dil.publishing.warehouse.dialect import Connection, Table, TableName
from dil.publishing.warehouse.records import delete_by
from dil.publishing.warehouse.rows import SIGNATURE
from dil.publishing.warehouse.shape import TableChanges

Entries = Mapping[str, LabelEntry]


def carry_out(
    series: TimeseriesTable, tables: MysqlTables, connection: Connection, intent: Intent
) -> None:
    """Load the labels of an intent, unless they are loaded; repeating it changes nothing."""
    series.make(connection)
    tables.lock(connection)
    if not series.records.has(connection, intent.commit.run_id):
        table_changes = series.table_changes(connection, series.rows(intent))
        tables.alter(connection, table_changes.statements)
        series.late.prepare(connection, intent.commit)
        base = series.base(connection)
        known = series.registry.entries(connection)
        run_id = intent.commit.run_id
        _take_back_others(series, tables, connection, known, run_id)
        label_changes = series.label_changes(intent, known)
        after = _after(series, known, base, label_changes, intent)
        if not _is_swapped(series, connection, label_changes, known, run_id):
            _prepare(series, tables, connection, intent, base, table_changes)
            _show(series, tables, connection, base, after)
            _swap(series, tables, connection, label_changes, known, run_id)
        if not _record(series, tables, connection, intent, label_changes, after):
            return
    _tidy(series, connection, intent)
    _compact(series, tables, connection, intent)


def drop_empty(
    series: TimeseriesTable, tables: MysqlTables, connection: Connection, labels: frozenset[str]
) -> None:
    """Drop labels that have no rows, and so no files that a commit could remove."""
    tables.lock(connection)
    base = series.base(connection)
    known = series.registry.entries(connection)
    gone = {label: series.gone(known[label]) for label in sorted(labels & known.keys())}
    _show(series, tables, connection, base, {**known, **gone})
    connection.begin()
    for entry in gone.values():
        series.registry.put(connection, entry)
    connection.commit()
    own = series.own_tables(known.values())
    for label in gone.keys() & own.keys():
        tables.drop(connection, own[label])


def _after(
    series: TimeseriesTable,
    known: Entries,
    base: Table,
    label_changes: LabelChanges,
    intent: Intent,
) -> dict[str, LabelEntry]:
    """Return the registry after the commit, except for the numbers of rows."""
    after = dict(known)
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


def _take_back_others(
    series: TimeseriesTable,
    tables: MysqlTables,
    connection: Connection,
    known: Entries,
    run_id: str,
) -> None:
    """Show each label by its table in the registry, not by the table of an unrecorded run.

    If a later run finishes the unrecorded run, it renames the tables again. The ``old`` tables of
    recorded runs are dropped.
    """
    names, pairs, drops = series.names, [], []
    for name in tables.beginning_with(connection, names.making):
        parts = names.old_parts(name)
        if parts is None or name == names.old(*parts, run_id).name:
            continue
        label, number = parts
        if number <= series.entry(known, label).attempt:
            drops.append(names.of(name))
            continue
        new, own = names.attempt(label, number), names.label(label)
        tables.drop(connection, new)
        pairs += [(own, new), (names.of(name), own)]
        drops.append(new)
    if pairs:
        tables.swap(connection, pairs)
    for table in drops:
        tables.drop(connection, table)


def _is_swapped(
    series: TimeseriesTable,
    connection: Connection,
    label_changes: LabelChanges,
    known: Entries,
    run_id: str,
) -> bool:
    attempts = ((label, series.entry(known, label).attempt + 1) for label in label_changes.changes)
    return any(
        series.dialect.table(connection, series.names.old(*attempt, run_id)) is not None
        for attempt in attempts
    )


def _prepare(
    series: TimeseriesTable,
    tables: MysqlTables,
    connection: Connection,
    intent: Intent,
    base: Table,
    table_changes: TableChanges,
) -> None:
    """Fill the new tables, and add the base's columns to the tables that the view reads."""
    known = series.registry.entries(connection)
    own, label_changes = series.own_tables(known.values()), series.label_changes(intent, known)
    for label in sorted(label_changes.changes.keys() - known.keys()):
        series.registry.put(connection, series.entry(known, label))
    series.build(connection, label_changes, known, base, table_changes, intent)
    for label in label_changes.changes:
        entry = series.entry(known, label)
        if label in own:
            tables.grow(connection, own[label], base)
        elif entry.is_live:
            tables.grow(connection, series.names.of(entry.object), base)
        else:
            _put_placeholder(series, tables, connection, series.names.label(label), base)


def _put_placeholder(
    series: TimeseriesTable,
    tables: MysqlTables,
    connection: Connection,
    name: TableName,
    base: Table,
) -> None:
    """Create an empty table, unless the view may already read a table of that name."""
    found = series.dialect.table(connection, name)
    is_ready = found is not None and found.columns == base.columns
    if not is_ready or tables.count(connection, name):
        tables.like(connection, name, base)


def _show(
    series: TimeseriesTable,
    tables: MysqlTables,
    connection: Connection,
    base: Table,
    after: Entries,
) -> None:
    entries = [after[label] for label in sorted(after)]
    found = branches(entries, series.own_tables(entries), series.names.base.schema)
    tables.show(connection, base, found)


def _swap(
    series: TimeseriesTable,
    tables: MysqlTables,
    connection: Connection,
    label_changes: LabelChanges,
    known: Entries,
    run_id: str,
) -> None:
    own, pairs = series.own_tables(known.values()), []
    for label in label_changes.changes:
        entry = series.entry(known, label)
        if label in own or not entry.is_live:
            number, name = entry.attempt + 1, series.names.label(label)
            pairs += [(name, series.names.old(label, number, run_id))]
            pairs += [(series.names.attempt(label, number), name)]
    if pairs:
        tables.swap(connection, pairs)


def _record(
    series: TimeseriesTable,
    tables: MysqlTables,
    connection: Connection,
    intent: Intent,
    label_changes: LabelChanges,
    after: Entries,
) -> bool:
    """Record the commit, with the rows of labels that share a table, in one transaction."""
    known = series.registry.entries(connection)
    quoted = series.dialect.quote(LABEL)
    connection.begin()
    own = series.own_tables(known.values())
    entries = {label: each for label, each in after.items() if each != known.get(label)}
    for label, change in label_changes.changes.items():
        entry = series.entry(known, label)
        condition, name = "", series.names.of(after[label].object)
        if entry.is_live and label not in own:
            which = {SIGNATURE: sorted(change.replaced), LABEL: (label,)}
            name, condition = series.names.of(entry.object), f"{quoted} = '{label}'"
            delete_by(connection, series.dialect, name, which)
            new = series.names.attempt(label, entry.attempt + 1)
            columns = series.columns_of(connection, new)
            labelled_copy(series, connection, new, name, columns, label)
        rows = tables.count(connection, name, condition)
        entries[label] = replace(after[label], rows=rows)
    for label in label_changes.gone:
        entry = series.entry(known, label)
        if entry.is_live and label not in own:
            full = series.dialect.full(series.names.of(entry.object))
            connection.change(f"DELETE FROM {full} WHERE {quoted} = {MARK}", label)
    return series.record(connection, intent, entries.values(), label_changes.gone)


def _tidy(series: TimeseriesTable, connection: Connection, intent: Intent) -> None:
    """Drop the tables that are no longer needed after the commit."""
    entries = series.registry.entries(connection)
    for label in series.label_changes(intent, entries).changes:
        number = entries[label].attempt if label in entries else 0
        series.tables.drop(connection, series.names.old(label, number, intent.commit.run_id))
        series.tables.drop(connection, series.names.attempt(label, number))
    own = series.own_tables(entries.values())
    for label, entry in entries.items():
        if entry.seq == intent.sequence and label not in own:
            series.tables.drop(connection, series.names.label(label))


def _compact(
    series: TimeseriesTable, tables: MysqlTables, connection: Connection, intent: Intent
) -> None:
    """Merge the oldest labels into one table if the view reads too many tables."""
    known = series.registry.entries(connection)
    own = series.own_tables(known.values())
    labels = oldest(list(known.values()), own, series.spec.max_partitions)
    if not labels:
        return
    base = series.base(connection)
    # A view that reads a table of an earlier attempt must not lose that table.
    _show(series, tables, connection, base, known)
    sources = {label: (own[label], known[label]) for label in labels}
    taken = {each.object for each in known.values()}
    name, columns = compact(series, connection, sources, base, taken)
    after = {
        label: replace(entry, object=name.name, columns=columns, seq=intent.sequence)
        if label in sources
        else entry
        for label, entry in known.items()
    }
    _show(series, tables, connection, base, after)
    connection.begin()
    for label in labels:
        series.registry.put(connection, after[label])
    connection.commit()
    for label in labels:
        tables.drop(connection, own[label])
