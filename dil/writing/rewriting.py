"""Rewrites finished files of one attempt: in one schema, with small files merged."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import pyarrow as pa

from dil.errors import ConversionError
from dil.model.task import StagedFile
from dil.types.widening import conform
from dil.writing.formats import reader_for
from dil.writing.rolling import FileNumbers, OutputFolder, RollingFiles, WrittenFile


class Rewriting:
    """The files that ``unified`` rewrote; the replaced files stay until ``drop_replaced``."""

    def __init__(self, output: OutputFolder, numbers: FileNumbers) -> None:
        self._output = output
        self._numbers = numbers
        self._written: list[RollingFiles] = []
        self._replaced: list[str] = []

    def unified(
        self, files: RollingFiles, schema: pa.Schema, *, joins_parts: bool
    ) -> tuple[StagedFile, ...]:
        """Return the finished files in one schema, in the order of their rows.

        Files of an older schema are rewritten, and neighbouring files of this kind are merged. If
        ``joins_parts`` is true, small files are merged too.

        Raises:
            WriteError: the file system refused to write.
            ConversionError: an earlier value does not fit the schema, or files cannot be read back.
        """
        joins = joins_parts and reader_for(self._output.writer_class) is not None
        unified: list[StagedFile] = []

        def is_current(entry: WrittenFile) -> bool:
            return bool(entry.schema.equals(schema, check_metadata=True))

        def stays(entry: WrittenFile) -> bool:
            return is_current(entry) and not (joins and entry.is_part)

        for is_kept, group in groupby(files.written, stays):
            entries = list(group)
            if is_kept or (len(entries) == 1 and is_current(entries[0])):
                unified.extend(entry.file for entry in entries)
                continue
            target = RollingFiles(self._output, self._numbers, placement=files.placement)
            self._written.append(target)
            for entry in entries:
                for batch in rows_again(self._output, entry):
                    target.write(conform(batch, schema))
            target.end_file()
            unified.extend(entry.file for entry in target.written)
            self._replaced += [entry.file.path for entry in entries]
        return tuple(unified)

    def drop_replaced(self) -> None:
        """Delete the files that rewritten files replaced."""
        for path in self._replaced:
            self._output.filesystem.delete_file(path)
        self._replaced = []

    def delete(self) -> None:
        """Delete the rewritten files; safe to call at any time."""
        for files in self._written:
            files.delete()


def rows_again(output: OutputFolder, entry: WrittenFile) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a finished file, a part at a time.

    Raises:
        ConversionError: files of this format cannot be read back.
    """
    read = reader_for(output.writer_class)
    if read is None:
        raise ConversionError(
            "the columns changed while rows were written, but files of"
            f" {output.writer_class.__name__} cannot be read back",
            "Describe the columns of this job in ms.output.schema.",
        )
    with output.filesystem.open_input(entry.file.path) as source:
        yield from read(source, entry.schema, output.spec)
