"""MySQL 8 and MariaDB 10.2 or newer, through PyMySQL.

Names are compared bytewise and without padding, so the tables need a collation that older
servers lack. Tables cannot be made in a transaction here: they are made under a lock of the
server, and the row that tells their format is written last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from dil.databases import mysql
from dil.databases.faults import Diagnosis, Fault
from dil.errors import StateError
from dil.model.database_address import DatabaseAddress
from dil.state.databases import server_driver, sql, tables
from dil.state.databases.database import Row, SqlValue
from dil.state.databases.server_driver import ServerConnection, ServerDriver
from dil.text.mysql_options import mysql_arguments

if TYPE_CHECKING:
    import pymysql

_ROWS_A_FETCH = 2000
_READER_IDLE_S = 86_400
_SLOW_READER_S = 3600
_THERE_ALREADY = {1050, 1061}
_ADVICE = {**mysql.advice(server_driver.PROPERTIES), **server_driver.ADVICE}


class MysqlDriver(ServerDriver):
    """Connects to one MySQL or MariaDB database."""

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address

    def errors(self) -> tuple[type[Exception], ...]:
        """Return PyMySQL's root error."""
        return (_installed().err.MySQLError,)

    def connect(self, *, may_idle: bool) -> ServerConnection:
        """Open a connection and set its limits.

        Raises:
            StateError: PyMySQL is not installed, or a file of the TLS options cannot be used.
        """
        connection = _installed().connect(**self._arguments())
        try:
            connection.query(_settings(_READER_IDLE_S if may_idle else server_driver.IDLE_S))
            connection.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        except BaseException:
            connection.close()
            raise
        return _Connection(connection, self.address)

    def diagnose(self, error: Exception) -> Diagnosis:
        """Return what the server's error means, and what to do."""
        fault = mysql.fault_of(error)
        advice = _ADVICE.get(fault, _ADVICE[Fault.OTHER])
        return Diagnosis(fault, mysql.text_of(error), advice)

    def _arguments(self) -> dict[str, Any]:
        try:
            given = mysql_arguments(self.address, connect_s=server_driver.CONNECT_S)
        except OSError as error:
            raise StateError(
                f"the TLS files of the state store {self.address} cannot be used: {error}",
                "ssl-ca, ssl-cert and ssl-key in state.store.db.url name PEM files.",
            ) from error
        return given | {
            "autocommit": True,
            # A row that an UPDATE found and left as it was counts, as on every other server.
            "client_flag": _installed().constants.CLIENT.FOUND_ROWS,
            "read_timeout": server_driver.ANSWER_S,
            "write_timeout": server_driver.ANSWER_S,
            "program_name": "dil",
        }


class _Connection(ServerConnection):
    """One PyMySQL connection in autocommit mode; transactions are begun by statement."""

    def __init__(self, connection: pymysql.Connection[Any], address: DatabaseAddress) -> None:
        self._connection = connection
        self._address = address

    def change(self, statement: str, *values: SqlValue) -> int:
        """Run a statement and return how many rows it found, changed or not."""
        with self._connection.cursor() as cursor:
            matched: int = cursor.execute(_native(statement), values)
            return matched

    def rows(self, statement: str, *values: SqlValue) -> list[Row]:
        """Return all rows of a SELECT."""
        with self._connection.cursor() as cursor:
            cursor.execute(_native(statement), values)
            return list(cursor.fetchall())

    def stream(self, statement: str, *values: SqlValue) -> Generator[Row, None, None]:
        """Yield rows as the server sends them; this connection can do nothing else meanwhile."""
        cursor = self._connection.cursor(_installed().cursors.SSCursor)
        try:
            cursor.execute(_native(statement), values)
            while found := cursor.fetchmany(_ROWS_A_FETCH):
                yield from found
        finally:
            # Else the driver reads what is left, to the end, before it closes.
            result = getattr(cursor, "_result", None)
            if result is not None:
                result.unbuffered_active = False
            cursor.close()

    def begin_writing(self) -> None:
        """Begin at READ COMMITTED, which the session is set to."""
        self._connection.query("START TRANSACTION READ WRITE")

    def begin_reading(self) -> None:
        """Begin at REPEATABLE READ, with the point in time of this very moment."""
        self._connection.query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self._connection.query("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")

    def commit(self) -> None:
        """Commit; returns when the transaction is in the log, as the server is set to keep it."""
        self._connection.query("COMMIT")

    def rollback(self) -> None:
        """Roll back; harmless outside of a transaction."""
        self._connection.query("ROLLBACK")

    def lift_limits(self) -> None:
        """Let the server wait for a day, and PyMySQL for as long as it takes."""
        self._connection.query(_settings(_READER_IDLE_S))
        # PyMySQL sets the socket's time-out to these at each reading and writing.
        connection = cast("Any", self._connection)
        connection._read_timeout = connection._write_timeout = None  # noqa: SLF001 - no other way

    def columns(self, table: str) -> tuple[str, ...]:
        """Return the names of a table's columns."""
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table} WHERE 1 = 0")  # noqa: S608 - our names
            return tuple(column[0] for column in cursor.description)

    def existing(self, names: Iterable[str]) -> frozenset[str]:
        """Return which tables the database holds."""
        wanted = list(names)
        places = ", ".join("?" * len(wanted))
        found = self.rows(
            "SELECT table_name FROM information_schema.tables"  # noqa: S608 - placeholders
            f" WHERE table_schema = DATABASE() AND table_name IN ({places})",
            *wanted,
        )
        return frozenset(row[0] for row in found)

    def dialect(self) -> tables.Dialect:
        """Return MySQL's words, with a collation that this server has."""
        return tables.mysql_dialect(self._collation())

    def create(self) -> None:
        """Make the tables under a lock of the server; goes on where a crash left off."""
        lock = f"dil.{hashlib.sha256(self._address.database.encode()).hexdigest()[:32]}"
        if self.rows("SELECT GET_LOCK(?, ?)", lock, server_driver.LOCK_S) != [(1,)]:
            raise StateError(
                f"another process is making the tables of {self._address}",
                f"It takes longer than {server_driver.LOCK_S} s; run the job again.",
            )
        try:
            self._create_missing()
        finally:
            with suppress(_installed().err.MySQLError):
                self.rows("SELECT RELEASE_LOCK(?)", lock)

    def _create_missing(self) -> None:
        for statement in tables.statements(self.dialect()):
            try:
                self.change(statement)
            except _installed().err.MySQLError as error:
                if error.args[0] not in _THERE_ALREADY:
                    raise
        if not self.rows(sql.READ_FORMAT):
            self.change(sql.WRITE_FORMAT, tables.FORMAT)

    def _collation(self) -> str:
        """Return the server's collation that compares bytes and does not pad."""
        found = self.rows(
            "SELECT collation_name FROM information_schema.collations WHERE collation_name"
            " IN ('utf8mb4_0900_bin', 'utf8mb4_nopad_bin') ORDER BY collation_name"
        )
        if not found:
            raise StateError(
                f"the server of {self._address} is too old: it cannot tell names with and without "
                "trailing blanks apart",
                "Use MySQL 8.0.17, MariaDB 10.2 or newer.",
            )
        return str(found[0][0])

    def close(self) -> None:
        """Close the connection."""
        with suppress(Exception):
            self._connection.close()


def _settings(idle_s: int) -> str:
    """Return the statement that sets the session's limits.

    Strict, so that nothing is cut to fit; a client that vanished inside of a transaction is
    noticed after ``idle_s`` seconds.
    """
    return (
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',"
        f" SESSION innodb_lock_wait_timeout = {server_driver.LOCK_S},"
        f" SESSION lock_wait_timeout = {server_driver.LOCK_S},"
        f" SESSION wait_timeout = {idle_s}, SESSION net_write_timeout = {_SLOW_READER_S}"
    )


@lru_cache(maxsize=256)
def _native(statement: str) -> str:
    """Return a statement with PyMySQL's placeholders."""
    return statement.replace("%", "%%").replace("?", "%s")


@lru_cache(maxsize=1)
def _installed() -> Any:  # noqa: ANN401 - a module
    """Return PyMySQL.

    Raises:
        StateError: it is not installed.
    """
    try:
        import pymysql
        import pymysql.constants.CLIENT
        import pymysql.cursors
    except ImportError as error:
        raise StateError(
            f"state.store.type mysql needs the package pymysql ({error})",
            "Install it: pip install 'dil-spark[mysql]'",
        ) from error
    return pymysql
