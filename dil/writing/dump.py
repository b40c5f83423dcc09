"""Writes response bodies into staged files, each with its final name (rule U6)."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from dil.errors import WriteError
from dil.model.arrow import typed_schema
from dil.model.schema import Column, Primitive
from dil.model.task import StagedFile
from dil.storage import Folder
from dil.writing.sink import MeasuredFile, write_errors

_COLUMNS = (
    Column("file", Primitive("string"), nullable=False),
    Column("data", Primitive("bytes"), nullable=False),
)


class DumpWriter:
    """Writes pieces of responses into files of a folder, one file per page; see ``FileNames``.

    The only file of a work unit gets a name without a number; several files get numbered names.
    Memory is bounded by a piece. A file counts as one row.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._open: MeasuredFile | None = None
        self._alone = self._numbered = ""  # the names of the open file
        self._done: list[tuple[StagedFile, str]] = []

    @property
    def schema(self) -> pa.Schema | None:
        """Return the chain's record of dumped files, None before the first file."""
        return typed_schema(_COLUMNS) if self._done or self._open else None

    def write(self, batch: pa.RecordBatch) -> None:
        """Append pieces with the columns of ``FileNames``.

        Raises:
            WriteError: the file system refused to write: it is full, forbidden or gone.
        """
        for alone, numbered, data in zip(*batch.columns, strict=True):
            if self._open is None or self._numbered != numbered.as_py():
                self._end_file()
                path = self._folder.file(f"dump-{len(self._done)}")
                self._open = MeasuredFile(self._folder.filesystem, path)
                self._alone, self._numbered = alone.as_py(), numbered.as_py()
            with write_errors(self._open.path):
                self._open.sink.write(data.as_buffer())

    def finish(self) -> tuple[StagedFile, ...]:
        """Finish the files and return them, durable and named; call it once, at the end.

        Raises:
            WriteError: see ``write``; or the size of a file differs from its written bytes.
        """
        self._end_file()
        there = self._folder.filesystem.files(self._folder.path)
        sizes = {file.path: file.size for file in there}
        for file, _ in self._done:
            if sizes.get(file.path) != file.bytes:
                raise WriteError(
                    f"{file.path} has {sizes.get(file.path, 0):,} of {file.bytes:,} bytes",
                    "Check the disk and the mount; nothing was published.",
                )
        if len(self._done) == 1:
            return tuple(file for file, _ in self._done)
        return tuple(replace(file, name=numbered) for file, numbered in self._done)

    def abort(self) -> None:
        """Delete all written files; safe to call at any time."""
        if self._open is not None:
            self._open.delete()
            self._open = None
        for file, _ in self._done:
            self._folder.filesystem.delete_file(file.path)
        self._done = []

    def _end_file(self) -> None:
        if self._open is None:
            return
        current, self._open = self._open, None
        try:
            with write_errors(current.path):
                file = current.finish(1)
        except BaseException:
            current.delete()
            raise
        self._done.append((replace(file, name=self._alone), self._numbered))
