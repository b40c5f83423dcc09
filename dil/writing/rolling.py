"""Consecutive files of one attempt, each ended when it is large enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import BinaryIO, cast

import pyarrow as pa

from dil.errors import ConversionError, DilError
from dil.model.job import WritingSpec
from dil.model.task import StagedFile
from dil.spi.plugin_failures import plugin_failure
from dil.spi.writer import FileWriter
from dil.storage import Filesystem, Folder
from dil.writing.sink import MeasuredFile, write_errors


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A finished file and the schema with which it was written.

    ``is_part`` is true if the file has less than half the target size: neighbouring files of this
    size may be merged.
    """

    file: StagedFile
    schema: pa.Schema
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class OutputFolder:
    """A folder for files of rows, and the settings for writing them."""

    folder: Folder
    spec: WritingSpec
    writer_class: type[FileWriter]

    @property
    def filesystem(self) -> Filesystem:
        """Return the filesystem of the folder."""
        return self.folder.filesystem

    def path(self, number: int) -> str:
        """Return the path of the n-th file."""
        return self.folder.file(f"part-{number}.{self.writer_class.extension}")


@dataclass(slots=True)
class FileNumbers:
    """Numbers the files of one folder; all writers of the folder share them."""

    next: int = 0

    def take(self) -> int:
        """Return a number that no other file of the folder has."""
        number = self.next
        self.next += 1
        return number


@dataclass(frozen=True, slots=True)
class RowPlacement:
    """The place of files that hold only some of the rows; for both members see ``StagedFile``."""

    folder: str = ""
    timelabel: str = ""


TOGETHER = RowPlacement()


class RollingFiles:
    """Writes batches into files ``part-<n>``, numbered by ``numbers``; makes no file without a row.

    ``written`` are finished files that come before all files of this writer. ``placement`` is the
    files' place after the publish.
    """

    def __init__(
        self,
        output: OutputFolder,
        numbers: FileNumbers,
        written: Iterable[WrittenFile] = (),
        placement: RowPlacement = TOGETHER,
    ) -> None:
        self._output = output
        self._numbers = numbers
        self._open: _OpenFile | None = None
        self.placement = placement
        self.written: list[WrittenFile] = list(written)

    @property
    def is_open(self) -> bool:
        """Return whether a file is open."""
        return self._open is not None

    @property
    def held_bytes(self) -> int:
        """Return the approximate number of bytes that the open file holds in memory."""
        return 0 if self._open is None else self._open.held_bytes

    @property
    def open_rows(self) -> int:
        """Return the number of rows in the open file, 0 if none is open."""
        return 0 if self._open is None else self._open.rows

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch; if its schema differs from the open file's, begin a new file."""
        if batch.num_rows == 0:
            return
        if self._open and not self._open.schema.equals(batch.schema, check_metadata=True):
            self.end_file()
        if self._open is None:
            self._open = _OpenFile(self._output, self._numbers.take(), batch.schema)
        self._open.write(batch)
        if self._open.bytes >= self._output.spec.target_bytes:
            self.end_file()

    def end_file(self) -> None:
        """Finish the open file, if there is one, and make it durable."""
        if self._open is not None:
            current, self._open = self._open, None
            self.written.append(current.finish(self.placement))

    def abandon_file(self) -> None:
        """Delete the open file, if there is one; safe to call at any time."""
        if self._open is not None:
            self._open.abandon()
            self._open = None

    def delete(self) -> None:
        """Delete all files, finished or not; safe to call at any time."""
        self.abandon_file()
        for written in self.written:
            self._output.filesystem.delete_file(written.file.path)
        self.written = []


class _OpenFile:
    def __init__(self, output: OutputFolder, number: int, schema: pa.Schema) -> None:
        self.schema = schema
        self._output = output
        self.rows = 0
        self._file = MeasuredFile(output.filesystem, output.path(number))
        try:
            with self._errors():
                sink = cast("BinaryIO", self._file.sink)
                self._writer = output.writer_class(sink, schema, output.spec)
        except BaseException:
            self._file.delete()
            raise

    @property
    def bytes(self) -> int:
        return self._file.sink.bytes

    def write(self, batch: pa.RecordBatch) -> None:
        with self._errors():
            self._writer.write(batch)
        self.rows += batch.num_rows

    @property
    def held_bytes(self) -> int:
        return self._writer.held_bytes

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Translate errors of file systems, format libraries and plug-ins."""
        own = self._output.spec.own
        with _format_errors(self._file.path), write_errors(self._file.path):
            if own is None:
                yield
                return
            try:
                yield
            except (DilError, OSError, pa.ArrowException, ValueError):
                raise
            except Exception as error:  # A plug-in may raise any error.
                raise plugin_failure(f"file writer {own.ref.qualname} failed", error) from error

    def finish(self, placement: RowPlacement) -> WrittenFile:
        try:
            with self._errors():
                self._writer.close()
                file = self._file.finish(self.rows)
        except BaseException:
            self.abandon()
            raise
        placed = replace(file, folder=placement.folder, timelabel=placement.timelabel)
        is_part = 2 * file.bytes < self._output.spec.target_bytes
        return WrittenFile(placed, self.schema, is_part=is_part)

    def abandon(self) -> None:
        self._file.sink.discard()
        with suppress(Exception):  # The attempt failed already, whatever error the library raises.
            self._writer.close()
        self._file.delete()


@contextmanager
def _format_errors(path: str) -> Iterator[None]:
    """Turn errors of format libraries into a ConversionError about a file."""
    try:
        yield
    except (pa.ArrowException, ValueError, OverflowError, KeyError) as error:
        raise ConversionError(
            f"{path}: rows cannot be written in this format ({type(error).__name__})",
            "A value is outside of the format's range. Convert the value at the source, or choose"
            " another writer.output.format.",
        ) from error
