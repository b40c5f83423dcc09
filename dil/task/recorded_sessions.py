"""Sessions that record their requests: in the audit, and for rows that must not be sent twice.

If anything fails after an answer, such as its conversion, the records show that the receiver took
the row. So no row is sent again unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from dil.errors import (
    ConfigError,
    DilError,
    SourceContractError,
    SourceError,
    UnknownOutcomeError,
)
from dil.model.job import Job
from dil.spi.audit import AuditedRequest, AuditTrail
from dil.spi.connector import ByteSession, RequestValues, Response, RowSession
from dil.spi.request_view import RequestView

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class DeliveryTracker:
    """The state of the requests of one attempt that carry rows.

    ``count_kept`` returns how many requests, including those of earlier attempts, have their
    answers in the page log; a later attempt need not repeat them. ``is_open`` says that a request
    was sent, and its outcome is not known yet.
    """

    count_kept: Callable[[], int]
    is_open: bool = False
    _kept_before: int | None = field(default=None, repr=False)
    _taken: int = 0
    _ended: int = 0
    _last_was_refused: bool = False

    def begin(self) -> None:
        """Note that a request is being sent."""
        if self._kept_before is None:
            self._kept_before = self.count_kept()
        self.is_open = True

    def take(self) -> None:
        """Note that the receiver answered the request and did not refuse it."""
        self._taken += 1
        self._end(was_refused=False)

    def take_back(self) -> None:
        """Note that the last answer says that the receiver did nothing: it counts no more."""
        self._taken -= 1
        self._ended -= 1

    def refuse(self) -> None:
        """Note that the receiver is known to have done nothing."""
        self._end(was_refused=True)

    @property
    def unkept(self) -> int:
        """Return how many taken requests a later attempt would send once more."""
        kept = self.count_kept() - (self._kept_before or 0)
        return min(self._taken, self._ended - self._last_was_refused - max(kept, 0))

    def _end(self, *, was_refused: bool) -> None:
        self._ended += 1
        self.is_open = False
        self._last_was_refused = was_refused


class TrackedTrail(AuditTrail):
    """An audit trail that tells a tracker if it cannot record a request, which is then not sent."""

    def __init__(self, trail: AuditTrail, tracker: DeliveryTracker) -> None:
        self._trail = trail
        self._tracker = tracker

    def sent(self, request: AuditedRequest) -> int:
        """Record a request before it is sent; return its number."""
        try:
            return self._trail.sent(request)
        except Exception:
            self._tracker.refuse()
            raise

    def answered(self, number: int, status: int, error: str = "") -> None:
        """Record the outcome of a request."""
        self._trail.answered(number, status, error)


@dataclass(slots=True)
class _Call:
    """One call of a session: the status of its answer, and whether any part of it came."""

    status: int = 0
    has_answer: bool = False


@dataclass(frozen=True, slots=True)
class Recorder:
    """Records the calls of a session in an audit trail and a tracker; each may be None.

    ``trail`` is None if the session itself audits its requests.
    """

    job: Job
    trail: AuditTrail | None
    tracker: DeliveryTracker | None

    @contextmanager
    def recording(self, values: RequestValues) -> Iterator[_Call]:
        """Record the request, and its outcome when the block ends.

        Raises:
            WriteError: the audit that the job asks for cannot be written.
        """
        call = _Call()
        if self.tracker is not None:
            self.tracker.begin()
        number = 0
        if self.trail is not None:
            source = self.job.source
            uri = values.next_uri or source.uri
            number = self.trail.sent(
                AuditedRequest(source.connector.qualname, uri, values.parameters, values.payload)
            )
        try:
            yield call
        except Exception as error:
            what = error.message if isinstance(error, DilError) else type(error).__name__
            self._answered(number, 0, what)
            if self.tracker is not None and not call.has_answer and _is_refusal(error):
                self.tracker.refuse()
            raise
        self._answered(number, call.status)
        if self.tracker is not None:
            self.tracker.take()

    def _answered(self, number: int, status: int, error: str = "") -> None:
        if self.trail is not None:
            self.trail.answered(number, status, error)


class RecordedByteSession(ByteSession):
    """Records the requests of a byte session; the answers pass unchanged."""

    audits: ClassVar[bool] = True

    def __init__(self, session: ByteSession, recorder: Recorder) -> None:
        self._session = session
        self._recorder = recorder

    def describe(self, values: RequestValues) -> RequestView | None:
        """Return the session's view of the request."""
        return self._session.describe(values)

    def fetch(self, values: RequestValues) -> Response:
        """Send the request."""
        with self._recorder.recording(values) as call:
            response = self._session.fetch(values)
            call.status = response.status
        return response

    def waits_to_repeat(self, response: Response, failure: str, repeats: int) -> bool:
        """Wait as the session does."""
        if self._recorder.tracker is not None:
            self._recorder.tracker.take_back()
        return self._session.waits_to_repeat(response, failure, repeats)


class RecordedRowSession(RowSession):
    """Records the requests of a row session; a request is answered when its last row has come."""

    audits: ClassVar[bool] = True

    def __init__(self, session: RowSession, recorder: Recorder) -> None:
        self._session = session
        self._recorder = recorder

    def describe(self, values: RequestValues) -> RequestView | None:
        """Return the session's view of the request."""
        return self._session.describe(values)

    def read(self, values: RequestValues) -> Iterator[pa.RecordBatch]:
        """Send the request and yield its rows."""
        with self._recorder.recording(values) as call:
            for batch in self._session.read(values):
                call.has_answer = True
                self.left_out = self._session.left_out
                yield batch


def _is_refusal(error: Exception) -> bool:
    """Return whether a connector's error says that the receiver did nothing.

    False for an answer that breaks the contract, because its receiver may have taken the row, and
    for exceptions of plug-ins that are not DilErrors, because their meaning is unknown.
    """
    in_doubt = (UnknownOutcomeError, SourceContractError)
    return isinstance(error, SourceError | ConfigError) and not isinstance(error, in_doubt)
