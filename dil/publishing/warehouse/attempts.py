"""Repeats work on a database, each time on a new connection, if that may help.

Within ``connected``, work reuses the connection of earlier work that succeeded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import sleep
from typing import TypeVar

from dil.databases.faults import AWAY
from dil.errors import CommitUnknownError, WriteError
from dil.publishing.warehouse.dialect import BUSY, Connection, Dialect

log = logging.getLogger(__name__)

T = TypeVar("T")

# The largest number of attempts. The wait between them is 0.2 s and doubles each time up to 5 s;
# each attempt may also wait for a lock.
_MOST_BUSY, _MOST_AWAY = 9, 3
_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0


class CommitLostError(Exception):
    """A COMMIT failed, or the answer to it was lost; ``cause`` is the driver's error."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


class Attempts:
    """Repeats work on a database; ``place`` is the database's name in messages."""

    def __init__(self, dialect: Dialect, place: str) -> None:
        self._dialect = dialect
        self._place = place
        self._is_shared = False
        self._kept: Connection | None = None

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Let the work of the block share one connection; close it when the block ends."""
        self._is_shared = True
        try:
            yield
        finally:
            self._is_shared = False
            connection, self._kept = self._kept, None
            if connection is not None:
                connection.close()

    def run(self, work: Callable[[Connection], T], *, is_last: bool = False) -> T:
        """Return the result of repeatable ``work``; if it fails, roll back.

        Args:
            work: Leaves no transaction open when it returns.
            is_last: Whether to close the connection afterwards, because locks or temporary tables
                of ``work`` last as long as the connection.

        Raises:
            WriteError: the database did not do the work.
            CommitUnknownError: the database may have done the work: the answer was lost, and the
                database cannot be queried.
        """
        is_unknown = False
        attempt = 1
        while True:
            was_open = self._kept is not None
            try:
                return self._once(work, is_last=is_last)
            except CommitLostError as error:
                is_commit, cause = True, error.cause
            except self._dialect.errors() as error:
                is_commit, cause = False, error
            found = self._dialect.diagnose(cause)
            # A server that answers, for example with a violated constraint, has committed nothing.
            is_unknown = is_unknown or (is_commit and found.fault in AWAY)
            is_busy, is_away = found.fault in BUSY, found.fault in AWAY
            if was_open and is_away:
                continue  # The connection may have been lost before this work.
            if attempt >= (_MOST_BUSY if is_busy else _MOST_AWAY if is_away else 1):
                text = f"{self._place}: {found.text}"
                try:
                    if not is_unknown:
                        raise WriteError(text, found.advice) from cause
                    raise CommitUnknownError(
                        f"{text}; it is not known whether the rows were loaded",
                        "Nothing was deleted. The next run checks that, and loads missing rows.",
                    ) from cause
                finally:
                    # Its traceback holds this frame and so those of all callers, with a snapshot
                    # of the state that closes when nothing holds it.
                    del cause
            pause = min(_PAUSE_S * 2 ** (attempt - 1), _LONGEST_PAUSE_S)
            log.info("%s: %s; trying again in %g s", self._place, found.text, pause)
            sleep(pause)
            attempt += 1

    def _once(self, work: Callable[[Connection], T], *, is_last: bool) -> T:
        connection = self._kept or self._dialect.connect()
        self._kept = None
        try:
            result = work(connection)
            if self._is_shared and not is_last:
                self._kept = connection
            return result
        finally:
            if self._kept is not connection:
                connection.close()
