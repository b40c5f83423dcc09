"""PostgreSQL through ADBC: COPY in binary form, straight into Arrow.

COPY takes no bound values, so values become literals in quotes, and quotes in values are doubled.
This is safe because the session sets ``standard_conforming_strings``. PostgreSQL gives a literal
the type that its place in the statement needs.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from connectors.jdbc import failures
from connectors.jdbc.columns import distinct
from connectors.jdbc.engine import BATCH_BYTES, Login, SourceConnection
from connectors.jdbc.engines.postgresql_columns import ResultPlan
from connectors.jdbc.statement import Statement
from connectors.jdbc.syntax import Kind, SqlSyntax, syntax_of
from dil.databases import postgresql
from dil.databases.faults import Fault
from dil.errors import ConfigError, DilError, SourceError, TransientSourceError
from dil.model.database_address import DatabaseAddress
from dil.model.json import JsonValue, as_text
from dil.sections.source import STATEMENT

if TYPE_CHECKING:
    import pyarrow as pa

Result = TypeVar("Result")

_READING = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
# The form of values, whatever settings the server, the database or the role has.
_SESSION = (
    "SET LOCAL standard_conforming_strings = on; SET LOCAL TimeZone = 'UTC';"
    " SET LOCAL DateStyle = 'ISO'; SET LOCAL IntervalStyle = 'iso_8601'"
)
_CONNECT_S = 30
_CHECK_URI = (
    "Check the name of the database in ms.source.uri, and its options. A pooler such as PgBouncer"
    " may refuse options."
)
_FIXES = {
    Fault.NO_ENTRY: "pg_hba.conf of the server has no line for this user, database and address."
    " Have one added; if its lines ask for TLS, write sslmode=require into ms.source.uri.",
    Fault.NO_TLS: "Ask the server's owner to turn TLS on, or leave ssl and sslmode out of"
    " ms.source.uri: then the rows cross the network unencrypted.",
    Fault.NO_DATABASE: _CHECK_URI,
    Fault.OPTIONS: _CHECK_URI,
    Fault.NO_TRANSACTIONS: postgresql.SESSION_MODE,
    Fault.REPLAY: "The server is a standby, and cancels queries that keep it from applying changes."
    " Raise its max_standby_streaming_delay, turn its hot_standby_feedback on, or query less in one"
    " statement.",
}


class PostgresqlConnection(SourceConnection):
    """One connection, in one transaction from the first query to the end."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._is_begun = False
        self._unanswered: Future[Any] | None = None
        try:
            driver = postgresql.driver()
        except ModuleNotFoundError:
            raise failures.missing_driver("adbc-driver-postgresql", "postgresql") from None
        given = postgresql.arguments(login.server, connect_s=_CONNECT_S)
        if login.address.timeout_s:
            given["tcp_user_timeout"] = str(int(login.address.timeout_s * 1000))
        try:
            self._connection: Any = self._connected(
                lambda: driver.connect(postgresql.conninfo(given))
            )
        except driver.Error as error:
            # A refused connection has no code; only its text shows the fault.
            fault = postgresql.fault_of_connecting(str(error))
            reason = str(error).partition("failed: ")[2] or str(error)
            raise failures.failure_for(fault, login.address, reason, _FIXES) from None
        self._cursor: Any = self._connection.cursor()
        self._setter: Any = self._connection.cursor()  # a cursor takes its last query for set

    def _connected(self, connect: Callable[[], Any]) -> Any:
        """Return a new connection; after the login, the driver queries the server's types."""
        try:
            return self._answer(connect, login_s=_login_s(self._login.server))
        except BaseException:
            if self._unanswered is not None:
                self._unanswered.add_done_callback(_close_late)
            raise

    @property
    def syntax(self) -> SqlSyntax:
        """Return the SQL syntax of PostgreSQL."""
        return syntax_of(Kind.POSTGRESQL)

    def run(
        self, statement: Statement, variables: Mapping[str, JsonValue]
    ) -> Iterator[pa.RecordBatch]:
        """Run a statement and yield its rows in batches; commit it if it is not a query."""
        sql = statement.bound(variables, literal)
        with self._translated():
            self._begin(statement)
            described = self._answer(lambda: self._cursor.adbc_execute_schema(sql))
            plan = ResultPlan(described, nulls_dates=self._login.nulls_dates)
            distinct(plan.names)
            if statement.is_query:
                sql = plan.rewritten(sql)
            self._cursor.adbc_statement.set_options(
                **{
                    "adbc.postgresql.use_copy": "true" if statement.is_query else "false",
                    "adbc.postgresql.batch_size_hint_bytes": str(BATCH_BYTES),
                }
            )
            self._answer(lambda: self._cursor.execute(sql))
            if plan.names:
                batches = iter(self._cursor.fetch_record_batch())
                while (batch := self._answer(lambda: next(batches, None))) is not None:
                    yield plan.read(batch)
            if not statement.reads:
                self._answer(self._connection.commit)
                self._is_begun = False

    def instants(
        self, statement: Statement, variables: Mapping[str, JsonValue], names: Iterable[str]
    ) -> list[str]:
        """Return those of ``names`` that the statement uses as a timestamp with time zone.

        PostgreSQL gives the type of each parameter of a prepared statement. The type is not known
        of a value that is a part of a text, nor if no parameter may stand in one of the places, as
        in ``timestamp '...'``.
        """
        marks = {f"dil_time_{number}": name for number, name in enumerate(names)}
        sql = statement.bound(
            {**variables, **{name: mark for mark, name in marks.items()}}, literal
        )
        # As literals do, each place has a type of its own.
        head, *rest = re.split(r"'(dil_time_\d+)'", sql)
        places = rest[::2]
        sql = head + "".join(f"${at}{text}" for at, text in enumerate(rest[1::2], 1))
        if not places or any(mark in sql for mark in marks):
            return []
        types: list[Any] = []
        try:
            with self._translated():
                self._begin(statement)
                types = self._answer(lambda: self._cursor.adbc_prepare(sql)).types
        except TransientSourceError:
            raise
        except SourceError:  # A fault of the statement itself is raised when it runs.
            pass
        self.look_again()
        if len(types) != len(places):  # refused, or a place is in a text of a text
            return []
        return [
            marks[mark]
            for mark, kind in zip(places, types, strict=True)
            if getattr(kind, "tz", None)
        ]

    def _begin(self, statement: Statement) -> None:
        """Begin a transaction, unless one is begun, with the settings of DIL's sessions."""
        if self._is_begun:
            return
        self._is_begun = True
        if statement.reads:
            is_read_only = self._login.is_read_only
            self._set(_READING + (" READ ONLY" if is_read_only else ""))
        self._set(_SESSION)
        server = self._login.address.server
        if server and server.schema:
            # Not an option of the login, which a pooler refuses or ignores.
            path = literal(server.schema)
            self._set(f"SELECT set_config('search_path', {path}, true)")

    def look_again(self) -> None:
        """End the transaction, so that the next query sees later changes."""
        with self._translated():
            self._answer(self._connection.rollback)
        self._is_begun = False

    def close(self) -> None:
        """Close the connection; this also ends a transaction that only read."""
        if self._unanswered is None:
            self._close()
        else:
            self._unanswered.add_done_callback(lambda _: self._close())

    def _close(self) -> None:
        for cursor in (self._cursor, self._setter):
            with suppress(Exception):
                cursor.close()
        with suppress(Exception):
            self._connection.close()

    def _set(self, sql: str) -> None:
        """Run statements in one message; a fault is raised here, not when a result is read."""
        self._setter.adbc_statement.set_sql_query(sql)
        self._answer(self._setter.adbc_statement.execute_update)

    def _answer(self, call: Callable[[], Result], login_s: float | None = 0) -> Result:
        """Return the result of a call that waits for the server.

        The call goes on if the time is over, or if a signal ends the wait. ``login_s`` is added to
        the time, None if there is no limit.
        """
        seconds = self._login.address.timeout_s
        if not seconds or login_s is None:
            return call()
        answer: Future[Result] = Future()
        self._unanswered = answer  # before the call begins, because a signal may come at once
        _start(call, answer)
        if not wait([answer], timeout=login_s + seconds).done:
            raise failures.silent(self._login.address, seconds)
        self._unanswered = None
        return answer.result()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DilError:
            raise
        except Exception as error:  # noqa: BLE001 - ADBC's and pyarrow's have no common root
            reason = _reason(error)
            fault = postgresql.fault_of_statement(getattr(error, "sqlstate", None), reason)
            raise failures.failure_for(fault, self._login.address, reason, _FIXES) from None


def _start(call: Callable[[], Result], answer: Future[Result]) -> None:
    """Start a driver's call, which cannot be ended, in a thread that sets its result.

    Until the call has ended, the caller must neither use nor close the connection.
    """

    def ask() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
            answer.set_exception(error)

    # A daemon: a process that ends does not wait for the server.
    threading.Thread(target=ask, daemon=True, name="dil-postgresql").start()


def _close_late(connecting: Future[Any]) -> None:
    """Close a connection that came too late, if it came."""
    with suppress(Exception):
        connecting.result().close()


def literal(value: JsonValue) -> str:
    """Return a value as a literal; PostgreSQL gives it the type that its place needs."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float | Decimal):
        text = as_text(value)
        return f"({text})" if text.startswith("-") else text
    text = as_text(value)
    if "\x00" in text:
        raise ConfigError.single(
            STATEMENT, "has a value with the character code 0, which PostgreSQL cannot hold"
        )
    return "'" + text.replace("'", "''") + "'"


def _login_s(server: DatabaseAddress) -> float | None:
    """Return how long libpq may try all hosts, None if the URL sets no limit."""
    given = dict(server.options).get("connect_timeout", str(_CONNECT_S))
    if not given.isdecimal() or int(given) == 0:
        return None
    # libpq tries each host twice if TLS is optional: with and without it.
    return int(given) * 2 * max(1, len(server.hosts))


def _reason(error: Exception) -> str:
    """Return the server's message without the statement, because the statement holds values."""
    # Names of details are texts or bytes, depending on the driver's version.
    facts = {_decoded(name): _decoded(text) for name, text in getattr(error, "details", None) or ()}
    words = [facts.get(f"PG_DIAG_MESSAGE_{name}", "") for name in ("PRIMARY", "HINT")]
    said = ". ".join(word for word in words if word)
    if said:
        return f"{said} (SQLSTATE {getattr(error, 'sqlstate', '')})"
    text = str(error)
    for mark in ("\nLINE ", "\nQuery was:", "\nCONTEXT:"):
        text = text.partition(mark)[0]
    return text.partition("]: ")[2] or text


def _decoded(text: str | bytes) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else text
