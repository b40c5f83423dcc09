"""The interface of a database server's driver for the state store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping
from functools import lru_cache

from dil.databases.faults import Diagnosis, Fault, LoginProperties
from dil.databases.statements import MARK
from dil.model.database_address import DatabaseAddress
from dil.state.databases.database import Row, SqlValue
from dil.state.databases.tables import ColumnWords

# Limits in seconds: for a connection; for another writer's lock; for one statement, by the server's
# clock; for any answer, by the client's clock, which ends the wait for a server that hangs; for a
# client's silence inside a transaction, after which the server ends it.
CONNECT_S = 10
LOCK_S = 20
STATEMENT_S = 30
ANSWER_S = 45
IDLE_S = 120

PROPERTIES = LoginProperties("state.store.db.url", "state.store.db.user", "state.store.db.password")
ADVICE: Mapping[Fault, str] = {
    Fault.LOCKED: "Another process held the lock of this job's row; run the job again.",
    Fault.TIMED_OUT: "The server took too long. Check its load, then run the job again.",
    Fault.NO_TABLE: "Tables are missing: another version of dil made the store, or they were"
    " dropped. Restore a backup.",
    Fault.NO_COLUMN: "Another version of dil made the store: use that version, or restore a"
    " backup.",
}
# Another writer was in the way; the transaction was rolled back, or must be.
CONFLICTS = frozenset({Fault.DUPLICATE, Fault.CONFLICT})


class ServerConnection(ABC):
    """One connection outside of transactions; its methods raise the driver's own errors."""

    @abstractmethod
    def change(self, statement: str, *values: SqlValue) -> int:
        """Run a statement and return the number of matched rows; ``?`` is the place of a value."""

    @abstractmethod
    def rows(self, statement: str, *values: SqlValue) -> list[Row]:
        """Return all rows of a SELECT."""

    @abstractmethod
    def stream(self, statement: str, *values: SqlValue) -> Generator[Row, None, None]:
        """Yield the rows of a SELECT in bounded memory, inside a transaction."""

    @abstractmethod
    def begin_writing(self) -> None:
        """Begin a transaction in which each statement sees all commits before it."""

    @abstractmethod
    def begin_reading(self) -> None:
        """Begin a transaction that sees one point in time and takes no locks."""

    @abstractmethod
    def commit(self) -> None:
        """End the transaction; its changes are on the server's disk."""

    @abstractmethod
    def rollback(self) -> None:
        """End the transaction without its changes."""

    @abstractmethod
    def lift_limits(self) -> None:
        """Remove the time limits for statements, and for pauses inside a transaction."""

    @abstractmethod
    def columns(self, table: str) -> tuple[str, ...]:
        """Return the names of a table's columns."""

    @abstractmethod
    def existing(self, names: Iterable[str]) -> frozenset[str]:
        """Return the tables, among some names, that exist."""

    @abstractmethod
    def column_words(self) -> ColumnWords:
        """Return the column types of this server."""

    @abstractmethod
    def create(self) -> None:
        """Create the tables once, even if several processes do so at the same moment."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection; may be called twice, and never fails."""


class ServerDriver(ABC):
    """Connects to one kind of server, and translates its errors."""

    address: DatabaseAddress

    @abstractmethod
    def connect(self, *, may_idle: bool) -> ServerConnection:
        """Open a connection.

        Args:
            may_idle: Whether the connection only reads, and may pause inside a transaction without
                a limit. If not, the server ends the connection after IDLE_S seconds, with its
                locks.

        Raises:
            StateError: the driver is not installed, or the server cannot keep a store.
        """

    @abstractmethod
    def errors(self) -> tuple[type[Exception], ...]:
        """Return the base class of the driver's errors; none if the driver is not installed."""

    @abstractmethod
    def diagnose(self, error: Exception) -> Diagnosis:
        """Return the meaning of one of the driver's errors."""


@lru_cache(maxsize=256)
def marked(statement: str) -> str:
    """Return a statement of ``sql`` with the drivers' placeholder in place of ``?``.

    The stored statements keep ``?``, because a file log stores them unchanged.
    """
    return statement.replace("?", MARK)
