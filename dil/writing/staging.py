"""The output of one attempt: staged files of one schema, invisible until published.

Source: spec README 28; behaviour.md B14.3.
"""

from __future__ import annotations

from itertools import groupby

import pyarrow as pa

from dil.errors import ConversionError
from dil.model.job import WritingSpec
from dil.model.task import StagedFile
from dil.spi.writer import FileWriter
from dil.storage.filesystem import Filesystem
from dil.writing.formats import reader_for
from dil.writing.rolling import Place, RollingFiles, WrittenFile
from dil.writing.widening import Widening, conform


class StagedWriter:
    """Writes batches into files below ``directory``, each ended at ``spec.target_bytes``.

    The schema may widen from batch to batch. Then a new file begins, and ``finish`` writes the
    earlier files again, so that all files of a work unit have one schema. Runs in a task; memory
    is bounded by a batch and the format's own buffer.
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

    @property
    def schema(self) -> pa.Schema | None:
        """Return the schema that fits all rows so far, None before the first one."""
        return self._widening.schema

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
        written = self._files.written
        if all(self._is_current(file) for file in written):
            return tuple(entry.file for entry in written)
        return self._unify(written)

    def abort(self) -> None:
        """Delete everything written; never fails for a file that is already gone."""
        self._files.delete()
        for files in self._rewritten:
            files.delete()

    def _is_current(self, written: WrittenFile) -> bool:
        return bool(written.schema.equals(self._widening.schema, check_metadata=True))

    def _unify(self, written: list[WrittenFile]) -> tuple[StagedFile, ...]:
        """Write files of an older schema again; neighbours among them are put together."""
        files: list[StagedFile] = []
        number = self._files.next_number
        for is_current, entries in groupby(written, self._is_current):
            if is_current:
                files.extend(entry.file for entry in entries)
                continue
            target = RollingFiles(self._place, number)
            self._rewritten.append(target)
            for entry in entries:
                self._copy(entry, target)
            target.end_file()
            number = target.next_number
            files.extend(entry.file for entry in target.written)
        for entry in written:
            if not self._is_current(entry):
                self._place.filesystem.delete_file(entry.file.path)
        return tuple(files)

    def _copy(self, entry: WrittenFile, target: RollingFiles) -> None:
        read = reader_for(self._place.writer_class)
        if read is None:
            raise ConversionError(
                f"the columns changed while rows were written, and files of"
                f" {self._place.writer_class.__name__} cannot be read back",
                "Give the columns of this job with ms.output.schema.",
            )
        with self._place.filesystem.open_input(entry.file.path) as source:
            for batch in read(source, entry.schema, self._place.spec):
                target.write(conform(batch, self._widening.schema))
