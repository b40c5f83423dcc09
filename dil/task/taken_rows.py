"""What is known of the rows that an attempt sent: those taken, and whether one is in doubt.

Only rows that must not be repeated are watched. Whatever fails afterwards, an answer that does not
convert or a full disk, a row that the receiver took is not sent again in the dark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from dil.errors import ConfigError, SourceContractError, SourceError, UnknownOutcomeError
from dil.spi.audit import AuditedRequest, AuditTrail
from dil.spi.connector import ByteSession, RequestValues, Response, RowSession

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class TakenRows:
    """The requests of one attempt that carry rows, by what became of them.

    ``kept`` counts the requests whose answers a later attempt need not ask for again, of earlier
    attempts, too.
    """

    kept: Callable[[], int]
    taken: int = 0
    ended: int = 0
    is_open: bool = False
    _kept_before: int | None = field(default=None, repr=False)
    _last_refused: bool = False

    def begin(self) -> None:
        """A request goes out; until it ends nobody knows what became of it."""
        if self._kept_before is None:
            self._kept_before = self.kept()
        self.is_open = True

    def take(self) -> None:
        """It was answered, and not refused."""
        self.taken += 1
        self._end(is_refused=False)

    def refuse(self) -> None:
        """It is known that nothing was done."""
        self._end(is_refused=True)

    @property
    def loose(self) -> int:
        """Return how many requests were taken that a later attempt would send once more."""
        kept = self.kept() - (self._kept_before or 0)
        return min(self.taken, self.ended - self._last_refused - max(kept, 0))

    def _end(self, *, is_refused: bool) -> None:
        self.ended += 1
        self.is_open = False
        self._last_refused = is_refused


def is_not_done(error: Exception) -> bool:
    """Tell whether a connector's error says that the receiver did nothing.

    An answer that breaks the contract came from a receiver that may have taken the row, and
    nothing is known of what a plug-in raises that is no error of ours.
    """
    in_doubt = (UnknownOutcomeError, SourceContractError)
    return isinstance(error, SourceError | ConfigError) and not isinstance(error, in_doubt)


class WatchedBytes(ByteSession):
    """Watches each request of a session; its answers are its own."""

    audits: ClassVar[bool] = True

    def __init__(self, session: ByteSession, rows: TakenRows) -> None:
        self._session = session
        self._rows = rows

    def fetch(self, values: RequestValues) -> Response:
        """Send the request and note what became of it."""
        self._rows.begin()
        try:
            response = self._session.fetch(values)
        except Exception as error:
            if is_not_done(error):
                self._rows.refuse()
            raise
        self._rows.take()
        return response


class WatchedRows(RowSession):
    """The same for a row protocol; a request is taken when its last row has come."""

    audits: ClassVar[bool] = True

    def __init__(self, session: RowSession, rows: TakenRows) -> None:
        self._session = session
        self._rows = rows

    def read(self, values: RequestValues) -> Iterator[pa.RecordBatch]:
        """Send the request, yield its rows, note what became of it."""
        self._rows.begin()
        has_answer = False
        try:
            for batch in self._session.read(values):
                has_answer = True
                yield batch
        except Exception as error:
            if not has_answer and is_not_done(error):
                self._rows.refuse()
            raise
        self._rows.take()


class WatchedTrail(AuditTrail):
    """Records requests; one that cannot be recorded is not sent, and so is not in doubt."""

    def __init__(self, audit: AuditTrail, rows: TakenRows) -> None:
        self._audit = audit
        self._rows = rows

    def sent(self, request: AuditedRequest) -> int:
        """Record a request before it is sent; return its number."""
        try:
            return self._audit.sent(request)
        except Exception:
            self._rows.refuse()
            raise

    def answered(self, number: int, status: int, error: str = "") -> None:
        """Record what became of it."""
        self._audit.answered(number, status, error)
