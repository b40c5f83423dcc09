"""SQLite through Python's own driver: opens files, and translates result codes."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Literal

from dil.databases.faults import Fault

# By primary result code (SQLite documentation, "Result and Error Codes").
_CODES = {
    sqlite3.SQLITE_BUSY: Fault.LOCKED,
    sqlite3.SQLITE_LOCKED: Fault.LOCKED,
    sqlite3.SQLITE_CANTOPEN: Fault.CANNOT_OPEN,
    sqlite3.SQLITE_READONLY: Fault.READ_ONLY,
    sqlite3.SQLITE_NOTADB: Fault.DAMAGED,
    sqlite3.SQLITE_CORRUPT: Fault.DAMAGED,
    sqlite3.SQLITE_IOERR: Fault.IO,
    sqlite3.SQLITE_FULL: Fault.DISK_FULL,
    sqlite3.SQLITE_CONSTRAINT: Fault.REFUSED,
    sqlite3.SQLITE_AUTH: Fault.REFUSED,
    sqlite3.SQLITE_MISMATCH: Fault.REFUSED,
    sqlite3.SQLITE_RANGE: Fault.REFUSED,
    sqlite3.SQLITE_TOOBIG: Fault.REFUSED,
    sqlite3.SQLITE_MISUSE: Fault.REFUSED,
}
# By extended code, because other constraints, such as NOT NULL, share the primary code of keys.
_DUPLICATES = {
    sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
    sqlite3.SQLITE_CONSTRAINT_UNIQUE,
    sqlite3.SQLITE_CONSTRAINT_ROWID,
}
# For SQLITE_ERROR only the text distinguishes these faults.
_WORDS = (
    ("no such table", Fault.NO_TABLE),
    ("no such column", Fault.NO_COLUMN),
    ("has no column", Fault.NO_COLUMN),
    ("values for", Fault.NO_COLUMN),
    ("values were supplied", Fault.NO_COLUMN),
)


def connect(
    path: Path | None,
    *,
    mode: Literal["ro", "rw", "rwc"],
    busy_s: float,
    is_durable: bool = False,
    is_shared: bool = False,
) -> sqlite3.Connection:
    """Return an open database in autocommit mode; the caller's BEGIN starts a transaction.

    Args:
        path: The file, None for a database in memory.
        mode: Whether the file is only read, also written, or also created if it is missing.
        busy_s: The seconds to wait for another process's lock.
        is_durable: Whether a commit is on disk when it returns.
        is_shared: Whether other threads also use or close the connection.
    """
    place = "file::memory:" if path is None else f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(
        place, uri=True, timeout=busy_s, isolation_level=None, check_same_thread=not is_shared
    )
    try:
        if is_durable:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = 1")
    except BaseException:  # the file is no database
        connection.close()
        raise
    return connection


def fault_of(error: Exception) -> Fault:
    """Return the meaning of an error of Python's driver."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # the driver itself refuses a value, or several statements
        return Fault.REFUSED
    if code in _DUPLICATES:
        return Fault.DUPLICATE
    primary = code & 0xFF
    if primary == sqlite3.SQLITE_ERROR:
        text = str(error)
        return next((fault for words, fault in _WORDS if words in text), Fault.REFUSED)
    return _CODES.get(primary, Fault.OTHER)
