"""DuckDB: what its errors mean, which have classes and words but no numbers."""

from __future__ import annotations

import re

from dil.databases.faults import Fault

_LOCKED = re.compile(r"(?i)could not set lock|conflicting lock")
_CONFLICT = re.compile(r"(?i)write-write conflict|conflict on")


def fault_of(error: Exception) -> Fault:
    """Return what an error of DuckDB's driver means."""
    import duckdb

    text = str(error).partition("\nLINE ")[0]
    if _CONFLICT.search(text):
        return Fault.CONFLICT
    if _LOCKED.search(text):
        return Fault.LOCKED
    if isinstance(error, duckdb.IOException | OSError):
        return Fault.IO
    if "read-only mode" in text:
        return Fault.READ_ONLY
    finals = (duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError,
              duckdb.IntegrityError, duckdb.PermissionException)  # fmt: skip
    return Fault.REFUSED if isinstance(error, finals) else Fault.OTHER
