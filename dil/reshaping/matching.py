"""Finds the live files that may hold changed keys, and the rows that leave these files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dil.errors import ConversionError
from dil.model.dataset import PublishedFile
from dil.model.destination import DELETED_AT
from dil.model.job import OutputFormat
from dil.model.task import StagedFile
from dil.reshaping.changes import DROPS, Changes, DroppedRows, write_drops
from dil.reshaping.files import (
    DatasetFiles,
    RowFile,
    format_of,
    opened,
    read_table,
    row_file,
    unknown_column,
    write_table,
)
from dil.reshaping.keys import (
    DELETED_TYPE,
    KeyReader,
    bucket_of,
    flat,
    is_among,
    merged_row_numbers,
    places_of,
    row_numbers,
)
from dil.types.widening import conform

_NONE = pa.array([], pa.int64())


class Change(IntEnum):
    """What a merge does to a row of a live file."""

    UPDATED = 0
    DELETED = 1
    MARKED = 2


# Rows of a live file that change. ``file`` and ``row`` name the staged row that replaces each.
CHANGED = pa.schema(
    [("position", pa.int64()), ("change", pa.int8()), ("file", pa.int32()), ("row", pa.int64())]
)
_UNKNOWN: tuple[Any, Any] = (None, None)
# For these types the statistics of row groups are exact bounds in the files of all writers.
_BOUNDED = (
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date32,
    pa.types.is_decimal128,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A live file that may hold changed keys.

    ``groups`` are the row groups that may have changed keys, None for all; ``buckets`` are the
    numbers of the buckets with these keys. ``target`` is the schema for the file's rows. If
    ``must`` is true, the file is rewritten even if no row goes.
    """

    number: int
    file: PublishedFile
    source: RowFile
    target: pa.Schema
    folder: str
    buckets: tuple[int, ...]
    groups: tuple[int, ...] | None = None
    must: bool = False


def bytes_of(items: Iterable[Candidate]) -> int:
    """Return the total size of live files."""
    return sum(item.file.bytes for item in items)


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """A table of ``CHANGED``, and the staged files that it names."""

    path: str
    files: frozenset[int]


@dataclass(frozen=True, slots=True)
class FileMatch:
    """The result for a candidate; ``drops`` are staged rows older than the candidate's live rows.

    ``updated`` counts the candidate's rows that were replaced; ``deleted`` counts its rows that
    went without a replacement, or were marked as deleted. If wanted, ``met`` are the staged rows
    with keys of the candidate, and ``changed`` are all rows of the candidate that change.
    """

    is_changed: bool
    rewritten: tuple[StagedFile, ...] = ()
    drops: DroppedRows | None = None
    updated: int = 0
    deleted: int = 0
    met: DroppedRows | None = None
    changed: ChangedRows | None = None


@dataclass(frozen=True, slots=True)
class LiveRowCount:
    """How many rows of a live file are not deleted, and how many of these the run did not read."""

    rows: int
    missing: int


@dataclass(slots=True)
class _Found:
    """Row numbers of a live file: rows that go, and rows that are marked as deleted."""

    gone: list[pa.ChunkedArray] = field(default_factory=list)
    marked: list[pa.ChunkedArray] = field(default_factory=list)
    lost: list[pa.Table] = field(default_factory=list)
    met: list[pa.Table] = field(default_factory=list)
    changed: list[pa.Table] = field(default_factory=list)
    missing: int = 0
    rows: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class Matching:
    """Applies the changes of a run to live files. ``deleted_at`` is epoch ms UTC.

    If ``keeps_met`` is true, results also have the changes whose key a live row has. If
    ``keeps_changed`` is true, results also have the live rows that change.
    """

    dataset_files: DatasetFiles
    keyed: KeyReader
    changes: Changes
    detects_missing: bool
    deleted_at: int
    keeps_met: bool = False
    keeps_changed: bool = False

    def count(self, item: Candidate) -> LiveRowCount:
        """Return the count of a live file's rows whose key the run did not read; runs in a task."""
        found = self._find(item)
        return LiveRowCount(found.rows, found.missing)

    def merge(self, item: Candidate) -> FileMatch | ConversionError:
        """Rewrite a live file without the rows that go, if there are any; runs in a task."""
        strange = [name for name in item.source.schema.names if name not in item.target.names]
        if strange:
            return unknown_column(item.source.path, strange[0])
        try:
            found = self._find(item)
        except ConversionError as error:
            return ConversionError(f"{item.file.uri}: {error.message}", error.fix)
        drops = None
        if found.lost:
            drops = write_drops(
                self.dataset_files, f"older-{item.number}", pa.concat_tables(found.lost)
            )
        met = None
        if found.met:
            met = write_drops(self.dataset_files, f"met-{item.number}", pa.concat_tables(found.met))
        if not (item.must or found.gone or found.marked):
            return FileMatch(is_changed=False, drops=drops, met=met)
        model = StagedFile("", 0, 0, "", folder=item.folder, timelabel=item.file.timelabel or "")
        try:
            made = self.dataset_files.write(f"live-{item.number}", self._rows(item, found), model)
        except ConversionError as error:
            return ConversionError(f"{item.file.uri}: {error.message}", error.fix)
        changed = None
        if found.changed:
            table = pa.concat_tables(found.changed)
            path = write_table(self.dataset_files, f"changed-{item.number}", [table], CHANGED)
            files = frozenset(pc.unique(table["file"].drop_null()).to_pylist())
            changed = ChangedRows(path, files)
        return FileMatch(
            is_changed=True,
            rewritten=made,
            drops=drops,
            updated=found.updated,
            deleted=found.deleted,
            met=met,
            changed=changed,
        )

    def _rows(self, item: Candidate, found: _Found) -> Iterator[pa.RecordBatch]:
        gone, marked = merged_row_numbers(found.gone), merged_row_numbers(found.marked)
        at = pa.scalar(self.deleted_at * 1000, DELETED_TYPE)
        for start, batch in item.source.numbered(self.dataset_files):
            rows = conform(batch, item.target)
            if len(marked):
                place = rows.schema.get_field_index(DELETED_AT)
                is_marked = is_among(start, batch.num_rows, marked)
                times = pc.if_else(is_marked, at, rows.column(place))
                rows = rows.set_column(place, rows.schema.field(place), times)
            yield rows.filter(pc.invert(is_among(start, batch.num_rows, gone)))

    def _find(self, item: Candidate) -> _Found:
        found = _Found()
        if not self.keyed.has_keys(item.source.schema):
            return found
        table = pa.concat_tables(self._key_tables(item))
        found.rows = table.num_rows - pc.sum(table["is_marked"], min_count=0).as_py()
        is_one = not self.changes.bounds.num_rows
        numbers = None if is_one else bucket_of(table, self.keyed.keys, self.changes.bounds)
        for number in item.buckets:
            live = table if numbers is None else table.filter(pc.equal(numbers, number))
            path = self.changes.buckets[number].path
            if not live.num_rows or not (path or self.detects_missing):
                continue
            if path:
                newest = read_table(self.dataset_files, path)
            else:
                more = [("is_delete", pa.bool_()), *zip(DROPS.names, DROPS.types, strict=True)]
                columns = [*self.keyed.schema, *(pa.field(*each) for each in more)]
                newest = pa.schema(columns).empty_table()
            self._match(live, newest, found)
        return found

    def _key_tables(self, item: Candidate) -> Iterator[pa.Table]:
        keyed = self.keyed
        columns = keyed.here(item.source.schema)
        if keyed.spec.is_soft and DELETED_AT in item.source.schema.names:
            columns.append(DELETED_AT)
        names = [*keyed.keys, *(f"live_{name}" for name in keyed.deltas)]
        yield (
            keyed.schema.empty_table()
            .rename_columns(names)
            .append_column("position", _NONE)
            .append_column("is_marked", pa.array([], pa.bool_()))
        )
        for start, batch in item.source.numbered(self.dataset_files, columns, item.groups):
            marks = pa.repeat(pa.scalar(value=False), batch.num_rows)
            if DELETED_AT in columns:
                marks = batch.column(DELETED_AT).is_valid()
            yield (
                keyed.of(batch)
                .rename_columns(names)
                .append_column("position", row_numbers(start, batch.num_rows))
                .append_column("is_marked", marks)
            )

    def _match(self, live: pa.Table, newest: pa.Table, found: _Found) -> None:
        """Add the effects of one bucket's changes on live rows to ``found``."""
        pairs = live.join(newest, self.keyed.keys, join_type="inner")
        if self.keeps_met:
            found.met.append(pairs.select(DROPS.names))
        is_newer = self.keyed.newer(pairs, "live_")
        lost = pairs.filter(pc.and_(is_newer, pc.invert(pairs["is_delete"])))
        if lost.num_rows:
            found.lost.append(lost.select(DROPS.names))
        hit = pairs.filter(pc.invert(is_newer))
        updated = hit.filter(pc.invert(hit["is_delete"]))
        found.updated += updated.num_rows
        self._take(updated, Change.UPDATED, found)
        self._delete(hit.filter(hit["is_delete"]), found)
        if self.detects_missing:
            has_key = reduce(pc.and_, (live[name].is_valid() for name in self.keyed.keys))
            missing = live.filter(has_key).join(newest, self.keyed.keys, join_type="left anti")
            missing = missing.filter(pc.invert(missing["is_marked"]))
            found.missing += missing.num_rows
            self._delete(missing, found)

    def _delete(self, rows: pa.Table, found: _Found) -> None:
        is_soft = self.keyed.spec.is_soft
        deleted = rows.filter(pc.invert(rows["is_marked"])) if is_soft else rows
        found.deleted += deleted.num_rows
        self._take(deleted, Change.MARKED if is_soft else Change.DELETED, found)

    def _take(self, rows: pa.Table, change: Change, found: _Found) -> None:
        if not rows.num_rows:
            return
        position, count = rows["position"], rows.num_rows
        (found.marked if change is Change.MARKED else found.gone).append(position)
        if not self.keeps_changed:
            return
        is_update = change is Change.UPDATED
        places = [rows[name] if is_update else pa.nulls(count) for name in DROPS.names]
        kinds = pa.repeat(pa.scalar(change.value, pa.int8()), count)
        columns = [position, kinds, *places]
        found.changed.append(pa.table(columns, names=CHANGED.names).cast(CHANGED))


@dataclass(frozen=True, slots=True)
class BoundsReader:
    """Reads the metadata of a live file: its schema, and the bounds of keys in its row groups."""

    dataset_files: DatasetFiles
    keyed: KeyReader
    known: pa.Schema

    def __call__(self, path: str) -> tuple[RowFile, pa.Table | None]:
        """Return a file and its row groups' bounds, None if it has no bounds; runs in a task.

        The columns of the bounds are ``group``, the number of the row group, and ``low_k0``,
        ``high_k0``... for each key column. If the file has no bounds for a key column, its two
        columns are null.

        Raises:
            ConversionError: the file has a column that is not known.
            WriteError: the file cannot be read.
        """
        if format_of(path) is not OutputFormat.PARQUET:
            return row_file(self.dataset_files.filesystem, path, self.known), None
        with opened(self.dataset_files.filesystem, path) as stream:
            file = pq.ParquetFile(stream)
            source, footer = RowFile(path, file.schema_arrow), file.metadata
        return source, self._bounds(source.schema, footer)

    def _bounds(self, schema: pa.Schema, footer: pq.FileMetaData) -> pa.Table:
        groups = range(footer.num_row_groups if self.keyed.has_keys(schema) else 0)
        places = self._places(schema, footer.row_group(0)) if groups else {}
        columns = {"group": pa.array(groups, pa.int64())}
        for name in self.keyed.keys:
            kind = self.keyed.schema.field(name).type
            bounds = [_UNKNOWN] * len(groups)
            if name in places:
                at = places[name]
                found = (footer.row_group(group).column(at).statistics for group in groups)
                bounds = [_bounds_of(statistics, kind) for statistics in found]
            columns[f"low_{name}"] = pa.array([low for low, _ in bounds], kind)
            columns[f"high_{name}"] = pa.array([high for _, high in bounds], kind)
        return pa.table(columns)

    def _places(self, schema: pa.Schema, group: pq.RowGroupMetaData) -> dict[str, int]:
        """Return the key columns with usable statistics, and their indexes in the file."""
        # A column "a.b" and the member "b" of a record "a" have the same path: neither is used
        # then. The footer's own schema has the paths too, but keeps the whole footer in memory.
        paths = [group.column(at).path_in_schema for at in range(group.num_columns)]
        counts = Counter(paths)
        places = {path: at for at, path in enumerate(paths) if counts[path] == 1}
        columns = {}
        for name, key in zip(self.keyed.keys, self.keyed.spec.keys, strict=True):
            here, wanted = schema.field(key).type, self.keyed.target.field(key).type
            both_whole = pa.types.is_integer(here) and pa.types.is_integer(wanted)
            is_micros = here == wanted and pa.types.is_timestamp(here) and here.unit in {"ms", "us"}
            is_bounded = here == wanted and any(is_kind(here) for is_kind in _BOUNDED)
            if key in places and (both_whole or is_micros or is_bounded):
                columns[name] = places[key]
        return columns


def _bounds_of(statistics: Any, kind: pa.DataType) -> tuple[Any, Any]:  # pq.Statistics
    """Return the least and the greatest key of a row group, None if they are not known."""
    if statistics is None or not statistics.has_min_max:
        return _UNKNOWN
    try:
        return pa.scalar(statistics.min, kind), pa.scalar(statistics.max, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return _UNKNOWN


@dataclass(frozen=True, slots=True)
class KeySearch:
    """Finds the live files that may hold changed keys; runs on the driver."""

    dataset_files: DatasetFiles
    keyed: KeyReader
    changes: Changes

    def narrowed(
        self, files: Sequence[Candidate], bounds: Sequence[pa.Table | None]
    ) -> list[Candidate]:
        """Return the files that may hold changed keys, with the buckets and row groups.

        ``bounds`` has the result of ``BoundsReader`` for each file; a file without bounds may hold
        any key.
        """
        buckets: list[list[int]] = [[] for _ in files]
        groups: list[set[int]] = [set() for _ in files]
        unbounded = [
            at
            for at, item in enumerate(files)
            if bounds[at] is None and self.keyed.has_keys(item.source.schema)
        ]
        bounded = self._together(bounds)
        for number, bucket in enumerate(self.changes.buckets):
            if not bucket.keys:
                continue
            keys = read_table(self.dataset_files, bucket.path).select(self.keyed.keys)
            hits = bounded.take(may_hold(bounded, keys))
            for at, group in zip(hits["file"].to_pylist(), hits["group"].to_pylist(), strict=True):
                groups[at].add(group)
            for at in {*unbounded, *hits["file"].to_pylist()}:
                buckets[at].append(number)
        narrowed = (
            replace(
                item,
                buckets=tuple(buckets[at]),
                groups=None if bounds[at] is None else tuple(sorted(groups[at])),
            )
            for at, item in enumerate(files)
        )
        return [item for item in narrowed if item.buckets or item.must]

    def _together(self, bounds: Sequence[pa.Table | None]) -> pa.Table:
        """Return the bounds of all files; ``file`` is the number of a file."""
        names = [("group", pa.int64())]
        for name in self.keyed.keys:
            kind = self.keyed.schema.field(name).type
            names += [(f"low_{name}", kind), (f"high_{name}", kind)]
        tables = [pa.schema([*names, ("file", pa.int64())]).empty_table()]
        for at, each in enumerate(bounds):
            if each is not None:
                number = pa.repeat(pa.scalar(at, pa.int64()), each.num_rows)
                tables.append(each.append_column("file", number))
        return pa.concat_tables(tables).combine_chunks()


def may_hold(groups: pa.Table, keys: pa.Table) -> pa.Array:
    """Return the indexes of the row groups that have a key within their bounds.

    ``groups`` has the bounds of ``BoundsReader``; ``keys`` has only key columns, and is ordered.
    """
    first = pa.repeat(pa.scalar(0, pa.int64()), groups.num_rows)
    last = pa.repeat(pa.scalar(keys.num_rows, pa.int64()), groups.num_rows)
    # Between first and last, a key column ascends if all key columns before it are equal there.
    is_ordered = pa.repeat(pa.scalar(value=True), groups.num_rows)
    is_left = pa.repeat(pa.scalar(value=False), groups.num_rows)
    for name in keys.column_names:
        low, high = flat(groups[f"low_{name}"]), flat(groups[f"high_{name}"])
        is_known = low.is_valid()
        is_left = pc.or_(is_left, pc.and_(is_known, pc.invert(is_ordered)))
        is_ordered = pc.and_(is_ordered, is_known)
        if not pc.any(is_ordered).as_py():
            continue
        column = flat(keys[name])
        begin = places_of(low, column, first, last, is_after=False)
        end = places_of(high, column, begin, last, is_after=True)
        first, last = pc.if_else(is_ordered, begin, first), pc.if_else(is_ordered, end, last)
        is_ordered = pc.and_(is_ordered, pc.fill_null(pc.equal(low, high), fill_value=False))
    holds = pc.less(first, last)
    sure = pc.indices_nonzero(pc.and_(holds, pc.invert(is_left)))
    left = [
        at
        for at in pc.indices_nonzero(pc.and_(holds, is_left)).to_pylist()
        if _is_within(groups.slice(at, 1), keys[first[at].as_py() : last[at].as_py()])
    ]
    return pa.concat_arrays([sure, pa.array(left, sure.type)])


def _is_within(group: pa.Table, keys: pa.Table) -> bool:
    """Return whether any key is within all bounds of a row group."""
    is_here = pa.repeat(pa.scalar(value=True), keys.num_rows)
    for name in keys.column_names:
        low, high = group[f"low_{name}"][0], group[f"high_{name}"][0]
        if low.is_valid:
            between = pc.and_(pc.greater_equal(keys[name], low), pc.less_equal(keys[name], high))
            is_here = pc.and_(is_here, between)
    return bool(pc.any(is_here).as_py())
