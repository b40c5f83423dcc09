"""The rows that a work unit sends, and an attempt's records of sending (docs/egress.md).

The task reads the rows. It sends rows again only if that does no harm, or if it is known which rows
the receiver took.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dil.errors import DilError, UnknownOutcomeError, WriteError
from dil.extraction.parameters import first_request
from dil.extraction.payload_rows import PayloadRows, batched_rows
from dil.extraction.secondary import read_payload
from dil.model.job import Job
from dil.model.json import JsonObject, JsonValue
from dil.model.task import AnswerCount, Failure, RunContext, StagedFile, TaskReport
from dil.model.work_unit import WorkUnit
from dil.observe.progress import counted
from dil.publishing.layout import audit_dir
from dil.publishing.page_log import read_log
from dil.publishing.start_marker import LOOK, MarkState, StartMarker
from dil.spi.audit import AuditTrail, NoAudit
from dil.spi.connector import ByteSession, Connector, RowSession
from dil.spi.registry import load
from dil.storage import filesystem_for
from dil.task.context import AttemptContext
from dil.task.recorded_sessions import (
    DeliveryTracker,
    RecordedByteSession,
    RecordedRowSession,
    Recorder,
    TrackedTrail,
)
from dil.task.secondary_inputs import secondary_access
from dil.writing.audit import AuditPlace, AuditWriter
from dil.writing.refused_rows import RefusedRows

log = logging.getLogger(__name__)


def must_not_repeat(job: Job) -> bool:
    """Return whether the job sends rows that must not be sent twice."""
    if not job.has_input("payload"):
        return False
    connector = load(job.source.connector)
    return not (issubclass(connector, Connector) and connector.may_repeat_rows(job))


def sent_before(run: RunContext, unit: WorkUnit) -> TaskReport | None:
    """Return the report of a work unit that was, or may have been, sent; None to send it now.

    A result of a lost execution of this run counts. If another execution may have sent the rows,
    the report is a failure, unless the job asks to send again (rule U22).
    """
    marker = _start_marker(run, unit)
    if marker is None:
        return None
    try:
        done = marker.earlier_result()
        if done is None and not run.job.extraction.egress.sends_again:
            marker.refuse_repetition()
    except DilError as error:
        return TaskReport(unit.signature, unit.low, unit.high, 0, failure=Failure.of(error))
    return done


def payload_batches(job: Job, variables: Mapping[str, JsonValue]) -> Iterator[JsonObject]:
    """Yield for each request the rows of the payload input that it sends.

    The paths of the input may use the variables.

    Raises:
        SourceError: a file is not there or cannot be read.
        SourceContractError: a variable of a path has no value, or the data is unfit.
    """
    egress = job.extraction.egress
    read = read_payload(job.secondary, secondary_access(job), variables)
    return batched_rows(read, egress.batch_rows, egress.batch_field)


class Delivery:
    """The rows that one attempt sends, with their start marker, refused rows and audit.

    ``refused`` keeps rows that the receiver refuses; None if a refused row fails the attempt.
    """

    def __init__(self, attempt: AttemptContext) -> None:
        self._attempt = attempt
        self._marker = _start_marker(attempt.run, attempt.unit)
        self._tracker = None if self._marker is None else DeliveryTracker(self._count_kept)
        self._audit: AuditWriter | None = None
        audit, clocks = attempt.job.audit, attempt.clocks
        if audit.enabled:
            place = AuditPlace(
                audit.directory or audit_dir(attempt.job.publishing),
                audit.is_required,
                clocks.now_ms,
                clocks.monotonic,
                attempt.clean,
            )
            self._audit = AuditWriter(place, attempt.id)
        self._sends_rows = False
        self._has_begun = False
        self.refused: RefusedRows | None = None
        spec = attempt.job.extraction.egress
        if spec.keeps_refused:
            self.refused = RefusedRows(attempt.folder, spec, attempt.id, attempt.clean)

    @property
    def trail(self) -> AuditTrail:
        """Return the recorder of the rows that sessions send."""
        trail = self._audit or NoAudit()
        return trail if self._tracker is None else TrackedTrail(trail, self._tracker)

    def payload(self) -> PayloadRows | None:
        """Return the rows to send, None if the job has no payload input.

        If rows must not be sent twice, the start marker is written first. The paths of the
        input may use the variables of the first request.

        Raises:
            SourceError: a file is not there or cannot be read.
            SourceContractError: a variable of a path has no value, or the data is unfit.
            WriteError: the marker cannot be written.
        """
        job, attempt = self._attempt.job, self._attempt
        if not job.has_input("payload"):
            return None
        first = first_request(job.extraction, attempt.scope)
        batches = payload_batches(job, first.variables)
        rows = PayloadRows(batches, job.name, attempt.unit.signature)
        self._sends_rows = True
        if rows.left and self._marker is not None:
            self._marker.begin(attempt.id.number, attempt.folder.path, attempt.clocks.now_ms())
            self._has_begun = True
        return rows

    def record(self, session: ByteSession | RowSession) -> ByteSession | RowSession:
        """Return the session, or one around it that records requests if the job asks for that."""
        trail = None if self._audit is None or session.audits else self.trail
        if trail is None and self._tracker is None:
            return session
        recorder = Recorder(self._attempt.job, trail, self._tracker)
        if isinstance(session, ByteSession):
            return RecordedByteSession(session, recorder)
        return RecordedRowSession(session, recorder)

    def finish(self) -> tuple[StagedFile, ...]:
        """End the audit, make the files of refused rows durable, and return these files.

        Raises:
            WriteError: a file cannot be written.
        """
        if self._audit is not None:
            self._audit.close()
        return () if self.refused is None else self.refused.finish()

    def answers(self, warned: Counter[int]) -> tuple[AnswerCount, ...]:
        """Return how many rows were refused or taken with a warning (``warned``), by status."""
        refused = () if self.refused is None else self.refused.counts()
        if not self._sends_rows:
            return refused
        return (*refused, *(AnswerCount(*each, is_kept=False) for each in sorted(warned.items())))

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the report's notes about the audit."""
        return () if self._audit is None else self._audit.notes

    def complete(self) -> None:
        """Note in the start marker that the result is staged."""
        if self._marker is not None:
            self._marker.complete()

    def close(self) -> None:
        """Close the files of a failed attempt; the audit stays."""
        if self.refused is not None:
            self.refused.abort()
        if self._audit is not None:
            try:
                self._audit.close()
            except WriteError as error:  # the attempt failed already, for its own reason
                log.warning("%s", error.message)

    def fail(self, failure: Failure) -> Failure:
        """Note in the start marker how the attempt failed; return the failure for the report.

        If rows must not be sent twice, and the receiver took some or may have taken some, then
        neither another attempt nor the next run repeats this attempt.
        """
        if self._marker is None or self._tracker is None or not self._has_begun:
            return failure
        unkept = self._tracker.unkept
        is_unknown = failure.code == UnknownOutcomeError.code
        if not (is_unknown or self._tracker.is_open or unkept):
            self._marker.fail(failure, MarkState.KEPT if self._count_kept() else None)
            return failure
        reasons = [failure.error]
        if unkept:
            took = f"the receiver took the rows of {counted(unkept, 'request')} before that"
            reasons.append(f"{took}, and they are not sent again")
        if self._tracker.is_open and not is_unknown:
            reasons.append("it is unknown whether the receiver took the last request")
        final = replace(
            failure,
            error="; ".join(reasons),
            retryable=False,
            fix=failure.fix if is_unknown else f"{failure.fix} {LOOK}".lstrip(),
        )
        self._marker.fail(final, MarkState.UNKNOWN)
        return final

    def _count_kept(self) -> int:
        """Return how many requests a later attempt need not repeat, by this attempt's page log."""
        if self._attempt.job.running.page_commit_s is None:
            return 0
        folder = self._attempt.folder
        page_log = read_log(folder.filesystem, folder.path)
        return 0 if page_log is None else page_log.last.pages


def _start_marker(run: RunContext, unit: WorkUnit) -> StartMarker | None:
    """Return the start marker of a work unit; None if it sends nothing, or may send rows twice."""
    if not must_not_repeat(run.job):
        return None
    return StartMarker(filesystem_for(run.staging_dir), run, unit)
