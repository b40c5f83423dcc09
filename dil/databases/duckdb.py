"""DuckDB: opens files, and translates errors, which have texts but no numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeVar

from dil.databases.faults import Fault

T = TypeVar("T")

_LOCKED = re.compile(r"(?i)could not set lock|conflicting lock")
_CONFLICT = re.compile(r"(?i)write-write conflict|conflict on")


@lru_cache(maxsize=1)
def driver() -> Any:  # a module that only some installations have
    """Return DuckDB's driver; only this function imports it.

    Raises:
        ImportError: DuckDB is not installed.
    """
    return import_module("duckdb")


def connect(path: str, *, is_read_only: bool = False, **settings: str) -> Any:
    """Return an open database whose instants are read and written in UTC.

    Args:
        path: The file, which is created if it is missing, or ``:memory:``.
        is_read_only: The file is only read, and must exist.
        settings: Settings of the database. All connections of one process to one file must have the
            same settings, so pass few.
    """
    connection = driver().connect(path, read_only=is_read_only, config=settings)
    connection.execute("SET TimeZone = 'UTC'")
    return connection


class DuckdbSession:
    """One connection, used in a thread of its own.

    In the main thread the driver would raise an error of its own in place of a signal's.
    """

    def __init__(self, connection: Any) -> None:  # its type needs the driver
        self.connection = connection
        self._thread = ThreadPoolExecutor(1)
        # The first act starts the thread. A signal in the middle of that would leave a thread
        # which the executor does not know, so no act of the driver may be the first.
        self._thread.submit(int).result()

    def run(self, act: Callable[[], T]) -> T:
        """Return the result of an act of the driver; a signal ends the act early."""
        try:
            running = self._thread.submit(act)
            # A signal between Python's last look for signals and the wait does not end the wait.
            while not wait((running,), timeout=0.1).done:
                pass
            return running.result()
        except KeyboardInterrupt:
            behind = self._thread.submit(int)
            # DuckDB forgets an interruption that comes before a statement has begun.
            while not wait((behind,), timeout=0.1).done:
                self.connection.interrupt()
            raise

    def close(self) -> None:
        """Close the file after what runs has ended; never fails."""
        self._thread.shutdown()
        with suppress(Exception):
            self.connection.close()


def fault_of(error: Exception) -> Fault:
    """Return the meaning of an error of DuckDB's driver."""
    duckdb = driver()
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
