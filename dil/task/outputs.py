"""Writes the rows of one attempt: to files for publishing, and to files of rows put aside."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import UNSET, UnsetType

from dil.errors import WriteError
from dil.model.closed_labels import ClosedRows
from dil.model.task import StagedFile
from dil.publishing.closed_labels import window_of
from dil.publishing.dumps import check_places
from dil.publishing.moves import check_paths
from dil.publishing.staged import RESULT_NAME
from dil.task.context import AttemptContext
from dil.text.windows import windows_of
from dil.types.schema_text import schema_text
from dil.writing.dump import DumpWriter
from dil.writing.formats import writer_of
from dil.writing.output import OutputWriter, closed_label_rows, late_rows, output_writer
from dil.writing.ownership import give
from dil.writing.quarantine import QuarantineWriter
from dil.writing.rolling import OutputFolder
from dil.writing.staging import StagedWriter

if TYPE_CHECKING:
    from dil.writing.late_rows import ClosedLabelRows, LateRows

log = logging.getLogger(__name__)


class Outputs:
    """The writers of one attempt.

    ``staged`` is the writer that makes checkpoints; jobs with checkpoints write through it.
    """

    def __init__(self, attempt: AttemptContext) -> None:
        job, folder = attempt.job, attempt.folder
        output = OutputFolder(folder, job.writing, writer_of(job.writing))
        self._attempt = attempt
        self.staged = StagedWriter(output)
        self.quarantine = QuarantineWriter(
            folder, job.conversion.quarantine, attempt.id, job.writing.target_bytes
        )
        self.late: LateRows | None = None
        self._closed: ClosedLabelRows | None = None
        self._sink: StagedWriter | DumpWriter | OutputWriter
        now_ms, labels = attempt.clocks.now_ms(), job.planning.timelabel
        label_at: Callable[[int], str] | None = None
        if labels is not None:
            from dil.planning.timelabels import label_at as labelling  # few jobs have labels

            label_at = labelling(labels)
        if job.writing.file_name:
            self._sink = DumpWriter(folder)
        else:
            extended = output_writer(
                attempt.run,
                attempt.unit,
                self.staged,
                output,
                extracted_ms=now_ms,
                label_at=label_at,
            )
            self._sink = extended or self.staged
        if job.publishing.has_side_table:
            self.late = late_rows(
                attempt.run,
                attempt.unit,
                output,
                extracted_ms=now_ms,
                label_at=label_at,
            )
            self._closed = _closed_label_rows(attempt, self.late, label_at)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write converted rows, or pieces of files.

        Raises:
            WriteError: the file system refused.
            ConversionError: rows do not fit the job's schema, each other, or the format.
        """
        if self._closed is not None and batch.num_rows:
            self._sink.write(self._closed.left(batch))
        else:
            self._sink.write(batch)

    def finish(self) -> tuple[StagedFile, ...]:
        """Finish and return the files to publish.

        Raises:
            WriteError: the file system refused, or a file could not be put in its place.
            ConversionError: rows do not fit each other.
        """
        attempt, job = self._attempt, self._attempt.job
        filesystem = attempt.folder.filesystem
        files = self._sink.finish()
        if isinstance(self._sink, DumpWriter):
            check_places(job.publishing, filesystem, files)
        else:
            check_paths(attempt.run, attempt.unit, files, filesystem)
        give(files, job.writing.owner, job.writing.group)
        return files

    def finish_late(self) -> tuple[StagedFile, ...]:
        """Finish and return the files of late rows, which go to the side table.

        Raises:
            WriteError: the file system refused, or a file could not be put in its place.
            ConversionError: rows do not fit each other.
        """
        files = () if self.late is None else self.late.finish()
        give(files, self._attempt.job.writing.owner, self._attempt.job.writing.group)
        return files

    def closed_rows(self) -> ClosedRows | UnsetType:
        """Return the counts of rows for closed timelabels; UNSET if they are not counted."""
        closed = self._attempt.run.closed_labels
        if self._closed is None or closed is None:
            return UNSET
        return self._closed.counted(closed.digest)

    @property
    def schema_text(self) -> str:
        """Return the schema of the rows as text, empty if there are no rows."""
        return "" if self._sink.schema is None else schema_text(self._sink.schema)

    def close(self) -> None:
        """Close the files of a failed attempt that no later attempt takes over."""
        self.quarantine.abort()

    def discard(self, *, also_earlier: bool = False) -> None:
        """Delete the files of a failed attempt; first its result, so that no file counts any more.

        If ``also_earlier`` is true, files of the work unit's other attempts in this run are
        deleted, too.
        """
        folder = self._attempt.folder
        try:
            if folder.prefix:
                self._sink.abort()
                self.quarantine.delete()
                if self.late is not None:
                    self.late.abort()
                return
            folder.filesystem.delete_file(folder.file(RESULT_NAME))
            self._sink.abort()
            folder.filesystem.delete_tree(folder.parent if also_earlier else folder.path)
        except WriteError as error:
            log.warning("a failed attempt is left for a later sweep: %s", error.message)


def _closed_label_rows(
    attempt: AttemptContext, late: LateRows, label_at: Callable[[int], str] | None
) -> ClosedLabelRows | None:
    """Return the filter of the rows of closed timelabels, None if none is closed."""
    spec, closed = attempt.job.planning.timelabel, attempt.run.closed_labels
    if closed is None or not closed.stretches or spec is None or label_at is None:
        return None
    windows = windows_of(spec)
    return closed_label_rows(
        attempt.run,
        attempt.unit,
        late,
        label_at=label_at,
        is_closed=lambda label: closed.is_closed(window_of(label, windows)),
    )
