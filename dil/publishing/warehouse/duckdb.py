"""DuckDB: one file, which only one process at a time may open for writing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt

from dil.databases.duckdb import DuckdbSession, connect, driver, fault_of
from dil.databases.faults import Diagnosis
from dil.databases.statements import MARK, quoted, with_questions
from dil.publishing.warehouse.dialect import (
    BUSY,
    Connection,
    Dialect,
    Row,
    Table,
    TableColumn,
    TableName,
    Value,
    reader_of,
)
from dil.text.warehouse_url import WarehouseAddress
from dil.types.lattice import decimal_type
from dil.types.warehouse import DUCKDB_WORDS, JSON, TEXT

_TYPES = {words: data_type for data_type, words in DUCKDB_WORDS.items()}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_MOST_DIGITS = 38
# From DuckDB's own tables: the views of the information schema take twice as long.
_COLUMNS = f"""
SELECT column_name, data_type, NOT is_nullable AND column_default IS NULL,
  table_oid IN (SELECT table_oid FROM duckdb_tables() WHERE database_name = current_database()),
  is_nullable
FROM duckdb_columns()
WHERE database_name = current_database() AND schema_name = {MARK} AND table_name = {MARK}
ORDER BY column_index"""
_UNIQUE = f"""
SELECT constraint_column_names FROM duckdb_constraints()
WHERE database_name = current_database() AND schema_name = {MARK} AND table_name = {MARK}
  AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')"""
# What keeps DuckDB from changing the type of columns, and these columns; without them, of all.
# Foreign keys refer to tables of their own schema, and those of the table itself bind only columns.
_BOUND = rf"""
SELECT constraint_text, constraint_column_names FROM duckdb_constraints()
WHERE database_name = current_database() AND schema_name = {MARK} AND table_name = {MARK}
  AND constraint_type IN ('PRIMARY KEY', 'UNIQUE', 'CHECK', 'FOREIGN KEY')
UNION ALL SELECT 'the index ' || index_name, NULL FROM duckdb_indexes()
WHERE database_name = current_database() AND schema_name = {MARK} AND table_name = {MARK}
UNION ALL SELECT 'a foreign key of the table ' || table_name, NULL FROM duckdb_constraints()
WHERE database_name = current_database() AND schema_name = {MARK} AND table_name != {MARK}
  AND constraint_type = 'FOREIGN KEY'
  AND regexp_matches(
    replace(constraint_text, '"', ''),
    ' REFERENCES (' || regexp_escape({MARK}) || '\.)?' || regexp_escape({MARK}) || '\(', 'i')"""


class DuckdbDialect(Dialect):
    """Loads Arrow batches directly, in one transaction."""

    merges_by_index = False

    def __init__(self, address: WarehouseAddress) -> None:
        self._address = address

    def connect(self) -> Connection:
        """Return a connection to the file; the file is created if it is missing."""
        return _Connection(DuckdbSession(connect(self._address.path)))

    def errors(self) -> tuple[type[Exception], ...]:
        """Return DuckDB's root error."""
        return (driver().Error,)

    def diagnose(self, error: Exception) -> Diagnosis:
        """Return the meaning of an error, and the advice."""
        fault = fault_of(error)
        held = "Another process holds the file; run the job again when it is done."
        advice = held if fault in BUSY else "Let ms.warehouse.url name a writable file."
        return Diagnosis(fault, " ".join(str(error).split()), advice)

    def table(self, connection: Connection, name: TableName) -> Table | None:
        """Return the table's form from the catalogue."""
        place = (name.schema, name.name)
        found = connection.rows(_COLUMNS, *place)
        if not found:
            return None
        columns = tuple(
            TableColumn(
                str(column), _type_of(str(words)), str(words), None, bool(required), bool(nullable)
            )
            for column, words, required, _, nullable in found
        )
        unique = [frozenset(map(str, row[0])) for row in connection.rows(_UNIQUE, *place)]  # type: ignore[call-overload]
        bound = connection.rows(_BOUND, *place * 4)
        for words, names in bound:
            of = {each.name for each in columns} if names is None else set(names)  # type: ignore[call-overload]
            columns = tuple(
                replace(each, bound_by=str(words)) if each.name in of else each for each in columns
            )
        is_table = bool(found[0][3])
        return Table(
            columns,
            frozenset(unique),
            "" if is_table else "is no table that rows can be loaded into",
        )

    def type_words(self, data_type: pa.DataType, *, is_key: bool) -> str:
        """Return the type's name; whole numbers of a key get the widest, which never changes."""
        if is_key and pt.is_integer(data_type):
            return DUCKDB_WORDS[pa.int64()]
        if pt.is_decimal(data_type):
            fits = data_type.precision <= _MOST_DIGITS
            return f"DECIMAL({data_type.precision},{data_type.scale})" if fits else ""
        return DUCKDB_WORDS.get(data_type, "")

    def widen(
        self, table: TableName, column: str, words: str, attributes: str | None = None
    ) -> str:
        """Return an ALTER COLUMN TYPE; it is part of the transaction."""
        del attributes
        return f"ALTER TABLE {self.full(table)} ALTER COLUMN {self.quote(column)} TYPE {words}"

    def same(self, left: str, right: str) -> str:
        """Return the condition of standard SQL."""
        return f"{left} IS NOT DISTINCT FROM {right}"

    def comparable(self, value: str, column: TableColumn) -> str:
        """Return null for NaN, which would be the greatest number, and the bytes of text."""
        if column.type == TEXT:
            return f"encode({value})"
        return f"NULLIF({value}, 'NaN')" if pt.is_floating(column.type) else value


class _Connection(Connection):
    """One DuckDB connection."""

    def __init__(self, session: DuckdbSession) -> None:
        self._session = session

    def begin(self) -> None:
        """Begin a transaction."""
        self._session.run(self._session.connection.begin)

    def commit(self) -> None:
        """Commit; the changes are in the log on disk."""
        self._session.run(self._session.connection.commit)

    def rollback(self) -> None:
        """Roll back."""
        self._session.run(self._session.connection.rollback)

    def change(self, statement: str, *values: Value) -> int:
        """Run a statement; if it changes rows, DuckDB returns their number."""
        found = self.rows(statement, *values)
        return int(found[0][0]) if found and isinstance(found[0][0], int) else 0

    def rows(self, statement: str, *values: Value) -> list[Row]:
        """Return rows."""
        sql, connection = with_questions(statement), self._session.connection
        return self._session.run(lambda: connection.execute(sql, list(values)).fetchall())

    def load(
        self, table: TableName, columns: Sequence[TableColumn], batches: Iterable[pa.RecordBatch]
    ) -> None:
        """Insert batches straight from Arrow."""
        schema = pa.schema(
            [(each.name, TEXT if each.type == JSON else each.type) for each in columns]
        )
        names = ", ".join(quoted(each.name) for each in columns)
        full = ".".join(quoted(each) for each in (table.schema, table.name) if each)
        with reader_of(schema, batches) as reader:
            self._session.connection.register("dil_batches", reader)
            self.change(f"INSERT INTO {full} ({names}) SELECT {names} FROM dil_batches")
            self._session.connection.unregister("dil_batches")

    def close(self) -> None:
        """Close the file."""
        self._session.close()


def _type_of(words: str) -> pa.DataType | None:
    if match := _DECIMAL.fullmatch(words):
        return decimal_type(int(match[1]), int(match[2]))
    return _TYPES.get(words)
