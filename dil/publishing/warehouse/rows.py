"""Reads staged Parquet files as record batches that fit a table's columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from dil.errors import ConversionError, WriteError
from dil.model.dataset import Commit, Move
from dil.model.destination import DELETED_AT, MergeSpec
from dil.publishing.deletes import are_deletes
from dil.publishing.warehouse.dialect import TableColumn
from dil.publishing.warehouse.json_texts import are_plain, json_texts
from dil.storage import Filesystem
from dil.types.fitting import exact_cast
from dil.types.lattice import INSTANT
from dil.types.merging import wider
from dil.types.warehouse import JSON

SIGNATURE, LABEL = "_dil_signature", "_timelabel"
ORDER, GONE = "_dil_order", "_dil_gone"
ORDER_COLUMN = TableColumn(ORDER, pa.int64(), "bigint")
GONE_COLUMN = TableColumn(GONE, pa.int64(), "bigint")
# The most rows of each batch that is read; with rows of a kilobyte that is 16 MB.
_BATCH_ROWS = 16_384


class WarehouseFiles:
    """The staged files of one destination; the columns of a file are read once."""

    def __init__(self, filesystem: Filesystem) -> None:
        self._filesystem = filesystem
        self._schemas: dict[str, pa.Schema] = {}
        self._distinct: dict[bytes, pa.Schema] = {}

    def schema(self, path: str) -> pa.Schema:
        """Return the columns of a file; they never change, because the file is written once."""
        found = self._schemas.get(path)
        if found is None:
            with self.opened(path) as file:
                found = file.schema_arrow.remove_metadata()
            # Many files have equal columns, which share one object.
            found = self._distinct.setdefault(found.serialize().to_pybytes(), found)
            self._schemas[path] = found
        return found

    @contextmanager
    def opened(self, path: str) -> Iterator[Any]:
        """Yield an open file; close it afterwards.

        Raises:
            WriteError: the file does not exist.
        """
        try:
            with self._filesystem.open_input(path) as stream:
                yield pq.ParquetFile(stream)
        except FileNotFoundError as error:
            raise WriteError(
                f"the staged file {path} does not exist",
                "Run the job again: its message says what to do.",
            ) from error


@dataclass(frozen=True, slots=True)
class WarehouseRows:
    """The rows of a commit, in the order of their extraction.

    ``adds_signature`` adds each row's work unit as ``_dil_signature``, ``adds_label`` its label as
    ``_timelabel``. If a ``merge`` marks rows instead of deleting them, deleted rows get the
    commit's time in ``_dil_deleted_at``. ``clears_marks`` adds this column under any merge: an
    earlier merge may have marked a row that is written again.
    """

    commit: Commit
    files: WarehouseFiles
    adds_signature: bool = False
    merge: MergeSpec | None = None
    adds_label: bool = False
    clears_marks: bool = False

    def schema(self) -> pa.Schema:
        """Return one field per column, with a type that holds the values of all files."""
        found: dict[str, list[pa.DataType]] = {}
        for move in self.commit.moves:
            for field in self.files.schema(move.source):
                is_coded = pt.is_dictionary(field.type)
                kind = field.type.value_type if is_coded else field.type
                found.setdefault(field.name, []).append(kind)
        types = {name: reduce(wider, types) for name, types in found.items()}
        if self.adds_signature and self.commit.moves:
            types.setdefault(SIGNATURE, pa.string())
        if self.adds_label and self.commit.moves:
            types.setdefault(LABEL, pa.string())
        if self.merge is not None and self.merge.is_soft and self.commit.moves:
            types[DELETED_AT] = INSTANT
        if self.clears_marks and self.commit.moves:
            types.setdefault(DELETED_AT, INSTANT)
        return pa.schema(types.items())

    def batches(
        self, columns: Sequence[TableColumn], *, to_check: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches with these columns in their types; columns that a file lacks are null.

        For a merge, ``_dil_order`` and ``_dil_gone`` may be among the columns: the position of a
        row in the commit, and 1 for a row that the source deleted. If ``to_check`` is true, JSON
        that the database certainly accepts is replaced by ``{}``.

        Raises:
            ConversionError: a value does not fit its column.
        """
        read = 0
        for move in self.commit.moves:
            with self.files.opened(move.source) as file:
                names = {field.name for field in file.schema_arrow}
                wanted = [each.name for each in columns if each.name in names]
                if self.merge is not None and self.merge.op_field in names:
                    wanted.append(self.merge.op_field)
                for batch in file.iter_batches(_BATCH_ROWS, columns=list(dict.fromkeys(wanted))):
                    shown = _unmade(batch) if to_check else batch
                    yield self._fitted(shown, move, columns, read)
                    read += batch.num_rows

    def are_hard_deletes(self) -> bool:
        """Return whether each row deletes a row of the table, so that none is written."""
        if self.merge is None or self.merge.is_soft:
            return False
        return all(
            pc.all(pc.equal(batch[GONE], 1)).as_py() for batch in self.batches((GONE_COLUMN,))
        )

    def longest(self, names: Sequence[str]) -> Mapping[str, int]:
        """Return the number of characters in the longest text of each given column."""
        found = dict.fromkeys(names, 0)
        columns = [TableColumn(name, pa.string(), "") for name in names]
        for batch in self.batches(columns) if names else ():
            for name, values in zip(names, batch.columns, strict=True):
                length = pc.max(pc.utf8_length(values)).as_py()
                found[name] = max(found[name], length or 0)
        return found

    def _fitted(
        self, batch: pa.RecordBatch, move: Move, columns: Sequence[TableColumn], read: int
    ) -> pa.RecordBatch:
        rows, merge = batch.num_rows, self.merge
        arrays = []
        for column in columns:
            if merge is not None and column.name == ORDER:
                values = pa.array(range(read, read + rows), pa.int64())
            elif merge is not None and column.name == GONE:
                values = are_deletes(batch, merge).cast(pa.int64())
            elif merge is not None and merge.is_soft and column.name == DELETED_AT:
                time = pa.scalar(self.commit.system_time * 1000, pa.timestamp("us")).cast(INSTANT)
                values = pc.if_else(are_deletes(batch, merge), time, pa.scalar(None, INSTANT))
            elif column.name in batch.schema.names:
                values = batch[column.name]
            elif column.name == SIGNATURE and self.adds_signature:
                values = pa.repeat(pa.scalar(move.target.signature), rows)
            elif column.name == LABEL and self.adds_label:
                values = pa.repeat(pa.scalar(move.target.timelabel, pa.string()), rows)
            else:
                values = pa.nulls(rows)
            arrays.append(_cast(values, column))
        schema = pa.schema(
            (column.name, values.type) for column, values in zip(columns, arrays, strict=True)
        )
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _unmade(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with ``{}`` in place of values that certainly have a JSON form."""
    columns = [
        pc.if_else(values.is_valid(), "{}", pa.scalar(None, pa.string()))
        if pt.is_nested(values.type) and are_plain(values)
        else values
        for values in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _cast(values: pa.Array, column: TableColumn) -> pa.Array:
    """Return values in a column's type; JSON is text, in which NaN becomes null."""
    plain = values.dictionary_decode() if pt.is_dictionary(values.type) else values
    wanted = pa.string() if column.type == JSON else column.type
    if pt.is_nested(plain.type):
        plain = _json_texts(plain, column)
    try:
        if plain.type == wanted:
            return plain
        if pt.is_decimal(wanted) or pt.is_decimal(plain.type):
            return exact_cast(plain, wanted)
        return plain.cast(wanted)
    except (pa.ArrowException, ConversionError) as error:
        raise ConversionError(
            f"column {column.name} holds a value that does not fit the type {column.words}",
            "Give the table's column a wider type, or change the type of the job's rows.",
        ) from error


def _json_texts(values: pa.Array, column: TableColumn) -> pa.Array:
    try:
        return json_texts(values)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise ConversionError(
            f"column {column.name} holds a list, map or record that cannot be JSON: a key occurs"
            f" twice, or a time is outside of the years 1 to 9999 ({error})",
            "Correct the values with ms.derived.fields, or leave the column out.",
        ) from error
