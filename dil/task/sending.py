"""The rows that a work unit sends, and what an attempt keeps of that (behaviour.md B16).

Read in the task; sent twice only where that does no harm, or where it is known what was taken.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from dil.errors import DilError, UnknownOutcomeError, WriteError
from dil.extraction.batched_rows import batched_rows
from dil.extraction.paging.payload_rows import PayloadRows
from dil.extraction.paging.values import initial_values
from dil.extraction.parameters import Scope, evaluate
from dil.model.egress import AnswerCount
from dil.model.job import Job
from dil.model.task import Failure, RunContext, StagedFile, TaskReport
from dil.model.work_unit import WorkUnit
from dil.observe.progress import counted
from dil.publishing.layout import audit_dir
from dil.publishing.page_log import read_log
from dil.publishing.start_marker import LOOK, MarkState, StartMarker
from dil.spi.audit import AuditedRequest, AuditTrail, NoAudit
from dil.spi.connector import ByteSession, Connector, RequestValues, Response, RowSession
from dil.spi.registry import load
from dil.storage import Filesystem, filesystem_for
from dil.task.secondary_access import access
from dil.task.taken_rows import TakenRows, WatchedBytes, WatchedRows, WatchedTrail
from dil.writing.audit import AuditOrigin, AuditPlace, AuditWriter
from dil.writing.refused_rows import RefusedPlace, RefusedRows

if TYPE_CHECKING:
    import pyarrow as pa

_LOG = logging.getLogger(__name__)


def payload_rows(job: Job, unit: WorkUnit, scope: Scope) -> PayloadRows | None:
    """Return the rows to send, None where the job has no payload input.

    Its paths may use the variables of the first request.

    Raises:
        SourceError: a file is not there or cannot be read.
        SourceContractError: a variable of a path has no value, or the data is unfit.
    """
    if not job.has_input("payload"):
        return None
    # Imported here: most jobs send nothing.
    from dil.extraction.secondary import read_payload

    spec = job.extraction
    first = evaluate(spec.parameters, scope, initial_values(spec))
    rows = read_payload(job.properties, access(job), first.variables)
    batches = batched_rows(rows, spec.egress.batch_rows, spec.egress.batch_field)
    return PayloadRows(batches, job.name, unit.signature)


def must_not_repeat(job: Job) -> bool:
    """Tell whether the job sends rows that must not be sent twice."""
    if not job.has_input("payload"):
        return False
    connector = load(job.source.connector)
    return not (issubclass(connector, Connector) and connector.may_repeat_rows(job))


def sent_before(run: RunContext, unit: WorkUnit) -> TaskReport | None:
    """Return the report of a work unit that was sent or may have been, None to go on and send.

    What a lost execution of this run completed counts as it is. What another execution may have
    sent is a failure, unless the job is told to send again (spec README 30).
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


@dataclass(frozen=True, slots=True)
class AttemptPlace:
    """One attempt: its number, where it stages, its clocks in epoch ms and in seconds.

    ``clean`` masks the job's secrets in a text.
    """

    filesystem: Filesystem
    folder: str
    number: int
    now_ms: Callable[[], int]
    monotonic: Callable[[], float]
    clean: Callable[[str], str]


class Outbox:
    """What one attempt keeps of what it sends: start marker, refused rows, audit.

    ``refused`` is None where a refused row fails the attempt.
    """

    def __init__(self, run: RunContext, unit: WorkUnit, place: AttemptPlace) -> None:
        self._run = run
        self._unit = unit
        self._place = place
        self._marker = _start_marker(run, unit)
        self._sends = False
        self._has_begun = False
        self._rows = TakenRows(self._kept_requests)
        self._audit = self._audit_writer()
        self.refused = self._refused_rows()

    @property
    def trail(self) -> AuditTrail:
        """Return where sessions leave what they send."""
        trail = self._audit or NoAudit()
        return trail if self._marker is None else WatchedTrail(trail, self._rows)

    def payload(self, scope: Scope) -> PayloadRows | None:
        """Return the rows to send; where they must not be sent twice, the start marker is written.

        Raises:
            SourceError: as ``payload_rows``.
            WriteError: the marker cannot be written.
        """
        rows = payload_rows(self._run.job, self._unit, scope)
        self._sends = rows is not None
        if rows is not None and rows.left and self._marker is not None:
            self._marker.begin(self._place.number, self._place.folder, self._place.now_ms())
            self._has_begun = True
        return rows

    def audited(self, session: ByteSession | RowSession) -> ByteSession | RowSession:
        """Return a session whose calls are recorded, if its connector does not do it itself.

        Where rows must not be sent twice, it is also noted what becomes of each.
        """
        if self._audit is not None and not session.audits:
            if isinstance(session, ByteSession):
                session = _AuditedBytes(session, self.trail, self._run.job)
            else:
                session = _AuditedRows(session, self.trail, self._run.job)
        if self._marker is None:
            return session
        if isinstance(session, ByteSession):
            return WatchedBytes(session, self._rows)
        return WatchedRows(session, self._rows)

    def files(self) -> tuple[StagedFile, ...]:
        """End the record and return the files of refused rows, durable.

        Raises:
            WriteError: that failed.
        """
        if self._audit is not None:
            self._audit.close()
        return () if self.refused is None else self.refused.finish()

    def answers(self, warned: Counter[int]) -> tuple[AnswerCount, ...]:
        """Return the rows that were not just taken, by status; ``warned`` counts warnings."""
        kept = () if self.refused is None else self.refused.counts()
        if not self._sends:
            return kept
        return (*kept, *(AnswerCount(*each, is_kept=False) for each in sorted(warned.items())))

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what the report has to tell of the record."""
        return () if self._audit is None else self._audit.notes

    def complete(self) -> None:
        """Tell that the result is staged."""
        if self._marker is not None:
            self._marker.complete()

    def abort(self) -> None:
        """Close what is open; the audit stays."""
        if self.refused is not None:
            self.refused.abort()
        if self._audit is not None:
            try:
                self._audit.close()
            except WriteError as error:  # the attempt failed already, for its own reason
                _LOG.warning("%s", error.message)

    def fail(self, failure: Failure) -> Failure:
        """Tell that the attempt ended and what is known of its last request; return the failure.

        Whatever failed, an attempt of which rows were taken, or may have been, is not repeated
        where its rows must not be: neither by the next attempt nor by the next run.
        """
        if self._marker is None or not self._has_begun:
            return failure
        loose = self._rows.loose
        is_unknown = failure.code == UnknownOutcomeError.code
        if not (is_unknown or self._rows.is_open or loose):
            kept = self._rows.kept() > 0
            self._marker.fail(failure, MarkState.KEPT if kept else None)
            return failure
        words = [failure.error]
        if loose:
            took = f"the receiver took the rows of {counted(loose, 'request')} before that"
            words.append(f"{took}, and they are not sent again")
        if self._rows.is_open and not is_unknown:
            words.append("what became of the last request is not known")
        told = replace(
            failure,
            error="; ".join(words),
            retryable=False,
            fix=failure.fix if is_unknown else f"{failure.fix} {LOOK}".lstrip(),
        )
        self._marker.fail(told, MarkState.UNKNOWN)
        return told

    def _kept_requests(self) -> int:
        """Return how many requests a later attempt need not repeat, by what this one wrote."""
        if self._run.job.running.page_commit_s is None:
            return 0
        log = read_log(self._place.filesystem, self._place.folder)
        return 0 if log is None else log.last.pages

    def _refused_rows(self) -> RefusedRows | None:
        spec, place = self._run.job.extraction.egress, self._place
        if not spec.keeps_refused:
            return None
        return RefusedRows(
            RefusedPlace(
                place.filesystem,
                place.folder,
                self._unit.signature,
                self._run.run_id,
                place.number,
                place.clean,
            ),
            spec,
        )

    def _audit_writer(self) -> AuditWriter | None:
        job, unit, place = self._run.job, self._unit, self._place
        if not job.audit.enabled:
            return None
        folder = job.audit.directory or audit_dir(job.publishing)
        return AuditWriter(
            AuditPlace(folder, job.audit.is_required, place.now_ms, place.monotonic, place.clean),
            AuditOrigin(job.name, self._run.run_id, unit.signature, unit.hash, place.number),
        )


def _start_marker(run: RunContext, unit: WorkUnit) -> StartMarker | None:
    """Return the marker of a work unit, None where nothing is sent or it may be sent twice."""
    if not must_not_repeat(run.job):
        return None
    return StartMarker(filesystem_for(run.staging_dir), run, unit)


def _request(job: Job, values: RequestValues) -> AuditedRequest:
    return AuditedRequest(
        job.source.connector.qualname,
        values.next_uri or job.source.uri,
        values.parameters,
        values.payload,
    )


class _AuditedBytes(ByteSession):
    """Records each request of a session; its answers are its own."""

    audits: ClassVar[bool] = True

    def __init__(self, session: ByteSession, audit: AuditTrail, job: Job) -> None:
        self._session = session
        self._audit = audit
        self._job = job

    def fetch(self, values: RequestValues) -> Response:
        """Record the request, send it, record what became of it."""
        number = self._audit.sent(_request(self._job, values))
        try:
            response = self._session.fetch(values)
        except Exception as error:
            self._audit.answered(number, 0, _words(error))
            raise
        self._audit.answered(number, response.status)
        return response


class _AuditedRows(RowSession):
    """The same for a row protocol; a request is answered when its last row has come."""

    audits: ClassVar[bool] = True

    def __init__(self, session: RowSession, audit: AuditTrail, job: Job) -> None:
        self._session = session
        self._audit = audit
        self._job = job

    def read(self, values: RequestValues) -> Iterator[pa.RecordBatch]:
        """Record the request, yield its rows, record what became of it."""
        number = self._audit.sent(_request(self._job, values))
        try:
            yield from self._session.read(values)
        except Exception as error:
            self._audit.answered(number, 0, _words(error))
            raise
        self._audit.answered(number, 0)


def _words(error: Exception) -> str:
    return error.message if isinstance(error, DilError) else type(error).__name__
