"""Merges the oldest labels into one table, so that a view reads few tables (rule T22)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count

from dil.publishing.timeseries.loading import TimeseriesTable, labelled_copy
from dil.publishing.timeseries.names import LABEL
from dil.publishing.timeseries.registry import LabelEntry
from dil.publishing.warehouse.dialect import Connection, Table, TableName
from dil.types.warehouse import TEXT


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


def compact(
    series: TimeseriesTable,
    connection: Connection,
    sources: Mapping[str, tuple[TableName, LabelEntry]],
    base: Table,
    taken: Collection[str],
) -> tuple[TableName, Mapping[str, str]]:
    """Copy labels into a new table; return its name and its columns.

    Args:
        series: The timeseries table.
        connection: The connection to the database.
        sources: The labels in order, each with its present table and its entry.
        base: The base table, whose columns the new table has.
        taken: Names of tables that are in use or are about to be dropped.
    """
    labels = list(sources)
    numbered = (series.names.compacted(labels[0], labels[-1], number) for number in count(1))
    name = next(each for each in numbered if each.name not in taken)
    series.tables.like(connection, name, base)
    series.tables.keep_to(connection, name, labels)
    quoted, full = series.dialect.quote(LABEL), series.dialect.full(name)
    columns = {each.name: each.words for each in base.columns}
    if LABEL not in columns:
        words = series.dialect.type_words(TEXT, is_key=False)
        connection.change(f"ALTER TABLE {full} ADD COLUMN {quoted} {words}")
        columns[LABEL] = words
    for label, (source, entry) in sources.items():
        labelled_copy(series, connection, source, name, series.tables.copied(entry, base), label)
    return name, columns
