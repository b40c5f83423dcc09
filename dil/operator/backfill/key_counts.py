"""Counts the keys that differ between two sets of files, column by column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dil.model.dataset import PublishedFile
from dil.model.job import Job
from dil.reshaping.files import DatasetFiles, row_file
from dil.reshaping.keys import equal_values, flat, identified
from dil.storage import filesystem_for
from dil.types.schema_text import merged_text, parse_schema
from dil.types.widening import conform
from dil.writing.system_columns import EXTRACTED_AT, RUN_ID, SIGNATURE, TIMELABEL

# These columns describe the reading, not the row.
_NOT_COMPARED = frozenset({EXTRACTED_AT, RUN_ID, SIGNATURE, TIMELABEL})
_BEFORE, _AFTER = "before row", "after row"


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """The numbers of keys by what happens to their rows.

    ``added`` keys are only in the new rows, ``removed`` keys only in the earlier rows. ``changed``
    and ``same`` keys are in both, with other values or with equal values. ``removed`` is 0 if rows
    are merged, because a key that was not read stays.
    """

    added: int = 0
    removed: int = 0
    changed: int = 0
    same: int = 0

    def __add__(self, other: KeyCounts) -> KeyCounts:
        return KeyCounts(
            self.added + other.added,
            self.removed + other.removed,
            self.changed + other.changed,
            self.same + other.same,
        )


class KeyComparison:
    """Reads files of a job, in types that both sides fit, and compares their rows by key."""

    def __init__(self, job: Job, schemas: Iterable[str], keys: Sequence[str]) -> None:
        """Take the recorded schemas of both sides and the names of the key columns."""
        first, *rest = schemas
        self._target = parse_schema(merged_text(first, rest))
        self._dataset_files = DatasetFiles(job.publishing.final_dir, "", job.writing)
        self._filesystem = filesystem_for(job.publishing.final_dir)
        self._keys = list(keys)

    def replaced(
        self, before: Iterable[PublishedFile], after: Iterable[PublishedFile]
    ) -> KeyCounts | None:
        """Compare files with the files that replace them; None if a file lacks a key column."""
        old, new = self._table(before), self._table(after)
        if old is None or new is None:
            return None
        return count_keys(old, new, self._keys)

    def merged(
        self, live: Iterable[PublishedFile], after: Iterable[PublishedFile]
    ) -> KeyCounts | None:
        """Compare rows with the live rows of the same keys; None if a file lacks a key column."""
        new = self._table(after)
        if new is None:
            return None
        found = []
        for file in live:
            table = self._table([file])
            if table is None:
                return None
            pairs = _last_rows(table, new, self._keys)
            is_read = pc.and_(pairs[_BEFORE].is_valid(), pairs[_AFTER].is_valid())
            found.append(table.take(pairs.filter(is_read)[_BEFORE]))
        old = pa.concat_tables(found, promote_options="default") if found else new.slice(0, 0)
        return count_keys(old, new, self._keys)

    def _table(self, files: Iterable[PublishedFile]) -> pa.Table | None:
        """Return the rows of files, None if a key column is missing."""
        if any(name not in self._target.names for name in self._keys):
            return None
        tables = [_nullable(self._target, self._keys).empty_table()]
        for file in files:
            path = self._filesystem.path_of(file.uri)
            source = row_file(self._filesystem, path, self._target)
            if any(name not in source.schema.names for name in self._keys):
                return None
            names = [name for name in source.schema.names if name in self._target.names]
            schema = _nullable(self._target, names)
            batches = [
                conform(batch.select(names), schema)
                for batch in source.batches(self._dataset_files)
            ]
            tables.append(pa.Table.from_batches(batches, schema))
        return pa.concat_tables(tables, promote_options="default")


def _nullable(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    return pa.schema([schema.field(name).with_nullable(nullable=True) for name in names])


def count_keys(before: pa.Table, after: pa.Table, keys: Sequence[str]) -> KeyCounts:
    """Compare two tables by key; of several rows with one key, the last one counts."""
    pairs = _last_rows(before, after, keys)
    is_old, is_new = pairs[_BEFORE].is_valid(), pairs[_AFTER].is_valid()
    both = pairs.filter(pc.and_(is_old, is_new))
    old, new = before.take(both[_BEFORE]), after.take(both[_AFTER])
    is_same = pa.repeat(pa.scalar(value=True), both.num_rows)
    for name in dict.fromkeys([*before.column_names, *after.column_names]):
        if name not in keys and name not in _NOT_COMPARED:
            equal = equal_values(_column(old, name, new), _column(new, name, old))
            is_same = pc.and_(is_same, equal)
    same = is_same.true_count
    return KeyCounts(
        added=pairs[_BEFORE].null_count,
        removed=pairs[_AFTER].null_count,
        changed=both.num_rows - same,
        same=same,
    )


def _last_rows(before: pa.Table, after: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return each key once, with the numbers of its last row in both tables, null without a row.

    The keys are grouped and not joined, because a join finds no key with a null.
    """
    sides = [
        pa.table(
            {
                **{key: identified(flat(table[key])) for key in keys},
                name: pa.array(range(table.num_rows), pa.int64()),
            }
        )
        for name, table in ((_BEFORE, before), (_AFTER, after))
    ]
    rows = pa.concat_tables(sides, promote_options="default")
    # With threads, Arrow would keep nearly all keys once for each of them.
    groups = rows.group_by(list(keys), use_threads=False)
    found = groups.aggregate([(_BEFORE, "max"), (_AFTER, "max")])
    return found.rename_columns([*keys, _BEFORE, _AFTER])


def _column(table: pa.Table, name: str, other: pa.Table) -> pa.Array:
    """Return a column as one array; all nulls if only the other table has it."""
    if name not in table.column_names:
        return pa.nulls(table.num_rows, other.schema.field(name).type)
    return flat(table[name])
