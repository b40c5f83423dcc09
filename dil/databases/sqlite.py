"""SQLite: what its result codes mean."""

from __future__ import annotations

import sqlite3

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
    sqlite3.SQLITE_CONSTRAINT: Fault.DUPLICATE,
    sqlite3.SQLITE_AUTH: Fault.REFUSED,
    sqlite3.SQLITE_MISMATCH: Fault.REFUSED,
    sqlite3.SQLITE_RANGE: Fault.REFUSED,
    sqlite3.SQLITE_TOOBIG: Fault.REFUSED,
    sqlite3.SQLITE_MISUSE: Fault.REFUSED,
}
# SQLITE_ERROR has the rest in words.
_WORDS = (
    ("no such table", Fault.NO_TABLE),
    ("no such column", Fault.NO_COLUMN),
    ("has no column", Fault.NO_COLUMN),
    ("values for", Fault.NO_COLUMN),
    ("values were supplied", Fault.NO_COLUMN),
)


def fault_of(error: Exception) -> Fault:
    """Return what an error of Python's driver means."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # the driver itself refuses: a value, or more than one statement
        return Fault.REFUSED
    primary = code & 0xFF
    if primary == sqlite3.SQLITE_ERROR:
        text = str(error)
        return next((fault for words, fault in _WORDS if words in text), Fault.REFUSED)
    return _CODES.get(primary, Fault.OTHER)
