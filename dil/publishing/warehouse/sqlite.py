"""SQLite: decimals are text, so that they stay exact; times are ISO 8601 text, instants in UTC."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from dil.databases.faults import Diagnosis, Fault
from dil.databases.sqlite import connect, fault_of
from dil.databases.statements import MARK, quoted, with_questions
from dil.publishing.warehouse.dialect import (
    ADVICE,
    LOCK_S,
    Connection,
    Dialect,
    Row,
    Table,
    TableColumn,
    TableName,
    Value,
    collation_clauses,
    instant_text,
)
from dil.text.warehouse_url import WarehouseAddress
from dil.types.warehouse import JSON, SQLITE_WORDS, TEXT

_TYPES = {
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "JSON": JSON,
}
# Chosen by the words in a type (SQLite documentation, "Datatypes In SQLite", 3.1).
_AFFINITIES = (
    (re.compile("INT"), pa.int64()),
    (re.compile("CHAR|CLOB|TEXT"), TEXT),
    (re.compile("BLOB"), pa.binary()),
    (re.compile("REAL|FLOA|DOUB"), pa.float64()),
)
_TABLE = f"SELECT type FROM sqlite_master WHERE name = {MARK} AND type IN ('table', 'view')"
_COLLATED = f"SELECT 1 FROM sqlite_master WHERE tbl_name = {MARK} AND sql LIKE '%collate%'"
_LAST_YEAR = 9999
_ADVICE = {
    Fault.LOCKED: "Another process holds the file; run the job again.",
    Fault.CANNOT_OPEN: "Create the folder of ms.warehouse.url, and make it writable.",
    Fault.READ_ONLY: "Give this user the right to write to the file and its folder.",
    Fault.DAMAGED: "ms.warehouse.url names a file that is damaged, or is not a SQLite database.",
    Fault.DISK_FULL: "The disk is full.",
    Fault.DUPLICATE: ADVICE[Fault.DUPLICATE],
}


class SqliteDialect(Dialect):
    """Loads by a prepared statement, in one transaction."""

    has_one_writer = True

    def __init__(self, address: WarehouseAddress) -> None:
        self._address = address

    def connect(self) -> Connection:
        """Return a connection to the file; the file is created if it is missing."""
        path = Path(self._address.path)
        connection = connect(path, mode="rwc", busy_s=LOCK_S, is_durable=True)
        # Otherwise no table can be renamed while any view of the file reads a missing table.
        connection.execute("PRAGMA legacy_alter_table = ON")
        return _Connection(connection)

    def errors(self) -> tuple[type[Exception], ...]:
        """Return SQLite's root error."""
        return (sqlite3.Error,)

    def diagnose(self, error: Exception) -> Diagnosis:
        """Return the meaning of an error by its result code, and the advice."""
        fault = fault_of(error)
        advice = _ADVICE.get(fault, "Check the file and its folder.")
        return Diagnosis(fault, " ".join(str(error).split()), advice)

    def table(self, connection: Connection, name: TableName) -> Table | None:
        """Return the table's form from the schema; SQLite itself fills a required integer key."""
        found = connection.rows(_TABLE, name.name)
        if not found:
            return None
        quoted = self.quote(name.name)
        columns = []
        described = connection.rows(f"PRAGMA table_xinfo({quoted})")
        key = {str(row[1]) for row in described if row[5]}
        for _, column, words, not_null, default, place, hidden in described:
            is_hidden = bool(hidden)
            required = bool(not_null) and default is None and not is_hidden
            data_type = None if is_hidden else _type_of(str(words))
            # A key of one INTEGER is the row's number, which SQLite generates if it is null.
            is_number = bool(place) and len(key) == 1 and str(words).upper() == "INTEGER"
            takes_null = not not_null and not is_number
            columns.append(
                TableColumn(
                    str(column), data_type, str(words), None, required, takes_null, is_hidden
                )
            )
        unique = {frozenset(key)} if key else set()
        unique |= {frozenset(each) for each in self._unique_indexes(connection, name)}
        problem = "" if found[0][0] == "table" else "is no table that rows can be loaded into"
        return Table(tuple(columns), frozenset(unique), problem)

    def merge_keys(
        self, connection: Connection, table: TableName, keys: Sequence[str]
    ) -> Mapping[str, str]:
        """Return the key with the collations of its unique index, if the table has any collation.

        The clauses are left out if they are not needed, because with them a delete by several
        columns reads every row of the table.
        """
        if not connection.rows(_COLLATED, table.name):
            return dict.fromkeys(keys, "")
        wanted, found = [key.lower() for key in keys], set()
        for each in self._unique_indexes(connection, table):
            collations = {name.lower(): collation for name, collation in each.items()}
            if collations.keys() == set(wanted):
                found.add(tuple(collations[key] for key in wanted))
        return collation_clauses(table, keys, found)

    def _unique_indexes(self, connection: Connection, table: TableName) -> list[dict[str, str]]:
        """Return the unique indexes over all rows, each as the collations of its columns."""
        found = []
        listed = connection.rows(f"PRAGMA index_list({self.quote(table.name)})")
        for _, index, is_unique, _, is_partial in listed:
            if is_unique and not is_partial:
                parts = connection.rows(f"PRAGMA index_xinfo({self.quote(str(index))})")
                found.append({str(part[2]): str(part[4]) for part in parts if part[5]})
        return found

    def type_words(self, data_type: pa.DataType, *, is_key: bool) -> str:
        """Return the type's name; SQLite's numbers would round decimals."""
        del is_key
        return "TEXT" if pt.is_decimal(data_type) else SQLITE_WORDS.get(data_type, "")

    def widen(
        self, table: TableName, column: str, words: str, attributes: str | None = None
    ) -> str:
        """Return an empty text, because SQLite cannot change a column."""
        del table, column, words, attributes
        return ""

    def same(self, left: str, right: str) -> str:
        """Return the condition of SQLite."""
        return f"{left} IS {right}"

    def comparable(self, value: str, column: TableColumn) -> str:
        """Return text that is compared by its bytes."""
        return f"{value} COLLATE BINARY" if column.type == TEXT else value

    def kept(self, data_type: pa.DataType) -> pa.DataType:
        """Return the reported type: one kind of integers, one of fractions, decimals as text."""
        if pt.is_integer(data_type):
            return pa.int64()
        if pt.is_floating(data_type):
            return pa.float64()
        return TEXT if pt.is_decimal(data_type) else data_type

    def refusal(self, column: TableColumn, values: pa.Array) -> str:
        """Return why values are refused, else an empty text; SQLite would store NaN as null."""
        del column
        if pt.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            return "holds NaN, which SQLite keeps as null"
        return ""

    def unordered(self, values: pa.Array) -> str:
        """Return why times are refused if their texts do not sort by time, else an empty text."""
        if not (pt.is_date(values.type) or pt.is_timestamp(values.type)):
            return ""
        years = pc.min_max(pc.year(values)).as_py()
        if years["min"] is None or (years["min"] >= 0 and years["max"] <= _LAST_YEAR):
            return ""
        return (
            "holds a time outside of the years 0 to 9999: SQLite stores times as text, so it"
            " cannot find the newer row"
        )

    def index_winners(self, keys: str) -> Sequence[str]:
        """Return the index that finds winners by key."""
        return (f"CREATE UNIQUE INDEX temp.dil_winners_key ON dil_winners ({keys})",)

    def index(self, table: TableName, column: str) -> str:
        """Return the statement for an index of the whole text."""
        name = self.quote(f"{table.name}_{column}")
        return f"CREATE INDEX IF NOT EXISTS {name} ON {self.full(table)} ({self.quote(column)})"

    def instant(self, milliseconds: int) -> str:
        """Return the text of an instant, in the form of loaded times."""
        return f"'{instant_text(milliseconds)}Z'"


class _Connection(Connection):
    """One SQLite connection; statements begin its transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def begin(self) -> None:
        """Begin as the only writer, so that the rows that were read do not change."""
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Commit; the changes are on disk."""
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Roll back."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def change(self, statement: str, *values: Value) -> int:
        """Run a statement; return the number of changed rows."""
        return self._connection.execute(with_questions(statement), values).rowcount

    def rows(self, statement: str, *values: Value) -> list[Row]:
        """Return rows."""
        return self._connection.execute(with_questions(statement), values).fetchall()

    def load(
        self, table: TableName, columns: Sequence[TableColumn], batches: Iterable[pa.RecordBatch]
    ) -> None:
        """Insert rows by one prepared statement."""
        names = ", ".join(quoted(each.name) for each in columns)
        places = ", ".join("?" for _ in columns)
        statement = f"INSERT INTO {quoted(table.name)} ({names}) VALUES ({places})"
        for batch in batches:
            lists = (_values(values).to_pylist() for values in batch.columns)
            self._connection.executemany(statement, zip(*lists, strict=True))

    def close(self) -> None:
        """Close the file."""
        with suppress(sqlite3.Error):
            self._connection.close()


def _values(values: pa.Array) -> pa.Array:
    """Return values in the form that SQLite stores."""
    kinds = (pt.is_decimal, pt.is_date, pt.is_time, pt.is_timestamp)
    return values.cast(TEXT) if any(matches(values.type) for matches in kinds) else values


def _type_of(words: str) -> pa.DataType | None:
    upper = words.upper()
    if upper in _TYPES:
        return _TYPES[upper]
    return next((kept for pattern, kept in _AFFINITIES if pattern.search(upper)), None)
