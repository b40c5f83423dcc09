"""The tables of a job in memory, in their state after some entry of the job's journal.

The tables are the same as in the SQL stores, and SQLite runs the statements: a file log has no
rules of its own.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dil.errors import CommitConflictError, DilError, StateError
from dil.state.databases import sql, tables
from dil.state.databases.database import Row, Snapshot, SqlValue, Transaction
from dil.state.filelog.entry import NO_ENTRY, WITHOUT_COPY, LogChange, LogEntry, damaged

_REMEMBERED = 1000
# The most steps of SQLite's machine for one entry, which take some seconds. A run of 100,000 work
# units takes a tenth of them.
MOST_STEPS = 500_000_000
_STEPS = 100_000
_PLACE_TABLES = (
    "CREATE TABLE journal_job (job TEXT NOT NULL)",
    "CREATE TABLE journal_entry (number INTEGER PRIMARY KEY, entry_hash TEXT NOT NULL)",
)


class ReplicaTransaction(Snapshot):
    """Statements on a connection in memory."""

    def __init__(self, connection: sqlite3.Connection, place: str) -> None:
        self._connection = connection
        self._place = place

    def change(self, statement: str, *values: SqlValue) -> int:
        """Run an INSERT, UPDATE or DELETE and return the number of matched rows."""
        with _translated(self._place):
            return self._connection.execute(statement, values).rowcount

    def rows(self, statement: str, *values: SqlValue) -> list[Row]:
        """Return all rows of a SELECT."""
        with _translated(self._place):
            return self._connection.execute(statement, values).fetchall()

    def each(self, statement: str, values: tuple[SqlValue, ...]) -> Iterator[Row]:
        """Yield the rows of a SELECT one by one."""
        with _translated(self._place):
            yield from self._connection.execute(statement, values)

    def close(self) -> None:
        """Release the memory; may be called twice."""
        self._connection.close()


class Replica:
    """The state after the entry ``number`` with the hash ``entry_hash``; 0 is the empty store.

    ``format`` is the format of its tables.
    """

    def __init__(self, connection: sqlite3.Connection, job: str, place: str) -> None:
        self.job = job
        self.format: int = connection.execute(sql.READ_FORMAT).fetchone()[0]
        newest = connection.execute(
            "SELECT number, entry_hash FROM journal_entry ORDER BY number DESC LIMIT 1"
        ).fetchone()
        self.number: int
        self.entry_hash: str
        self.number, self.entry_hash = newest or (0, NO_ENTRY)
        self._connection = connection
        self._place = place

    @classmethod
    def empty(cls, job: str, place: str) -> Replica:
        """Return the state before the first entry."""
        connection = _connected()
        for statement in (*tables.statements(tables.SQLITE), *_PLACE_TABLES):
            connection.execute(statement)
        connection.execute(sql.WRITE_FORMAT, (tables.FORMAT,))
        connection.execute("INSERT INTO journal_job (job) VALUES (?)", (job,))
        return cls(connection, job, place)

    @classmethod
    def loaded(cls, content: bytes, job: str, place: str) -> Replica:
        """Return the state that ``dumped`` wrote.

        Raises:
            StateError: the content is damaged, of another format, or of another job.
        """
        connection = _connected()
        try:
            # This uses a second connection, because a deserialised one cannot grow beyond 1 GiB.
            source = _connected()
            source.deserialize(content)
            source.backup(connection)
            source.close()
            found = connection.execute(sql.READ_FORMAT).fetchone()
            of_job = connection.execute("SELECT job FROM journal_job").fetchone()
        except sqlite3.Error as error:
            connection.close()
            raise damaged(place, f"it is no snapshot ({error})") from error
        if found is None or not tables.is_readable(found[0]):
            connection.close()
            raise tables.refused_format(found and found[0], place, WITHOUT_COPY)
        if of_job != (job,):
            connection.close()
            raise of_another_job(place, str(of_job and of_job[0]), job)
        return cls(connection, job, place)

    def dumped(self) -> bytes:
        """Return the state as an SQLite file."""
        return self._connection.serialize()

    @property
    def size(self) -> int:
        """Return the size of the result of ``dumped`` in bytes."""
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        (page_size,) = self._connection.execute("PRAGMA page_size").fetchone()
        return int(pages * page_size)

    def copied(self) -> ReplicaTransaction:
        """Return a copy that later entries do not change."""
        connection = _connected()
        self._connection.backup(connection)
        return ReplicaTransaction(connection, self._place)

    def close(self) -> None:
        """Release the memory."""
        self._connection.close()

    def begin(self) -> ReplicaTransaction:
        """Begin a transaction; it ends with ``commit`` or ``roll_back``."""
        with _translated(self._place):
            self._connection.execute("BEGIN")
        return ReplicaTransaction(self._connection, self._place)

    def upgrade(self) -> None:
        """Upgrade the tables to the format of this release, inside the open transaction."""
        with _translated(self._place):
            for statement in tables.additions(tables.SQLITE, self.format):
                self._connection.execute(statement)
            self._connection.execute(sql.CHANGE_FORMAT, (tables.FORMAT,))

    def commit(self, number: int, entry_hash: str) -> None:
        """End the transaction, as the transaction of this entry."""
        # Kept for a while, so that a writer that slept can learn whether its entry is valid.
        self._connection.execute("INSERT INTO journal_entry VALUES (?, ?)", (number, entry_hash))
        self._connection.execute(
            "DELETE FROM journal_entry WHERE number <= ?", (number - _REMEMBERED,)
        )
        self._connection.execute("COMMIT")
        self.number, self.entry_hash = number, entry_hash
        self.format = self._connection.execute(sql.READ_FORMAT).fetchone()[0]

    def roll_back(self) -> None:
        """Undo the open transaction, if there is one."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def apply(self, entry: LogEntry, entry_hash: str, place: str) -> None:
        """Apply the next entry; it upgrades the tables if it has a later format.

        Raises:
            StateError: the entry is not the next one, or does not fit this state.
        """
        if entry.job != self.job:
            raise of_another_job(place, entry.job, self.job)
        if (entry.number, entry.previous) != (self.number + 1, self.entry_hash):
            raise damaged(place, f"it does not follow entry {self.number}")
        if self.number > 0 and entry.format < self.format:
            raise damaged(place, f"it is of format {entry.format}, behind one of {self.format}")
        tx = self.begin()
        try:
            if entry.format < self.format:
                self._begin_as(entry.format)
            elif entry.format > self.format:
                self.upgrade()
            with _few_steps(self._connection, place):
                for change in entry.changes:
                    _redo(tx, change, place)
            self.commit(entry.number, entry_hash)
        finally:
            self.roll_back()

    def _begin_as(self, number: int) -> None:
        """Turn the empty store into an empty store of the older format of the log's first entry."""
        for name in set(tables.names(tables.SQLITE)).difference(
            tables.names(tables.SQLITE, number=number)
        ):
            self._connection.execute(f"DROP TABLE {name}")
        self._connection.execute(sql.CHANGE_FORMAT, (number,))

    def hash_of(self, number: int) -> str | None:
        """Return the hash of an applied entry, None if it is older than the last thousand."""
        row = self._connection.execute(
            "SELECT entry_hash FROM journal_entry WHERE number = ?", (number,)
        ).fetchone()
        return None if row is None else str(row[0])


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A statement of a block of code, and the digest of its answer."""

    statement: str
    values: tuple[SqlValue, ...]
    is_change: bool
    answer: bytes


class Recording(Transaction):
    """A transaction that records all statements and answers.

    A block of code cannot be run again, but it need not be: if a later state gives the same
    answers, the block would have done the same there.
    """

    def __init__(self, tx: Transaction) -> None:
        self.changes: list[LogChange] = []
        self._tx = tx
        self._past: list[_Recorded] = []

    def change(self, statement: str, *values: SqlValue) -> int:
        """Run an INSERT, UPDATE or DELETE and return the number of matched rows."""
        matched = self._tx.change(statement, *values)
        self._past.append(_Recorded(statement, values, is_change=True, answer=_digest(matched)))
        if matched:
            self.changes.append(LogChange(statement, matched, values))
        return matched

    def rows(self, statement: str, *values: SqlValue) -> list[Row]:
        """Return all rows of a SELECT."""
        found = self._tx.rows(statement, *values)
        self._past.append(_Recorded(statement, values, is_change=False, answer=_digest(found)))
        return found

    def holds_on(self, tx: Transaction) -> bool:
        """Repeat all in another transaction; return whether every answer was the same."""
        for each in self._past:
            repeat = tx.change if each.is_change else tx.rows
            try:
                answer = repeat(each.statement, *each.values)
            except CommitConflictError:
                return False
            if _digest(answer) != each.answer:
                return False
        return True


def of_another_job(place: str, found: str, job: str) -> StateError:
    """Return the error for a folder that was renamed or copied by hand."""
    return StateError(
        f"{place} belongs to job {json.dumps(found)}, not to {json.dumps(job)}",
        "The folder was moved or copied by hand: put it back, or set another state.store.dir.",
    )


@contextmanager
def _few_steps(connection: sqlite3.Connection, place: str) -> Iterator[None]:
    """Stop statements of an entry that run without end; only an edited entry has such statements.

    Raises:
        StateError: they took more steps of SQLite's machine than any entry of ours needs.
    """
    pieces = 0

    def is_too_much() -> bool:
        nonlocal pieces
        pieces += 1
        return pieces > MOST_STEPS // _STEPS

    connection.set_progress_handler(is_too_much, _STEPS)
    try:
        yield
    except StateError as error:
        if pieces <= MOST_STEPS // _STEPS:
            raise
        raise damaged(
            place, f"its statements were ended after {MOST_STEPS:,} steps and would run on"
        ) from error
    finally:
        connection.set_progress_handler(None, 0)


def _redo(tx: Transaction, change: LogChange, place: str) -> None:
    try:
        matched = tx.change(change.statement, *change.values)
    except DilError as error:
        raise damaged(place, error.message) from error
    except (ValueError, OverflowError) as error:  # a text or a number that SQLite cannot hold
        raise damaged(place, str(error)) from error
    if matched != change.matched:
        raise damaged(
            place, f"{change.statement!r} matched {matched} rows, not {change.matched} as before"
        )


def _digest(answer: object) -> bytes:
    return hashlib.blake2b(repr(answer).encode(), digest_size=16).digest()


def _connected() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


@contextmanager
def _translated(place: str) -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise CommitConflictError(
            f"another writer changed the state in {place} first ({error})",
            "Nothing of this run was recorded; run the job again.",
        ) from error
    except sqlite3.Error as error:
        raise StateError(
            f"the state in {place}: {error}",
            "Another version of dil may have made it: use that version, or a newer one.",
        ) from error
