"""The meanings of database errors, as one list for all engines.

Each engine's module translates its codes into a ``Fault``. State stores, warehouses and the JDBC
connector each decide whether a fault is worth another try, and which error to raise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto


class Fault(Enum):
    """The meaning of an error of a database."""

    # The connection
    LOST = auto()  # the connection broke, or the server is shutting down
    UNREACHABLE = auto()  # no connection was made: no server answers there
    STARTING = auto()  # no connection was made: the server is starting or stopping
    TOO_MANY = auto()  # no connection was made: the server, or this user, has no free connection
    LOGIN = auto()  # the server refuses the user or the password
    NO_ENTRY = auto()  # pg_hba.conf has no line for this user, database and address
    NO_DATABASE = auto()  # the server has no database of this name
    NO_DATABASE_RIGHT = auto()  # this user may not use the database
    OPTIONS = auto()  # an option of the address is wrong, for example one of TLS
    NO_TLS = auto()  # the server does not encrypt
    TLS_ONLY = auto()  # the server accepts only encrypted connections
    UNTRUSTED = auto()  # no authority that the client trusts has signed the server's certificate
    HOST_BLOCKED = auto()  # the server blocks this host after failed connections
    NO_TRANSACTIONS = auto()  # a pooler gives each statement another connection to the server

    # Other transactions
    CONFLICT = auto()  # the server undid the transaction because another transaction blocked it
    LOCKED = auto()  # another transaction held a lock for too long
    CHANGED = auto()  # another transaction changed rows that this transaction had read
    EXISTS = auto()  # a table, column or index of this name exists already
    DUPLICATE = auto()  # a row with this key exists already

    # Limits
    TIMED_OUT = auto()  # a statement took too long, or was cancelled
    REPLAY = auto()  # a standby cancelled a query, because it kept changes from being applied
    NO_RESOURCES = auto()  # the server lacks memory or another resource
    DISK_FULL = auto()
    TOO_LARGE = auto()  # a statement or a row is larger than the server accepts
    NO_PRIMARY_KEY = auto()  # the server takes only tables with a primary key
    UNSAFE_BINLOG = auto()  # the binary log's format and the isolation level do not fit

    # Rights, names and values
    DENIED = auto()  # this user lacks a right
    READ_ONLY = auto()  # the server, the file or the transaction accepts no writes
    NO_SCHEMA = auto()
    NO_TABLE = auto()
    NO_COLUMN = auto()
    DOES_NOT_FIT = auto()  # a text is too long for its column
    REFUSED = auto()  # the statement or a value is wrong, and repeating it does not help

    # Databases that are files
    CANNOT_OPEN = auto()
    DAMAGED = auto()  # the file is not a database, or is damaged
    IO = auto()  # the file cannot be read or written

    OTHER = auto()


# There is no connection, or no server: a new connection may help.
AWAY = frozenset({Fault.LOST, Fault.UNREACHABLE, Fault.STARTING})


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """An error in words: the database's message on one line, and the advice."""

    fault: Fault
    text: str
    advice: str


@dataclass(frozen=True, slots=True)
class LoginProperties:
    """The names of the properties that hold address, user and password, for advice."""

    url: str
    user: str
    password: str


def server_advice(names: LoginProperties) -> Mapping[Fault, str]:
    """Return the advice for faults of a server, by the names of the job's properties."""
    away = f"Check that the server runs and that {names.url} names its host and port."
    return {
        Fault.LOST: away,
        Fault.UNREACHABLE: away,
        Fault.STARTING: away,
        Fault.TOO_MANY: "Raise the server's max_connections, or run fewer jobs at a time.",
        Fault.LOGIN: f"Check {names.user} and {names.password}.",
        Fault.NO_DATABASE: f"Create it: CREATE DATABASE name. Or correct {names.url}.",
        Fault.READ_ONLY: f"This server accepts no writes. Name the primary server in {names.url}.",
        Fault.DISK_FULL: "The server's disk is full: free space there.",
        Fault.OTHER: "Check the server's log; then run the job again.",
    }
