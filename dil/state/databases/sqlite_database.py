"""SQLite as the state store's database: one file, write-ahead log, full synchronisation.

Readers and the writer never block each other, so a long listing in another process cannot delay a
heartbeat. Every commit is on disk when it returns.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Literal

from dil.databases.faults import Fault
from dil.databases.sqlite import connect, fault_of
from dil.errors import CommitConflictError, StateError
from dil.state.databases import sql, tables
from dil.state.databases.database import (
    Allow,
    Database,
    LongValue,
    Row,
    Snapshot,
    SqlValue,
    Transaction,
)
from dil.state.databases.mounts import network_mount_of

BUSY_S = 5.0
LARGE_BYTES = 1024 * 1024
_INSERTED = re.compile(r"INSERT INTO (\w+) .*?(\w+)\) VALUES")
_WAL_ATTEMPTS = 50
_WITHOUT_HISTORY = (
    "Without a copy, move the file away: the next run has no history and reads everything "
    "again, so move the published data away, too, or its rows are doubled."
)


class SqliteTransaction(Snapshot):
    """Statements on one connection."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def change(self, statement: str, *values: SqlValue) -> int:
        """Run an INSERT, UPDATE or DELETE and return the number of matched rows."""
        with translated(self._path):
            return self._connection.execute(statement, values).rowcount

    def add(self, statement: str, *values: SqlValue, long: LongValue) -> None:
        """Run an INSERT of one row, whose last value is long.

        SQLite would copy the value twice, and Python's module would keep it until the statement is
        used again. So a large value is written into the row afterwards; a text is then a BLOB of
        UTF-8.
        """
        size = long.size
        if size < LARGE_BYTES:
            self.change(statement, *values, long.whole())
            return
        ((table, column),) = _INSERTED.findall(statement)
        before, _, after = statement.rpartition("?")
        with translated(self._path):
            done = self._connection.execute(f"{before}zeroblob(?){after}", (*values, size))
            with self._connection.blobopen(table, column, done.lastrowid or 0) as blob:
                for piece in long.pieces():
                    blob.write(piece)

    def rows(self, statement: str, *values: SqlValue) -> list[Row]:
        """Return all rows of a SELECT."""
        with translated(self._path):
            return self._connection.execute(statement, values).fetchall()

    def close(self) -> None:
        """Close the connection, which ends its transaction."""
        self._connection.close()


class SqliteDatabase(Database):
    """One database file; nothing is created before the first write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.place = str(path)
        self._lock = RLock()
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Open a transaction that holds the write lock; it commits unless the block raises."""
        with self._written() as (tx, _):
            yield tx

    @contextmanager
    def upgrade(self, allow: Allow) -> Iterator[Transaction]:
        """Open a transaction that upgrades an older file, after copying it beside itself."""
        with self._written() as (tx, found):
            if found < tables.FORMAT:
                allow(tx, found)
                self._copy(found)
                for statement in tables.additions(tables.SQLITE, found):
                    tx.change(statement)
                tx.change(sql.CHANGE_FORMAT, tables.FORMAT)
            yield tx

    def copy_place(self, number: int) -> str:
        """Return the path of the copy in the older format, beside this file."""
        return str(self.path.with_suffix(f".format-{number}{self.path.suffix}"))

    @contextmanager
    def _written(self) -> Iterator[tuple[Transaction, int]]:
        """Open a transaction that holds the write lock; yield it with the store's format.

        A missing store is created in this transaction.
        """
        with self._lock, translated(self.path):
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            try:
                found = tables.FORMAT
                if _has_tables(connection):
                    found = _check_format(connection, self.path)
                else:
                    _create(connection)
                yield SqliteTransaction(connection, self.path), found
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def _copy(self, number: int) -> None:
        """Copy the committed rows through a separate connection; the copy is named at the end."""
        copy = Path(self.copy_place(number))
        unfinished = copy.with_suffix(".tmp")
        unfinished.unlink(missing_ok=True)
        with (
            closing(_open(self.path, create=False)) as source,
            closing(_open(unfinished, create=True)) as target,
        ):
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE").fetchall()
        try:
            unfinished.chmod(self.path.stat().st_mode)
            _sync(unfinished)
            unfinished.replace(copy)
            _sync(copy.parent)
        except OSError as error:
            raise StateError(
                f"the state store {self.path} cannot be copied to {copy}: {error.strerror}",
                "It was not upgraded. Free space or give this user write access, then run again.",
            ) from error

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Open a reading transaction; a missing file reads as an empty store."""
        with self._lock, translated(self.path):
            if self._connection is None:
                self._connection = self._opened()
            connection = self._connection
            if connection is None:
                with closing(empty_store()) as nothing:
                    yield nothing
                return
            connection.execute("BEGIN")
            try:
                yield SqliteTransaction(connection, self.path)
            finally:
                connection.execute("ROLLBACK")

    def snapshot(self) -> Snapshot:
        """Open a separate connection, whose first read fixes the point in time."""
        with translated(self.path):
            with self._lock:
                connection = self._opened()
            if connection is None:
                return empty_store()
            connection.execute("BEGIN")
            connection.execute(sql.READ_FORMAT).fetchall()
            return SqliteTransaction(connection, self.path)

    def stream(self, statement: str, *values: SqlValue) -> Iterator[Row]:
        """Yield rows from a separate connection, which is open as long as the iterator."""
        with translated(self.path):
            with self._lock:
                connection = self._opened()
            if connection is None:
                return
            with closing(connection):
                yield from connection.execute(statement, values)

    def close(self) -> None:
        """Close the shared connection; iterators and snapshots close their own."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _opened(self) -> sqlite3.Connection | None:
        """Return a connection to the file, None if there is no store in it yet."""
        try:
            self.path.stat()  # Path.exists of newer Pythons would hide that a folder is private
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:  # the store of another user, for example
            raise StateError(
                f"the state store {self.path} cannot be read: {error.strerror}",
                "Correct state.store.dir, or let this user read and write that folder.",
            ) from error
        self._refuse_network()
        connection = _open(self.path, create=False)
        try:
            if _has_tables(connection):
                _check_format(connection, self.path)
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None

    def _connected(self) -> sqlite3.Connection:
        """Return the connection for writing; the file is made if it is missing."""
        if self._connection is None:
            self._refuse_network()
            _make_durable_folder(self.path.parent)
            connection = _open(self.path, create=True)
            try:
                # This comes before any change: the file may be another program's.
                if _has_tables(connection):
                    _check_format(connection, self.path)
                _use_write_ahead_log(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _refuse_network(self) -> None:
        kind = network_mount_of(self.path.parent)
        if kind is None:
            return
        fix = (
            "Set state.store.type=filelog, which needs no locks, or state.store.dir to a local "
            "folder."
        )
        if self.path.exists():
            fix = (
                "It has state, which must not be left behind. While no run is under way, copy the "
                "folder to a local disk, and set state.store.dir to the copy. From there, `dil "
                "state copy` takes each job's state to state.store.type=filelog, which needs no "
                "locks."
            )
        raise StateError(
            f"the state folder {self.path.parent} is on a network mount ({kind}), where file "
            "locks cannot be trusted",
            fix,
        )


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Translate the driver's errors into ours; only this function does that."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise CommitConflictError(
            f"another writer changed the state store {path} first ({error})",
            "Nothing of this run was recorded; run the job again.",
        ) from error
    except sqlite3.Error as error:
        raise StateError(f"the state store {path}: {error}", _advice(error)) from error


def _advice(error: sqlite3.Error) -> str:
    fault = fault_of(error)
    if fault is Fault.LOCKED:
        return f"Another process held its lock for {BUSY_S:.0f} s; run the job again."
    if fault is Fault.DAMAGED:
        return f"The file is damaged. Restore a copy of it. {_WITHOUT_HISTORY}"
    if fault in {Fault.NO_TABLE, Fault.NO_COLUMN}:
        return f"Another version of dil made the file: use that version. {_WITHOUT_HISTORY}"
    return (
        "Check that the folder of state.store.dir exists, that this user may write there, and that"
        " it has free space."
    )


def _open(path: Path, *, create: bool) -> sqlite3.Connection:
    if create:  # only for this user; SQLite gives its other files the same mode
        with suppress(OSError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    mode: Literal["rw", "rwc"] = "rwc" if create else "rw"
    return connect(path, mode=mode, busy_s=BUSY_S, is_durable=True, is_shared=True)


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch the journal mode; SQLite does not wait here for another process that does the same."""
    for attempt in range(_WAL_ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        except sqlite3.OperationalError as error:
            if attempt == _WAL_ATTEMPTS - 1 or "locked" not in str(error):
                raise
            time.sleep(BUSY_S / _WAL_ATTEMPTS)
        else:
            return


def empty_store() -> Snapshot:
    """Return an empty store in memory, to be read in place of a store that does not exist yet."""
    connection = connect(None, mode="rwc", busy_s=BUSY_S, is_shared=True)
    _create(connection)
    return SqliteTransaction(connection, Path(":memory:"))


def _create(connection: sqlite3.Connection) -> None:
    for statement in tables.statements(tables.SQLITE):
        connection.execute(statement)
    connection.execute(sql.WRITE_FORMAT, (tables.FORMAT,))


def _has_tables(connection: sqlite3.Connection) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    return found is not None


def _check_format(connection: sqlite3.Connection, path: Path) -> int:
    """Return the format of an existing store.

    Raises:
        StateError: this release does not read that format.
    """
    try:
        found = connection.execute(sql.READ_FORMAT).fetchone()
    except sqlite3.OperationalError as error:
        raise StateError(
            f"{path} is an SQLite file, but not a state store of dil ({error})",
            "Set state.store.dir to another folder.",
        ) from error
    number: int | None = None if found is None else found[0]
    if number is None or not tables.is_readable(number):
        raise tables.refused_format(number, str(path), _WITHOUT_HISTORY)
    return number


def _make_durable_folder(folder: Path) -> None:
    """Create the folder, and make its name durable."""
    try:
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(0o700, exist_ok=True)
        for place in missing:
            _sync(place.parent)
    except OSError as error:
        raise StateError(
            f"the state folder {folder} cannot be created: {error.strerror}",
            "Set state.store.dir to a folder that this user may write.",
        ) from error


def _sync(path: Path) -> None:
    """Make a file's content, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
