"""Loads and shows labels in one transaction: PostgreSQL, DuckDB, SQLite (rule T25).

On a server each label is loaded before the transaction, which then only changes names, so that
readers wait only for moments.
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


def carry_out(place: TimeseriesTable, connection: Connection, intent: Intent) -> None:
    """Load the labels of an intent, unless they are loaded; repeating it changes nothing."""
    place.make(connection)
    place.tables.lock(connection)
    place.tables.require_own(connection)
    if place.records.has(connection, intent.commit.run_id):
        return
    if place.tables.loads_inside:
        connection.begin()
    shape = place.shape(connection, place.rows(intent))
    place.tables.alter(connection, shape.statements)
    base = place.base(connection)
    known = place.registry.entries(connection)
    work = place.work(intent, known)
    if not place.tables.loads_inside:
        for label in sorted(work.changes.keys() - known.keys()):
            place.registry.put(connection, place.entry(known, label))
    built = place.build(connection, work, known, base, shape, intent)
    if not place.tables.loads_inside:
        connection.begin()
    _switch_when_free(place, connection, intent, base, built)


def drop_empty(place: TimeseriesTable, connection: Connection, labels: frozenset[str]) -> None:
    """Drop labels without rows, which therefore have no files that a commit could remove."""
    place.tables.lock(connection)
    place.tables.require_own(connection)
    base = place.base(connection)
    connection.begin()
    place.tables.limit_waiting(connection)
    known = place.registry.entries(connection)
    switch = _Switch(dict(known), place.own_tables(known.values()))
    _drop(place, connection, switch, labels)
    _show(place, connection, switch, base)
    for label in sorted(switch.changed):
        place.registry.put(connection, switch.entries[label])
    connection.commit()


def dropped_by(
    place: TimeseriesTable, known: Mapping[str, LabelEntry], work: LabelChanges
) -> frozenset[str]:
    """Return the names of the tables that a commit or its compaction drops."""
    own = place.own_tables(known.values())
    after = dict(known)
    for label in work.changes:
        entry = place.entry(known, label)
        if label in own or not entry.is_live:
            name = place.names.label(label).name
            after[label] = replace(entry, state=LabelState.LOADED, object=name)
    for label in work.gone & known.keys():
        after[label] = place.gone(known[label])
    ordered = [after[label] for label in sorted(after)]
    shared = oldest(ordered, place.own_tables(ordered), place.spec.max_partitions)
    going = {own[label].name for label in {*work.changes, *shared} & own.keys()}
    return frozenset(going | {known[label].object for label in work.gone & known.keys()})


def _switch_when_free(
    place: TimeseriesTable,
    connection: Connection,
    intent: Intent,
    base: Table,
    built: Mapping[str, TableName],
) -> None:
    for number in range(_TRIES):
        try:
            _switch(place, connection, intent, base, built)
        except place.dialect.errors() as error:
            found = place.dialect.diagnose(error)
            is_last = number + 1 == _TRIES or place.tables.loads_inside
            if found.fault not in BUSY or is_last:
                raise
            log.info("%s: %s; trying again", place.names.base.name, found.text)
            connection.rollback()
            time.sleep(_PAUSE_S * 2**number)
        else:
            return


def _switch(
    place: TimeseriesTable,
    connection: Connection,
    intent: Intent,
    base: Table,
    built: Mapping[str, TableName],
) -> None:
    """Show the loaded tables in place of the earlier ones."""
    place.tables.limit_waiting(connection)
    known = place.registry.entries(connection)
    switch = _Switch(dict(known), place.own_tables(known.values()))
    work = place.work(intent, known)
    for label, change in work.changes.items():
        entry = place.entry(known, label)
        if entry.is_live and label not in switch.now:
            _into_compacted(place, connection, entry, change.replaced, built[label], base)
            switch.drops.append(built[label])
            switch.shares = True
            name = place.names.of(entry.object)
            rows = place.tables.count(connection, name, f"{place.dialect.quote(LABEL)} = '{label}'")
        else:
            name = place.names.label(label)
            rows = place.tables.count(connection, built[label])
            switch.drops += [name]
            switch.renames.append((built[label], name))
            switch.coming[name] = (label,)
            switch.now[label] = built[label]
        switch.entries[label] = place.loaded(entry, name, base, rows, intent)
        switch.changed.add(label)
        if label not in switch.now:
            shared = with_columns(switch.entries, name.name, switch.entries[label].columns)
            switch.entries.update(shared)
            switch.changed.update(shared)
    _drop(place, connection, switch, work.gone, intent.sequence)
    _compact(place, connection, switch, base)
    _show(place, connection, switch, base)
    entries = [switch.entries[label] for label in sorted(switch.changed)]
    place.record(connection, intent, entries, work.gone)


def _into_compacted(
    place: TimeseriesTable,
    connection: Connection,
    entry: LabelEntry,
    replaced: frozenset[str],
    new: TableName,
    base: Table,
) -> None:
    """Replace the rows of labels in a table that holds many labels."""
    target = place.names.of(entry.object)
    place.tables.grow(connection, target, base)
    which = {SIGNATURE: sorted(replaced), LABEL: (entry.label,)}
    delete_by(connection, place.dialect, target, which)
    columns = [each.name for each in base.columns]
    labelled_copy(place, connection, new, target, columns, entry.label)


def _drop(
    place: TimeseriesTable,
    connection: Connection,
    switch: _Switch,
    gone: frozenset[str],
    sequence: int | None = None,
) -> None:
    for label in sorted(gone):
        entry = place.entry(switch.entries, label)
        own = switch.now.pop(label, None)
        if own is not None:
            switch.drops.append(own)
        elif entry.is_live:
            full = place.dialect.full(place.names.of(entry.object))
            quoted = place.dialect.quote(LABEL)
            connection.change(f"DELETE FROM {full} WHERE {quoted} = {MARK}", label)  # noqa: S608
            switch.shares = True
        switch.entries[label] = place.gone(entry, sequence)
        switch.changed.add(label)
        held = {each.object for each in switch.entries.values() if each.is_live}
        if entry.object and own is None and entry.object not in held:
            switch.drops.append(place.names.of(entry.object))


def _compact(place: TimeseriesTable, connection: Connection, switch: _Switch, base: Table) -> None:
    """Merge the oldest labels into one table if the view would read too many tables."""
    ordered = [switch.entries[label] for label in sorted(switch.entries)]
    labels = oldest(ordered, switch.now, place.spec.max_partitions)
    if not labels:
        return
    sources = {label: (switch.now[label], switch.entries[label]) for label in labels}
    taken = {each.object for each in ordered} | {table.name for table in switch.drops}
    name, columns = compact(place, connection, sources, base, taken)
    for label in labels:
        switch.drops.append(switch.now.pop(label))
        switch.coming.pop(place.names.label(label), None)
        switch.renames = [pair for pair in switch.renames if pair[0] != sources[label][0]]
        switch.entries[label] = replace(switch.entries[label], object=name.name, columns=columns)
        switch.changed.add(label)
    switch.coming[name] = labels


def _show(place: TimeseriesTable, connection: Connection, switch: _Switch, base: Table) -> None:
    """Change the view and the names; if a view follows tables, change the view first.

    Readers of the view hold a lock on it, so this waits for the view first. If it already held a
    table that such a reader waits for, both would be in a deadlock.
    """
    tables, view = place.tables, place.dialect.full(place.names.view)
    before = place.dialect.table(connection, place.names.view)
    entries = [switch.entries[label] for label in sorted(switch.entries)]
    schema = place.names.base.schema
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
        now = {label: place.names.label(label) for label in switch.now}
        tables.create_view(connection, base, branches(entries, now, schema), before)
