"""SQLite through Python's own driver.

ADBC's driver takes the type of a column from its first rows. SQLite's columns have no fixed type,
so a later value would be an error or lose digits. Here each batch has the types of its own values.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from connectors.jdbc import failures
from connectors.jdbc.columns import batches_of
from connectors.jdbc.engine import FETCH_ROWS, Login, SourceConnection
from connectors.jdbc.statement import Statement
from connectors.jdbc.syntax import Kind, SqlSyntax, syntax_of
from dil.databases.faults import Fault
from dil.databases.sqlite import connect, fault_of
from dil.model.json import JsonValue, as_text

if TYPE_CHECKING:
    import pyarrow as pa

_BUSY_S = 30.0
_LONG = 2**63
_CHECK_FILE = "Check the file that ms.source.uri names."
_FIXES = {
    Fault.CANNOT_OPEN: "Put the file that ms.source.uri names on the machines that run tasks.",
    Fault.DAMAGED: _CHECK_FILE,
    Fault.IO: _CHECK_FILE,
}
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,15})?")


class SqliteConnection(SourceConnection):
    """One connection; its queries run in one read transaction and see one state of the file."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._connection: sqlite3.Connection | None = None

    @property
    def syntax(self) -> SqlSyntax:
        """Return the SQL syntax of SQLite."""
        return syntax_of(Kind.SQLITE)

    def run(
        self, statement: Statement, variables: Mapping[str, JsonValue]
    ) -> Iterator[pa.RecordBatch]:
        """Run a statement and yield its rows in batches; commit it if it is not a query."""
        values: list[Any] = []

        def bind(value: JsonValue) -> str:
            values.append(_bindable(value))
            return "?"

        sql = statement.bound(variables, bind)
        with self._translated():
            if self._connection is None:
                path = self._login.path if self._login.address.path else None
                is_read_only = statement.reads and self._login.is_read_only
                # Neither mode makes a missing file; another thread may close the connection after
                # the task has ended.
                self._connection = connect(
                    path, mode="ro" if is_read_only else "rw", busy_s=_BUSY_S, is_shared=True
                )
            connection = self._connection
            if not connection.in_transaction:
                connection.execute("BEGIN")
            cursor = connection.execute(sql, values)
            if cursor.description:
                names = [fact[0] for fact in cursor.description]
                parts = iter(lambda: cursor.fetchmany(FETCH_ROWS), [])
                yield from batches_of(names, parts)
            if not statement.reads:
                connection.commit()

    def look_again(self) -> None:
        """End the transaction, so that the next query sees later changes."""
        with self._translated():
            if self._connection is not None:
                self._connection.rollback()

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            fault, address, reason = fault_of(error), self._login.address, str(error)
            if fault is Fault.DISK_FULL:  # The full disk belongs to this machine, not to a server.
                fix = "Make room on the disk that holds the file."
                raise failures.failed(address, reason, fix) from None
            raise failures.failure_for(fault, address, reason, _FIXES) from None


def _bindable(value: JsonValue) -> object:
    """Return a value in the form that SQLite compares; a text that is a number becomes a number.

    If a statement compares the value with a column, SQLite converts the value to the column's kind
    anyway. If it compares the value with an expression, any text is greater than every number.
    """
    if type(value) is str and _NUMBER.fullmatch(value):
        value = Decimal(value) if "." in value else int(value)
    if isinstance(value, Decimal):
        return float(value) if Decimal(repr(float(value))) == value else as_text(value)
    if isinstance(value, int) and not -_LONG <= value < _LONG:
        return float(value)  # in the form that SQLite itself stores
    return value if value is None or isinstance(value, str | int | float) else as_text(value)
