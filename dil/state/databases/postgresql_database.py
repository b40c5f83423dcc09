"""PostgreSQL through psycopg 3.

Every statement has a time limit: the server's own time-outs, TCP keepalive on both sides, and, in
case the server hangs, a limit in the client. The locks of a client that vanished are released after
at most two minutes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Generator, Iterable
from contextlib import suppress
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING

from dil.databases import postgresql
from dil.databases.faults import Diagnosis, Fault
from dil.databases.statements import with_percents
from dil.errors import StateError
from dil.model.database_address import DatabaseAddress
from dil.state.databases import server_driver, sql, tables
from dil.state.databases.database import Row, SqlValue
from dil.state.databases.server_driver import ServerConnection, ServerDriver, marked

if TYPE_CHECKING:
    from dil.databases.bounded_psycopg import BoundedConnection

_ROWS_A_FETCH = 2000
_NO_SCHEMA = "Create the schema that state.store.db.url names: CREATE SCHEMA name."
_ADVICE = {
    **postgresql.advice(server_driver.PROPERTIES),
    **server_driver.ADVICE,
    Fault.NO_DATABASE: "Create it: CREATE DATABASE name ENCODING 'UTF8'. Or correct"
    " state.store.db.url.",
    Fault.DENIED: "Give the user the right: GRANT USAGE, CREATE ON SCHEMA name TO user.",
    Fault.NO_SCHEMA: _NO_SCHEMA,
}


class PostgresqlDriver(ServerDriver):
    """Connects to one PostgreSQL database."""

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address

    def errors(self) -> tuple[type[Exception], ...]:
        """Return psycopg's root error."""
        return (_installed().psycopg.Error,)

    def connect(self, *, may_idle: bool) -> ServerConnection:
        """Open a connection and set its limits.

        Raises:
            StateError: psycopg is not installed, or the database does not hold UTF-8.
        """
        connection = _installed().connect(
            postgresql.arguments(
                self.address,
                connect_s=server_driver.CONNECT_S,
                keepalives_count="3",
                tcp_user_timeout=str(server_driver.ANSWER_S * 1000),
            ),
            answer_s=server_driver.ANSWER_S,
        )
        try:
            self._require_unicode(connection)
        except BaseException:
            connection.close()
            raise
        return PostgresqlStateConnection(connection, self.address, may_idle=may_idle)

    def _require_unicode(self, connection: BoundedConnection) -> None:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise StateError(
                f"the state store {self.address} has the encoding {encoding}, not UTF8",
                "Create the database with ENCODING 'UTF8'.",
            )

    def diagnose(self, error: Exception) -> Diagnosis:
        """Return an error's meaning by its SQLSTATE, else by its text, and what to do."""
        text = " ".join(str(error).split())
        state = getattr(error, "sqlstate", None)
        is_of_value = state is None and isinstance(error, _installed().psycopg.DataError)
        fault = Fault.OTHER if is_of_value else postgresql.fault_of(state, text)
        return Diagnosis(fault, text, _ADVICE.get(fault, _ADVICE[Fault.OTHER]))


class PostgresqlStateConnection(ServerConnection):
    """One psycopg connection in autocommit mode; transactions are begun by statement.

    Limits and the schema are set for each transaction, not for the session: a pooler may give each
    transaction another connection to the server.
    """

    def __init__(
        self, connection: BoundedConnection, address: DatabaseAddress, *, may_idle: bool
    ) -> None:
        self._connection = connection
        self._address = address
        self._settings = _settings(
            server_driver.STATEMENT_S, 0 if may_idle else server_driver.IDLE_S
        )

    def change(self, statement: str, *values: SqlValue) -> int:
        """Run a statement and return the number of rows that it matched."""
        return self._connection.execute(_native(statement), _plain(values)).rowcount

    def rows(self, statement: str, *values: SqlValue) -> list[Row]:
        """Return all rows of a SELECT."""
        return self._connection.execute(_native(statement), _plain(values)).fetchall()

    def stream(self, statement: str, *values: SqlValue) -> Generator[Row, None, None]:
        """Yield rows through a cursor of the server."""
        with self._connection.cursor("dil_listing") as cursor:
            cursor.itersize = _ROWS_A_FETCH
            cursor.execute(_native(statement), _plain(values))
            yield from cursor

    def begin_writing(self) -> None:
        """Begin at READ COMMITTED: after a lock is taken, all earlier commits are visible.

        The server decides whether the transaction may write: a server that was replaced by another
        one may be kept from writes by ``default_transaction_read_only``.
        """
        self._begin("READ COMMITTED")

    def begin_reading(self) -> None:
        """Begin at REPEATABLE READ: the first statement determines the point in time."""
        self._begin("REPEATABLE READ READ ONLY")

    def _begin(self, mode: str) -> None:
        statements = f"BEGIN ISOLATION LEVEL {mode}; {self._settings}"
        if self._address.schema:
            path = _installed().psycopg.sql.quote(self._address.schema, self._connection)
            statements += f"; SELECT set_config('search_path', {path}, true)"
        self._connection.execute(statements.encode())

    def commit(self) -> None:
        """Commit; on return the transaction is in the log on disk."""
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Roll back; harmless outside of a transaction."""
        if self._is_in_transaction():
            self._connection.execute("ROLLBACK")

    def _is_in_transaction(self) -> bool:
        return self._connection.info.transaction_status.name != "IDLE"

    def lift_limits(self) -> None:
        """Switch off the time-outs of the server and of the client, also in an open transaction."""
        self._settings = _settings(0, 0)
        if self._is_in_transaction():
            self._connection.execute(self._settings.encode())
        self._connection.answer_s = math.inf

    def columns(self, table: str) -> tuple[str, ...]:
        """Return the names of a table's columns."""
        found = self._connection.execute(f"SELECT * FROM {table} WHERE 1 = 0".encode())
        return tuple(column.name for column in found.description or ())

    def existing(self, names: Iterable[str]) -> frozenset[str]:
        """Return the tables, among some names, that the search path finds.

        Raises:
            StateError: the search path has no schema that this user may read, so tables can be
                neither found nor created.
        """
        found = self._connection.execute(
            # A query and not to_regclass(), which may answer with a state from before a lock was
            # taken.
            "SELECT relname FROM pg_class WHERE relname = ANY(%s) AND pg_table_is_visible(oid)",
            [list(names)],
        )
        tables_found = frozenset(row[0] for row in found)
        if not tables_found:
            self._require_schema()
        return tables_found

    def _require_schema(self) -> None:
        """Refuse a missing schema, which otherwise looks like an empty one."""
        if self.rows("SELECT current_schema()") != [(None,)]:
            return
        which = f"no schema {self._address.schema}" if self._address.schema else "no usable schema"
        raise StateError(
            f"the state store {self._address} has {which}, or this user has no right to use it",
            _NO_SCHEMA,
        )

    def column_words(self) -> tables.ColumnWords:
        """Return PostgreSQL's column types."""
        return tables.POSTGRESQL

    def create(self) -> None:
        """Create the tables in one transaction, under a lock that other processes wait for."""
        self.begin_writing()
        self._connection.execute("SELECT pg_advisory_xact_lock(%s)", [_CREATION_LOCK])
        if not self.existing(tables.names(tables.POSTGRESQL)):
            for statement in tables.statements(tables.POSTGRESQL):
                self._connection.execute(statement.encode())
            self.change(sql.WRITE_FORMAT, tables.FORMAT)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        """Close the connection."""
        with suppress(Exception):
            self._connection.close()


_CREATION_LOCK = int.from_bytes(hashlib.sha256(b"dil state tables").digest()[:7], "big")


def _settings(statement_s: int, idle_s: int) -> str:
    """Return a transaction's limits as statements.

    ``synchronous_commit=off`` would lose acknowledged commits in a crash, so it is raised to on;
    other values are left to the server.
    """
    return (
        f"SET LOCAL lock_timeout = '{server_driver.LOCK_S}s';"
        f" SET LOCAL statement_timeout = '{statement_s}s';"
        f" SET LOCAL idle_in_transaction_session_timeout = '{idle_s}s';"
        " SET LOCAL tcp_keepalives_idle = 30; SET LOCAL tcp_keepalives_interval = 10;"
        " SET LOCAL tcp_keepalives_count = 3;"
        " SELECT set_config('synchronous_commit', 'on', true)"
        " WHERE current_setting('synchronous_commit') = 'off'"
    )


@lru_cache(maxsize=256)
def _native(statement: str) -> bytes:
    """Return a statement with psycopg's placeholders."""
    return with_percents(marked(statement)).encode()


def _plain(values: Iterable[SqlValue]) -> list[SqlValue]:
    """Return values that the server takes: NUL, as in quoted errors, is replaced in texts."""
    return [
        value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value
        for value in values
    ]


def _installed() -> ModuleType:
    """Return the module that connects through psycopg.

    Raises:
        StateError: psycopg is not installed, or finds no libpq.
    """
    try:
        from dil.databases import bounded_psycopg
    except ImportError as error:
        raise StateError(
            f"state.store.type postgresql needs the package psycopg ({error})",
            "Install it: pip install 'dil-spark[postgresql]'",
        ) from error
    return bounded_psycopg
