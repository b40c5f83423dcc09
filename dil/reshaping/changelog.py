"""The changelog of a merge: rows that came, went and changed, in files outside of the dataset.

A row of the changelog has the columns of the dataset, and ``op``: 0 for a row that came, 1 for a
row that went, 2 for a row before its change, and 3 for the row after the change, which is the next
row. If a merge leaves a row as it was, the row is not in the changelog.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import ConversionError
from dil.model.destination import DELETED_AT
from dil.model.task import StagedFile
from dil.reshaping.changes import DroppedRows, NumberedFile, places_in_file
from dil.reshaping.files import DatasetFiles, read_table, with_folder_columns
from dil.reshaping.keys import (
    DELETED_TYPE,
    equal_values,
    flat,
    is_among,
    merged_row_numbers,
    row_numbers,
)
from dil.reshaping.matching import Candidate, Change, ChangedRows, bytes_of
from dil.reshaping.reshaping import Stage
from dil.types.schema_lines import OP

OP_TYPE = pa.int32()
APPENDED, RETRACTED, CORRECTED_FROM, CORRECTED_TO = range(4)
# How many changed rows are in memory at once, each before and after its change.
_HELD_ROWS = 200_000
_ANYWHERE = StagedFile("", 0, 0, "")
# Several live rows that one staged row replaces; ``is_last`` marks the last of them.
_DOUBLED = pa.schema([("candidate", pa.int64()), ("position", pa.int64()), ("is_last", pa.bool_())])


@dataclass(frozen=True, slots=True)
class StagedSource:
    """A staged file of a run, and the folder that it goes to."""

    rows: NumberedFile
    folder: str


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A live file, and those of its rows that go, are replaced, or are marked as deleted."""

    item: Candidate
    rows: ChangedRows


@dataclass(frozen=True, slots=True)
class ChangelogWriter:
    """Writes changed rows in the schema ``target`` and with ``op``.

    ``deleted_at`` is the time with which rows are marked as deleted, epoch ms UTC.
    """

    dataset_files: DatasetFiles
    target: pa.Schema
    deleted_at: int

    def refuse_own_column(self) -> None:
        """Raise if the rows of the job already have a column ``op``.

        Raises:
            ConversionError: the rows have this column.
        """
        if OP in self.target.names:
            raise ConversionError(
                f'the rows have a column "{OP}", and ms.publish.changelog=true writes the kind of'
                " change into a column of this name",
                "Give the column another name: ms.schema.cleansing for a source, AS in a query. Or"
                " set ms.publish.changelog=false.",
            )

    def changelog(
        self,
        staged: Sequence[StagedSource],
        drops: Sequence[DroppedRows],
        changed: Sequence[ChangedFile],
        before: Sequence[Candidate],
        stage: Stage,
    ) -> tuple[StagedFile, ...]:
        """Return staged files with the changed rows, in the order for reading.

        Args:
            staged: The staged files of the run.
            drops: The rows of the staged files that are not published.
            changed: The live files in which rows change.
            before: The live files of which all rows are written first, as rows that came.
            stage: Runs the tasks.
        """
        size = sum(each.rows.bytes for each in staged)
        tables = tuple((each.item.number, each.rows) for each in changed)
        found = stage(_Appended(self, tuple(drops), tables), staged, size)
        doubled = pa.concat_tables([_DOUBLED.empty_table(), *(each.doubled for each in found)])
        by_number = {each.rows.number: each for each in staged}
        pairs = [
            (each, tuple(by_number[number] for number in sorted(each.rows.files)))
            for each in changed
        ]
        corrected = stage(
            _Corrected(self, doubled), pairs, size + bytes_of([each.item for each in changed])
        )
        copied = stage(_Copied(self), before, bytes_of(before))
        return tuple(
            file for made in (*copied, *corrected, *(each.files for each in found)) for file in made
        )

    def whole(self, batch: pa.RecordBatch, folder: str) -> pa.RecordBatch:
        """Return rows of a file in ``folder`` with all columns of the dataset."""
        return with_folder_columns(batch, folder, self.target)

    def write(self, name: str, batches: Iterator[pa.RecordBatch]) -> tuple[StagedFile, ...]:
        """Write rows that have ``op``."""
        return self.dataset_files.write(name, batches, _ANYWHERE)


@dataclass(frozen=True, slots=True)
class _Added:
    files: tuple[StagedFile, ...]
    doubled: pa.Table


@dataclass(frozen=True, slots=True)
class _Appended:
    """Writes a staged file's new rows; finds staged rows that each replace several live rows."""

    writer: ChangelogWriter
    drops: tuple[DroppedRows, ...]
    changed: tuple[tuple[int, ChangedRows], ...]

    def __call__(self, staged: StagedSource) -> _Added:
        dataset_files, number = self.writer.dataset_files, staged.rows.number
        replacing = pa.concat_tables(
            [
                _REPLACING.empty_table(),
                *(
                    _replacing(read_table(dataset_files, rows.path), number, candidate)
                    for candidate, rows in self.changed
                    if number in rows.files
                ),
            ]
        )
        dropped = places_in_file(dataset_files, self.drops, number)
        known = merged_row_numbers([replacing["row"], *dropped])
        new = (
            _with_op(
                self.writer.whole(
                    batch.filter(pc.invert(is_among(start, batch.num_rows, known))), staged.folder
                ),
                APPENDED,
            )
            for start, batch in staged.rows.source.numbered(dataset_files)
        )
        return _Added(self.writer.write(f"appended-{number}", new), _doubled(replacing))


_REPLACING = pa.schema([("candidate", pa.int64()), ("position", pa.int64()), ("row", pa.int64())])


def _replacing(table: pa.Table, file: int, candidate: int) -> pa.Table:
    """Return the candidate's live rows that rows of a staged file replace."""
    is_wanted = pc.and_(
        pc.equal(table["change"], Change.UPDATED.value), pc.equal(table["file"], file)
    )
    found = table.filter(is_wanted)
    names = [pa.repeat(pa.scalar(candidate, pa.int64()), found.num_rows), found["position"],
             found["row"]]  # fmt: skip
    return pa.table(names, schema=_REPLACING)


def _doubled(replacing: pa.Table) -> pa.Table:
    """Return live rows with equal keys, which other modes published before the first merge.

    The staged row replaces the last of these rows; the others count as rows that went.
    """
    order = [(name, "ascending") for name in ("row", "candidate", "position")]
    ordered = replacing.take(pc.sort_indices(replacing, sort_keys=order))
    rows = flat(ordered["row"])
    if len(rows) < 2:  # noqa: PLR2004 - a row has to have a neighbour
        return _DOUBLED.empty_table()
    goes_on, none = pc.equal(rows[:-1], rows[1:]), pa.array([False])
    before, after = pa.concat_arrays([none, goes_on]), pa.concat_arrays([goes_on, none])
    found = pa.table([ordered["candidate"], ordered["position"], pc.invert(after)], schema=_DOUBLED)
    return found.filter(pc.or_(before, after))


@dataclass(frozen=True, slots=True)
class _Copied:
    """Writes all rows of a live file as rows that came."""

    writer: ChangelogWriter

    def __call__(self, item: Candidate) -> tuple[StagedFile, ...]:
        rows = (
            _with_op(self.writer.whole(batch, item.folder), APPENDED)
            for batch in item.source.batches(self.writer.dataset_files)
        )
        return self.writer.write(f"before-{item.number}", rows)


@dataclass(frozen=True, slots=True)
class _Corrected:
    """Writes the rows that change in a live file, each before the row that replaces it, if any."""

    writer: ChangelogWriter
    doubled: pa.Table

    def __call__(
        self, pair: tuple[ChangedFile, tuple[StagedSource, ...]]
    ) -> tuple[StagedFile, ...]:
        changed, sources = pair
        rows = self._rows(changed, {each.rows.number: each for each in sources})
        return self.writer.write(f"corrected-{changed.item.number}", rows)

    def _rows(
        self, changed: ChangedFile, sources: Mapping[int, StagedSource]
    ) -> Iterator[pa.RecordBatch]:
        dataset_files, item = self.writer.dataset_files, changed.item
        entries = self._entries(read_table(dataset_files, changed.rows.path), item.number)
        positions = flat(entries["position"])
        held: list[pa.RecordBatch] = []
        done = count = 0
        for start, batch in item.source.numbered(dataset_files):
            found = batch.filter(is_among(start, batch.num_rows, positions))
            if found.num_rows:
                held.append(self.writer.whole(found, item.folder))
                count += found.num_rows
            if count >= _HELD_ROWS:
                yield from self._changes(held, entries.slice(done, count), sources)
                held, done, count = [], done + count, 0
        if count:
            yield from self._changes(held, entries.slice(done, count), sources)

    def _entries(self, table: pa.Table, candidate: int) -> pa.Table:
        """Return the changes of rows, in the order of the rows.

        Among rows with equal keys, ``is_kept`` is true for the last, ``is_extra`` for the rest.
        """
        own = self.doubled.filter(pc.equal(self.doubled["candidate"], candidate))
        ordered = table.take(pc.sort_indices(table, sort_keys=[("position", "ascending")]))
        for name, chosen in (("is_extra", pc.invert(own["is_last"])), ("is_kept", own["is_last"])):
            places = flat(own.filter(chosen)["position"])
            ordered = ordered.append_column(name, pc.is_in(ordered["position"], value_set=places))
        return ordered.combine_chunks()

    def _changes(
        self,
        held: Sequence[pa.RecordBatch],
        entries: pa.Table,
        sources: Mapping[int, StagedSource],
    ) -> Iterator[pa.RecordBatch]:
        old = pa.Table.from_batches(held)
        places = row_numbers(0, old.num_rows)
        change = flat(entries["change"])
        is_pair = pc.and_(
            pc.equal(change, Change.UPDATED.value), pc.invert(flat(entries["is_extra"]))
        )
        is_marked = pc.equal(change, Change.MARKED.value)
        pairs = entries.filter(is_pair)
        new = self._new(pairs, sources)
        same = pc.and_(_are_same(old.filter(is_pair), new), pc.invert(flat(pairs["is_kept"])))
        at, left = places.filter(is_pair), pc.invert(same)
        goes = pc.invert(pc.is_in(places, value_set=at.filter(same)))
        op = pc.if_else(pc.or_(is_pair, is_marked), CORRECTED_FROM, RETRACTED)
        found = pa.concat_tables(
            [
                _placed(old.filter(goes), pc.multiply(places.filter(goes), 2), op.filter(goes)),
                _placed(new.filter(left), _behind(at.filter(left))),
                _placed(self._marked(old.filter(is_marked)), _behind(places.filter(is_marked))),
            ]
        )
        ordered = found.take(pc.sort_indices(found, sort_keys=[("place", "ascending")]))
        yield from ordered.drop_columns(["place"]).combine_chunks().to_batches()

    def _new(self, pairs: pa.Table, sources: Mapping[int, StagedSource]) -> pa.Table:
        """Return for each pair the staged row that replaces the live row."""
        found = [self.writer.target.empty_table()]
        order = [pa.array([], pa.int64())]
        place = row_numbers(0, pairs.num_rows)
        for number in pc.unique(pairs["file"]).to_pylist():
            is_here = flat(pc.equal(pairs["file"], number))
            wanted = flat(pairs["row"].filter(is_here))
            order.append(place.filter(is_here).take(pc.sort_indices(wanted)))
            rows, source = merged_row_numbers([wanted]), sources[number]
            for start, batch in source.rows.source.numbered(self.writer.dataset_files):
                chosen = batch.filter(is_among(start, batch.num_rows, rows))
                whole = self.writer.whole(chosen, source.folder)
                found.append(pa.Table.from_batches([whole]))
        return pa.concat_tables(found).take(pc.sort_indices(pa.concat_arrays(order)))

    def _marked(self, rows: pa.Table) -> pa.Table:
        """Return rows with the mark that they are deleted."""
        if not rows.num_rows:
            return rows
        at = pa.scalar(self.writer.deleted_at * 1000, DELETED_TYPE)
        place = rows.schema.get_field_index(DELETED_AT)
        return rows.set_column(place, rows.schema.field(place), pa.repeat(at, rows.num_rows))


def _placed(rows: pa.Table, places: pa.Array, op: pa.Array | None = None) -> pa.Table:
    """Return rows with their places and ``op``; by default ``op`` means a row after its change."""
    if op is None:
        op = pa.repeat(pa.scalar(CORRECTED_TO), rows.num_rows)
    with_op = rows.append_column(pa.field(OP, OP_TYPE, nullable=False), op.cast(OP_TYPE))
    return with_op.append_column("place", places)


def _behind(places: pa.Array) -> pa.Array:
    return pc.add(pc.multiply(places, 2), 1)


def _are_same(one: pa.Table, other: pa.Table) -> pa.Array:
    """Return for each row of ``one`` whether it equals the row at the same place of ``other``."""
    columns = (equal_values(flat(one[name]), flat(other[name])) for name in one.schema.names)
    return reduce(pc.and_, columns, pa.repeat(pa.scalar(value=True), one.num_rows))


def _with_op(batch: pa.RecordBatch, op: int) -> pa.RecordBatch:
    field = pa.field(OP, OP_TYPE, nullable=False)
    return batch.append_column(field, pa.repeat(pa.scalar(op, OP_TYPE), batch.num_rows))
