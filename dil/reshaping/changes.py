"""Finds the changed keys of a run in its staged files, in buckets, with each key's newest change.

Buckets are ranges of keys, cut at keys of a sample: equal keys are in one bucket, and a file with
ordered keys has keys of few buckets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import ConversionError
from dil.observe.progress import counted
from dil.publishing.deletes import are_deletes
from dil.reshaping.files import DatasetFiles, RowFile, read_table, write_table
from dil.reshaping.keys import KeyReader, bucket_of, row_numbers
from dil.reshaping.reshaping import Stage

_SAMPLE_EVERY = 4096
# The staged rows that are not published: the number of their file, and their place in it.
DROPS = pa.schema([("file", pa.int32()), ("row", pa.int64())])


@dataclass(frozen=True, slots=True)
class NumberedFile:
    """One staged file by its number in the run: rows of files with greater numbers were read later.

    Within one work unit this is certain only among files of one ``lane``, which have the same
    folder and timelabel. ``unit`` and ``lane`` are numbers in the run.
    """

    number: int
    source: RowFile
    bytes: int
    unit: int
    lane: int


@dataclass(frozen=True, slots=True)
class DroppedRows:
    """Staged rows that are not published: a table of ``DROPS``, and the files that it names."""

    path: str
    files: frozenset[int]


@dataclass(frozen=True, slots=True)
class KeyRangeChanges:
    """The newest change of each key of a range; ``path`` is a table in the order of the keys."""

    path: str
    keys: int
    drops: DroppedRows | None


@dataclass(frozen=True, slots=True)
class Changes:
    """All changes of a run. ``bounds`` are the keys at which a new bucket begins."""

    bounds: pa.Table
    buckets: tuple[KeyRangeChanges, ...]


def changes_of(
    files: Sequence[NumberedFile],
    rows: int,
    dataset_files: DatasetFiles,
    keyed: KeyReader,
    stage: Stage,
) -> Changes | dict[int, ConversionError]:
    """Return the changes in staged files, with about ``rows`` keys in a bucket at most.

    If rows cannot be merged, return the errors by the numbers of their files instead.
    """
    size = sum(file.bytes for file in files)
    total = sum(stage(_Counted(dataset_files), files, 0))
    bounds = keyed.schema.empty_table().select(keyed.keys)
    if total > rows:
        sample = pa.concat_tables(stage(_Sampled(dataset_files, keyed), files, size))
        order = [(name, "ascending") for name in keyed.keys]
        ordered = sample.take(pc.sort_indices(sample, sort_keys=order))
        ordered = ordered.filter(keyed.is_last(ordered))
        step = max(1, ordered.num_rows // -(-total // rows))
        bounds = ordered.take(pa.array(range(step, ordered.num_rows, step), pa.int64()))
    pieces: dict[int, list[str]] = defaultdict(list)
    errors: dict[int, ConversionError] = {}
    for file, found in zip(
        files, stage(_Split(dataset_files, keyed, bounds), files, size), strict=True
    ):
        if isinstance(found, ConversionError):
            errors[file.number] = found
            continue
        for number, path in found.items():
            pieces[number].append(path)
    if errors:
        return errors
    paths = [tuple(pieces[number]) for number in range(bounds.num_rows + 1)]
    lanes = None
    if len({file.lane for file in files}) != len({file.unit for file in files}):
        lanes = pa.table(
            {"unit": [file.unit for file in files], "lane": [file.lane for file in files]},
            pa.schema([("unit", pa.int64()), ("lane", pa.int64())]),
        )
    buckets = []
    for settled in stage(_Settled(dataset_files, keyed, lanes), paths, size):
        if isinstance(settled, KeyRangeChanges):
            buckets.append(settled)
        else:
            errors.update(settled)
    return errors or Changes(bounds, tuple(buckets))


def write_drops(dataset_files: DatasetFiles, name: str, rows: pa.Table) -> DroppedRows | None:
    """Write the staged rows that are not published to a table; return None if there are none."""
    if not rows.num_rows:
        return None
    path = write_table(dataset_files, name, [rows.select(DROPS.names).cast(DROPS)], DROPS)
    return DroppedRows(path, frozenset(pc.unique(rows["file"]).to_pylist()))


def places_in_file(
    dataset_files: DatasetFiles, drops: Iterable[DroppedRows], number: int
) -> Iterator[pa.ChunkedArray]:
    """Yield the places, in one staged file, of the rows that these tables name."""
    for each in drops:
        if number in each.files:
            table = read_table(dataset_files, each.path)
            yield table.filter(pc.equal(table["file"], number))["row"]


@dataclass(frozen=True, slots=True)
class _Counted:
    """Counts the rows of a staged file; a footer, if the file has one, gives the number."""

    dataset_files: DatasetFiles

    def __call__(self, item: NumberedFile) -> int:
        return item.source.count(self.dataset_files)


@dataclass(frozen=True, slots=True)
class _Sampled:
    """Reads every n-th key of a staged file."""

    dataset_files: DatasetFiles
    keyed: KeyReader

    def __call__(self, item: NumberedFile) -> pa.Table:
        found = [self.keyed.schema.empty_table().select(self.keyed.keys)]
        columns = self.keyed.here(item.source.schema)
        for start, batch in item.source.numbered(self.dataset_files, columns):
            keys = self.keyed.of(batch).select(self.keyed.keys)
            chosen = range(-start % _SAMPLE_EVERY, batch.num_rows, _SAMPLE_EVERY)
            found.append(keys.take(pa.array(chosen, pa.int64())).drop_null())
        return pa.concat_tables(found)


@dataclass(frozen=True, slots=True)
class _Split:
    """Writes the changes of a staged file into a table for each bucket; returns their paths."""

    dataset_files: DatasetFiles
    keyed: KeyReader
    bounds: pa.Table

    def __call__(self, item: NumberedFile) -> dict[int, str] | ConversionError:
        folder = self.dataset_files.new_folder(f"keys-{item.number}")
        paths: dict[int, str] = {}
        sinks: dict[int, pa.ipc.RecordBatchFileWriter] = {}
        with ExitStack() as stack:
            try:
                for table in self._tables(item):
                    for number, part in self._parts(table):
                        if number not in sinks:
                            paths[number] = f"{folder}/bucket-{number}.arrow"
                            stream = self.dataset_files.filesystem.open_output(paths[number])
                            stack.enter_context(stream)
                            sink = pa.ipc.new_file(stream, part.schema)
                            sinks[number] = stack.enter_context(sink)
                        sinks[number].write_table(part)
            except ConversionError as error:
                return error
        return paths

    def _tables(self, item: NumberedFile) -> Iterator[pa.Table]:
        columns = self.keyed.here(item.source.schema)
        for start, batch in item.source.numbered(self.dataset_files, columns):
            table = self.keyed.of(batch)
            self.keyed.refuse_nulls(table, start)
            count = batch.num_rows
            yield (
                table.append_column("is_delete", are_deletes(batch, self.keyed.spec))
                .append_column("file", pa.repeat(pa.scalar(item.number, pa.int32()), count))
                .append_column("row", row_numbers(start, count))
            )

    def _parts(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        if not self.bounds.num_rows:
            yield 0, table
            return
        numbers = bucket_of(table, self.keyed.keys, self.bounds)
        for number in sorted(pc.unique(numbers).to_pylist()):
            yield number, table.filter(pc.equal(numbers, number))


@dataclass(frozen=True, slots=True)
class _Settled:
    """Finds the newest change of each key of a bucket.

    Older changes, and rows that say that their key was deleted, are not published. If it is unknown
    which row of a key is the newest, this returns errors by the numbers of the files. ``lanes`` has
    the unit and the lane of each file, None if no work unit has several lanes.
    """

    dataset_files: DatasetFiles
    keyed: KeyReader
    lanes: pa.Table | None

    def __call__(self, paths: tuple[str, ...]) -> KeyRangeChanges | dict[int, ConversionError]:
        tables = [read_table(self.dataset_files, path) for path in paths]
        if not tables:
            return KeyRangeChanges("", 0, None)
        ordered = self.keyed.sorted_rows(pa.concat_tables(tables), "file", "row")
        is_last = self.keyed.is_last(ordered)
        undecided = self._undecided(ordered, is_last)
        if undecided:
            return undecided
        newest = ordered.filter(is_last)
        dropped = ordered.filter(pc.or_(pc.invert(is_last), ordered["is_delete"]))
        return KeyRangeChanges(
            write_table(self.dataset_files, "newest", [newest], newest.schema),
            newest.num_rows,
            write_drops(self.dataset_files, "superseded", dropped),
        )

    def _undecided(self, ordered: pa.Table, is_last: pa.Array) -> dict[int, ConversionError]:
        """Return errors for files if their work unit has a key with equal deltas in several lanes.

        It is unknown which of these rows was read last: files keep the order of rows only within a
        lane.
        """
        if self.lanes is None:
            return {}
        place = self.lanes.take(ordered["file"])
        rows = ordered.append_column("unit", place["unit"]).append_column("lane", place["lane"])
        groups = self.keyed.groups(rows, "unit")
        newest = pc.is_in(groups, value_set=groups.filter(is_last))
        tied = (
            rows.append_column("group", groups)
            .filter(newest)
            .group_by("group")
            .aggregate([("lane", "count_distinct"), ("is_delete", "all"), ("file", "min")])
        )
        tied = tied.filter(
            pc.and_(pc.greater(tied["lane_count_distinct"], 1), pc.invert(tied["is_delete_all"]))
        )
        error = ConversionError(
            f"of {counted(tied.num_rows, 'key')} there are rows with equal extract.delta.fields in"
            " several folders, and the row that was read last is known only within one folder",
            "Name delta fields that distinguish the changes of a key in extract.delta.fields, or"
            " keep the rows together: without ms.table.partition.fields, ms.timelabel.column.",
        )
        return dict.fromkeys(tied["file_min"].to_pylist(), error)
