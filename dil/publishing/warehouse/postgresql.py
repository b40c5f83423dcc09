"""PostgreSQL 12 and newer, through ADBC: its binary COPY takes Arrow batches directly.

psycopg could not share a transaction with ADBC, so all statements go through ADBC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from dil.databases import postgresql
from dil.databases.faults import Diagnosis, Fault
from dil.databases.statements import MARK, with_numbers
from dil.publishing.warehouse.dialect import (
    ADVICE,
    CONNECT_S,
    IDLE_S,
    LOCK_S,
    PROPERTIES,
    Connection,
    Dialect,
    Row,
    Table,
    TableColumn,
    TableName,
    Value,
    are_outside,
    collation_clauses,
    reader_of,
)
from dil.publishing.warehouse.rows import SIGNATURE
from dil.text.warehouse_url import WarehouseAddress
from dil.types.lattice import decimal_type
from dil.types.warehouse import JSON, POSTGRESQL_WORDS, TEXT

_TYPES = {words: data_type for data_type, words in POSTGRESQL_WORDS.items()} | {"json": JSON}
_LIMITED = re.compile(r"character varying\((\d+)\)|character varying")
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)|numeric")
_MOST_DIGITS = 76
_NAME_BYTES = 63
# First and last values, in days and microseconds since 1970 (PostgreSQL manual, 8.5).
_DAYS = (-2_440_588, 2_145_031_948)
_MICROSECONDS = (-210_866_803_200_000_000, 9_223_371_331_199_999_999)
_ADVICE = {
    **postgresql.advice(PROPERTIES),
    **ADVICE,
    Fault.DENIED: "Grant the user the right: GRANT USAGE, CREATE ON SCHEMA name TO user, and on"
    " the table GRANT SELECT, INSERT, UPDATE, DELETE.",
    Fault.DOES_NOT_FIT: "A text is too long for its column; give the column the type text.",
}
_OTHER_ENCODING = (
    "The database's encoding lacks this character. If the next run cannot finish the publish, give"
    " it up: dil runs abandon JOB.conf --yes. Then load into a database with ENCODING 'UTF8', or"
    " replace the character at the source."
)
# PostgreSQL 11 and newer.
# For one transaction, because a pooler may give the session to another client after it.
_SETTINGS = (
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;"
    f" SET LOCAL lock_timeout = '{LOCK_S}s';"
    f" SET LOCAL idle_in_transaction_session_timeout = '{IDLE_S}s';"
    " SET LOCAL client_min_messages = 'error'"
)
_HASH = "hashtextextended({}, 0)"
_NOISE = re.compile(r"\s*(?:Query was: .*)?\.?\s*SQLSTATE: .*$", re.DOTALL)

_SCHEMA = f"SELECT 1 FROM pg_namespace WHERE nspname = {MARK}"
_COLUMNS = f"""
SELECT a.attname, format_type(a.atttypid, a.atttypmod),
       a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND a.attgenerated = '', c.relkind::text,
       NOT a.attnotnull, a.attgenerated <> '', a.attidentity = 'a',
       CASE WHEN c.relkind = 'r' THEN
         (SELECT MIN(h.inhrelid::regclass::text) FROM pg_inherits h WHERE h.inhparent = c.oid) END,
       (SELECT ' COLLATE ' || quote_ident(s.nspname) || '.' || quote_ident(o.collname)
        FROM pg_collation o JOIN pg_namespace s ON s.oid = o.collnamespace
        WHERE o.oid = a.attcollation AND o.collname <> 'default')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE n.nspname = {MARK} AND c.relname = {MARK} AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
ORDER BY a.attnum"""  # noqa: E501
# Only a nondeterministic collation takes different texts for equal.
_UNIQUE = f"""
SELECT i.indexrelid::bigint, a.attname, quote_ident(s.nspname) || '.' || quote_ident(k.collname),
  k.collisdeterministic, own.collisdeterministic
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN unnest(i.indkey::smallint[], i.indcollation::oid[]) AS part (number, compared)
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = part.number
LEFT JOIN pg_collation k ON k.oid = part.compared
LEFT JOIN pg_namespace s ON s.oid = k.collnamespace
LEFT JOIN pg_collation own ON own.oid = a.attcollation
WHERE n.nspname = {MARK} AND c.relname = {MARK} AND i.indisunique AND i.indisvalid
  AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
  AND part.compared IS NOT NULL"""


@lru_cache(maxsize=8)
def _opened(conninfo: str) -> postgresql.AdbcDatabase:
    """Return the database, one for all steps of a process: they read only built-in types."""
    return postgresql.AdbcDatabase(conninfo)


class PostgresqlDialect(Dialect):
    """Loads by binary COPY, in the transaction of all other statements."""

    folds_case = False
    overriding = "OVERRIDING SYSTEM VALUE "

    def __init__(self, address: WarehouseAddress) -> None:
        self._address = address

    def connect(self) -> Connection:
        """Return an open connection with limited waiting."""
        return _Connection(self._database.connect())

    @cached_property
    def _database(self) -> postgresql.AdbcDatabase:
        server = self._address.server
        if server is None:
            raise TypeError("the address is the address of a file")
        given = postgresql.arguments(server, connect_s=CONNECT_S)
        return _opened(postgresql.conninfo(given))

    def errors(self) -> tuple[type[Exception], ...]:
        """Return the driver manager's root error."""
        return postgresql.errors()

    def diagnose(self, error: Exception) -> Diagnosis:
        """Return the error's meaning, found by its SQLSTATE or its text, and the advice."""
        state = getattr(error, "sqlstate", None)
        text = " ".join(_NOISE.sub("", str(error)).split()).rpartition("ERROR: ")[2].strip()
        fault = postgresql.fault_of(state, text)
        is_of_driver = postgresql.is_refused_by_driver(error) and "connect" not in text
        if not state and fault is not Fault.LOST and is_of_driver:
            fault = Fault.OTHER  # Another connection would not help.
        if "has no equivalent in encoding" in text:
            return Diagnosis(fault, text, _OTHER_ENCODING)
        if "Postgres type with oid 0" in text:
            return Diagnosis(fault, text, postgresql.UNQUOTED)
        return Diagnosis(fault, text, _ADVICE.get(fault, _ADVICE[Fault.OTHER]))

    def table(self, connection: Connection, name: TableName) -> Table | None:
        """Return the table's form from the catalogue."""
        found = connection.rows(_COLUMNS, name.schema, name.name)
        if not found:
            return None
        unique: dict[object, set[str]] = {}
        for index, column, *_ in connection.rows(_UNIQUE, name.schema, name.name):
            unique.setdefault(index, set()).add(str(column))
        is_table = found[0][3] in {"r", "p"}
        return Table(
            tuple(
                replace(
                    _column(str(column), str(words), is_required=bool(required)),
                    takes_null=bool(nullable),
                    is_computed=bool(computed),
                    is_fixed=bool(fixed),
                    attributes=str(collation or ""),
                )
                for column, words, required, _, nullable, computed, fixed, _, collation in found
                if column is not None
            ),
            frozenset(map(frozenset, unique.values())),
            "" if is_table else "is no table that rows can be loaded into",
            str(found[0][7] or ""),
        )

    def merge_keys(
        self, connection: Connection, table: TableName, keys: Sequence[str]
    ) -> Mapping[str, str]:
        """Return the key with the collations of its unique index, if texts may be equal by them."""
        indexes: dict[object, dict[str, Row]] = {}
        for index, column, *collations in connection.rows(_UNIQUE, table.schema, table.name):
            indexes.setdefault(index, {})[str(column)] = tuple(collations)
        of_key = [
            [each[key] for key in keys] for each in indexes.values() if each.keys() == {*keys}
        ]
        if not any(False in part for parts in of_key for part in parts):
            return dict.fromkeys(keys, "")
        found = {tuple(str(name) if name else "" for name, *_ in parts) for parts in of_key}
        return collation_clauses(table, keys, found)

    def type_words(self, data_type: pa.DataType, *, is_key: bool) -> str:
        """Return the type's name."""
        del is_key
        if pt.is_decimal(data_type):
            return f"numeric({data_type.precision},{data_type.scale})"
        return POSTGRESQL_WORDS.get(data_type, "")

    def widen(
        self, table: TableName, column: str, words: str, attributes: str | None = None
    ) -> str:
        """Return an ALTER COLUMN TYPE; it is part of the transaction."""
        type_words = f"{words}{attributes or ''}"
        return f"ALTER TABLE {self.full(table)} ALTER COLUMN {self.quote(column)} TYPE {type_words}"

    def same(self, left: str, right: str) -> str:
        """Return the condition of standard SQL."""
        return f"{left} IS NOT DISTINCT FROM {right}"

    def comparable(self, value: str, column: TableColumn) -> str:
        """Return null for NaN, which would be the greatest number, and text without a language."""
        if column.type == TEXT:
            return f'{value} COLLATE "C"'
        has_nan = pt.is_floating(column.type) or pt.is_decimal(column.type)
        return f"NULLIF({value}, 'NaN')" if has_nan else value

    def refusal(self, column: TableColumn, values: pa.Array) -> str:
        """Return why NUL in text and times that are out of range are refused."""
        if column.type == TEXT and _any(pc.match_substring(values, "\0")):
            return "holds text with the character NUL, which PostgreSQL cannot store"
        if column.type == JSON and _any(pc.match_substring(values, r"\u0000")):
            return "holds text with the character NUL, which PostgreSQL cannot store"
        if (pt.is_date32(values.type) and are_outside(values.cast(pa.int32()), _DAYS)) or (
            pt.is_timestamp(values.type) and are_outside(values.cast(pa.int64()), _MICROSECONDS)
        ):
            return "holds a time that PostgreSQL cannot store"
        return ""

    def missing_right(self, connection: Connection, name: TableName, rights: Sequence[str]) -> str:
        """Return the statement that grants the missing rights; the server shows them."""
        schema = name.schema
        exists = connection.rows(_SCHEMA, schema)
        if not exists:
            may = connection.rows("SELECT has_database_privilege(current_database(), 'CREATE')")
            return "" if may[0][0] else "GRANT CREATE ON DATABASE name TO user"
        may = connection.rows(f"SELECT has_schema_privilege({MARK}, 'USAGE, CREATE')", schema)
        if not may[0][0]:
            return f"GRANT USAGE, CREATE ON SCHEMA {self.quote(schema)} TO user"
        full = self.full(name)
        if connection.rows(f"SELECT to_regclass({MARK}) IS NULL", full)[0][0]:
            return ""
        lacking = [
            right
            for right in rights
            if not connection.rows(f"SELECT has_table_privilege({MARK}, {MARK})", full, right)[0][0]
        ]
        return f"GRANT {', '.join(lacking)} ON {full} TO user" if lacking else ""

    def make_schema(self, connection: Connection, schema: str) -> None:
        """Create a schema; if it exists, the user needs no right to create one."""
        if schema and not connection.rows(_SCHEMA, schema):
            super().make_schema(connection, schema)

    def holds_name(self, column: str) -> bool:
        """Return whether PostgreSQL keeps the whole name of a column."""
        return len(column.encode()) <= _NAME_BYTES

    def index_winners(self, keys: str) -> Sequence[str]:
        """Return the statement that lets the planner know the number of winners."""
        del keys
        return ("ANALYZE dil_winners",)

    def index(self, table: TableName, column: str) -> str:
        """Return a plain index of hashes: texts may be long, and many rows have the same text.

        An insert into a hash index takes the longer, the more rows have an equal text.
        """
        return f"CREATE INDEX ON {self.full(table)} ({_HASH.format(self.quote(column))})"

    def any_of(self, column: str, values: Sequence[str]) -> tuple[str, Sequence[str]]:
        """Return the condition, with the hashes by which the index finds the texts."""
        condition, given = super().any_of(column, values)
        if column != SIGNATURE:
            return condition, given
        hashes = ", ".join(_HASH.format(MARK) for _ in values)
        hashed = f"{_HASH.format(self.quote(column))} IN ({hashes})"
        return f"{hashed} AND {condition}", (*values, *given)

    def temporary(self, name: str, clause: str, select: str) -> str:
        """Return the statement; the table is dropped when the transaction ends."""
        del clause
        return f"CREATE TEMPORARY TABLE {name} ON COMMIT DROP AS {select}"

    def lock(self, connection: Connection, table: TableName) -> None:
        """Lock out writers, so that the compared rows are the replaced rows."""
        connection.change(f"LOCK TABLE {self.full(table)} IN SHARE ROW EXCLUSIVE MODE")


class _Connection(Connection):
    """One ADBC connection; outside of a transaction each statement is a transaction of its own.

    ADBC prepares a statement before it runs the statement. Without a transaction, a pooler may run
    it on another connection to the server, which has prepared another statement.
    """

    def __init__(self, connection: Any) -> None:  # untyped driver
        self._connection = connection
        self._is_begun = False

    def begin(self) -> None:
        """Begin a transaction; before that each statement committed by itself."""
        self._is_begun = True
        self._connection.adbc_connection.set_autocommit(False)
        with self._connection.cursor() as cursor:
            # Without preparing it, so that the server gets all in one message.
            cursor.adbc_statement.set_sql_query(_SETTINGS)
            cursor.adbc_statement.execute_update()

    def commit(self) -> None:
        """Commit."""
        self._connection.adbc_connection.commit()
        self._end()

    def rollback(self) -> None:
        """Roll back."""
        self._connection.adbc_connection.rollback()
        self._end()

    def _end(self) -> None:
        """Return to autocommit; the driver then commits an open transaction."""
        self._connection.adbc_connection.set_autocommit(True)
        self._is_begun = False

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """Yield a cursor; unless a transaction was begun, commit at the end."""
        is_own = not self._is_begun
        if is_own:
            self.begin()
        with self._connection.cursor() as cursor:
            yield cursor
        if is_own:
            self._end()

    def change(self, statement: str, *values: Value) -> int:
        """Run a statement; return the number of changed rows, right only if values are given."""
        with self._cursor() as cursor:
            if not values:
                cursor.execute(statement)
            else:
                cursor.executemany(with_numbers(statement), [values])
            return int(cursor.rowcount)

    def rows(self, statement: str, *values: Value) -> list[Row]:
        """Return rows; ADBC reads them by COPY."""
        with self._cursor() as cursor:
            cursor.execute(with_numbers(statement), values or None)
            return list(cursor.fetchall())

    def load(
        self, table: TableName, columns: Sequence[TableColumn], batches: Iterable[pa.RecordBatch]
    ) -> None:
        """Copy batches in; the binary form of jsonb begins with its version number."""
        schema = pa.schema([(each.name, _wire_type(each)) for each in columns])
        names = {"temporary": True} if table.is_temporary else {"db_schema_name": table.schema}
        wire = _wire(batches, columns, schema)
        with reader_of(schema, wire) as reader, self._cursor() as cursor:
            cursor.adbc_ingest(table.name, reader, mode="append", **names)

    def close(self) -> None:
        """Close the connection; the server rolls back an open transaction."""
        with suppress(Exception):
            self._connection.close()


def _column(name: str, words: str, *, is_required: bool) -> TableColumn:
    limited, numeric = _LIMITED.fullmatch(words), _NUMERIC.fullmatch(words)
    if limited:
        limit = int(limited[1]) if limited[1] else None
        return TableColumn(name, TEXT, words, limit, is_required)
    data_type = _TYPES.get(words)
    if numeric:
        data_type = _numeric(numeric)
    return TableColumn(name, data_type, words, None, is_required)


def _numeric(match: re.Match[str]) -> pa.DataType | None:
    """Return the decimal type; a numeric without bounds gets the widest decimal of Arrow."""
    if match[1] is None:
        return decimal_type(_MOST_DIGITS, _MOST_DIGITS // 2)
    precision, scale = int(match[1]), int(match[2])
    return decimal_type(precision, scale) if 0 <= scale <= precision <= _MOST_DIGITS else None


def _wire_type(column: TableColumn) -> pa.DataType:
    if column.type == JSON:
        return pa.binary() if column.words == "jsonb" else pa.string()
    return column.type


def _wire(
    batches: Iterable[pa.RecordBatch], columns: Sequence[TableColumn], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        arrays = [
            pc.binary_join_element_wise(pa.scalar("\x01"), values, "").cast(pa.binary())
            if column.words == "jsonb"
            else values
            for column, values in zip(columns, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _any(found: pa.Array) -> bool:
    return bool(pc.any(found).as_py())
