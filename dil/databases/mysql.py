"""MySQL and MariaDB through PyMySQL: connections, transactions, the meaning of errors.

``ssl-mode`` in an address has the same meaning as in MySQL's own client (MySQL manual, "Command
Options for Encrypted Connections"). Without it, connections are encrypted if the server supports
encryption. ``preferred``, even with ``ssl-cert``, and ``required`` do not verify the server.
``verify_ca``, the default with ``ssl-ca``, verifies the server's certificate; ``verify_identity``
also verifies the host's name in the certificate.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Generator, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from dil.databases.faults import Fault, LoginProperties, server_advice
from dil.databases.statements import with_percents
from dil.model.database_address import DatabaseAddress

if TYPE_CHECKING:
    import pymysql

Value = str | int | float | bytes | None
Row = tuple[Any, ...]
_ROWS_A_FETCH = 2000
# A peer that vanished silently is detected after 90 seconds; not every system has all options.
_KEEPALIVES = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
# A server may limit the rows of each SELECT; it leaves out the others without a warning.
ALL_ROWS = "SET SESSION sql_select_limit = 18446744073709551615"

# By error number (MySQL manual, "Server Error Message Reference" and "Client Error Message
# Reference"; MariaDB's numbers begin at 1900 and 4000). 0 is PyMySQL's own code for a connection
# that it has closed, 1047 a node that is not part of its cluster.
_CODES: Mapping[Fault, tuple[int, ...]] = {
    Fault.LOST: (0, 1047, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2006, 2013,
                 2014, 2055, 4031),
    Fault.UNREACHABLE: (2002, 2003, 2005),
    Fault.STARTING: (3032,),
    Fault.TOO_MANY: (1040, 1203, 1226),
    Fault.LOGIN: (1045, 1130, 1251, 1698, 1862, 3118, 3955, 4151),
    Fault.NO_DATABASE: (1049,),
    Fault.NO_DATABASE_RIGHT: (1044,),
    Fault.OPTIONS: (2026,),
    Fault.TLS_ONLY: (3159,),
    Fault.HOST_BLOCKED: (1129,),
    Fault.CONFLICT: (1213,),
    Fault.LOCKED: (1205, 3572),
    Fault.CHANGED: (1020, 1412),
    Fault.EXISTS: (1050, 1060, 1061),
    Fault.DUPLICATE: (1062,),
    Fault.TIMED_OUT: (1317, 1969, 3024),
    Fault.DISK_FULL: (1021,),
    Fault.TOO_LARGE: (1153,),
    Fault.NO_PRIMARY_KEY: (1173, 3098, 3750),
    Fault.UNSAFE_BINLOG: (1665,),
    Fault.DENIED: (1142, 1143, 1227, 1370),
    Fault.READ_ONLY: (1290, 1792, 1836),
    Fault.NO_TABLE: (1146,),
    Fault.NO_COLUMN: (1054,),
    Fault.DOES_NOT_FIT: (1406,),
}  # fmt: skip
_FAULTS = {code: fault for fault, codes in _CODES.items() for code in codes}
# Classes of SQLSTATE for wrong statements and wrong values.
_REFUSED = ("0A", "21", "22", "23", "3D", "42")
HOST_BLOCKED = (
    "The server blocks this host after failed connections. On the server run TRUNCATE TABLE"
    " performance_schema.host_cache, or FLUSH HOSTS (MariaDB, and MySQL before 8.4)."
)
_GRANT = "Grant the user the right: GRANT ALL ON name.* TO user."


class TlsFilesError(OSError):
    """A file that the TLS options of an address name cannot be used."""


@lru_cache(maxsize=1)
def driver() -> Any:  # a module
    """Return PyMySQL; only this function imports it.

    Raises:
        ImportError: PyMySQL is not installed.
    """
    import pymysql
    import pymysql.constants.CLIENT
    import pymysql.cursors

    return pymysql


def arguments(address: DatabaseAddress, *, connect_s: int) -> dict[str, Any]:
    """Return the arguments of ``pymysql.connect`` for an address.

    Args:
        address: The database's place, and the user that logs in.
        connect_s: The seconds to wait for a connection if the address gives none.

    Raises:
        TlsFilesError: a file that the TLS options name cannot be used.
    """
    options = dict(address.options)
    found: dict[str, Any] = {
        "database": address.database,
        "charset": "utf8mb4",
        "connect_timeout": int(options.get("connect-timeout") or connect_s),
        "unix_socket": options.get("unix-socket"),
    }
    if address.hosts:
        found["host"], found["port"] = address.hosts[0]
    if address.user:
        found["user"] = address.user
    if address.password:
        # The password is given as bytes, because the driver would encode a text in Latin-1.
        found["password"] = address.password.reveal().encode()
    try:
        return found | _tls(options)
    except OSError as error:
        raise TlsFilesError(str(error)) from error


def connect(
    address: DatabaseAddress,
    *,
    connect_s: int,
    variables: str = "",
    settings: Iterable[str] = (),
    **facts: object,
) -> pymysql.Connection[Any]:
    """Return an open connection after setting up its session.

    Args:
        address: The database's place, and the user that logs in.
        connect_s: The seconds to wait for a connection if the address gives none.
        variables: Assignments; the same SET statement lets the server return all rows.
        settings: More statements; if one fails, the connection is closed.
        facts: More arguments of ``pymysql.connect``.

    Raises:
        TlsFilesError: a file that the TLS options name cannot be used.
        ImportError: PyMySQL is not installed.
    """
    given = arguments(address, connect_s=connect_s)
    connection = _connection_class()(**given, program_name="dil", **facts)
    try:
        for statement in (", ".join(filter(None, (ALL_ROWS, variables))), *settings):
            connection.query(statement)
    except BaseException:
        connection.close()
        raise
    return cast("pymysql.Connection[Any]", connection)


class MysqlSession:
    """One PyMySQL connection in autocommit mode; the caller's statements start transactions."""

    def __init__(self, connection: pymysql.Connection[Any]) -> None:
        self.connection = connection

    def run(self, statement: str) -> None:
        """Run a statement unchanged and without values."""
        self.connection.query(statement)

    def change(self, statement: str, *values: Value) -> int:
        """Run a statement and return the number of rows that the server counts."""
        with self.connection.cursor() as cursor:
            return int(cursor.execute(*_bound(statement, values)))

    def rows(self, statement: str, *values: Value) -> list[Row]:
        """Return all rows of a SELECT."""
        with self.connection.cursor() as cursor:
            cursor.execute(*_bound(statement, values))
            return list(cursor.fetchall())

    def stream(self, statement: str, *values: Value) -> Generator[Row, None, None]:
        """Yield rows as the server sends them; no other statement can run until the last row."""
        cursor = self.connection.cursor(driver().cursors.SSCursor)
        try:
            cursor.execute(*_bound(statement, values))
            while found := cursor.fetchmany(_ROWS_A_FETCH):
                yield from found
        finally:
            leave_rest(cursor)
            cursor.close()

    def columns(self, table: str) -> tuple[str, ...]:
        """Return the names of a table's columns; the table's name must be quoted already."""
        with self.connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table} WHERE 1 = 0")  # noqa: S608 - quoted or ours
            return tuple(column[0] for column in cursor.description)

    def exact_collation(self) -> str:
        """Return the collation that compares bytes without padding, empty if none exists."""
        found = self.rows(
            "SELECT collation_name FROM information_schema.collations WHERE collation_name"
            " IN ('utf8mb4_0900_bin', 'utf8mb4_nopad_bin') ORDER BY collation_name"
        )
        return str(found[0][0]) if found else ""

    def wait_for_ever(self) -> None:
        """Make the driver wait for answers without a limit."""
        # PyMySQL sets the socket's time-out to these values at each read and write.
        connection = cast("Any", self.connection)
        connection._read_timeout = connection._write_timeout = None  # noqa: SLF001 - no other way

    def commit(self) -> None:
        """Commit; the server's settings decide how durable its log of the transaction is."""
        self.connection.query("COMMIT")

    def rollback(self) -> None:
        """Roll back; harmless outside of a transaction."""
        self.connection.query("ROLLBACK")

    def close(self) -> None:
        """Close the connection; may be called twice, and never fails."""
        with suppress(Exception):
            self.connection.close()


def leave_rest(cursor: Any) -> None:  # a cursor of PyMySQL
    """Let an unbuffered cursor be closed early, without reading the remaining rows."""
    result = getattr(cursor, "_result", None)
    if result is not None:
        result.unbuffered_active = False


_percents = lru_cache(maxsize=256)(with_percents)


def _bound(statement: str, values: tuple[Value, ...]) -> tuple[str, tuple[Value, ...] | None]:
    return (_percents(statement), values) if values else (statement, None)


@lru_cache(maxsize=1)
def _connection_class() -> Any:  # a class of PyMySQL
    class PyMysqlConnection(driver().connections.Connection):  # type: ignore[misc]
        """A connection that corrects PyMySQL in three places."""

        def connect(self, sock: socket.socket | None = None) -> None:
            # PyMySQL turns keepalive on, but by default the first packet is sent after two hours.
            super().connect(sock)
            if self._sock.family == socket.AF_UNIX:
                return
            for name, value in _KEEPALIVES.items():
                if (option := getattr(socket, name, None)) is not None:
                    self._sock.setsockopt(socket.IPPROTO_TCP, option, value)

        def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:
            # In the mode ``preferred`` no certificate is verified, but PyMySQL loads the system's
            # authorities for each connection: 20 ms of CPU.
            return super()._create_ssl_ctx(sslp) if sslp else _unverified()

        def _write_bytes(self, data: bytes) -> None:
            # After a broken connection PyMySQL sends the end of the file, but has no socket.
            if self._sock is None:
                gone = driver().constants.CR.CR_SERVER_GONE_ERROR
                raise driver().err.OperationalError(gone, "the connection broke")
            super()._write_bytes(data)

    return PyMysqlConnection


@lru_cache(maxsize=1)
def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _tls(options: Mapping[str, str]) -> dict[str, Any]:
    mode = options.get("ssl-mode", "verify_ca" if "ssl-ca" in options else "preferred")
    if mode == "disabled":
        return {"ssl_disabled": True}
    if mode == "preferred" and "ssl-cert" not in options:
        return {}
    context = ssl.create_default_context(cafile=options.get("ssl-ca"))
    # Strict checks require extensions, which certificates made by the server itself lack.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = mode == "verify_identity"
    if mode not in {"verify_ca", "verify_identity"}:
        context.verify_mode = ssl.CERT_NONE
    if "ssl-cert" in options:
        context.load_cert_chain(options["ssl-cert"], options.get("ssl-key"))
    return {"ssl": context}


def code_of(error: Exception) -> int | None:
    """Return the number of a PyMySQL error, None if it has none."""
    code = error.args[0] if error.args else None
    return code if isinstance(code, int) else None


def text_of(error: Exception) -> str:
    """Return the server's message on one line."""
    said = error.args[1] if len(error.args) > 1 else error
    return " ".join(str(said).split()) or "the connection is closed"


def fault_of(error: Exception) -> Fault:
    """Return the meaning of an error of PyMySQL, from its number, its SQLSTATE or its class."""
    err, code = driver().err, code_of(error)
    if "CERTIFICATE_VERIFY_FAILED" in str(error):  # an unreachable server has the same number
        return Fault.UNTRUSTED
    if code in _FAULTS:
        return _FAULTS[code]
    if isinstance(error, err.InterfaceError | OSError):
        return Fault.LOST
    state = str(getattr(error, "sqlstate", None) or "")
    if state.startswith(_REFUSED) or isinstance(error, err.ProgrammingError | err.DataError):
        return Fault.REFUSED
    return Fault.OTHER


def advice(names: LoginProperties) -> Mapping[Fault, str]:
    """Return the advice for the faults of a server, by the names of the job's properties."""
    options = f"Check the ssl options in {names.url}."
    return {
        **server_advice(names),
        Fault.NO_DATABASE_RIGHT: _GRANT,
        Fault.DENIED: _GRANT,
        Fault.HOST_BLOCKED: HOST_BLOCKED,
        Fault.TOO_LARGE: "Raise the server's max_allowed_packet; 64M is enough for most jobs.",
        Fault.NO_PRIMARY_KEY: "The server accepts only tables with a primary key. Create the table"
        " with one, for example a column id BIGINT AUTO_INCREMENT PRIMARY KEY, or let the server"
        " add keys: sql_generate_invisible_primary_key=ON (MySQL 8.0.30 and newer).",
        Fault.UNSAFE_BINLOG: "Set the server's binlog_format to ROW or MIXED.",
        Fault.OPTIONS: options,
        Fault.UNTRUSTED: options,
        Fault.TLS_ONLY: options,
    }
