"""The output of one attempt: staged files of one schema, invisible until published.

Source: spec README 28; behaviour.md B14.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from dil.errors import ConversionError
from dil.model.job import WritingSpec
from dil.model.task import StagedFile
from dil.spi.writer import FileWriter
from dil.storage.filesystem import Filesystem
from dil.writing.formats import Reader, reader_for
from dil.writing.rolling import Place, RollingFiles, WrittenFile
from dil.writing.widening import Widening, conform


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a writer was: whole files, rows of the file after them, and its schema."""

    files: int
    rows: int
    schema: pa.Schema | None
    seen: pa.DataType


class StagedWriter:
    """Writes batches into files below ``directory``, each ended at ``spec.target_bytes``.

    The schema may widen from batch to batch. Then a new file begins, and ``finish`` writes the
    earlier files again, so that all files of a work unit have one schema. Runs in a task; memory
    is bounded by a batch and the format's own buffer.

    A caller that keeps what was written so far for a later attempt calls ``cut``; from then on no
    finished file is deleted before ``drop_replaced``.
    """

    def __init__(
        self,
        filesystem: Filesystem,
        directory: str,
        spec: WritingSpec,
        writer_class: type[FileWriter],
    ) -> None:
        self._place = Place(filesystem, directory, spec, writer_class)
        self._widening = Widening()
        self._files = RollingFiles(self._place)
        self._rewritten: list[RollingFiles] = []
        self._replaced: list[str] = []
        self._is_cut = False

    @property
    def schema(self) -> pa.Schema | None:
        """Return the schema that fits all rows so far, None before the first one."""
        return self._widening.schema

    def path(self, number: int) -> str:
        """Return where the n-th file is, or would be."""
        return self._place.path(number)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows in the typed form of ``dil.model.arrow``.

        Raises:
            WriteError: the file system refused: full, forbidden, gone.
            ConversionError: a value does not fit the schema or the format.
        """
        if batch.num_rows:
            self._files.write(conform(batch, self._widening.add(batch)))

    def finish(self) -> tuple[StagedFile, ...]:
        """Finish and return the files, in the order of their rows; none when there was no row.

        Every file is durable and has the schema ``schema``. Called once, last.

        Raises:
            WriteError: as for ``write``.
            ConversionError: an earlier value does not fit the schema that later rows brought.
        """
        self._files.end_file()
        files = self._unified(self._files.written)
        if not self._is_cut:
            self.drop_replaced()
        return files

    def drop_replaced(self) -> None:
        """Delete the files that ``finish`` wrote again; what is kept of them is of no use then."""
        for path in self._replaced:
            self._place.filesystem.delete_file(path)
        self._replaced = []

    def abort(self) -> None:
        """Delete everything written; never fails for a file that is already gone."""
        self._files.delete()
        for files in self._rewritten:
            files.delete()

    def cut(self) -> tuple[WrittenFile, ...]:
        """End the file at hand and return all files so far; they are durable and stay.

        Raises:
            WriteError: as for ``write``.
            ConversionError: the format refuses rows only now.
        """
        self._is_cut = True
        self._files.end_file()
        return tuple(self._files.written)

    def mark(self) -> Mark:
        """Return how far the rows have come."""
        return Mark(
            len(self._files.written),
            self._files.open_rows,
            self._widening.schema,
            self._widening.seen,
        )

    def back_to(self, mark: Mark) -> None:
        """Take the rows after a mark away again; files that ended before it are not touched.

        Raises:
            WriteError: as for ``write``.
            ConversionError: the file at hand then cannot be read back.
        """
        self._files.end_file()
        kept, later = self._files.written[: mark.files], self._files.written[mark.files :]
        number = self._files.next_number
        if mark.rows and later[0].file.rows == mark.rows:
            kept.append(later.pop(0))
        elif mark.rows:
            target = self._beginning(later[0], mark.rows)
            kept += target.written
            number = target.next_number
        for entry in later:
            self._place.filesystem.delete_file(entry.file.path)
        self._files = RollingFiles(self._place, number, kept)
        self._widening.go_on(mark.schema, mark.seen)

    def go_on(
        self, files: Sequence[WrittenFile], schema: pa.Schema | None, seen: pa.DataType
    ) -> None:
        """Begin with files that an earlier attempt wrote, named as ``Place.path`` would name them.

        ``schema`` and ``seen`` are those of its ``mark``. Called before the first ``write``.
        """
        self._is_cut = True
        self._files = RollingFiles(self._place, len(files), files)
        self._widening.go_on(schema, seen)

    def keep_cut(self) -> None:
        """Delete what was not cut; the opposite of ``abort``, for a failed attempt."""
        self._files.abandon_file()
        for files in self._rewritten:
            files.delete()

    def _is_current(self, written: WrittenFile) -> bool:
        return bool(written.schema.equals(self._widening.schema, check_metadata=True))

    def _unified(self, written: list[WrittenFile]) -> tuple[StagedFile, ...]:
        """Write files of an older schema again; neighbours among them are put together.

        So are files that are small because they were cut.
        """
        files: list[StagedFile] = []
        number = self._files.next_number
        for stays, group in groupby(written, self._stays):
            entries = list(group)
            if stays or (len(entries) == 1 and self._is_current(entries[0])):
                files.extend(entry.file for entry in entries)
                continue
            target = RollingFiles(self._place, number)
            self._rewritten.append(target)
            for entry in entries:
                self._copy(entry, target)
            target.end_file()
            number = target.next_number
            files.extend(entry.file for entry in target.written)
            self._replaced += [entry.file.path for entry in entries]
        return tuple(files)

    def _stays(self, entry: WrittenFile) -> bool:
        joins = self._is_cut and entry.is_part and reader_for(self._place.writer_class) is not None
        return self._is_current(entry) and not joins

    def _copy(self, entry: WrittenFile, target: RollingFiles) -> None:
        with self._place.filesystem.open_input(entry.file.path) as source:
            for batch in self._reader()(source, entry.schema, self._place.spec):
                target.write(conform(batch, self._widening.schema))

    def _beginning(self, entry: WrittenFile, rows: int) -> RollingFiles:
        """Write the first rows of a file again."""
        target = RollingFiles(self._place, self._files.next_number)
        with self._place.filesystem.open_input(entry.file.path) as source:
            for batch in self._reader()(source, entry.schema, self._place.spec):
                target.write(batch.slice(0, rows))
                rows -= min(rows, batch.num_rows)
        target.end_file()
        return target

    def _reader(self) -> Reader:
        read = reader_for(self._place.writer_class)
        if read is None:
            raise ConversionError(
                f"the columns changed while rows were written, and files of"
                f" {self._place.writer_class.__name__} cannot be read back",
                "Give the columns of this job with ms.output.schema.",
            )
        return read
