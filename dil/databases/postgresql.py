"""PostgreSQL through ADBC or psycopg: opens connections, and translates errors.

ADBC moves rows, because ADBC's COPY reads and writes Arrow. The state store uses psycopg, which
returns the number of rows that a statement matched, and can limit waits (``bounded_psycopg``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from dil.databases.faults import Fault, LoginProperties, server_advice
from dil.model.database_address import DatabaseAddress

# Keepalive packets detect a peer that vanished silently.
_KEEPALIVES = {"keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "6"}

# By the beginning of the SQLSTATE; longer beginnings come first (PostgreSQL manual, Appendix A). If
# two transactions change the catalogue at the same moment, one of them gets XX000.
_STATES: tuple[tuple[str, Fault], ...] = (
    ("08", Fault.LOST),
    ("22001", Fault.DOES_NOT_FIT),
    ("23505", Fault.DUPLICATE),
    ("25006", Fault.READ_ONLY),
    ("25P03", Fault.LOST),
    ("25P04", Fault.LOST),
    ("28", Fault.LOGIN),
    ("3D000", Fault.NO_DATABASE),
    ("3F000", Fault.NO_SCHEMA),
    ("40001", Fault.CONFLICT),
    ("40P01", Fault.CONFLICT),
    ("42501", Fault.DENIED),
    ("42701", Fault.EXISTS),
    ("42703", Fault.NO_COLUMN),
    ("42710", Fault.EXISTS),
    ("42P01", Fault.NO_TABLE),
    ("42P06", Fault.EXISTS),
    ("42P07", Fault.EXISTS),
    ("53100", Fault.DISK_FULL),
    ("53300", Fault.TOO_MANY),
    ("53", Fault.NO_RESOURCES),
    ("55P03", Fault.LOCKED),
    ("57014", Fault.TIMED_OUT),
    ("57P", Fault.LOST),
    ("XX000", Fault.CHANGED),
    # These faults concern the statement and its values.
    *((state, Fault.REFUSED) for state in
      ("0A", "21", "22", "23", "2F", "34", "38", "39", "3D", "3F", "42", "44")),
)  # fmt: skip
# Texts of a broken connection; TLS reports it in its own words, which do not concern TLS options.
_CUT = re.compile(
    r"closed the connection|terminating connection|no connection to the server|Connection reset"
    r"|SSL connection has been closed|SSL SYSCALL error|could not (?:receive|send) data"
    r"|consuming input failed|flushing failed"
    r"|connection not open|lost synchronization|the connection is (?:closed|lost)",
    re.IGNORECASE,
)
# Texts of a pooler and of a standby, which may close the connection after them.
_STATEMENT_MODE = "in statement pooling mode"
_REPLAY = "due to conflict with recovery"
# The reasons why no connection was made, in libpq's words or, after FATAL:, in the server's words.
_NO_SERVER = re.compile(
    r"translate host name|connection refused|timeout expired|no route", re.IGNORECASE
)
_NO_CONNECTION = tuple(
    (re.compile(words, re.IGNORECASE), fault)
    for words, fault in (
        (r"too many (?:clients|connections)|no more connections|remaining connection slots",
         Fault.TOO_MANY),
        (r"starting up|shutting down", Fault.STARTING),
        (r"no pg_hba\.conf entry", Fault.NO_ENTRY),
        (r'database ".*" does not exist', Fault.NO_DATABASE),
        (r"password|authentication|pg_hba\.conf|role |permission denied for database",
         Fault.LOGIN),
        (r"does not support ssl", Fault.NO_TLS),
        (r"does not exist|invalid|unsupported startup parameter|certificate|ssl|tls",
         Fault.OPTIONS),
    )
)  # fmt: skip
_BROKE_OFF = (
    (re.compile(r"timeout|canceling statement"), Fault.TIMED_OUT),
    (re.compile(r"in a read-only transaction"), Fault.READ_ONLY),
)
SESSION_MODE = "Let the pooler (PgBouncer: pool_mode) work in transaction or session mode."
UNQUOTED = (
    "The server quotes all names, so that the driver does not know its types. Turn that off for"
    " this user: ALTER ROLE name SET quote_all_identifiers = off."
)
# libpq names the server first; the quoted part may contain any word.
_PLACE = re.compile(r'connection to server (?:at|on socket) ".*?".*?failed: ')


class AdbcDatabase:
    """Connections to one database; ADBC reads the database's types only once for all of them.

    Reading the types costs ten times as much as connecting. Values of types that are created later
    are returned as bytes.
    """

    def __init__(self, conninfo: str) -> None:
        """Connect to the database, and close that connection again.

        Raises:
            ImportError: ADBC is not installed.
        """
        self._connections = driver()
        self._database = import_module("adbc_driver_postgresql").connect(conninfo)

    def connect(self) -> Any:  # untyped driver
        """Return a new connection in autocommit mode."""
        connection = _manager().AdbcConnection(self._database)
        return self._connections.Connection(_Shared(), connection, autocommit=True)


class _Shared:
    """A connection's reference to the database, which stays open when the connection is closed."""

    def close(self) -> None:
        """Do nothing: the database stays open for the next connection."""


def driver() -> Any:  # a module, which ships no types
    """Return ADBC's driver; only this function imports it.

    Raises:
        ImportError: ADBC is not installed.
    """
    return import_module("adbc_driver_postgresql.dbapi")


def errors() -> tuple[type[Exception], ...]:
    """Return the base class of the ADBC drivers' errors, in a tuple."""
    return (_manager().Error,)


def is_refused_by_driver(error: Exception) -> bool:
    """Return whether ADBC itself, and not the server, refused the request."""
    codes = _manager().AdbcStatusCode
    refusals = {codes.NOT_FOUND, codes.ALREADY_EXISTS, codes.INVALID_ARGUMENT, codes.INVALID_DATA}
    return getattr(error, "status_code", None) in refusals


def _manager() -> Any:  # a module
    return import_module("adbc_driver_manager")


def arguments(address: DatabaseAddress, *, connect_s: int, **limits: str) -> dict[str, str]:
    """Return libpq's settings for an address, by libpq's names (PostgreSQL manual, 34.1.2).

    The schema is not among them: it would be an option of the login, which a pooler refuses or
    ignores.

    Args:
        address: The database's place, and the user; its options override all defaults.
        connect_s: The seconds to wait for a connection.
        limits: More defaults.
    """
    found = {
        "connect_timeout": str(connect_s),
        "application_name": "dil",
        **_KEEPALIVES,
        **limits,
        **dict(address.options),
        "client_encoding": "UTF8",
        "dbname": address.database,
        "user": address.user,
        "password": address.password.reveal() if address.password else "",
    }
    if address.hosts:
        found["host"] = ",".join(name for name, _ in address.hosts)
        found["port"] = ",".join(str(port) for _, port in address.hosts)
    return {name: value for name, value in found.items() if value}


def conninfo(given: Mapping[str, str]) -> str:
    """Return arguments as one connection string (PostgreSQL manual, 34.1.1.1)."""
    escapes = str.maketrans({"\\": "\\\\", "'": "\\'"})
    return " ".join(f"{name}='{value.translate(escapes)}'" for name, value in given.items())


def _fault_of_answer(state: str, text: str) -> Fault:
    """Return the meaning of a SQLSTATE; the schema in the address may be no list of names."""
    if state == "22023" and '"search_path"' in text:
        return Fault.OPTIONS
    return next((fault for begin, fault in _STATES if state.startswith(begin)), Fault.OTHER)


def is_cut(text: str) -> bool:
    """Return whether an error's text means that a connection broke."""
    is_of_tls = "SSL error" in text and "connection to server" not in text
    return is_of_tls or _CUT.search(text) is not None


def fault_of_connecting(text: str) -> Fault:
    """Return why no connection was made, by the error's text: these errors have no SQLSTATE.

    If one of several hosts is down, the answer of a running server is the reason.
    """
    if "FATAL:" not in text and _NO_SERVER.search(text):
        return Fault.UNREACHABLE
    said = _PLACE.sub("", text)
    found = (fault for words, fault in _NO_CONNECTION if words.search(said))
    return next(found, Fault.UNREACHABLE)


def fault_of_statement(state: str | None, text: str) -> Fault:
    """Return the meaning of a statement's error; an error during a COPY has no SQLSTATE."""
    if _STATEMENT_MODE in text:
        return Fault.NO_TRANSACTIONS
    if _REPLAY in text:
        return Fault.REPLAY
    if is_cut(text):
        return Fault.LOST
    if state:
        return _fault_of_answer(state, text)
    return next((fault for words, fault in _BROKE_OFF if words.search(text)), Fault.OTHER)


def fault_of(state: str | None, text: str) -> Fault:
    """Return the meaning of an error, of connecting or of a statement.

    If two transactions create the same table at once, one of them may get a duplicate key of the
    catalogue; that error means that the table exists.
    """
    if _STATEMENT_MODE in text:
        return Fault.NO_TRANSACTIONS
    if state:
        found = _fault_of_answer(state, text)
        is_of_catalogue = found is Fault.DUPLICATE and 'constraint "pg_' in text
        return Fault.EXISTS if is_of_catalogue else found
    return Fault.LOST if is_cut(text) else fault_of_connecting(text)


def advice(names: LoginProperties) -> Mapping[Fault, str]:
    """Return the advice for the faults of a server, by the names of the job's properties."""
    login = f"Check {names.user} and {names.password}, and the server's pg_hba.conf."
    options = f"Check the options in {names.url}; they must be options of libpq."
    return {
        **server_advice(names),
        Fault.LOGIN: login,
        Fault.NO_ENTRY: login,
        Fault.OPTIONS: options,
        Fault.NO_TLS: options,
        Fault.READ_ONLY: "This server accepts no writes: it is a standby, or"
        f" default_transaction_read_only is on. Name the primary server in {names.url}, or"
        " turn that setting off if this is the primary server.",
        Fault.NO_TRANSACTIONS: SESSION_MODE,
    }
