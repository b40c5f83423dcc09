"""Connects to a database, and keeps the connection for the next work unit of a task."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from connectors.jdbc.engine import Login, SourceConnection
from connectors.jdbc.syntax import Kind
from dil.errors import SourceError
from dil.spi.shared import Shared

# After this time a server, or a proxy on the way, may have closed an idle connection.
_IDLE_S = 10.0


def connect(login: Login) -> SourceConnection:
    """Return a connection to a database; import only the driver that it needs.

    Raises:
        TransientSourceError: the server does not answer.
        AuthenticationError: the server refused the user.
        SourceError: anything else, such as a file that does not exist.
    """
    kind = login.address.kind
    if kind.is_mysql:
        from connectors.jdbc.engines.mysql import MysqlConnection

        return MysqlConnection(login)
    if kind is Kind.POSTGRESQL:
        from connectors.jdbc.engines.postgresql import PostgresqlConnection

        return PostgresqlConnection(login)
    if kind is Kind.DUCKDB:
        from connectors.jdbc.engines.duckdb import DuckdbConnection

        return DuckdbConnection(login)
    if kind is Kind.SQLITE:
        from connectors.jdbc.engines.sqlite import SqliteConnection

        return SqliteConnection(login)
    from connectors.jdbc.engines.alchemy import AlchemyConnection

    return AlchemyConnection(login)


class KeptConnection:
    """The connection of one thread of a task; the thread's sessions take it one after the other.

    Only one connection is kept: if the next work unit has another database, ``take`` closes the
    kept connection.
    """

    def __init__(self) -> None:
        self._connection: SourceConnection | None = None
        self._login: Login | None = None
        self._file: tuple[int, int] | None = None
        self._is_taken = False
        self._free_since = 0.0

    def take(self, login: Login) -> SourceConnection | None:
        """Return the previous session's connection, or a new connection; None if it is in use.

        A connection is in use while another session of this thread has it.

        Raises:
            TransientSourceError: the server does not answer.
            AuthenticationError: the server refused the user.
            SourceError: anything else, such as a file that does not exist.
        """
        if self._is_taken:
            return None
        file = _file_of(login)
        is_idle = time.monotonic() - self._free_since >= _IDLE_S
        if login != self._login or file != self._file or is_idle:
            self.close()
        if self._connection is None:
            self._connection, self._login, self._file = connect(login), login, file
        self._is_taken = True
        return self._connection

    def give_back(self, *, is_usable: bool) -> None:
        """End the transaction for the next work unit; close the connection if it is unusable."""
        self._is_taken = False
        with suppress(SourceError):  # The rows are complete although the connection failed.
            if is_usable and self._connection is not None:
                self._connection.look_again()
                self._free_since = time.monotonic()
                return
        self.close()

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _file_of(login: Login) -> tuple[int, int] | None:
    """Return device and inode of a database's file, to notice a new file; None for a server."""
    if not login.address.path:
        return None
    with suppress(OSError):
        found = login.path.stat()
        return found.st_dev, found.st_ino
    return None


def connection_of_thread(shared: Shared) -> KeptConnection:
    """Return the connection that this thread keeps."""
    return shared.get((KeptConnection, threading.get_ident()), KeptConnection)
