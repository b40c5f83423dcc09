"""Progress inside a work unit: kept between pages, found again by a later attempt.

On with ``ms.state.cursor.commit=page`` (spec README 29, metadata-chain.md 8.9). Nothing of it is
visible before the whole work unit is published.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from dil.conversion.chain import ConversionChain
from dil.errors import RefusedAnswer, WriteError
from dil.extraction.paging.position import Position
from dil.extraction.paging.walk import WalkCounters
from dil.extraction.parameters import differs_by_load
from dil.model.job import Job
from dil.model.settings import flat_parameters
from dil.model.task import RunContext, StagedFile
from dil.model.work_unit import WorkUnit
from dil.publishing.page_log import (
    Checkpoint,
    LoggedFile,
    LogOwner,
    PageLog,
    RefusedRequest,
    best_log,
    read_log,
    take_over,
    write_checkpoint,
)
from dil.storage import Filesystem
from dil.writing.carried import schema_of, schema_text, type_of, type_text
from dil.writing.refused_rows import RefusedRows
from dil.writing.rolling import WrittenFile
from dil.writing.staging import Mark, StagedWriter

log = logging.getLogger(__name__)

RESUMED = "pages that an earlier attempt had read were not read again"
STARTED_OVER = (
    "the source refused to go on where an earlier attempt had stopped, so the work unit was read"
    " from its beginning"
)
OTHER_FIT = (
    "rows did not fit the types that were found in the pages that an earlier attempt had read, so"
    " the work unit was read from its beginning"
)
OTHER_WINDOW = (
    "the pages that an earlier run had read were read again: its window was another one, and"
    " requests depend on it"
)
OF_BEFORE = (
    "the pages that an earlier run had read were read again, because the work unit was published"
    " since or is read for another reason"
)
TOO_OLD = (
    "the pages that an earlier run had read were read again: corrections may have come since, and"
    " no later run would have looked for them"
)
OTHER_TIME = (
    "the pages that an earlier run had read were read again, because what takes the place of"
    " everything is of one time"
)
NOT_KEPT = (
    "progress inside the work unit was not kept, because a cursor or the address of a page holds a"
    " secret of the job"
)
HAS_REJECTS = "progress inside the work unit was kept only up to the first row that was put aside"


class Earlier(Enum):
    """Whose progress an attempt may go on from."""

    OF_ANY_RUN = "any run"
    OF_THIS_RUN = "this run"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt: where it stages, what it writes with and counts in.

    ``monotonic`` is a clock in seconds, ``clean`` masks the job's secrets in a text. ``refused``
    keeps payload rows that are refused, None where the job keeps none.
    """

    filesystem: Filesystem
    folder: str
    writer: StagedWriter
    chain: ConversionChain
    counters: WalkCounters
    monotonic: Callable[[], float]
    clean: Callable[[str], str]
    refused: RefusedRows | None = None


@dataclass(frozen=True, slots=True)
class _Reached:
    """The end of a complete page: where paging goes on, what was written, rows put aside."""

    position: Position
    mark: Mark
    dropped: int


class Checkpoints:
    """The page log of one attempt; does nothing where the job keeps whole work units only.

    ``refused_before`` are the payload rows that the attempts before put aside, by the number of
    their request; ``has_resumed`` tells whether pages of an earlier attempt are part of this one,
    ``read_since`` is the now, epoch ms UTC, of the run that read the first. Known after ``resume``.
    """

    def __init__(self, run: RunContext, unit: WorkUnit, attempt: Attempt) -> None:
        self._run = run
        self._unit = unit
        self._attempt = attempt
        self._sends = run.job.has_input("payload")
        has_window = not self._sends and asks_for_window(run.job)
        self._owner = LogOwner(
            unit.signature,
            unit.low if has_window else 0,
            unit.high if has_window else 0,
            run.job.digest,
            full_extract=run.full_extract and differs_by_load(run.job.extraction.parameters),
            last_high=unit.last_high,
        )
        self.read_since = run.run_now
        self.has_resumed = False
        self._every_s = run.job.running.page_commit_s
        self._saved_at = attempt.monotonic()
        self._numbers = 0
        self._logged = 0
        self._refused = 0
        self.refused_before: Mapping[int, RefusedAnswer] = {}
        self._reached: _Reached | None = None

    def resume(self, earlier: Earlier) -> Position | None:
        """Begin with what an earlier attempt left; return where it came to, None without one.

        Raises:
            WriteError: its files cannot be copied; what it left stays as it is.
        """
        found = None if self._every_s is None else self._found(earlier)
        position = None if found is None else self._taken_over(found)
        if found is None or position is None:
            return None
        attempt = self._attempt
        self.has_resumed, self.read_since = True, found.last.read_since
        attempt.counters.rows, attempt.counters.dropped = position.processed, position.dropped
        attempt.counters.note(*found.last.notes, RESUMED)
        self.refused_before = {each.number: each.answer for each in found.refused}
        self._save(_Reached(position, attempt.writer.mark(), 0), found.refused)
        if self._numbers and found.folder.startswith(f"{self._run.staging_dir}/"):
            # The copy counts from now on.
            attempt.filesystem.delete_tree(found.folder)
        log.info("going on after %d requests, %d rows", position.number, position.processed)
        return position

    def page_done(self, position: Position) -> None:
        """Keep a complete page, at once or with later ones.

        Raises:
            WriteError: the file system refused.
        """
        if self._every_s is None:
            return
        attempt = self._attempt
        self._reached = _Reached(position, attempt.writer.mark(), attempt.chain.dropped)
        if attempt.monotonic() - self._saved_at >= self._every_s:
            self._save(self._reached)

    def keep(self) -> bool:
        """Keep the complete pages of an attempt that failed; tell whether a later one has a use.

        Rows of the page that failed are taken away.
        """
        if self._every_s is None or self._attempt.counters.is_void:
            return False
        try:
            if self._reached is not None:
                self._attempt.writer.back_to(self._reached.mark)
                self._save(self._reached)
            self._attempt.writer.keep_cut()
        except Exception as error:  # noqa: BLE001 - the attempt failed already, for its own reason
            log.warning("the last pages could not be kept: %s", error)
        return self._numbers > 0

    def close(self) -> None:
        """Delete what a complete attempt does not need; its result is written."""
        try:
            self._attempt.writer.drop_replaced()
        except WriteError as error:
            log.warning("files that were put together are left for a sweep: %s", error.message)

    def _save(self, reached: _Reached, earlier: tuple[RefusedRequest, ...] = ()) -> None:
        """Write a checkpoint, and begin a new file behind it.

        ``earlier`` are refused rows of the attempt that this one goes on from.
        """
        attempt, encoded = self._attempt, reached.position.encoded()
        if reached.dropped:
            attempt.counters.note(HAS_REJECTS)
            return
        if attempt.clean(encoded) != encoded:
            attempt.counters.note(NOT_KEPT)
            return
        files = attempt.writer.cut()
        mark = attempt.writer.mark()
        refused = earlier or self._newly_refused(reached.position.number)
        checkpoint = Checkpoint(
            owner=self._owner,
            position=encoded,
            files=tuple(_logged(file) for file in files[self._logged :]),
            pages=reached.position.number,
            schema="" if mark.schema is None else schema_text(mark.schema),
            seen=type_text(mark.seen),
            notes=tuple(note for note in attempt.counters.notes if note != RESUMED),
            refused=refused,
            read_since=self.read_since,
        )
        write_checkpoint(attempt.filesystem, attempt.folder, self._numbers, checkpoint)
        self._numbers += 1
        self._logged = len(files)
        self._refused += len(refused)
        self._reached = None
        self._saved_at = attempt.monotonic()

    def _newly_refused(self, number: int) -> tuple[RefusedRequest, ...]:
        """Return the rows refused since the last checkpoint, up to a request."""
        if self._attempt.refused is None:
            return ()
        answers = self._attempt.refused.answers[self._refused :]
        return tuple(RefusedRequest(*each) for each in answers if each[0] <= number)

    def _found(self, earlier: Earlier) -> PageLog | None:
        """Return the log of an earlier attempt, the one that came farthest; note what is left."""
        filesystem, run, unit = self._attempt.filesystem, self._run, self._unit
        if earlier is Earlier.NOTHING:
            return None
        own = best_log(filesystem, f"{run.staging_dir}/{unit.hash}", self._owner)
        folder = run.resume_from.get(unit.signature)
        if folder is None or earlier is Earlier.OF_THIS_RUN:
            return own
        other = self._of_earlier_run(folder)
        if other is None or (own is not None and own.last.pages >= other.last.pages):
            return own
        return other

    def _of_earlier_run(self, folder: str) -> PageLog | None:
        """Return the log in a folder, None where it is not of this reading; note why it is not.

        A snapshot is of one time; rows that were sent stay sent, whatever becomes of the answers.
        """
        counters = self._attempt.counters
        if not folder:
            counters.note(TOO_OLD)
            return None
        other = read_log(self._attempt.filesystem, folder)
        if other is None:
            return None
        if self._run.job.publishing.is_of_one_time and not self._sends:
            counters.note(OTHER_TIME)
            return None
        owner = other.last.owner
        if owner.digest in self._run.job.known_digests:
            owner = replace(owner, digest=self._owner.digest)
        if owner == self._owner:
            return other
        is_moved = replace(owner, low=self._owner.low, high=self._owner.high)
        counters.note(OTHER_WINDOW if is_moved == self._owner else OF_BEFORE)
        return None

    def _taken_over(self, found: PageLog) -> Position | None:
        """Copy the files of a log and go on with them; None where the log is of no use."""
        last, writer = found.last, self._attempt.writer
        position = Position.decoded(last.position)
        schema, seen = schema_of(last.schema) if last.schema else None, type_of(last.seen)
        schemas = [schema_of(file.schema) for file in found.files]
        if position is None or seen is None or (last.schema and schema is None) or None in schemas:
            return None
        paths = [writer.path(number) for number in range(len(found.files))]
        if not take_over(self._attempt.filesystem, found, paths):
            log.warning("what an earlier attempt left is damaged: %s", found.folder)
            for path in paths:
                self._attempt.filesystem.delete_file(path)
            return None
        files = [
            WrittenFile(StagedFile(path, file.rows, file.bytes, file.sha256), each, file.is_part)
            for path, file, each in zip(paths, found.files, schemas, strict=True)
        ]
        writer.go_on(files, schema, seen)
        return position


def asks_for_window(job: Job) -> bool:
    """Tell whether what a work unit's requests ask for may depend on its window.

    It does where a parameter is a watermark. A connector of one's own may look at it by itself.
    """
    is_ours = job.source.connector.module.partition(".")[0] == "connectors"
    return not is_ours or any(
        parameter.type == "watermark" for parameter in flat_parameters(job.extraction.parameters)
    )


def _logged(written: WrittenFile) -> LoggedFile:
    file = written.file
    return LoggedFile(
        name=file.path.rpartition("/")[2],
        rows=file.rows,
        bytes=file.bytes,
        sha256=file.sha256,
        schema=schema_text(written.schema),
        is_part=written.is_part,
    )
