"""The output of one attempt: staged files of one schema, invisible until published.

See rules U2 and U4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from dil.model.task import StagedFile
from dil.types.widening import Widening, conform
from dil.writing.rewriting import Rewriting, rows_again
from dil.writing.rolling import FileNumbers, OutputFolder, RollingFiles, WrittenFile


@dataclass(frozen=True, slots=True)
class WriterMark:
    """The progress of a writer: the numbers of whole files and of rows in the open file.

    ``schema`` and ``seen`` are the state of the writer's ``Widening``.
    """

    files: int
    rows: int
    schema: pa.Schema | None
    seen: pa.DataType


class StagedWriter:
    """Writes batches into files of a folder; a file ends at ``spec.target_bytes``.

    The schema may widen from batch to batch. Then a new file begins, and ``finish`` rewrites the
    earlier files, so that all files of a work unit have one schema. Runs in a task; memory is
    bounded by a batch and the format's own buffer.

    A caller that keeps the files so far for a later attempt calls ``checkpoint``; after that no
    finished file is deleted before ``drop_replaced``.
    """

    def __init__(self, output: OutputFolder) -> None:
        self._output = output
        self._widening = Widening()
        self._numbers = FileNumbers()
        self._files = RollingFiles(self._output, self._numbers)
        self._rewriting = Rewriting(self._output, self._numbers)
        self._has_checkpoint = False

    @property
    def schema(self) -> pa.Schema | None:
        """Return the schema that fits all rows so far, None before the first row."""
        return self._widening.schema

    def path(self, number: int) -> str:
        """Return the path of the n-th file, whether it exists or not."""
        return self._output.path(number)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows in the typed form of ``dil.model.arrow``.

        Raises:
            WriteError: the file system refused to write: it is full, forbidden or gone.
            ConversionError: a value does not fit the schema or the format.
        """
        if batch.num_rows:
            self._files.write(conform(batch, self._widening.add(batch)))

    def finish(self) -> tuple[StagedFile, ...]:
        """Finish the files and return them, in the order of rows; empty if there was no row.

        Every file is durable and has the schema ``schema``. Call it once, at the end.

        Raises:
            WriteError: see ``write``.
            ConversionError: an earlier value does not fit the schema of later rows.
        """
        self._files.end_file()
        if self.schema is None:
            return ()
        files = self._rewriting.unified(self._files, self.schema, joins_parts=self._has_checkpoint)
        if not self._has_checkpoint:
            self.drop_replaced()
        return files

    def drop_replaced(self) -> None:
        """Delete the files that ``finish`` replaced; after that no later attempt can use them."""
        self._rewriting.drop_replaced()

    def abort(self) -> None:
        """Delete all written files; a file that is already gone is no error."""
        self._files.delete()
        self._rewriting.delete()

    def checkpoint(self) -> tuple[WrittenFile, ...]:
        """End the open file and return all files so far; they are durable and stay.

        Raises:
            WriteError: see ``write``.
            ConversionError: the format refused rows when the file ended.
        """
        self._has_checkpoint = True
        self._files.end_file()
        return tuple(self._files.written)

    def mark(self) -> WriterMark:
        """Return the writer's present position."""
        return WriterMark(
            len(self._files.written),
            self._files.open_rows,
            self._widening.schema,
            self._widening.seen,
        )

    def truncate_to(self, mark: WriterMark) -> None:
        """Remove the rows after a mark; files that ended before it are not touched.

        Raises:
            WriteError: see ``write``.
            ConversionError: the file that was open at the mark cannot be read back.
        """
        self._files.end_file()
        kept, later = self._files.written[: mark.files], self._files.written[mark.files :]
        if mark.rows and later[0].file.rows == mark.rows:
            kept.append(later.pop(0))
        elif mark.rows:
            # The open file went on after the mark, so its first rows become a file of their own.
            beginning, left = RollingFiles(self._output, self._numbers), mark.rows
            for batch in rows_again(self._output, later[0]):
                beginning.write(batch.slice(0, left))
                left -= min(left, batch.num_rows)
            beginning.end_file()
            kept += beginning.written
        for entry in later:
            self._output.filesystem.delete_file(entry.file.path)
        self._files = RollingFiles(self._output, self._numbers, kept)
        self._widening.resume(mark.schema, mark.seen)

    def resume(
        self, files: Sequence[WrittenFile], schema: pa.Schema | None, seen: pa.DataType
    ) -> None:
        """Continue the files of an earlier attempt; ``path`` returns the paths of these files.

        ``schema`` and ``seen`` are from the ``mark`` of that attempt. Call it before the first
        ``write``.
        """
        self._has_checkpoint = True
        self._numbers.next = len(files)
        self._files = RollingFiles(self._output, self._numbers, files)
        self._widening.resume(schema, seen)

    def keep_checkpointed(self) -> None:
        """Delete the rows after the last checkpoint; unlike ``abort``, this allows a resume."""
        self._files.abandon_file()
        self._rewriting.delete()
