"""A start marker shows a later execution that rows may have been sent (rule U22).

A task writes the marker for a work unit whose rows must not be sent twice, before the task sends
the first row. The marker is outside of the runs' staging folders, because it must outlive them. A
marker tells a later run that an attempt began but recorded no end, or that the attempt ended
without knowing which rows the receiver accepted.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from dil.errors import DilError, SourceError, UnknownOutcomeError, WriteError
from dil.model.dataset import Commit, RunRecord
from dil.model.task import Failure, RunContext, TaskReport
from dil.model.work_unit import WorkUnit, unit_hash
from dil.publishing.layout import SENDING
from dil.publishing.staged import read_result
from dil.storage import Filesystem

log = logging.getLogger(__name__)

_FORMAT = 1
_AGAIN = "-D ms.egress.send.again=true"
LOOK = (
    "Check at the receiver, and in the audit if ms.audit.enabled is true, which rows it has. To"
    f" send the work unit again, for this one run: {_AGAIN}. If the receiver recognizes repeated"
    " rows, set ms.http.idempotency.header: then this is not needed."
)


class MarkState(StrEnum):
    """The last known progress of an attempt; BEGUN means that the attempt's outcome is unknown.

    KEPT means that the attempt failed, but its progress shows which rows the receiver accepted.
    """

    BEGUN = "begun"
    UNKNOWN = "unknown"
    SENT = "sent"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class StartMark:
    """The content of a marker. ``since`` is epoch ms UTC, ``folder`` is the attempt's folder."""

    format: int
    run_id: str
    attempt: int
    since: int
    folder: str
    state: MarkState = MarkState.BEGUN
    error: str = ""


class StartMarker:
    """The start marker of one work unit of a job."""

    def __init__(self, filesystem: Filesystem, run: RunContext, unit: WorkUnit) -> None:
        self._filesystem = filesystem
        self._run = run
        self._unit_folder = f"{run.staging_dir}/{unit.hash}"
        self._signature = unit.signature
        self._path = f"{run.staging_dir.rpartition('/')[0]}/{SENDING}/{unit.hash}.json"
        self._mark: StartMark | None = None

    def earlier_result(self) -> TaskReport | None:
        """Return the complete result of a lost execution of this run, None if there is none."""
        for attempt in self._filesystem.folders(self._unit_folder):
            result = read_result(self._filesystem, f"{self._unit_folder}/{attempt}")
            if result is not None:
                return result.report
        return None

    def refuse_repetition(self) -> None:
        """Raise if an earlier attempt may have sent the work unit's rows.

        Raises:
            UnknownOutcomeError: such an attempt exists, and its answers are not published.
            SourceError: the marker cannot be read.
        """
        if not self._filesystem.exists(self._path):
            return
        mark = self._read()
        goes_on = mark.run_id == self._run.run_id or self._run.resume_from.get(self._signature)
        if mark.state is MarkState.KEPT and goes_on:
            return
        since = dt.datetime.fromtimestamp(mark.since / 1000, dt.UTC).isoformat(timespec="seconds")
        began = f"run {mark.run_id}, attempt {mark.attempt}, since {since}"
        what = {
            MarkState.BEGUN: f"{began}, began to send its rows and did not finish: they may"
            " have been sent",
            MarkState.UNKNOWN: f"{began}, failed after rows may have been taken: {mark.error}",
            MarkState.KEPT: f"{began}, sent some of its rows, and this configuration cannot"
            f" continue from there: {mark.error}",
            MarkState.SENT: f"{began}, sent its rows; {self._answers(mark)}",
        }[mark.state]
        raise UnknownOutcomeError(f"{self._signature}: {what}; nothing is sent again", LOOK)

    def begin(self, attempt: int, folder: str, now_ms: int) -> None:
        """Write the marker; it is durable when this returns, so that the first row may be sent.

        Raises:
            WriteError: the file system refused to write.
        """
        self._mark = StartMark(_FORMAT, self._run.run_id, attempt, now_ms, folder)
        self._write(self._mark)

    def complete(self) -> None:
        """Record that all rows were sent and that the answers are staged."""
        if self._mark is not None:
            self._end(replace(self._mark, state=MarkState.SENT))

    def fail(self, failure: Failure, state: MarkState | None) -> None:
        """Record that the attempt ended; ``state`` is None if the receiver accepted no row."""
        if self._mark is not None:
            mark = self._mark
            self._end(None if state is None else replace(mark, state=state, error=failure.error))

    def _end(self, mark: StartMark | None) -> None:
        """Change or delete the marker; if that fails, the old marker only blocks needlessly."""
        try:
            if mark is None:
                self._filesystem.delete_file(self._path)
            else:
                self._write(mark)
        except WriteError as error:
            log.warning("the start marker remains: %s", error.message)

    def _answers(self, mark: StartMark) -> str:
        """Return words that say where the answers are; a publish would have deleted the marker."""
        if read_result(self._filesystem, mark.folder) is not None:
            return f"its answers are staged in {mark.folder} and not published"
        return f"its answers in {mark.folder} no longer exist, and were not published"

    def _write(self, mark: StartMark) -> None:
        self._filesystem.put(self._path, msgspec.json.encode(mark))
        folder = self._path.rpartition("/")[0]
        staging = folder.rpartition("/")[0]
        self._filesystem.sync_folders([folder, staging, staging.rpartition("/")[0]])

    def _read(self) -> StartMark:
        try:
            mark = _read(self._filesystem, self._path)
        except (OSError, DilError, msgspec.MsgspecError) as error:
            raise SourceError(
                f"{self._path} cannot be read ({type(error).__name__}); it records whether rows of"
                f" {self._signature} may have been sent",
                f"Check which rows the receiver has; {_AGAIN} sends the work unit again.",
            ) from error
        if mark.format != _FORMAT:
            raise SourceError(
                f"{self._path} has format {mark.format}, which this version does not know",
                f"Run the version that wrote it; {_AGAIN} sends the work unit again.",
            )
        return mark


def forget(filesystem: Filesystem, folder: str, commit: Commit) -> None:
    """Delete the markers of work units whose answers are published; errors are only logged.

    If a task was killed after its result was staged, the marker still says BEGUN, but the run that
    adopts the result knows that all rows were sent. ``folder`` is ``layout.sending_dir``.
    """
    try:
        if filesystem.exists(folder):
            for outcome in commit.run.outcomes:
                if outcome.succeeded:
                    filesystem.delete_file(f"{folder}/{unit_hash(outcome.signature)}.json")
    except (OSError, WriteError) as error:
        log.warning("start markers of published work units remain: %s", error)


def forget_committed(filesystem: Filesystem, folder: str, runs: Iterable[RunRecord]) -> None:
    """Delete markers of rows that these runs sent and committed, if a kill left such markers.

    A marker stays if its result is still in staging: these rows were not published, even if the
    run committed others.
    """
    committed = {run.run_id for run in runs if run.committed}
    if not committed or not filesystem.exists(folder):
        return
    for file in tuple(filesystem.files(folder)):
        try:
            mark = _read(filesystem, file.path)
            is_known = mark.format <= _FORMAT
            if is_known and mark.state is MarkState.SENT and mark.run_id in committed:
                result = read_result(filesystem, mark.folder)
                if result is None or not result.report.files:
                    filesystem.delete_file(file.path)
        except (OSError, DilError, msgspec.MsgspecError) as error:
            log.warning("the start marker %s remains: %s", file.path, error)


def _read(filesystem: Filesystem, path: str) -> StartMark:
    with filesystem.open_input(path) as stream:
        return msgspec.json.decode(stream.read(), type=StartMark)
