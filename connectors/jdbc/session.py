"""Yields the rows of one attempt in types that keep the values exactly.

``JdbcSession`` runs the statements itself; ``SparkRows`` takes the rows that Spark has read.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.address import AddressError
from connectors.jdbc.address import JdbcAddress, filled_address, read_address
from connectors.jdbc.connections import KeptConnection, connect, connection_of_thread
from connectors.jdbc.cursor import KeyWatch, key_part, may_be_no_text, with_keys
from connectors.jdbc.engine import BATCH_BYTES, BATCH_ROWS, Login, SourceConnection
from connectors.jdbc.failures import RefusedError
from connectors.jdbc.local_times import refuse_as_instants
from connectors.jdbc.settings import JdbcSettings
from connectors.jdbc.shape import ResultShape
from connectors.jdbc.spark_reader import READER
from connectors.jdbc.splitting import narrowed, no_even_ranges, ranges_of, refuse_unknown
from connectors.jdbc.statement import Statement, names_in, parsed_statement
from connectors.jdbc.syntax import SqlSyntax, syntax_of
from connectors.jdbc.ties import TieWatch
from dil.errors import ConfigError, SourceError
from dil.model.json import JsonObject, JsonValue, as_text
from dil.secrets import learn
from dil.spi.connector import RequestValues, RowSession
from dil.spi.request_view import RequestView
from dil.spi.shared import Shared

if TYPE_CHECKING:
    import pyarrow as pa

_LOG = logging.getLogger(__name__)


class JdbcSession(RowSession):
    """Runs the statement once for each page, over one connection, in one transaction.

    The session connects for the first request, unless an earlier session of this thread left its
    connection in ``shared``. ``location`` is the database's address without user, password and
    options; it is empty before the first request. ``times_ahead`` are the parameters that would be
    in the future if the database read them in UTC.
    """

    def __init__(
        self,
        settings: JdbcSettings,
        shared: Shared | None = None,
        times_ahead: Iterable[str] = (),
    ) -> None:
        self._settings = settings
        self._shared = shared
        self._times_ahead = tuple(times_ahead)
        self.location = ""
        self._connection: SourceConnection | None = None
        self._kept: KeptConnection | None = None
        self._is_whole = False
        self._key_kind: type | None = None
        self._last_key: JsonObject | None = None
        self._ties: TieWatch | None = None
        self._rows: Iterator[pa.RecordBatch] | None = None
        self._asked: list[tuple[str, str]] | None = None

    def close(self) -> None:
        """Close the connection, and the last page's result if it was not read to its end.

        A caller must always call ``close``: DuckDB waits for ever for a file that an earlier reader
        of this process still has open. If all rows were read, the connection may stay open for the
        next session of this thread.
        """
        if isinstance(self._rows, Generator):
            self._rows.close()
        if self._kept is not None:
            self._kept.give_back(is_usable=self._is_whole)
        elif self._connection is not None:
            self._connection.close()

    def describe(self, values: RequestValues) -> RequestView:
        """Return the statement with its values as literals, and the address of its database.

        Raises:
            ConfigError: see ``read``.
        """
        settings, known = self._settings, self._with_keys(values)
        address = _address(settings, known)
        statement = _statement_of(settings, syntax_of(address.kind))
        return RequestView("query", str(address), text=statement.bound(known, _literal))

    def read(self, values: RequestValues) -> Iterator[pa.RecordBatch]:
        """Run the statement with the values of a request and yield its rows in batches.

        If the statement has the same values as on the page before, it would return the same rows.
        This method then does not run it again: the page is empty, and this ends the walk (rule
        G24). If the job waits for a condition, the statement does run again.

        Raises:
            TransientSourceError: the server is gone, or was too slow.
            AuthenticationError: the server refused the user.
            SourceContractError: no type holds a value exactly, the columns contradict the job, or
                the database would read a local time as one of the future.
            SourceError: the server refused the statement.
            ConfigError: the address or the statement is wrong, or a variable has no value.
        """
        settings = self._settings
        known = self._with_keys(values)
        asked = sorted((name, repr(known.get(name))) for name in names_in(settings.statement))
        is_repeated, self._asked = asked == self._asked, asked
        if is_repeated and not settings.is_polling:
            _LOG.warning(
                "the statement requests no other page; all its rows came with the first one"
            )
            return
        connection = self._connection = self._connection or self._connected(known)
        statement = _statement_of(settings, connection.syntax)
        self._is_whole = False
        if self._times_ahead:
            refuse_as_instants(connection, statement, known, self._times_ahead)
            self._times_ahead = ()
        watch = KeyWatch(settings.key_columns, settings.page_size(known), self._last_key)
        shape = ResultShape(settings)
        self._rows = connection.run(statement, known)
        for batch in self._rows:
            shaped = shape.shaped(batch)
            self.left_out = shape.left_out
            for part in _parts(shaped):
                watch.see(part)
                yield part
        watch.check()
        if watch.leads_on and watch.last:
            last = {shape.origins[name]: value for name, value in watch.last.items()}
            if self._ties is None:
                kind = _address(settings, known).kind
                self._ties = TieWatch(connection, kind, settings.cursors)
            self._ties.refuse(statement, known, last)
        self._key_kind = watch.kind
        self._last_key = watch.last or self._last_key
        if settings.is_polling:
            connection.look_again()
        self._is_whole = True

    def _with_keys(self, values: RequestValues) -> dict[str, JsonValue]:
        """Return the variables; cursors get the type of the previous page's keys.

        If this attempt continues an earlier attempt, the type is not known. PostgreSQL and DuckDB
        convert a text to the type of the value that they compare it with; the other databases would
        compare both as texts.

        Raises:
            SourceError: the type matters and is not known, so the walk starts over.
        """
        settings = self._settings
        ends = {f"range.{name}": key_part(end) for name, end in (settings.part or {}).items()}
        variables = {**values.variables, **ends}
        cursors = [variables.get(name) for name in settings.cursors]
        if (
            values.page
            and self._key_kind is None
            and len(settings.key_columns) == 1
            and any(map(may_be_no_text, cursors))
            and not _address(settings, variables).kind.adapts_texts
        ):
            raise SourceError(
                "the kind of the session key is not known from an earlier attempt",
                "You need not do anything: the next attempt reads from the first page.",
            )
        return with_keys(variables, settings.cursors, settings.key_columns, kind=self._key_kind)

    def _connected(self, known: dict[str, JsonValue]) -> SourceConnection:
        """Return a connection; share it with later sessions if this session leaves no trace in it.

        Pools of connections do the same: they end the transaction and reuse the session.
        """
        login = _login(self._settings, known)
        self.location = str(login.address)
        syntax = syntax_of(login.address.kind)
        if (
            self._shared is not None
            and login.is_read_only
            and parsed_statement(self._settings.statement, syntax).ends_with_transaction
        ):
            kept = connection_of_thread(self._shared)
            if (connection := kept.take(login)) is not None:
                self._kept = kept
                return connection
        return connect(login)


class SparkRows(RowSession):
    """Yields, as one page, the rows that Spark reads, with the job's columns and names."""

    def __init__(self, settings: JdbcSettings, rows: Iterator[pa.RecordBatch] | None) -> None:
        if rows is None:
            raise ConfigError.single(
                READER,
                "is spark, and only a run reads with Spark",
                f"Use `dil run`; or add -D {READER}=driver if there is a Python driver for the"
                " database.",
            )
        self._shape = ResultShape(settings)
        self._rows = rows

    def read(self, values: RequestValues) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches; Spark's statement already contains the request's values.

        Raises:
            SourceContractError: the columns contradict the job.
            TransientSourceError: fewer rows came than Spark read.
        """
        del values
        for batch in self._rows:
            shaped = self._shape.shaped(batch)
            self.left_out = self._shape.left_out
            yield shaped


def key_ranges(settings: JdbcSettings, count: int, *, by_quantile: bool) -> list[JsonObject]:
    """Return the ranges of the split column as units.

    Raises:
        SourceError: the database does not answer the query.
        SourceContractError: the column cannot be cut into ranges.
        ConfigError: the statement has no such column.
    """
    login, column = _login(settings, {}), settings.split_column
    try:
        with closing(connect(login)) as connection:
            sql = parsed_statement(settings.statement, connection.syntax).template
            return ranges_of(connection, sql, column, count, by_quantile=by_quantile)
    except RefusedError as error:
        has_column = False
        # A new connection, because some databases refuse queries after an error.
        with suppress(SourceError), closing(connect(login)) as connection:
            sql = parsed_statement(settings.statement, connection.syntax).template
            refuse_unknown(connection, sql, column)
            has_column = True
        # A type may have no min, as uuid in PostgreSQL; other errors are of the statement.
        if has_column and not by_quantile and "min(" in error.message:
            raise no_even_ranges(column) from error
        raise


def _address(settings: JdbcSettings, known: dict[str, JsonValue]) -> JdbcAddress:
    """Return the address with the values of its variables.

    Raises:
        ConfigError: a variable has no value, or the text is no address of a database.
    """
    try:
        text = filled_address(settings.uri, known, settings.hosts)
        return read_address(text)
    except AddressError as error:
        raise ConfigError.single("ms.source.uri", error.what, error.fix) from None


def _login(settings: JdbcSettings, known: dict[str, JsonValue]) -> Login:
    address = _address(settings, known)
    if address.password is not None:
        learn(address.password)  # All messages mask it from now on.
    return Login(
        address,
        settings.user or address.user,
        settings.password or address.password,
        folder=Path(settings.folder),
        nulls_dates=settings.nulls_dates,
        is_read_only=settings.is_read_only,
        memory_bytes=settings.memory_bytes,
    )


def _statement_of(settings: JdbcSettings, syntax: SqlSyntax) -> Statement:
    """Return the job's statement, narrowed to the range of keys that the work unit reads."""
    whole = parsed_statement(settings.statement, syntax)
    if settings.part is None:
        return whole
    return parsed_statement(
        narrowed(syntax, whole.template, settings.split_column, settings.part), syntax
    )


def _literal(value: JsonValue) -> str:
    """Return a value as an SQL literal for people to read; the real statement binds it."""
    if value is None:
        return "NULL"
    text = as_text(value)
    is_text = isinstance(value, str | Mapping | Sequence)
    return "'" + text.replace("'", "''") + "'" if is_text else text


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts of bounded size; the parts share the memory of the batch."""
    rows = BATCH_ROWS
    if batch.num_rows and batch.nbytes > 4 * BATCH_BYTES:
        rows = min(rows, max(1, batch.num_rows * 4 * BATCH_BYTES // batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
