"""What one database server's driver supplies to the state store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping
from functools import lru_cache

from dil.databases.faults import Diagnosis, Fault, LoginProperties
from dil.databases.statements import MARK
from dil.model.database_address import DatabaseAddress
from dil.state.databases.database import Row, SqlValue
from dil.state.databases.tables import ColumnWords

# How long to wait, in seconds: for a connection; for another writer's lock; for one statement, as
# the server counts; for any answer, as the client counts, which ends waiting for a server that
# hangs; and how long a client may be silent inside a transaction before the server ends it.
CONNECT_S = 10
LOCK_S = 20
STATEMENT_S = 30
ANSWER_S = 45
IDLE_S = 120

PROPERTIES = LoginProperties("state.store.db.url", "state.store.db.user", "state.store.db.password")
ADVICE: Mapping[Fault, str] = {
    Fault.LOCKED: "Another process kept this job's row locked; run the job again.",
    Fault.TIMED_OUT: "The server took too long. Look what it is busy with, then run the job again.",
    Fault.NO_TABLE: "Tables are missing: another version of dil made the store, or they were"
    " dropped. Restore a backup.",
    Fault.NO_COLUMN: "Another version of dil made the store: use that version, or restore a"
    " backup.",
}
# Another writer was in the way; the transaction is undone, or has to be.
CONFLICTS = frozenset({Fault.DUPLICATE, Fault.CONFLICT})


class ServerConnection(ABC):
    """One connection outside of any transaction; methods raise the driver's own errors."""

    @abstractmethod
    def change(self, statement: str, *values: SqlValue) -> int:
        """Run a statement and return how many rows it matched; ``?`` is the place of a value."""

    @abstractmethod
    def rows(self, statement: str, *values: SqlValue) -> list[Row]:
        """Return all rows of a SELECT."""

    @abstractmethod
    def stream(self, statement: str, *values: SqlValue) -> Generator[Row, None, None]:
        """Yield the rows of a SELECT in bounded memory, inside a transaction."""

    @abstractmethod
    def begin_writing(self) -> None:
        """Begin a transaction each of whose statements sees all that is committed by then."""

    @abstractmethod
    def begin_reading(self) -> None:
        """Begin a transaction that sees one point in time and locks nothing."""

    @abstractmethod
    def commit(self) -> None:
        """End the transaction; what it changed is on the server's disk."""

    @abstractmethod
    def rollback(self) -> None:
        """End the transaction without its changes."""

    @abstractmethod
    def lift_limits(self) -> None:
        """Let statements of this connection, and pauses inside a transaction, take any time."""

    @abstractmethod
    def columns(self, table: str) -> tuple[str, ...]:
        """Return the names of a table's columns."""

    @abstractmethod
    def existing(self, names: Iterable[str]) -> frozenset[str]:
        """Return which of some tables are there."""

    @abstractmethod
    def column_words(self) -> ColumnWords:
        """Return the words of this server in which servers differ."""

    @abstractmethod
    def create(self) -> None:
        """Make the tables, once, however many processes do so at the same moment."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection; may be called twice, and never fails."""


class ServerDriver(ABC):
    """How to connect to one kind of server, and how to read its errors."""

    address: DatabaseAddress

    @abstractmethod
    def connect(self, *, may_idle: bool) -> ServerConnection:
        """Open a connection.

        Args:
            may_idle: It only reads, and may pause inside a transaction for as long as it likes.
                Another one is ended by the server after IDLE_S seconds, with its locks.

        Raises:
            StateError: the driver is not installed, or the server cannot keep a store.
        """

    @abstractmethod
    def errors(self) -> tuple[type[Exception], ...]:
        """Return the root of the driver's errors; none where it is not installed."""

    @abstractmethod
    def diagnose(self, error: Exception) -> Diagnosis:
        """Return the meaning of one of those errors."""


@lru_cache(maxsize=256)
def marked(statement: str) -> str:
    """Return a statement of ``sql`` with the marks that drivers take in place of ``?``.

    The statements keep theirs, because a file log stores them as they are.
    """
    return statement.replace("?", MARK)
