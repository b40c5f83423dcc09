"""MySQL and MariaDB through PyMySQL, unbuffered: rows come as the server sends them.

The server writes each value as text; Arrow casts whole columns of texts, not single values.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from connectors.jdbc import failures
from connectors.jdbc.columns import distinct
from connectors.jdbc.cursor import KeyText
from connectors.jdbc.engine import FETCH_ROWS, Login, SourceConnection
from connectors.jdbc.engines.mysql_columns import VECTOR, MysqlColumn
from connectors.jdbc.statement import Statement
from connectors.jdbc.syntax import SqlSyntax, syntax_of
from dil.databases import mysql
from dil.databases.faults import Fault
from dil.errors import SourceContractError
from dil.model.json import JsonValue, as_text

if TYPE_CHECKING:
    import pyarrow as pa

_CONNECT_S = 30
_SILENCE_S = 3600
_CURSOR_TIME = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?)Z")
_DATABASE_FIX = "Check the database's name at the end of ms.source.uri."
_FIXES = {
    Fault.NO_DATABASE: _DATABASE_FIX,
    Fault.NO_DATABASE_RIGHT: f"{_DATABASE_FIX} The user may need the right: GRANT SELECT ON"
    " <database>.* TO <user>.",
    Fault.OPTIONS: "Ask the server's owner to turn TLS on, or leave sslMode, useSSL and requireSSL"
    " out of ms.source.uri: the rows then cross the network unencrypted.",
    Fault.TLS_ONLY: "The server accepts only TLS: write sslMode=REQUIRED into ms.source.uri.",
    Fault.UNTRUSTED: "Name the file of the authority that signed the server's certificate (PEM) in"
    " serverSslCert of ms.source.uri.",
    Fault.TOO_LARGE: "Raise the server's max_allowed_packet, or ask for smaller values.",
    Fault.HOST_BLOCKED: mysql.HOST_BLOCKED,
}
# Warnings with which the server returns a part of a value, or null in its place, and the
# settings that limit the value.
_CUT = {"1260": "group_concat_max_len and max_allowed_packet", "1301": "max_allowed_packet"}
# A warning that the server ignored the end of a text. MariaDB and MySQL before 8.0.19 so ignore the
# offset of a time, and read the rest of the text in the session's zone, UTC.
_TRUNCATED = "1292"
_OFFSET_TIME = re.compile(r"'(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:[\d:.]+ ?[+-](?!00:?00)\d\d:?\d\d)'")
# A TIMESTAMP is an instant; in UTC each of its texts has only one meaning. The server keeps as many
# warnings as it can, and does not cut a text of group_concat at 1024 bytes, as by default. GREATEST
# alone is a decimal on MySQL, which no variable takes.
_VARIABLES = (
    "SESSION time_zone = '+00:00', SESSION max_error_count = 65535, SESSION group_concat_max_len ="
    f" CAST(GREATEST(@@SESSION.group_concat_max_len, {16 * 1024 * 1024}) AS UNSIGNED)"
)


class MysqlConnection(SourceConnection):
    """One connection, in one consistent snapshot from the first query to the end."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._is_begun = False
        try:
            self._driver: Any = mysql.driver()
        except ModuleNotFoundError:
            raise failures.missing_driver("pymysql", login.address.kind) from None
        with self._translated():
            try:
                self._connection: Any = mysql.connect(
                    login.server,
                    connect_s=_CONNECT_S,
                    variables=_VARIABLES,
                    read_timeout=login.address.timeout_s or _SILENCE_S,
                    autocommit=False,
                    local_infile=False,
                )
            except mysql.TlsFilesError as error:
                raise failures.unopened(
                    login.address, f"the certificates cannot be read: {error}",
                    "Copy the PEM file of serverSslCert in ms.source.uri to every machine that"
                    " runs tasks.",
                ) from None  # fmt: skip
            self._connection.decoders = {}  # Values stay as the server writes them.
            with self._connection.cursor() as cursor:
                cursor.execute("SELECT @@sql_mode")
                (self._sql_mode,) = cursor.fetchone()

    @property
    def syntax(self) -> SqlSyntax:
        """Return the SQL syntax of this session."""
        return syntax_of(self._login.address.kind, sql_mode=self._sql_mode)

    def run(
        self, statement: Statement, variables: Mapping[str, JsonValue]
    ) -> Iterator[pa.RecordBatch]:
        """Run a statement and yield its rows in batches; commit it if it is not a query."""
        values: list[object] = []

        def bind(value: JsonValue) -> str:
            values.append(_bindable(value))
            return "%s"

        sql = statement.bound(variables, bind, lambda code: code.replace("%", "%%"))
        with self._translated():
            if statement.reads and not self._is_begun:
                access = "READ ONLY" if self._login.is_read_only else "READ WRITE"
                with self._connection.cursor() as beginning:
                    beginning.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                    beginning.execute(f"START TRANSACTION WITH CONSISTENT SNAPSHOT, {access}")
                self._is_begun = True
            cursor = self._connection.cursor(self._driver.cursors.SSCursor)
            try:
                cursor.execute(sql, values)
                if cursor.description:
                    yield from self._batches(cursor)
                    self._refuse_cut(cursor, variables)
            except BaseException:
                # Close in the middle of the result, without reading the rest of it.
                mysql.leave_rest(cursor)
                cursor.connection = None
                self.close()
                raise
            cursor.close()
            if not statement.reads:
                self._connection.commit()
                self._is_begun = False

    def look_again(self) -> None:
        """End the transaction, so that the next query sees later changes."""
        with self._translated():
            self._connection.rollback()
        self._is_begun = False

    def close(self) -> None:
        """Close the connection without waiting for the server."""
        with suppress(Exception):
            self._connection._force_close()  # noqa: SLF001 - close() says farewell and may hang

    def _batches(self, cursor: Any) -> Iterator[pa.RecordBatch]:  # a cursor of PyMySQL
        import pyarrow as pa

        names = distinct([fact[0] for fact in cursor.description])
        # The result's description lacks signs and character sets.
        result = cursor._result  # noqa: SLF001
        columns = [MysqlColumn(field, self._login) for field in result.fields]
        # PyMySQL takes the bytes of a type that it does not know for text in ASCII.
        result.converters = [
            (None, None) if field.type_code == VECTOR else converter
            for field, converter in zip(result.fields, result.converters, strict=True)
        ]
        while rows := cursor.fetchmany(FETCH_ROWS):
            arrays = [
                column.read(values)
                for column, values in zip(columns, zip(*rows, strict=True), strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    def _refuse_cut(
        self,
        cursor: Any,  # a cursor of PyMySQL, read to its end
        variables: Mapping[str, JsonValue],
    ) -> None:
        """Raise if the server returned or read only a part of a value, which only a warning says.

        Raises:
            SourceContractError: a value is longer than the server's settings allow, or the server
                ignored the offset of one of ``variables``.
        """
        if not cursor._result.warning_count:  # noqa: SLF001 - the cursor's own is of its beginning
            return
        with self._connection.cursor(self._driver.cursors.SSCursor) as asking:
            asking.execute("SHOW WARNINGS")
            for _, code, text in asking:
                if code in _CUT:
                    raise SourceContractError(
                        f"{self._login.address} did not return all of a value: {text}",
                        f"Raise the server's {_CUT[code]}, or ask for smaller values.",
                    )
                ignored = _OFFSET_TIME.search(text) if code == _TRUNCATED else None
                if ignored and ignored["time"] in variables.values():
                    raise SourceContractError(
                        f"{self._login.address} ignored the offset of a time: {text}",
                        'Leave the offset out of the pattern in ms.parameters, and let "timezone"'
                        ' be the zone of the column, "UTC" if it is a timestamp.',
                    )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (self._driver.MySQLError, OSError, ssl.SSLError) as error:
            code = mysql.code_of(error)
            reason = f"{error.args[-1]} (error {code})" if code else str(error)
            raise failures.failure_for(
                mysql.fault_of(error), self._login.address, reason, _FIXES
            ) from None


def _bindable(value: JsonValue) -> object:
    """Return a value in the form that PyMySQL binds; an instant of a cursor loses its ``Z``."""
    if isinstance(value, KeyText):
        match = _CURSOR_TIME.fullmatch(value)
        return match.group(1) if match else value
    return as_text(value) if isinstance(value, list | tuple | Mapping) else value
