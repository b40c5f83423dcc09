"""The session's interface to a database; ``engines`` has a module for each kind of database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.jdbc.address import JdbcAddress
from connectors.jdbc.statement import Statement
from connectors.jdbc.syntax import SqlSyntax
from dil.model.database_address import DatabaseAddress
from dil.model.json import JsonValue
from dil.model.secret import Secret

if TYPE_CHECKING:
    import pyarrow as pa

# The most rows of a batch, and the most bytes as long as single rows are not huge.
BATCH_ROWS = 64 * 1024
BATCH_BYTES = 8 * 1024 * 1024
# The number of rows to fetch at once from a driver that does not count bytes.
FETCH_ROWS = 16 * 1024


@dataclass(frozen=True, slots=True)
class Login:
    """The address of one database, and the settings of a connection to it.

    ``user`` and ``password`` come from the job, else from the URL. ``folder`` is the start of
    relative paths. If ``nulls_dates`` is true, impossible dates become null, else they are errors.
    If ``is_read_only`` is true, queries run in a transaction that cannot write. ``memory_bytes``
    bounds the memory of the whole process, 0 for no limit.
    """

    address: JdbcAddress
    user: str = ""
    password: Secret | None = None
    folder: Path = Path()
    nulls_dates: bool = False
    is_read_only: bool = True
    memory_bytes: int = 0

    @property
    def path(self) -> Path:
        """Return the path of the database's file."""
        return self.folder / self.address.path

    @property
    def server(self) -> DatabaseAddress:
        """Return the address of the server, with the user to log in."""
        if self.address.server is None:
            raise TypeError("the address names no server")
        return replace(self.address.server, user=self.user, password=self.password)


class SourceConnection(ABC):
    """One connection; queries of a transaction see one state of the data if the database allows it.

    The attempts of a task may use the connection one after the other, each in a transaction of its
    own. Implementations translate the errors of drivers into errors of ``dil.errors``.
    """

    @property
    @abstractmethod
    def syntax(self) -> SqlSyntax:
        """Return the SQL syntax of the database."""

    @abstractmethod
    def run(
        self, statement: Statement, variables: Mapping[str, JsonValue]
    ) -> Iterator[pa.RecordBatch]:
        """Run a statement and yield its rows in batches; commit it if it is not a query.

        Raises:
            TransientSourceError: the server is gone, or was too slow.
            AuthenticationError: the server refused the user.
            SourceContractError: no Arrow type holds a value exactly.
            SourceError: the server refused the statement.
        """

    def instants(
        self, statement: Statement, variables: Mapping[str, JsonValue], names: Iterable[str]
    ) -> list[str]:
        """Return those of ``names`` that the statement uses as times with a zone, if that is known.

        This ends the transaction.

        Raises:
            TransientSourceError: the server is gone, or was too slow.
        """
        del statement, variables, names
        return []

    @abstractmethod
    def look_again(self) -> None:
        """End the transaction, so that the next query sees later changes."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection, whatever its state."""
