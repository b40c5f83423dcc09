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
from dil.publishing.timeseries.compaction import compact, oldest
from dil.publishing.timeseries.loading import TimeseriesTable, labelled_copy, with_columns
from dil.publishing.timeseries.names import LABEL
from dil.publishing.timeseries.registry import LabelEntry, LabelState
from dil.publishing.timeseries.view import branches
from dil.publishing.warehouse.dialect import BUSY, Connection, Table, TableName
from dil.publishing.warehouse.records import delete_by
from dil.publishing.warehouse.rows import SIGNATURE

log = logging.getLogger(__name__)

# The number of attempts to change the names if a reader blocks them; loaded rows are kept.
_TRIES = 5
_PAUSE_S = 0.2


@dataclass
class _Switch:
    """Pending names: the present table of each label, and the tables that change.

    ``coming`` are the labels of tables that readers have not seen yet, by the tables' final names;
    ``shares`` is true if rows of a table with many labels changed.
    """

    entries: dict[str, LabelEntry]
    now: dict[str, TableName]
    drops: list[TableName] = field(default_factory=list)
    renames: list[tuple[TableName, TableName]] = field(default_factory=list)
    coming: dict[TableName, tuple[str, ...]] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    shares: bool = False


def carry_out(series: TimeseriesTable, connection: Connection, intent: Intent) -> None:
    """Load the labels of an intent, unless they are loaded; repeating it changes nothing."""
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
    _switch_when_free(series, connection, intent, base, built)


def drop_empty(series: TimeseriesTable, connection: Connection, labels: frozenset[str]) -> None:
    """Drop labels that have no rows, and so no files that a commit could remove."""
    series.tables.lock(connection)
    series.tables.require_own(connection)
    base = series.base(connection)
    connection.begin()
    series.tables.limit_waiting(connection)
    known = series.registry.entries(connection)
    switch = _Switch(dict(known), series.own_tables(known.values()))
    _drop(series, connection, switch, labels)
    _show(series, connection, switch, base)
    for label in sorted(switch.changed):
        series.registry.put(connection, switch.entries[label])
    connection.commit()


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


def _switch_when_free(
    series: TimeseriesTable,
    connection: Connection,
    intent: Intent,
    base: Table,
    built: Mapping[str, TableName],
) -> None:
    for number in range(_TRIES):
        try:
            _switch(series, connection, intent, base, built)
        except series.dialect.errors() as error:
            found = series.dialect.diagnose(error)
            is_last = number + 1 == _TRIES or series.tables.loads_inside
            if found.fault not in BUSY or is_last:
                raise
            log.info("%s: %s; trying again", series.names.base.name, found.text)
            connection.rollback()
            time.sleep(_PAUSE_S * 2**number)
        else:
            return


def _switch(
    series: TimeseriesTable,
    connection: Connection,
    intent: Intent,
    base: Table,
    built: Mapping[str, TableName],
) -> None:
    """Show the loaded tables in place of the earlier ones."""
    series.tables.limit_waiting(connection)
    known = series.registry.entries(connection)
    switch = _Switch(dict(known), series.own_tables(known.values()))
    label_changes = series.label_changes(intent, known)
    for label, change in label_changes.changes.items():
        entry = series.entry(known, label)
        if entry.is_live and label not in switch.now:
            _into_compacted(series, connection, entry, change.replaced, built[label], base)
            switch.drops.append(built[label])
            switch.shares = True
            name = series.names.of(entry.object)
            rows = series.tables.count(
                connection, name, f"{series.dialect.quote(LABEL)} = '{label}'"
            )
        else:
            name = series.names.label(label)
            rows = series.tables.count(connection, built[label])
            switch.drops += [name]
            switch.renames.append((built[label], name))
            switch.coming[name] = (label,)
            switch.now[label] = built[label]
        switch.entries[label] = series.loaded(entry, name, base, rows, intent)
        switch.changed.add(label)
        if label not in switch.now:
            shared = with_columns(switch.entries, name.name, switch.entries[label].columns)
            switch.entries.update(shared)
            switch.changed.update(shared)
    _drop(series, connection, switch, label_changes.gone, intent.sequence)
    _compact(series, connection, switch, base)
    _show(series, connection, switch, base)
    entries = [switch.entries[label] for label in sorted(switch.changed)]
    series.record(connection, intent, entries, label_changes.gone)


def _into_compacted(
    series: TimeseriesTable,
    connection: Connection,
    entry: LabelEntry,
    replaced: frozenset[str],
    new: TableName,
    base: Table,
) -> None:
    """Replace the rows of labels in a table that holds many labels."""
    target = series.names.of(entry.object)
    series.tables.grow(connection, target, base)
    which = {SIGNATURE: sorted(replaced), LABEL: (entry.label,)}
    delete_by(connection, series.dialect, target, which)
    columns = [each.name for each in base.columns]
    labelled_copy(series, connection, new, target, columns, entry.label)


def _drop(
    series: TimeseriesTable,
    connection: Connection,
    switch: _Switch,
    gone: frozenset[str],
    sequence: int | None = None,
) -> None:
    for label in sorted(gone):
        entry = series.entry(switch.entries, label)
        own = switch.now.pop(label, None)
        if own is not None:
            switch.drops.append(own)
        elif entry.is_live:
            full = series.dialect.full(series.names.of(entry.object))
            quoted = series.dialect.quote(LABEL)
            connection.change(f"DELETE FROM {full} WHERE {quoted} = {MARK}", label)
            switch.shares = True
        switch.entries[label] = series.gone(entry, sequence)
        switch.changed.add(label)
        held = {each.object for each in switch.entries.values() if each.is_live}
        if entry.object and own is None and entry.object not in held:
            switch.drops.append(series.names.of(entry.object))


def _compact(series: TimeseriesTable, connection: Connection, switch: _Switch, base: Table) -> None:
    """Merge the oldest labels into one table if the view would read too many tables."""
    ordered = [switch.entries[label] for label in sorted(switch.entries)]
    labels = oldest(ordered, switch.now, series.spec.max_partitions)
    if not labels:
        return
    sources = {label: (switch.now[label], switch.entries[label]) for label in labels}
    taken = {each.object for each in ordered} | {table.name for table in switch.drops}
    name, columns = compact(series, connection, sources, base, taken)
    for label in labels:
        switch.drops.append(switch.now.pop(label))
        switch.coming.pop(series.names.label(label), None)
        switch.renames = [pair for pair in switch.renames if pair[0] != sources[label][0]]
        switch.entries[label] = replace(switch.entries[label], object=name.name, columns=columns)
        switch.changed.add(label)
    switch.coming[name] = labels


def _show(series: TimeseriesTable, connection: Connection, switch: _Switch, base: Table) -> None:
    """Change the view and the names; if a view follows tables, change the view first.

    Readers of the view hold a lock on the view, so this function waits for the view first. If the
    transaction already held a table for which a reader waits, both would be in a deadlock.
    """
    tables, view = series.tables, series.dialect.full(series.names.view)
    before = series.dialect.table(connection, series.names.view)
    entries = [switch.entries[label] for label in sorted(switch.entries)]
    schema = series.names.base.schema
    if tables.follows_tables:
        tables.show(connection, base, branches(entries, switch.now, schema))
    else:
        connection.change(f"DROP VIEW IF EXISTS {view}")
    if switch.shares:
        tables.hold(connection)
    for table in dict.fromkeys(switch.drops):
        tables.drop(connection, table)
    for old, new in switch.renames:
        tables.rename(connection, old, new)
    tables.attach(connection, switch.coming)
    if not tables.follows_tables:
        now = {label: series.names.label(label) for label in switch.now}
        tables.create_view(connection, base, branches(entries, now, schema), before)
