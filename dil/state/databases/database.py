"""The interface between the state store and a database: transactions over DB-API rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

SqlValue: TypeAlias = int | str | bytes | None
# Values at the SQL edge: the statement, and not the type checker, knows a column's type.
Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class LongValue:
    """Bytes, or UTF-8 text, made in pieces; ``pieces`` may be called several times.

    A run of 100,000 work units stores a hundred megabytes, and a driver copies a value several
    times.
    """

    pieces: Callable[[], Iterable[bytes]]
    is_text: bool = False

    @property
    def size(self) -> int:
        """Return the number of bytes."""
        return sum(map(len, self.pieces()))

    def whole(self) -> str | bytes:
        """Return the value in one piece."""
        content = b"".join(self.pieces())
        return content.decode() if self.is_text else content


class Transaction(ABC):
    """Statements of one transaction; ``?`` is the place of a value on every engine."""

    @abstractmethod
    def change(self, statement: str, *values: SqlValue) -> int:
        """Run an INSERT, UPDATE or DELETE and return the number of matched rows."""

    def add(self, statement: str, *values: SqlValue, long: LongValue) -> None:
        """Run an INSERT of one row, whose last value is long."""
        self.change(statement, *values, long.whole())

    @abstractmethod
    def rows(self, statement: str, *values: SqlValue) -> list[Row]:
        """Return all rows of a SELECT."""

    def row(self, statement: str, *values: SqlValue) -> Row | None:
        """Return the first row of a SELECT, None if there is none."""
        found = self.rows(statement, *values)
        return found[0] if found else None


# Called with a store and its older format before it is upgraded; raises to leave it unchanged.
Allow: TypeAlias = Callable[[Transaction, int], None]


class Snapshot(Transaction):
    """A reading transaction that stays open: all its reads see one point in time."""

    @abstractmethod
    def close(self) -> None:
        """End the transaction; may be called twice."""


class Database(ABC):
    """The database of one state store. Safe to use from several threads of one process.

    Driver errors are raised as StateError, or as CommitConflictError if another writer created the
    same row first. ``place`` is the store's name in messages. A store of an older format is read
    and written as it is: formats only add tables.
    """

    place: str

    @abstractmethod
    def write(self) -> AbstractContextManager[Transaction]:
        """Open a transaction that sees all earlier writes; it commits unless the block raises.

        Creates the store on first use.
        """

    @abstractmethod
    def upgrade(self, allow: Allow) -> AbstractContextManager[Transaction]:
        """Open a transaction like ``write`` that also upgrades a store of an older format.

        ``allow`` is only called for an older store, inside the transaction. The old store is first
        copied to ``copy_place``. The upgrade and the changes of the block are committed together or
        not at all.
        """

    def problems(self) -> Iterator[str]:
        """Yield problems of the files under the tables, if the store can check them."""
        return iter(())

    def set_chain_aside(self, name: str) -> None:
        """Move copies of the chain away, under a name, because a replaced chain would not fit them.

        It is called before a job's rows are replaced; the copies are written again in any case.
        """
        del name

    @abstractmethod
    def copy_place(self, number: int) -> str:
        """Return the place of the store's copy in an older format, for people."""

    @abstractmethod
    def read(self) -> AbstractContextManager[Transaction]:
        """Open a reading transaction; a store that does not exist reads as an empty store."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Open a separate reading transaction, which blocks no writer."""

    @abstractmethod
    def stream(self, statement: str, *values: SqlValue) -> Iterator[Row]:
        """Yield the rows of a SELECT one by one, from one point in time; blocks no writer."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection; may be called twice."""
