"""Loads and shows labels in repeatable steps: MySQL (rule T26).

Views bind by name and every change of a table commits. A label's new table gets its name in one
RENAME with all other tables of the commit; until then the view reads the old table, or an empty
one. If a table has an ``old`` name of a run, the run's RENAME is done. The record of the
commit is written last; if a run finds tables that another run put in place and did not record, it
reverses that first.
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
    place: TimeseriesTable, tables: MysqlTables, connection: Connection, intent: Intent
) -> None:
    """Load the labels of an intent, unless they are loaded; repeating it changes nothing."""
    place.make(connection)
    tables.lock(connection)
    if not place.records.has(connection, intent.commit.run_id):
        shape = place.shape(connection, place.rows(intent))
        tables.alter(connection, shape.statements)
        place.late.prepare(connection, intent.commit)
        base = place.base(connection)
        known = place.registry.entries(connection)
        run_id = intent.commit.run_id
        _take_back_others(place, tables, connection, known, run_id)
        work = place.work(intent, known)
        after = _after(place, known, base, work, intent)
        if not _is_swapped(place, connection, work, known, run_id):
            _prepare(place, tables, connection, intent, base, shape)
            _show(place, tables, connection, base, after)
            _swap(place, tables, connection, work, known, run_id)
        if not _record(place, tables, connection, intent, work, after):
            return
    _tidy(place, connection, intent)
    _compact(place, tables, connection, intent)


def drop_empty(
    place: TimeseriesTable, tables: MysqlTables, connection: Connection, labels: frozenset[str]
) -> None:
    """Drop labels without rows, which therefore have no files that a commit could remove."""
    tables.lock(connection)
    base = place.base(connection)
    known = place.registry.entries(connection)
    gone = {label: place.gone(known[label]) for label in sorted(labels & known.keys())}
    _show(place, tables, connection, base, {**known, **gone})
    connection.begin()
    for entry in gone.values():
        place.registry.put(connection, entry)
    connection.commit()
    own = place.own_tables(known.values())
    for label in gone.keys() & own.keys():
        tables.drop(connection, own[label])


def _after(
    place: TimeseriesTable, known: Entries, base: Table, work: LabelChanges, intent: Intent
) -> dict[str, LabelEntry]:
    """Return the registry after the commit, except for the numbers of rows."""
    after = dict(known)
    own = place.own_tables(known.values())
    for label in work.changes:
        entry = place.entry(known, label)
        is_shared = entry.is_live and label not in own
        name = place.names.of(entry.object) if is_shared else place.names.label(label)
        after[label] = place.loaded(entry, name, base, 0, intent)
        if is_shared:
            after.update(with_columns(after, name.name, after[label].columns))
    for label in work.gone:
        after[label] = place.gone(place.entry(known, label), intent.sequence)
    return after


def _take_back_others(
    place: TimeseriesTable, tables: MysqlTables, connection: Connection, known: Entries, run_id: str
) -> None:
    """Show each label by its table in the registry, not by the table of an unrecorded run.

    The run that finishes such a run renames again. The ``old`` tables of recorded runs are dropped.
    """
    names, pairs, drops = place.names, [], []
    for name in tables.beginning_with(connection, names.making):
        parts = names.old_parts(name)
        if parts is None or name == names.old(*parts, run_id).name:
            continue
        label, number = parts
        if number <= place.entry(known, label).attempt:
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
    place: TimeseriesTable, connection: Connection, work: LabelChanges, known: Entries, run_id: str
) -> bool:
    attempts = ((label, place.entry(known, label).attempt + 1) for label in work.changes)
    return any(
        place.dialect.table(connection, place.names.old(*attempt, run_id)) is not None
        for attempt in attempts
    )


def _prepare(
    place: TimeseriesTable,
    tables: MysqlTables,
    connection: Connection,
    intent: Intent,
    base: Table,
    shape: TableChanges,
) -> None:
    """Fill the new tables, and add the base's columns to the tables that the view reads."""
    known = place.registry.entries(connection)
    own, work = place.own_tables(known.values()), place.work(intent, known)
    for label in sorted(work.changes.keys() - known.keys()):
        place.registry.put(connection, place.entry(known, label))
    place.build(connection, work, known, base, shape, intent)
    for label in work.changes:
        entry = place.entry(known, label)
        if label in own:
            tables.grow(connection, own[label], base)
        elif entry.is_live:
            tables.grow(connection, place.names.of(entry.object), base)
        else:
            _put_placeholder(place, tables, connection, place.names.label(label), base)


def _put_placeholder(
    place: TimeseriesTable,
    tables: MysqlTables,
    connection: Connection,
    name: TableName,
    base: Table,
) -> None:
    """Create an empty table, unless the view may read a table of that name already."""
    found = place.dialect.table(connection, name)
    is_ready = found is not None and found.columns == base.columns
    if not is_ready or tables.count(connection, name):
        tables.like(connection, name, base)


def _show(
    place: TimeseriesTable, tables: MysqlTables, connection: Connection, base: Table, after: Entries
) -> None:
    entries = [after[label] for label in sorted(after)]
    found = branches(entries, place.own_tables(entries), place.names.base.schema)
    tables.show(connection, base, found)


def _swap(
    place: TimeseriesTable,
    tables: MysqlTables,
    connection: Connection,
    work: LabelChanges,
    known: Entries,
    run_id: str,
) -> None:
    own, pairs = place.own_tables(known.values()), []
    for label in work.changes:
        entry = place.entry(known, label)
        if label in own or not entry.is_live:
            number, name = entry.attempt + 1, place.names.label(label)
            pairs += [(name, place.names.old(label, number, run_id))]
            pairs += [(place.names.attempt(label, number), name)]
    if pairs:
        tables.swap(connection, pairs)


def _record(
    place: TimeseriesTable,
    tables: MysqlTables,
    connection: Connection,
    intent: Intent,
    work: LabelChanges,
    after: Entries,
) -> bool:
    """Record the commit, with the rows of labels that share a table, in one transaction."""
    known = place.registry.entries(connection)
    quoted = place.dialect.quote(LABEL)
    connection.begin()
    own = place.own_tables(known.values())
    entries = {label: each for label, each in after.items() if each != known.get(label)}
    for label, change in work.changes.items():
        entry = place.entry(known, label)
        condition, name = "", place.names.of(after[label].object)
        if entry.is_live and label not in own:
            which = {SIGNATURE: sorted(change.replaced), LABEL: (label,)}
            name, condition = place.names.of(entry.object), f"{quoted} = '{label}'"
            delete_by(connection, place.dialect, name, which)
            new = place.names.attempt(label, entry.attempt + 1)
            columns = place.columns_of(connection, new)
            labelled_copy(place, connection, new, name, columns, label)
        rows = tables.count(connection, name, condition)
        entries[label] = replace(after[label], rows=rows)
    for label in work.gone:
        entry = place.entry(known, label)
        if entry.is_live and label not in own:
            full = place.dialect.full(place.names.of(entry.object))
            connection.change(f"DELETE FROM {full} WHERE {quoted} = {MARK}", label)  # noqa: S608
    return place.record(connection, intent, entries.values(), work.gone)


def _tidy(place: TimeseriesTable, connection: Connection, intent: Intent) -> None:
    """Drop the tables that are no longer needed after the commit."""
    entries = place.registry.entries(connection)
    for label in place.work(intent, entries).changes:
        number = entries[label].attempt if label in entries else 0
        place.tables.drop(connection, place.names.old(label, number, intent.commit.run_id))
        place.tables.drop(connection, place.names.attempt(label, number))
    own = place.own_tables(entries.values())
    for label, entry in entries.items():
        if entry.seq == intent.sequence and label not in own:
            place.tables.drop(connection, place.names.label(label))


def _compact(
    place: TimeseriesTable, tables: MysqlTables, connection: Connection, intent: Intent
) -> None:
    """Merge the oldest labels into one table if the view reads too many tables."""
    known = place.registry.entries(connection)
    own = place.own_tables(known.values())
    labels = oldest(list(known.values()), own, place.spec.max_partitions)
    if not labels:
        return
    base = place.base(connection)
    # A view that reads a table of an earlier attempt must not lose that table.
    _show(place, tables, connection, base, known)
    sources = {label: (own[label], known[label]) for label in labels}
    taken = {each.object for each in known.values()}
    name, columns = compact(place, connection, sources, base, taken)
    after = {
        label: replace(entry, object=name.name, columns=columns, seq=intent.sequence)
        if label in sources
        else entry
        for label, entry in known.items()
    }
    _show(place, tables, connection, base, after)
    connection.begin()
    for label in labels:
        place.registry.put(connection, after[label])
    connection.commit()
    for label in labels:
        tables.drop(connection, own[label])
