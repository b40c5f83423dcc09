"""Separates the rows of one work unit by column values, by timelabel, or by both."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import ConversionError
from dil.model.task import StagedFile
from dil.model.timelabels import label_folder
from dil.text.file_names import HIVE_NULL, hive_folder
from dil.types.widening import Widening, conform
from dil.writing.rewriting import Rewriting
from dil.writing.rolling import FileNumbers, OutputFolder, RollingFiles, RowPlacement

HELD_BYTES = 128 * 1024 * 1024
# This many rows are separated at a time: pages are small, and each step costs more than a row.
_SPLIT_ROWS = 65_536
_SPLIT_BYTES = 32 * 1024 * 1024
# The approximate bytes that a batch takes in memory besides its values.
_BATCH_BYTES = 4096
_KEY = "ms.table.partition.fields"
# The types whose values can name folders.
_NAMING_FOLDERS = (
    pa.types.is_string,
    pa.types.is_integer,
    pa.types.is_decimal,
    pa.types.is_boolean,
    pa.types.is_date,
)

Key: TypeAlias = "tuple[str | None, ...]"


@dataclass(frozen=True, slots=True)
class RowPartitioning:
    """The columns that distinguish rows, and the number of open files.

    ``fields`` are the columns; if ``keeps_columns`` is true, they stay in the files. If labels do
    not separate rows, all rows go below ``folder``, which has a folder for each column value. If
    ``labels_name_folders`` is true, files go into the lake folder of their label.
    """

    fields: tuple[str, ...] = ()
    keeps_columns: bool = False
    folder: str = ""
    labels_name_folders: bool = False
    most_open: int = 64


class PartitionedWriter:
    """Writes rows with the same key into files of their own, with one schema for all files.

    At most ``partitioning.most_open`` files are open; rows of other keys wait in memory. When too
    many rows wait, the rows of the largest waiting key are written, and the file that got no rows
    for the longest time is ended. When the open files hold too many bytes in memory, the largest
    file is ended. ``finish`` merges the small files that result. Runs in a task; memory is bounded
    by twice HELD_BYTES and a batch.
    """

    def __init__(self, output: OutputFolder, partitioning: RowPartitioning) -> None:
        self._output = output
        self._partitioning = partitioning
        self._widening = Widening()
        self._numbers = FileNumbers()
        self._rewriting = Rewriting(output, self._numbers)
        self._incoming = _Incoming()
        self._lanes: dict[Key, RollingFiles] = {}
        self._open: OrderedDict[Key, None] = OrderedDict()
        self._waiting: dict[Key, _Waiting] = {}

    @property
    def schema(self) -> pa.Schema | None:
        """Return the schema of all columns that fits all rows so far; None before the first row."""
        return self._widening.schema

    def write(self, batch: pa.RecordBatch, labels: pa.Array | None = None) -> None:
        """Append rows in the typed form of ``dil.model.arrow``; ``labels`` are their timelabels.

        Raises:
            WriteError: the file system refused to write.
            ConversionError: a value does not fit its column, or cannot name a folder.
        """
        if batch.num_rows == 0:
            return
        batch = conform(batch, self._widening.add(batch))
        if not self._incoming.fits(batch):
            self._split()
        self._incoming.add(batch, labels)
        if self._incoming.is_full:
            self._split()

    def finish(self) -> tuple[StagedFile, ...]:
        """Finish the files and return them; empty if there was no row. Call it once, at the end.

        Raises:
            WriteError: see ``write``.
            ConversionError: rows do not fit the schema, or the rows lack a column by which they are
                separated.
        """
        schema = self._widening.schema
        if schema is None:
            return ()
        missing = [name for name in self._partitioning.fields if name not in schema.names]
        if missing:
            raise ConversionError(
                f'{_KEY} names "{missing[0]}", but the rows have no such column',
                f"Name some of their columns: {', '.join(schema.names)}.",
            )
        self._split()
        for key in list(self._open):
            self._end(key)
        for key in list(self._waiting):
            self._write(key)
            self._lanes[key].end_file()
        inside = self._inside(schema)
        files = [
            file
            for lane in self._lanes.values()
            for file in self._rewriting.unified(lane, inside, joins_parts=True)
        ]
        self._rewriting.drop_replaced()
        return tuple(files)

    def abort(self) -> None:
        """Delete all written files; a file that is already gone is no error."""
        for lane in self._lanes.values():
            lane.delete()
        self._rewriting.delete()

    def _split(self) -> None:
        """Separate the collected rows by key, and write the rows that can be written now."""
        if not self._incoming.batches:
            return
        batch, labels = self._incoming.taken()
        for key, rows in self._groups(batch, labels):
            if key not in self._lanes:
                placement = self._placement(key)
                self._lanes[key] = RollingFiles(self._output, self._numbers, placement=placement)
            self._waiting.setdefault(key, _Waiting()).add(rows)
            if key in self._open or len(self._open) < self._partitioning.most_open:
                self._write_open(key)
        # Memory is bounded: first by the rows that wait, then by the rows that open files hold.
        waiting = sum(each.bytes for each in self._waiting.values())
        while waiting > HELD_BYTES:
            key = max(self._waiting, key=lambda each: self._waiting[each].bytes)
            waiting -= self._waiting[key].bytes
            if len(self._open) >= self._partitioning.most_open:
                self._end(next(iter(self._open)))
            self._write_open(key)
        held = {key: self._lanes[key].held_bytes for key in self._open}
        total = sum(held.values())
        while total > HELD_BYTES:
            largest = max(held, key=held.__getitem__)
            total -= held.pop(largest)
            self._end(largest)

    def _write_open(self, key: Key) -> None:
        """Write a key's waiting rows into its file; end the file if it is large enough."""
        self._open.pop(key, None)
        self._write(key)
        if self._lanes[key].is_open:
            self._open[key] = None

    def _write(self, key: Key) -> None:
        inside = self._inside(self._widening.schema)
        for rows in self._waiting.pop(key).batches:
            self._lanes[key].write(conform(rows, inside))

    def _end(self, key: Key) -> None:
        del self._open[key]
        self._lanes[key].end_file()

    def _placement(self, key: Key) -> RowPlacement:
        partitioning = self._partitioning
        label, *texts = key
        if not partitioning.keeps_columns and HIVE_NULL in texts:
            raise ConversionError(
                f'a column of {_KEY} holds the text "{HIVE_NULL}", which means null',
                "Convert the text at the source, or leave the column out.",
            )
        folder = (
            label_folder(label)
            if label and partitioning.labels_name_folders
            else partitioning.folder
        )
        parts = (folder, hive_folder(partitioning.fields, texts))
        return RowPlacement("/".join(part for part in parts if part), label or "")

    def _groups(
        self, batch: pa.RecordBatch, labels: pa.Array
    ) -> Iterator[tuple[Key, pa.RecordBatch]]:
        """Yield the rows of each key as copies, so that no key's rows keep the batch in memory."""
        rows, fields = batch, self._partitioning.fields
        if not self._partitioning.keeps_columns:
            rows = batch.drop_columns([name for name in fields if name in batch.schema.names])
        if rows.num_columns == 0:
            raise ConversionError(
                f"{_KEY} names every column of the rows, so no column remains to be written",
                "Remove a column from the property.",
            )
        columns = [_Column.of_labels(labels)]
        columns += [_Column.of_field(batch, name) for name in fields]
        for key, picked in _by_key(columns):
            yield key, rows if picked is None else rows.take(picked)

    def _inside(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the files."""
        if self._partitioning.keeps_columns:
            return schema
        kept = [field for field in schema if field.name not in self._partitioning.fields]
        return pa.schema(kept, metadata=schema.metadata)


@dataclass(slots=True)
class _Waiting:
    """The rows of one key that are not written yet."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    bytes: int = 0

    def add(self, rows: pa.RecordBatch) -> None:
        self.batches.append(rows)
        self.bytes += rows.nbytes + _BATCH_BYTES


@dataclass(slots=True)
class _Incoming:
    """Batches of one schema that are not separated yet, and the labels of their rows."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    labels: list[pa.Array] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0

    @property
    def is_full(self) -> bool:
        return self.rows >= _SPLIT_ROWS or self.bytes >= _SPLIT_BYTES

    def fits(self, batch: pa.RecordBatch) -> bool:
        first = self.batches[:1]
        return not first or bool(first[0].schema.equals(batch.schema, check_metadata=True))

    def add(self, batch: pa.RecordBatch, labels: pa.Array | None) -> None:
        self.batches.append(batch)
        self.labels.append(pa.nulls(batch.num_rows, pa.string()) if labels is None else labels)
        self.rows += batch.num_rows
        self.bytes += batch.nbytes

    def taken(self) -> tuple[pa.RecordBatch, pa.Array]:
        """Remove all batches; return their rows and labels as one batch."""
        batch, labels = pa.concat_batches(self.batches), pa.concat_arrays(self.labels)
        self.batches, self.labels, self.rows, self.bytes = [], [], 0, 0
        return batch, labels


@dataclass(frozen=True, slots=True)
class _Column:
    """The distinct values of one column, and the index of each row's value."""

    texts: Sequence[str | None]
    codes: pa.Array

    @classmethod
    def of_labels(cls, labels: pa.Array) -> _Column:
        known = labels.dictionary_encode(null_encoding="encode")
        return cls(known.dictionary.to_pylist(), known.indices.cast(pa.int64()))

    @classmethod
    def of_field(cls, batch: pa.RecordBatch, name: str) -> _Column:
        place = batch.schema.get_field_index(name)
        if place < 0 or pa.types.is_null(batch.schema.field(place).type):
            return cls((None,), pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows))
        values = batch.column(place)
        if not any(names_folders(values.type) for names_folders in _NAMING_FOLDERS):
            raise ConversionError(
                f'{_KEY} names "{name}", which holds {values.type}',
                "Name columns of text, whole numbers, decimals, booleans or dates.",
            )
        known = values.dictionary_encode(null_encoding="encode")
        texts = [_text(value) for value in known.dictionary.to_pylist()]
        return cls(texts, known.indices.cast(pa.int64()))


def _by_key(columns: Sequence[_Column]) -> Iterator[tuple[Key, pa.Array | None]]:
    """Yield each occurring key and the indexes of its rows; None means all rows."""
    codes = columns[0].codes
    for column in columns[1:]:
        codes = pc.add_checked(pc.multiply_checked(codes, len(column.texts)), column.codes)
    known = codes.dictionary_encode()
    if len(known.dictionary) == 1:
        yield _key(columns, known.dictionary[0].as_py()), None
        return
    order = pc.sort_indices(known.indices)
    runs = pc.run_end_encode(known.indices.take(order), run_end_type=pa.int64())
    start = 0
    for place, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield _key(columns, known.dictionary[place].as_py()), order.slice(start, end - start)
        start = end


def _key(columns: Sequence[_Column], code: int) -> Key:
    texts: list[str | None] = []
    for column in reversed(columns):
        code, place = divmod(code, len(column.texts))
        texts.append(column.texts[place])
    return tuple(reversed(texts))


def _text(value: object) -> str | None:
    """Return a value as text; equal numbers have equal texts, whatever their type's scale."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        plain = format(value, "f")
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    return str(value)
