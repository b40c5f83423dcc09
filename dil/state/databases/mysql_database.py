"""MySQL 8 and MariaDB 10.2 or newer, through PyMySQL.

Names are compared by bytes and without padding, so the tables need a collation that older servers
lack. MySQL cannot create tables in a transaction: they are created under a lock of the server, and
the row with their format is written last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable
from contextlib import suppress
from typing import Any

from dil.databases import mysql
from dil.databases.faults import Diagnosis, Fault
from dil.databases.mysql import MysqlSession
from dil.errors import StateError
from dil.model.database_address import DatabaseAddress
from dil.state.databases import server_driver, sql, tables
from dil.state.databases.database import Row, SqlValue
from dil.state.databases.server_driver import ServerConnection, ServerDriver, marked

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
        idle_s = _READER_IDLE_S if may_idle else server_driver.IDLE_S
        try:
            connection = mysql.connect(
                self.address,
                connect_s=server_driver.CONNECT_S,
                variables=_variables(idle_s),
                settings=("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",),
                autocommit=True,
                # As on other servers, a row that an UPDATE found but did not change counts.
                client_flag=_installed().constants.CLIENT.FOUND_ROWS,
                read_timeout=server_driver.ANSWER_S,
                write_timeout=server_driver.ANSWER_S,
            )  # fmt: skip
        except mysql.TlsFilesError as error:
            raise StateError(
                f"the TLS files of the state store {self.address} cannot be used: {error}",
                "ssl-ca, ssl-cert and ssl-key in state.store.db.url name PEM files.",
            ) from error
        return MysqlStateConnection(MysqlSession(connection), self.address)

    def diagnose(self, error: Exception) -> Diagnosis:
        """Return the meaning of the server's error, and what to do."""
        fault = mysql.fault_of(error)
        advice = _ADVICE.get(fault, _ADVICE[Fault.OTHER])
        return Diagnosis(fault, mysql.text_of(error), advice)


class MysqlStateConnection(ServerConnection):
    """One connection to the tables of a store."""

    def __init__(self, session: MysqlSession, address: DatabaseAddress) -> None:
        self._session = session
        self._address = address

    def change(self, statement: str, *values: SqlValue) -> int:
        """Run a statement and return the number of rows that it found, changed or not."""
        return self._session.change(marked(statement), *values)

    def rows(self, statement: str, *values: SqlValue) -> list[Row]:
        """Return all rows of a SELECT."""
        return self._session.rows(marked(statement), *values)

    def stream(self, statement: str, *values: SqlValue) -> Generator[Row, None, None]:
        """Yield rows as the server sends them."""
        return self._session.stream(marked(statement), *values)

    def begin_writing(self) -> None:
        """Begin at READ COMMITTED, the level of the session.

        The server decides by ``transaction_read_only`` whether the transaction may write.
        """
        self._session.run("START TRANSACTION")

    def begin_reading(self) -> None:
        """Begin at REPEATABLE READ: the first row that is read determines the point in time.

        A snapshot taken here would make tables unreadable that another process is just creating.
        """
        self._session.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self._session.run("START TRANSACTION READ ONLY")

    def commit(self) -> None:
        """Commit."""
        self._session.commit()

    def rollback(self) -> None:
        """Roll back; harmless outside of a transaction."""
        self._session.rollback()

    def lift_limits(self) -> None:
        """Let the server wait for a day, and PyMySQL without a limit."""
        self._session.run(f"SET {_variables(_READER_IDLE_S)}")
        self._session.wait_for_ever()

    def columns(self, table: str) -> tuple[str, ...]:
        """Return the names of a table's columns."""
        return self._session.columns(table)

    def existing(self, names: Iterable[str]) -> frozenset[str]:
        """Return the tables, among some names, that exist in the database."""
        wanted = list(names)
        places = ", ".join("?" * len(wanted))
        found = self.rows(
            "SELECT table_name FROM information_schema.tables"
            f" WHERE table_schema = DATABASE() AND table_name IN ({places})",
            *wanted,
        )
        return frozenset(row[0] for row in found)

    def column_words(self) -> tables.ColumnWords:
        """Return MySQL's column types, with a collation that this server has.

        Raises:
            StateError: the server has no collation that keeps all names apart.
        """
        collation = self._session.exact_collation()
        if not collation:
            raise StateError(
                f"the server of {self._address} is too old: it cannot distinguish names with and"
                " without trailing blanks",
                "Use MySQL 8.0.17, MariaDB 10.2 or newer.",
            )
        return tables.mysql_words(collation)

    def create(self) -> None:
        """Create the tables under a lock of the server; continues where a crash stopped."""
        lock = f"dil.{hashlib.sha256(self._address.database.encode()).hexdigest()[:32]}"
        if self.rows("SELECT GET_LOCK(?, ?)", lock, server_driver.LOCK_S) != [(1,)]:
            raise StateError(
                f"another process is creating the tables of {self._address}",
                f"It takes longer than {server_driver.LOCK_S} s; run the job again.",
            )
        try:
            self._create_missing()
        finally:
            with suppress(_installed().err.MySQLError):
                self.rows("SELECT RELEASE_LOCK(?)", lock)

    def _create_missing(self) -> None:
        for statement in tables.statements(self.column_words()):
            try:
                self.change(statement)
            except _installed().err.MySQLError as error:
                if error.args[0] not in _THERE_ALREADY:
                    raise
        if not self.rows(sql.READ_FORMAT):
            self.change(sql.WRITE_FORMAT, tables.FORMAT)

    def close(self) -> None:
        """Close the connection."""
        self._session.close()


def _variables(idle_s: int) -> str:
    """Return the assignments that set the session's limits.

    Strict mode refuses values that would have to be cut; the server ends the transaction of a
    client that vanished after ``idle_s`` seconds.
    """
    return (
        "SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',"
        f" SESSION innodb_lock_wait_timeout = {server_driver.LOCK_S},"
        f" SESSION lock_wait_timeout = {server_driver.LOCK_S},"
        f" SESSION wait_timeout = {idle_s}, SESSION net_write_timeout = {_SLOW_READER_S}"
    )


def _installed() -> Any:  # a module
    """Return PyMySQL.

    Raises:
        StateError: PyMySQL is not installed.
    """
    try:
        return mysql.driver()
    except ImportError as error:
        raise StateError(
            f"state.store.type mysql needs the package pymysql ({error})",
            "Install it: pip install 'dil-spark[mysql]'",
        ) from error
