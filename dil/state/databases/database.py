"""The seam between the state store and a database server: transactions over DB-API rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

SqlValue: TypeAlias = int | str | bytes | None
# The SQL edge: what a column holds is known by the statement, not by the type checker.
Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class LongValue:
    """Bytes, or a text in UTF-8, that are made piece by piece; ``pieces`` may be called again.

    What a run of 100,000 work units keeps is a hundred megabytes, and a driver copies a value
    several times.
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
        """Run an INSERT, UPDATE or DELETE and return how many rows it matched."""

    def add(self, statement: str, *values: SqlValue, long: LongValue) -> None:
        """Run an INSERT of one row, whose last value is long."""
        self.change(statement, *values, long.whole())

    @abstractmethod
    def rows(self, statement: str, *values: SqlValue) -> list[Row]:
        """Return all rows of a SELECT."""

    def row(self, statement: str, *values: SqlValue) -> Row | None:
        """Return the first row of a SELECT, None when there is none."""
        found = self.rows(statement, *values)
        return found[0] if found else None


# Is given a store and its older format before anything of it changes; raises to leave it so.
Allow: TypeAlias = Callable[[Transaction, int], None]


class Snapshot(Transaction):
    """A reading transaction that stays open: all it reads is of one point in time."""

    @abstractmethod
    def close(self) -> None:
        """End the transaction; may be called twice."""


class Database(ABC):
    """Where one state store lives. Safe to use from several threads of one process.

    Driver errors leave this class as StateError, a row that another writer made first as
    CommitConflictError. ``place`` names it for people. A store of an older format is read and
    written as it is: formats only add tables.
    """

    place: str

    @abstractmethod
    def write(self) -> AbstractContextManager[Transaction]:
        """Open a transaction that sees all earlier writers; commits unless the block raises.

        Creates the store on first use.
        """

    @abstractmethod
    def upgrade(self, allow: Allow) -> AbstractContextManager[Transaction]:
        """Open a transaction like ``write``, in which a store of an older format is upgraded.

        ``allow`` is called only for an older store, inside of the transaction. The old store
        is copied to ``copy_place`` first. The upgrade and the block are committed as a whole, or
        not at all.
        """

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with what the tables are made of, where that can be looked at."""
        return iter(())

    def set_chain_aside(self, name: str) -> None:
        """Put copies of the chain aside, under a name, that a replaced chain would not fit.

        Called before a job's rows are replaced; what is put aside is written anew either way.
        """
        del name

    @abstractmethod
    def copy_place(self, number: int) -> str:
        """Return where the store is kept as it was under an older format, for people."""

    @abstractmethod
    def read(self) -> AbstractContextManager[Transaction]:
        """Open a reading transaction; a store that does not exist reads as an empty one."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Open a reading transaction of its own, which blocks no writer."""

    @abstractmethod
    def stream(self, statement: str, *values: SqlValue) -> Iterator[Row]:
        """Yield the rows of a SELECT one by one, of one point in time, blocking no writer."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection; may be called twice."""
