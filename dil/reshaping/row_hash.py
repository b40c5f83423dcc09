"""The logical hash of rows: equal for equal rows in the same order, independent of files.

It is the SHA-256 of their Arrow IPC stream, in batches of 65,536 rows, dictionaries decoded and
without metadata (rule C12).
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from dil.reshaping.files import DatasetFiles, row_file
from dil.types.widening import conform

PREFIX = "f1220"
_BATCH_ROWS = 65_536


def logical_hash(dataset_files: DatasetFiles, paths: Sequence[str], schema: pa.Schema) -> str:
    """Return the hash of the rows of files, one file after the other, in one schema.

    Raises:
        WriteError: a file cannot be read.
        ConversionError: a value does not fit the schema.
    """

    def rows() -> Iterator[pa.RecordBatch]:
        for path in paths:
            file = row_file(dataset_files.filesystem, path, schema)
            for batch in file.batches(dataset_files):
                yield conform(batch, schema)

    return hash_of_batches(rows(), schema)


def hash_of_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> str:
    """Return the hash of rows, which does not depend on their batches."""
    sink = _Hash()
    plain = pa.schema(
        [
            (each.name, each.type.value_type if pa.types.is_dictionary(each.type) else each.type)
            for each in schema
        ]
    )
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), plain) as stream:
        for batch in _evenly(batches, plain):
            stream.write_batch(batch)
    return PREFIX + sink.digest.hexdigest()


def _evenly(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of one size, the last one smaller."""
    pending: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        pending.append(batch)
        count += batch.num_rows
        if count >= _BATCH_ROWS:
            whole = _joined(pending, schema)
            full = count - count % _BATCH_ROWS
            yield from whole.slice(0, full).combine_chunks().to_batches(_BATCH_ROWS)
            pending, count = whole.slice(full).to_batches(), count - full
    if count:
        yield from _joined(pending, schema).to_batches(_BATCH_ROWS)


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches).cast(schema).combine_chunks()


class _Hash(io.RawIOBase):
    """A write-only file that hashes the bytes that are written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        """Return True: the stream takes bytes."""
        return True

    def write(self, data: Any) -> int:  # whatever holds bytes
        """Hash some bytes."""
        view = memoryview(data)
        self.digest.update(view)
        return view.nbytes
