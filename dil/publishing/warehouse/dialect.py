"""What one kind of database supplies to the loading of tables.

Statements are written once for all of them; a dialect has its own words for types, for looking at
tables, for loading record batches, and for what its errors mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from dil.databases.faults import Diagnosis, Fault, LoginProperties
from dil.databases.statements import MARK, quoted

# How long to wait, in seconds: for a connection; for another writer's lock, which is then tried
# again; and how long a client may be silent inside a transaction before the server ends it.
CONNECT_S = 10
LOCK_S = 5
IDLE_S = 600

STAGE, WINNERS = "dil_stage", "dil_winners"
PROPERTIES = LoginProperties("ms.warehouse.url", "ms.warehouse.user", "ms.warehouse.password")
# Another writer is in the way: the transaction was rolled back and may be tried again.
BUSY = frozenset({Fault.CONFLICT, Fault.LOCKED, Fault.CHANGED, Fault.EXISTS, Fault.TIMED_OUT})
_BUSY = "Another writer was in the way; run the job again."
ADVICE: Mapping[Fault, str] = dict.fromkeys(BUSY, _BUSY) | {
    Fault.DUPLICATE: "A row of this key is there already. ms.warehouse.operation=upsert puts rows"
    " in place of those of their keys.",
}
Value = str | int | bytes | None
Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table that exists.

    ``type`` is None where rows cannot be loaded into the column, ``words`` is how the database
    calls it. ``limit`` is how many characters of text it holds, None for any number.
    ``is_required`` says that it must be given a value, ``takes_null`` that null is kept as null.
    ``is_computed`` is a column whose values the database makes itself, and ``is_fixed`` one whose
    values are given to new rows only. ``attributes`` is what follows the type in its definition,
    where a change of the type has to repeat it, None where that is not known.
    """

    name: str
    type: pa.DataType | None
    words: str
    limit: int | None = None
    is_required: bool = False
    takes_null: bool = True
    is_computed: bool = False
    is_fixed: bool = False
    attributes: str | None = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that exists; ``unique`` are the columns of each primary key or unique index.

    ``problem`` says why rows cannot be published to it, empty where they can. ``heir`` is a table
    that inherits from it, whose rows are among its own to whoever reads or deletes them.
    """

    columns: tuple[TableColumn, ...]
    unique: frozenset[frozenset[str]] = frozenset()
    problem: str = ""
    heir: str = ""


class Connection(ABC):
    """One connection; its methods raise the driver's own errors.

    ``begin`` comes first, once; changes before it stay, if the dialect allows that.
    """

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction whose statements see everything committed by then."""

    @abstractmethod
    def commit(self) -> None:
        """End the transaction; what it changed is kept."""

    @abstractmethod
    def rollback(self) -> None:
        """End the transaction; nothing of it stays."""

    @abstractmethod
    def change(self, statement: str, *values: Value) -> int:
        """Run a statement and return how many rows it changed; ``MARK`` is the place of a value.

        Where no value is given the number may be anything.
        """

    @abstractmethod
    def rows(self, statement: str, *values: Value) -> list[Row]:
        """Return all rows of a SELECT."""

    @abstractmethod
    def load(
        self, table: TableName, columns: Sequence[TableColumn], batches: Iterable[pa.RecordBatch]
    ) -> None:
        """Add rows to a table, in bounded memory; the batches have exactly these columns.

        Values have the columns' types; those of JSON are text.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connection; never fails."""


@dataclass(frozen=True, slots=True)
class TableName:
    """A table's name; ``schema`` is empty for the connection's own, and for temporary tables."""

    schema: str
    name: str
    is_temporary: bool = False


class Dialect(ABC):
    """One database's words, and the way to it."""

    # Whether creating and altering tables is part of a transaction.
    ddl_in_transaction = True
    folds_case = True
    # How much text a key holds that we make, None for any length.
    key_characters: int | None = None
    big_integer = "BIGINT"
    # The words before the rows of an upsert that make each column take the values it is given.
    overriding = ""

    @abstractmethod
    def connect(self) -> Connection:
        """Open a connection."""

    @abstractmethod
    def errors(self) -> tuple[type[Exception], ...]:
        """Return the root of the driver's errors."""

    @abstractmethod
    def diagnose(self, error: Exception) -> Diagnosis:
        """Say what one of those errors means."""

    @abstractmethod
    def table(self, connection: Connection, name: TableName) -> Table | None:
        """Return what a table is like, None where there is none."""

    @abstractmethod
    def type_words(self, data_type: pa.DataType, *, is_key: bool) -> str:
        """Return the database's words for a column type, empty where it has none."""

    @abstractmethod
    def widen(
        self, table: TableName, column: str, words: str, attributes: str | None = None
    ) -> str:
        """Return the statement that gives a column another type, empty if none does.

        With ``attributes``, it keeps these other attributes of the column.
        """

    @abstractmethod
    def same(self, left: str, right: str) -> str:
        """Return the condition that two values are equal, or both null."""

    def kept(self, data_type: pa.DataType) -> pa.DataType:
        """Return the type that a column of this type has when the database is asked for it."""
        return data_type

    def refusal(self, column: TableColumn, values: pa.Array) -> str:
        """Return what the database does not take among values, empty where it takes all."""
        del column, values
        return ""

    def unordered(self, values: pa.Array) -> str:
        """Return why the database would not sort values of delta fields, empty where it would."""
        del values
        return ""

    def holds_name(self, column: str) -> bool:
        """Return whether a column can have this name."""
        del column
        return True

    def quote(self, name: str) -> str:
        """Return a name as a statement holds it."""
        return quoted(name)

    def full(self, table: TableName) -> str:
        """Return a table's whole name as a statement holds it."""
        name = self.quote(table.name)
        return f"{self.quote(table.schema)}.{name}" if table.schema else name

    def missing_right(self, connection: Connection, name: TableName, rights: Sequence[str]) -> str:
        """Return the statement that gives this user what it lacks, empty where it lacks nothing.

        A database that cannot know says nothing.
        """
        del connection, name, rights
        return ""

    def make_schema(self, connection: Connection, schema: str) -> None:
        """Create a schema unless it is there."""
        if schema:
            connection.change(f"CREATE SCHEMA IF NOT EXISTS {self.quote(schema)}")

    def key_clause(self, keys: Sequence[str]) -> str:
        """Return what follows the name of a temporary table that is to find rows by key."""
        del keys
        return ""

    def index_winners(self, keys: Sequence[str]) -> Sequence[str]:
        """Return the statements that make the table of winners quick to search."""
        del keys
        return ()

    def index(self, table: TableName, column: str) -> str:
        """Return the statement that makes rows quick to find by a column, empty for none."""
        del table, column
        return ""

    def any_of(self, column: str, values: Sequence[str]) -> tuple[str, Sequence[str]]:
        """Return the condition that a column holds one of some texts, and its values."""
        return f"{self.quote(column)} IN ({', '.join(MARK for _ in values)})", values

    def temporary(self, name: str, clause: str, select: str) -> str:
        """Return the statement that makes a temporary table of a SELECT."""
        return f"CREATE TEMPORARY TABLE {name} {clause} AS {select}"

    def lock(self, connection: Connection, table: TableName) -> None:
        """Keep other writers out until the transaction ends, and no reader."""
        del connection, table

    def delete_matching(self, table: TableName, keys: Sequence[str], condition: str) -> str:
        """Return the statement that deletes rows of the keys of those winners."""
        names = ", ".join(map(self.quote, keys))
        return (
            f"DELETE FROM {self.full(table)} WHERE ({names}) IN "  # noqa: S608 - quoted names
            f"(SELECT {names} FROM {WINNERS} WHERE {condition})"
        )

    def upsert(
        self, table: TableName, columns: Sequence[str], keys: Sequence[str], condition: str
    ) -> str:
        """Return the statement that puts winners in place of the rows of their keys."""
        names = ", ".join(map(self.quote, columns))
        others = [self.quote(name) for name in columns if name not in keys]
        updates = ", ".join(f"{name} = excluded.{name}" for name in others)
        action = f"UPDATE SET {updates}" if updates else "NOTHING"
        return (
            f"INSERT INTO {self.full(table)} ({names}) {self.overriding}"  # noqa: S608 - quoted
            f"SELECT {names} FROM {WINNERS} WHERE {condition} "
            f"ON CONFLICT ({', '.join(map(self.quote, keys))}) DO {action}"
        )

    def insert_once(self, table: TableName, values: Mapping[str, str]) -> str:
        """Return the statement that adds a row, of expressions, unless one of its keys is taken."""
        names = ", ".join(map(self.quote, values))
        return (
            f"INSERT INTO {self.full(table)} ({names}) "  # noqa: S608 - quoted names
            f"VALUES ({', '.join(values.values())}) ON CONFLICT DO NOTHING"
        )

    def instant(self, milliseconds: int) -> str:
        """Return the literal of an instant, epoch ms UTC."""
        return f"TIMESTAMPTZ '{instant_text(milliseconds)}+00'"


def instant_text(milliseconds: int) -> str:
    """Return an instant as ``YYYY-MM-DD hh:mm:ss.ffffff``, UTC."""
    text: str = pa.scalar(milliseconds * 1000, pa.timestamp("us")).cast(pa.string()).as_py()
    return text
