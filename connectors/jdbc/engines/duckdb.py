"""DuckDB through its own driver, which returns Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from connectors.jdbc import failures
from connectors.jdbc.columns import DecimalColumn, distinct
from connectors.jdbc.engine import FETCH_ROWS, Login, SourceConnection
from connectors.jdbc.statement import Statement
from connectors.jdbc.syntax import Kind, SqlSyntax, syntax_of
from dil.databases.duckdb import DuckdbSession, driver, fault_of
from dil.databases.duckdb import connect as open_database
from dil.databases.faults import Fault
from dil.model.json import JsonValue, as_text

if TYPE_CHECKING:
    import pyarrow as pa

_SYNTAX = syntax_of(Kind.DUCKDB)
_WHOLE = ("HUGEINT", "UHUGEINT", "BIGNUM")
_AS_TEXT = ("INTERVAL", "UUID", "BIT", "TIME WITH TIME ZONE", "TIME_NS", "TIMESTAMP_NS", "UNION")


class DuckdbConnection(SourceConnection):
    """One connection, in one transaction from the first query to the end."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._session: DuckdbSession | None = None
        try:
            self._driver: Any = driver()
        except ModuleNotFoundError:
            raise failures.missing_driver("duckdb", "duckdb") from None

    @property
    def syntax(self) -> SqlSyntax:
        """Return the SQL syntax of DuckDB."""
        return _SYNTAX

    def run(
        self, statement: Statement, variables: Mapping[str, JsonValue]
    ) -> Iterator[pa.RecordBatch]:
        """Run a statement and yield its rows in batches; commit it if it is not a query."""
        values: list[object] = []

        def bind(value: JsonValue) -> str:
            values.append(as_text(value) if isinstance(value, dict) else value)
            return "?"

        sql = statement.bound(variables, bind)
        with self._translated():
            session = self._opened(reads=statement.reads)
            connection = session.connection
            if statement.is_query:
                described = session.run(
                    lambda: connection.execute(f"DESCRIBE {sql}", values).fetchall()
                )
                plan = _Plan(described)
                query = plan.rewritten(sql)
                relation = session.run(lambda: connection.sql(query, params=values or None))
                for batch in session.run(lambda: relation.to_arrow_reader(FETCH_ROWS)):
                    yield plan.read(batch)
            elif statement.reads:
                relation = session.run(lambda: connection.sql(sql, params=values or None))
                distinct(list(relation.columns))
                yield from session.run(lambda: relation.to_arrow_reader(FETCH_ROWS))
            else:
                session.run(lambda: connection.execute(sql, values))
                session.run(connection.commit)
                session.run(connection.begin)

    def look_again(self) -> None:
        """End the transaction, so that the next query sees a newer state if the file changed."""
        with self._translated():
            session = self._opened(reads=True)
            session.run(session.connection.rollback)
            session.run(session.connection.begin)

    def close(self) -> None:
        """Close the file."""
        if self._session is not None:
            self._session.close()

    def _opened(self, *, reads: bool) -> DuckdbSession:
        if self._session is not None:
            return self._session
        path = str(self._login.path) if self._login.address.path else ":memory:"
        is_read_only = reads and self._login.is_read_only and path != ":memory:"
        if path != ":memory:" and not self._login.path.exists():
            raise failures.failed(
                self._login.address, "there is no such file",
                "Put the file that ms.source.uri names on the machines that run tasks.",
            )  # fmt: skip
        settings = {"autoinstall_known_extensions": "false"}
        # Beyond this limit DuckDB uses the disk; the other half of the memory is for rows.
        if self._login.memory_bytes:
            settings["memory_limit"] = f"{self._login.memory_bytes // 2 // 1024}KiB"
        self._session = DuckdbSession(open_database(path, is_read_only=is_read_only, **settings))
        self._session.run(self._session.connection.begin)
        return self._session

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._driver.OutOfMemoryException as error:
            raise MemoryError(str(error)) from None
        except (self._driver.Error, OSError) as error:
            reason = str(error).partition("\nLINE ")[0]
            fixes = {Fault.IO: "Check the file that ms.source.uri names."}
            raise failures.failure_for(
                fault_of(error), self._login.address, reason, fixes
            ) from None


class _Plan:
    """The query of one result: columns become text if Arrow has no type for them."""

    def __init__(self, described: list[tuple[Any, ...]]) -> None:
        self._names = distinct([row[0] for row in described])
        words = [str(row[1]) for row in described]
        self._texts = {
            name
            for name, word in zip(self._names, words, strict=True)
            if any(part in word for part in (*_WHOLE, *_AS_TEXT))
        }
        self._wholes = {
            name: DecimalColumn(None, 0)
            for name, word in zip(self._names, words, strict=True)
            if word in _WHOLE
        }

    def rewritten(self, sql: str) -> str:
        """Return the query with the casts that its columns need; unchanged if they need none."""
        if not self._texts:
            return sql
        quoted = [(_SYNTAX.quoted(name), name in self._texts) for name in self._names]
        wanted = ", ".join(
            f"q.{name}::VARCHAR AS {name}" if is_text else f"q.{name}" for name, is_text in quoted
        )
        return f"SELECT {wanted} FROM (\n{sql}\n) AS q\n"  # noqa: S608

    def read(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch in which whole numbers beyond 64 bits are decimals."""
        import pyarrow as pa

        columns = [
            self._wholes[name].read(column) if name in self._wholes else column
            for name, column in zip(self._names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=self._names)
