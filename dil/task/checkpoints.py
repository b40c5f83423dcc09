"""Keeps the progress inside a work unit between pages, so that a later attempt can resume.

``ms.state.cursor.commit=page`` switches this on (rule C32). Readers see no rows before the whole
work unit is published.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from dil.conversion.chain import ConversionChain
from dil.errors import RefusedAnswer, WriteError
from dil.extraction.paging.rules import PagingPosition
from dil.extraction.paging.walk import WalkProgress
from dil.extraction.parameters import differs_by_load
from dil.model.settings import flat_parameters
from dil.model.task import StagedFile
from dil.publishing.page_log import (
    LoggedCheckpoint,
    LoggedFile,
    LogOwner,
    PageLog,
    RefusedRequest,
    best_log,
    read_log,
    take_over,
    write_checkpoint,
)
from dil.spi.registry import load
from dil.task.context import AttemptContext
from dil.types.schema_text import decoded_schema, decoded_type, encoded_schema, encoded_type
from dil.writing.refused_rows import RefusedRows
from dil.writing.rolling import WrittenFile
from dil.writing.staging import StagedWriter, WriterMark

log = logging.getLogger(__name__)

RESUMED = "pages that an earlier attempt had read were not read again"
STARTED_OVER = (
    "the source refused to resume where an earlier attempt had stopped, so the work unit was read "
    "from its beginning"
)
TYPES_CHANGED = (
    "rows did not fit the types that were found in the pages that an earlier attempt had read, so"
    " the work unit was read from its beginning"
)
WINDOW_CHANGED = (
    "the pages that an earlier run had read were read again: its window was different, and "
    "requests depend on the window"
)
OUTDATED = (
    "the pages that an earlier run had read were read again, because the work unit has been "
    "published since, or is read for another reason now"
)
TOO_OLD = (
    "the pages that an earlier run had read were read again: corrections may have come since, "
    "which no later run would have read"
)
NOT_ONE_SNAPSHOT = (
    "the pages that an earlier run had read were read again, because rows that replace the whole "
    "dataset are read by one run"
)
NOT_KEPT = (
    "progress inside the work unit was not kept, because a cursor or the address of a page holds a"
    " secret of the job"
)
HAS_REJECTS = "progress inside the work unit was kept only up to the first row that was put aside"


class ResumeFrom(Enum):
    """The earlier attempts whose progress an attempt may resume."""

    ANY_RUN = "any run"
    THIS_RUN = "this run"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class _PageEnd:
    """The end of a complete page: the next paging position, written files, rows put aside."""

    position: PagingPosition
    mark: WriterMark
    dropped: int


class Checkpoints:
    """The page log of one attempt; does nothing if the job keeps only whole work units.

    ``resume`` sets three attributes. ``has_resumed`` says that this attempt continues the pages of
    an earlier one. ``read_since`` is the now (epoch ms UTC) of the run that read the first page.
    ``refused_before`` has the refused payload rows that earlier attempts put aside, by the number
    of their request.
    """

    def __init__(
        self,
        attempt: AttemptContext,
        writer: StagedWriter,
        chain: ConversionChain,
        progress: WalkProgress,
        refused: RefusedRows | None,
    ) -> None:
        self.has_resumed = False
        self.read_since = attempt.run.run_now
        self.refused_before: Mapping[int, RefusedAnswer] = {}
        self._attempt = attempt
        self._writer = writer
        self._chain = chain
        self._progress = progress
        self._refused = refused
        self._interval_s = attempt.job.running.page_commit_s
        self._last_page: _PageEnd | None = None
        self._saved_at = attempt.clocks.monotonic()
        self._saved_checkpoints = 0
        self._saved_files = 0
        self._saved_refusals = 0

    @cached_property
    def _owner(self) -> LogOwner:
        """Return the values that a later attempt must share with this one to resume it.

        The window is one of them if requests may depend on it: if a parameter is a watermark, or if
        the connector reads the window by itself.
        """
        run, unit, job = self._attempt.run, self._attempt.unit, self._attempt.job
        has_window = False
        if not job.has_input("payload"):
            # A subclass may read more than its parent, so the parent's declaration does not count.
            declared = vars(load(job.source.connector))
            has_window = declared.get("reads_window", True) or any(
                parameter.type == "watermark"
                for parameter in flat_parameters(job.extraction.parameters)
            )
        return LogOwner(
            unit.signature,
            unit.low if has_window else 0,
            unit.high if has_window else 0,
            job.digest,
            full_extract=run.full_extract and differs_by_load(job.extraction.parameters),
            last_high=unit.last_high,
        )

    def resume(self, resume_from: ResumeFrom) -> PagingPosition | None:
        """Take over an earlier attempt's pages; return the position after them, None if none exist.

        Raises:
            WriteError: the earlier files cannot be copied; they stay as they are.
        """
        if self._interval_s is None or resume_from is ResumeFrom.NOTHING:
            return None
        earlier = self._find_log(resume_from)
        position = None if earlier is None else self._copy_files(earlier)
        if earlier is None or position is None:
            return None
        self.has_resumed, self.read_since = True, earlier.last.read_since
        self.refused_before = {each.number: each.answer for each in earlier.refused}
        self._progress.rows, self._progress.dropped = position.processed, position.dropped
        self._progress.note(*earlier.last.notes, RESUMED)
        self._save(_PageEnd(position, self._writer.mark(), 0), earlier.refused)
        is_of_this_run = earlier.folder.startswith(f"{self._attempt.run.staging_dir}/")
        if self._saved_checkpoints and is_of_this_run:
            # From here on, the copy counts.
            self._attempt.folder.filesystem.delete_tree(earlier.folder)
        log.info("resuming after %d requests, %d rows", position.number, position.processed)
        return position

    def page_done(self, position: PagingPosition) -> None:
        """Keep a complete page, now or together with later pages.

        Raises:
            WriteError: the file system refused.
        """
        if self._interval_s is None:
            return
        self._last_page = _PageEnd(position, self._writer.mark(), self._chain.dropped)
        if self._attempt.clocks.monotonic() - self._saved_at >= self._interval_s:
            self._save(self._last_page)

    def keep(self) -> bool:
        """Keep the complete pages of a failed attempt; return whether a later one can resume them.

        Rows of the page that failed are removed.
        """
        if self._interval_s is None or self._progress.is_dead_end:
            return False
        try:
            if self._last_page is not None:
                self._writer.truncate_to(self._last_page.mark)
                self._save(self._last_page)
            self._writer.keep_checkpointed()
        except Exception as error:  # noqa: BLE001 - the attempt failed already, for its own reason
            log.warning("the last pages could not be kept: %s", error)
        return self._saved_checkpoints > 0

    def close(self) -> None:
        """Delete the files that an attempt no longer needs when its result is written."""
        try:
            self._writer.drop_replaced()
        except WriteError as error:
            log.warning("files that were joined are left for a sweep: %s", error.message)

    def _save(self, page: _PageEnd, refused_before: tuple[RefusedRequest, ...] = ()) -> None:
        """Write a checkpoint; later rows go to a new file.

        ``refused_before`` are the refused rows of the attempt that is resumed.
        """
        attempt, encoded = self._attempt, page.position.encoded()
        if page.dropped:
            self._progress.note(HAS_REJECTS)
            return
        if attempt.clean(encoded) != encoded:
            self._progress.note(NOT_KEPT)
            return
        files = self._writer.checkpoint()
        mark = self._writer.mark()
        refused = refused_before
        if not refused and self._refused is not None:
            answers = self._refused.answers[self._saved_refusals :]
            refused = tuple(
                RefusedRequest(*each) for each in answers if each[0] <= page.position.number
            )
        checkpoint = LoggedCheckpoint(
            owner=self._owner,
            position=encoded,
            files=tuple(_logged(file) for file in files[self._saved_files :]),
            pages=page.position.number,
            schema="" if mark.schema is None else encoded_schema(mark.schema),
            seen=encoded_type(mark.seen),
            notes=tuple(note for note in self._progress.notes if note != RESUMED),
            refused=refused,
            read_since=self.read_since,
        )
        folder = attempt.folder
        write_checkpoint(folder.filesystem, folder.path, self._saved_checkpoints, checkpoint)
        self._saved_checkpoints += 1
        self._saved_files = len(files)
        self._saved_refusals += len(refused)
        self._saved_at = attempt.clocks.monotonic()
        self._last_page = None

    def _find_log(self, resume_from: ResumeFrom) -> PageLog | None:
        """Return the log of the earlier attempt that read most; add notes about unusable logs."""
        run, unit = self._attempt.run, self._attempt.unit
        filesystem = self._attempt.folder.filesystem
        own = best_log(filesystem, f"{run.staging_dir}/{unit.hash}", self._owner)
        folder = run.resume_from.get(unit.signature)
        if folder is None or resume_from is ResumeFrom.THIS_RUN:
            return own
        other = self._log_of_earlier_run(folder)
        if other is None or (own is not None and own.last.pages >= other.last.pages):
            return own
        return other

    def _log_of_earlier_run(self, folder: str) -> PageLog | None:
        """Return the log in a folder; None, with a note on the reason, if it cannot be resumed.

        Rows that replace the whole dataset must be read by one run. Logs of sent rows are always
        resumed, because those rows stay sent.
        """
        job, progress = self._attempt.job, self._progress
        if not folder:
            progress.note(TOO_OLD)
            return None
        found = read_log(self._attempt.folder.filesystem, folder)
        if found is None:
            return None
        if job.publishing.is_of_one_time and not job.has_input("payload"):
            progress.note(NOT_ONE_SNAPSHOT)
            return None
        owner = found.last.owner
        if owner.digest in job.known_digests:
            owner = replace(owner, digest=self._owner.digest)
        if owner == self._owner:
            return found
        in_our_window = replace(owner, low=self._owner.low, high=self._owner.high)
        progress.note(WINDOW_CHANGED if in_our_window == self._owner else OUTDATED)
        return None

    def _copy_files(self, earlier: PageLog) -> PagingPosition | None:
        """Copy the files of a log and resume the writer after them; None if the log is damaged."""
        last, writer = earlier.last, self._writer
        position = PagingPosition.decoded(last.position)
        schema, seen = decoded_schema(last.schema) if last.schema else None, decoded_type(last.seen)
        schemas = [decoded_schema(file.schema) for file in earlier.files]
        if position is None or seen is None or (last.schema and schema is None) or None in schemas:
            return None
        filesystem = self._attempt.folder.filesystem
        paths = [writer.path(number) for number in range(len(earlier.files))]
        if not take_over(filesystem, earlier, paths):
            log.warning("the pages of an earlier attempt are damaged: %s", earlier.folder)
            for path in paths:
                filesystem.delete_file(path)
            return None
        files = [
            WrittenFile(StagedFile(path, file.rows, file.bytes, file.sha256), each, file.is_part)
            for path, file, each in zip(paths, earlier.files, schemas, strict=True)
        ]
        writer.resume(files, schema, seen)
        return position


def _logged(written: WrittenFile) -> LoggedFile:
    file = written.file
    return LoggedFile(
        name=file.path.rpartition("/")[2],
        rows=file.rows,
        bytes=file.bytes,
        sha256=file.sha256,
        schema=encoded_schema(written.schema),
        is_part=written.is_part,
    )
