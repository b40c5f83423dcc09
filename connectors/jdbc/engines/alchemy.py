"""SQL Server and Oracle through SQLAlchemy, with a driver that the user installs.

This project's tests have no such servers. They run this module on another database that SQLAlchemy
supports.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from connectors.jdbc import failures
from connectors.jdbc.columns import batches_of
from connectors.jdbc.engine import FETCH_ROWS, Login, SourceConnection
from connectors.jdbc.statement import Statement
from connectors.jdbc.syntax import Kind, SqlSyntax, syntax_of
from dil.errors import DilError
from dil.model.json import JsonValue, as_text

if TYPE_CHECKING:
    import pyarrow as pa

_DRIVERS = {Kind.SQLSERVER: "mssql+pyodbc", Kind.ORACLE: "oracle+oracledb"}
_ODBC = "ODBC Driver 18 for SQL Server"
_REFUSED_WORDS = ("login failed", "ora-01017", "ora-28000", "password")
# Faults of the statement and of its values; the driver has one class for nearly all errors.
_ORACLE_REFUSED = re.compile(r"\bora-(?:009\d\d|01031|01722|01476|0184\d|0185\d)\b")
_LOST_WORDS = ("ora-03113", "ora-03114", "ora-12170", "ora-12541", "communication link failure",
               "connection is closed", "timeout", "timed out")  # fmt: skip


class AlchemyConnection(SourceConnection):
    """One connection and one transaction; rows come in parts if the driver can stream."""

    def __init__(self, login: Login, url: Any = None) -> None:  # a URL of SQLAlchemy
        self._login = login
        try:
            import sqlalchemy
        except ModuleNotFoundError:
            raise failures.missing_driver("sqlalchemy", login.address.kind) from None
        self._library: Any = sqlalchemy
        try:
            self._engine: Any = sqlalchemy.create_engine(
                url or _url(sqlalchemy, login), poolclass=sqlalchemy.NullPool
            )
        except ModuleNotFoundError as error:
            raise failures.missing_driver(
                error.name or "of the database", login.address.kind
            ) from None
        with self._translated():
            self._connection: Any = self._engine.connect().execution_options(
                stream_results=True, max_row_buffer=FETCH_ROWS
            )

    @property
    def syntax(self) -> SqlSyntax:
        """Return the SQL syntax of the database."""
        return syntax_of(self._login.address.kind)

    def run(
        self, statement: Statement, variables: Mapping[str, JsonValue]
    ) -> Iterator[pa.RecordBatch]:
        """Run a statement and yield its rows in batches; commit it if it is not a query."""
        values: dict[str, object] = {}

        def bind(value: JsonValue) -> str:
            name = f"dil_{len(values)}"
            values[name] = as_text(value) if isinstance(value, list | tuple | Mapping) else value
            return f":{name}"

        sql = statement.bound(variables, bind, lambda code: code.replace(":", "\\:"))
        with self._translated():
            result = self._connection.execute(self._library.text(sql), values)
            if result.returns_rows:
                yield from batches_of(list(result.keys()), result.partitions(FETCH_ROWS))
            if not statement.reads:
                self._connection.commit()

    def look_again(self) -> None:
        """Let the next query see a newer state."""
        with self._translated():
            self._connection.rollback()

    def close(self) -> None:
        """Close the connection."""
        with suppress(Exception):
            self._connection.close()
        with suppress(Exception):
            self._engine.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._library.exc.SQLAlchemyError as error:
            raise self._failure(error) from None

    def _failure(self, error: Any) -> DilError:  # an error of SQLAlchemy
        address = self._login.address
        reason = str(getattr(error, "orig", None) or error)
        lower = reason.lower()
        if any(word in lower for word in _REFUSED_WORDS):
            return failures.refused_login(address, reason)
        if getattr(error, "connection_invalidated", False) or any(
            word in lower for word in _LOST_WORDS
        ):
            return failures.lost(address, reason)
        kinds = self._library.exc
        finals = (kinds.ProgrammingError, kinds.DataError, kinds.NotSupportedError)
        is_final = isinstance(error, finals) or _ORACLE_REFUSED.search(lower)
        return (failures.refused if is_final else failures.failed)(address, reason)


def _url(library: Any, login: Login) -> Any:  # a URL of SQLAlchemy
    options = dict(login.address.options)
    driver = _DRIVERS[login.address.kind]
    host, port = options.pop("host"), int(options.pop("port"))
    database = options.pop("database", None)
    query: dict[str, str] = {}
    if login.address.kind is Kind.SQLSERVER:
        query = {"driver": _ODBC}
        if "encrypt" in options:
            query["Encrypt"] = "yes" if options["encrypt"].lower() in {"true", "strict"} else "no"
        if "trustservercertificate" in options:
            trusts = options["trustservercertificate"].lower() == "true"
            query["TrustServerCertificate"] = "yes" if trusts else "no"
    elif "service_name" in options:
        query = {"service_name": options["service_name"]}
    else:
        database = options["sid"]
    return library.URL.create(
        driver,
        username=login.user or None,
        password=login.password.reveal() if login.password else None,
        host=host,
        port=port,
        database=database,
        query=query,
    )
