"""The session's interface to a database; each kind has a module of its own in ``engines``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.jdbc.address import JdbcAddress
from connectors.jdbc.statement import Statement
from connectors.jdbc.syntax import SqlSyntax
from dil.errors import SourceContractError
from dil.model.json import JsonValue
from dil.model.secret import Secret

if TYPE_CHECKING:
    import pyarrow as pa

# A batch has at most so many rows and, as far as rows are not huge, bytes.
BATCH_ROWS = 64 * 1024
BATCH_BYTES = 8 * 1024 * 1024
# So many rows are taken from a driver at once where the driver does not count in bytes.
FETCH_ROWS = 16 * 1024


@dataclass(frozen=True, slots=True)
class Login:
    """How to reach one database.

    ``user`` and ``password`` are those of the job, else of the URL. ``folder`` is where relative
    paths begin. ``nulls_dates`` makes dates that no calendar has null, else they are errors.
    ``is_read_only`` has queries run in a transaction that cannot write. ``memory_bytes`` is what
    this process may take in all, 0 for no limit.
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
        """Return the database's file."""
        return self.folder / self.address.path


class SourceConnection(ABC):
    """One connection; the queries of a transaction see one state of the data, where it can be.

    The attempts of a task may use it one after the other, each in a transaction of its own. What
    drivers raise leaves as errors of ``dil.errors``.
    """

    @property
    @abstractmethod
    def syntax(self) -> SqlSyntax:
        """Return the SQL syntax of the database."""

    @abstractmethod
    def run(
        self, statement: Statement, variables: Mapping[str, JsonValue]
    ) -> Iterator[pa.RecordBatch]:
        """Run a statement and yield its rows; a statement without rows is committed.

        Raises:
            TransientSourceError: the server is gone, or was too slow.
            AuthenticationError: the server refused the user.
            SourceContractError: no Arrow type keeps a value.
            SourceError: the server refused the statement.
        """

    @abstractmethod
    def look_again(self) -> None:
        """End the transaction, so that the next query sees changes made meanwhile."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection in any state."""


def distinct(names: list[str]) -> list[str]:
    """Return the names of a result's columns.

    Raises:
        SourceContractError: two columns have the same name.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SourceContractError(
                f'the result has two columns "{name}"',
                "Give each a name of its own with AS in ms.jdbc.statement.",
            )
        seen.add(name)
    return names
