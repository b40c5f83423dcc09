"""The interface to one kind of database for loading tables.

Statements are written once for all databases. A dialect knows the database's words for types, how
to inspect tables and load record batches, and the meaning of errors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dil.databases.faults import Diagnosis, Fault, LoginProperties
from dil.databases.statements import MARK, quoted
from dil.errors import WriteError

# Limits in seconds: for opening a connection; for another writer's lock, after which the lock is
# tried again; and for a client's silence inside a transaction, after which the server ends it.
CONNECT_S = 10
LOCK_S = 5
IDLE_S = 600

STAGE, WINNERS = "dil_stage", "dil_winners"
PROPERTIES = LoginProperties("ms.warehouse.url", "ms.warehouse.user", "ms.warehouse.password")
# Another writer is in the way: the transaction was rolled back and may be repeated.
BUSY = frozenset({Fault.CONFLICT, Fault.LOCKED, Fault.CHANGED, Fault.EXISTS, Fault.TIMED_OUT})
_BUSY = "Another writer blocked the table; run the job again."
ADVICE: Mapping[Fault, str] = dict.fromkeys(BUSY, _BUSY) | {
    Fault.DUPLICATE: "The table has a row with this key. With ms.warehouse.operation=upsert rows"
    " with the same key are replaced.",
}
Value = str | int | bytes | None
Row = tuple[object, ...]


@contextmanager
def reader_of(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatchReader]:
    """Yield a reader of the batches for a driver to iterate; raise an error of the batches.

    The driver would raise an error of its own in its place, also if a signal comes meanwhile.
    """
    raised: list[BaseException] = []

    def watched() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except GeneratorExit:
            raise
        except BaseException as error:
            raised.append(error)
            raise

    try:
        yield pa.RecordBatchReader.from_batches(schema, watched())
    except Exception:
        if raised:
            raise raised[0] from None
        raise


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table that exists.

    ``type`` is None if rows cannot be loaded into the column; ``words`` is the database's name of
    the type. ``limit`` is the most characters of text in the column, None for any number.
    ``is_required`` is true if rows must give a value, ``takes_null`` if null is kept as null.
    ``is_computed`` is true if the database computes the values, ``is_fixed`` if only new rows may
    give a value. ``attributes`` is the text after the type in the definition, and a change of the
    type must repeat this text; it is None if unknown. ``bound_by`` is what depends on the column's
    type, so that the database does not change it; it is empty if nothing does.
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
    bound_by: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that exists; ``unique`` are the columns of each primary key or unique index.

    ``problem`` is the reason why rows cannot be published to it, empty if they can. ``heir`` is a
    table that inherits from it; a statement that reads or deletes rows of the table also affects
    the heir's rows.
    """

    columns: tuple[TableColumn, ...]
    unique: frozenset[frozenset[str]] = frozenset()
    problem: str = ""
    heir: str = ""


class Connection(ABC):
    """One connection; its methods raise the driver's own errors.

    Call ``begin`` once; changes before it are committed at once, if the dialect allows that.
    """

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction; each statement sees all data committed before the statement runs."""

    @abstractmethod
    def commit(self) -> None:
        """End the transaction and keep its changes."""

    @abstractmethod
    def rollback(self) -> None:
        """End the transaction and undo its changes."""

    @abstractmethod
    def change(self, statement: str, *values: Value) -> int:
        """Run a statement and return the number of changed rows; ``MARK`` is the place of a value.

        Without values the number has no meaning.
        """

    @abstractmethod
    def rows(self, statement: str, *values: Value) -> list[Row]:
        """Return all rows of a SELECT."""

    @abstractmethod
    def load(
        self, table: TableName, columns: Sequence[TableColumn], batches: Iterable[pa.RecordBatch]
    ) -> None:
        """Add rows to a table, in bounded memory; the batches have exactly the given columns.

        Values have the columns' types; JSON values are text.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connection; never fails."""


@dataclass(frozen=True, slots=True)
class TableName:
    """A table's name; ``schema`` is empty for the connection's schema, and for temporary tables."""

    schema: str
    name: str
    is_temporary: bool = False


def collation_clauses(
    table: TableName, keys: Sequence[str], found: Collection[tuple[str, ...]]
) -> Mapping[str, str]:
    """Return the columns of a key, each with the clause that names its collation.

    Args:
        table: The table of the key.
        keys: The columns.
        found: The collations of these columns in each unique index, empty if the column's type has
            none.

    Raises:
        WriteError: several unique indexes of the key have different collations.
    """
    if len(found) > 1:
        words = " and ".join(sorted(", ".join(filter(None, each)) for each in found))
        raise WriteError(
            f"{table.name} has unique indexes of {', '.join(keys)} that compare differently"
            f" ({words})",
            "Keep only the index that compares as the rows' key should, and drop the others.",
        )
    clauses = [f" COLLATE {name}" if name else "" for each in found for name in each]
    return dict(zip(keys, clauses or [""] * len(keys), strict=True))


class Dialect(ABC):
    """The SQL of one kind of database, and the connections to such a database."""

    # Whether creating and altering tables is part of a transaction.
    ddl_in_transaction = True
    folds_case = True
    # Whether a transaction that writes keeps out all other writers of the database.
    has_one_writer = False
    # Whether a unique index serves rows that are merged, and not only a primary key or constraint.
    merges_by_index = True
    # The longest text, in characters, in a key that we create, None for any length.
    key_characters: int | None = None
    big_integer = "BIGINT"
    # The words that make generated columns take the given values; they precede an upsert's rows.
    overriding = ""

    @abstractmethod
    def connect(self) -> Connection:
        """Return an open connection."""

    @abstractmethod
    def errors(self) -> tuple[type[Exception], ...]:
        """Return the root of the driver's errors."""

    @abstractmethod
    def diagnose(self, error: Exception) -> Diagnosis:
        """Return the meaning of an error of the driver."""

    @abstractmethod
    def table(self, connection: Connection, name: TableName) -> Table | None:
        """Return the form of a table, None if there is none."""

    @abstractmethod
    def type_words(self, data_type: pa.DataType, *, is_key: bool) -> str:
        """Return the database's words for a column type, empty if there is no such type."""

    @abstractmethod
    def widen(
        self, table: TableName, column: str, words: str, attributes: str | None = None
    ) -> str:
        """Return the statement that changes a column's type, empty if no statement can.

        If ``attributes`` are given, the statement keeps these other attributes of the column.
        """

    @abstractmethod
    def same(self, left: str, right: str) -> str:
        """Return the condition that two values are equal or both null."""

    def merge_keys(
        self, connection: Connection, table: TableName, keys: Sequence[str]
    ) -> Mapping[str, str]:
        """Return the columns of a merge's key, each with the clause that names its collation.

        With this clause, values compare as in the unique index of the key, which decides whether a
        row is inserted. The clause is empty if values compare like this anyway.

        Raises:
            WriteError: several unique indexes of the key compare its values differently.
        """
        del connection, table
        return dict.fromkeys(keys, "")

    def collated(self, keys: Mapping[str, str]) -> str:
        """Return the list of columns of ``merge_keys`` that compares as the unique index does."""
        return ", ".join(f"{self.quote(key)}{clause}" for key, clause in keys.items())

    def equal(self, left: str, right: str, keys: Mapping[str, str]) -> str:
        """Return the condition that rows of two tables have equal values in ``merge_keys``."""
        return " AND ".join(
            f"{left}.{self.quote(key)} = {right}.{self.quote(key)}{clause}"
            for key, clause in keys.items()
        )

    def comparable(self, value: str, column: TableColumn) -> str:
        """Return an expression for a value of a delta field that sorts as values in files do.

        Text sorts by its bytes, whatever the column's collation is. Not-a-number is null.
        """
        del column
        return value

    def sort_whole(self, connection: Connection, values: Sequence[str]) -> None:
        """Let the connection sort rows of ``STAGE`` by whole texts and bytes, given as expressions.

        ``unordered`` has refused values that are too long for that.
        """
        del connection, values

    def kept(self, data_type: pa.DataType) -> pa.DataType:
        """Return the type that the database reports for a column of this type."""
        return data_type

    def refusal(self, column: TableColumn, values: pa.Array) -> str:
        """Return the reason why the database refuses some values, empty if it accepts all."""
        del column, values
        return ""

    def keep_first(
        self, connection: Connection, names: str, keys: Sequence[str], alike: str, order: str
    ) -> None:
        """Make ``WINNERS`` of the first row of each key in ``STAGE``.

        Args:
            connection: The connection that has the temporary tables.
            names: The list of columns to keep.
            keys: The columns of the key.
            alike: The key as ``collated`` returns it.
            order: The list of expressions that decides which row of a key is the first.
        """
        rank = f"ROW_NUMBER() OVER (PARTITION BY {alike} ORDER BY {order}) AS dil_rank"
        first = f"SELECT {names} FROM (SELECT {names}, {rank} FROM {STAGE}) r WHERE dil_rank = 1"
        connection.change(self.temporary(WINNERS, self.key_clause(keys), first))
        for statement in self.index_winners(alike):
            connection.change(statement)

    def unordered(self, values: pa.Array) -> str:
        """Return why the database would sort delta fields wrongly, else an empty text."""
        del values
        return ""

    def holds_name(self, column: str) -> bool:
        """Return whether the database accepts a column of this name."""
        del column
        return True

    def folded(self, name: str) -> str:
        """Return a column's name in a form that is equal for all its spellings."""
        return name.lower() if self.folds_case else name

    def quote(self, name: str) -> str:
        """Return a name in the form for statements."""
        return quoted(name)

    def full(self, table: TableName) -> str:
        """Return a table's full name in the form for statements."""
        name = self.quote(table.name)
        return f"{self.quote(table.schema)}.{name}" if table.schema else name

    def missing_right(self, connection: Connection, name: TableName, rights: Sequence[str]) -> str:
        """Return the statement that grants this user its missing rights, empty if none is missing.

        If the database cannot show rights, the text is empty.
        """
        del connection, name, rights
        return ""

    def make_schema(self, connection: Connection, schema: str) -> None:
        """Create a schema unless it exists."""
        if schema:
            connection.change(f"CREATE SCHEMA IF NOT EXISTS {self.quote(schema)}")

    def key_clause(self, keys: Sequence[str]) -> str:
        """Return the clause that indexes a temporary table by key; it follows the table's name."""
        del keys
        return ""

    def index_winners(self, keys: str) -> Sequence[str]:
        """Return the statements that index the table of winners by an expression list."""
        del keys
        return ()

    def index(self, table: TableName, column: str) -> str:
        """Return the statement that indexes a table by a column, empty if none is needed."""
        del table, column
        return ""

    def any_of(self, column: str, values: Sequence[str]) -> tuple[str, Sequence[str]]:
        """Return the condition that a column holds one of some texts, and the values in it."""
        return f"{self.quote(column)} IN ({', '.join(MARK for _ in values)})", values

    def temporary(self, name: str, clause: str, select: str) -> str:
        """Return the statement that creates a temporary table from a SELECT."""
        return f"CREATE TEMPORARY TABLE {name} {clause} AS {select}"

    def lock(self, connection: Connection, table: TableName) -> None:
        """Keep other writers, but not readers, out until the transaction ends."""
        del connection, table

    def delete_matching(self, table: TableName, keys: Mapping[str, str], condition: str) -> str:
        """Return the statement that deletes the rows with the keys of the chosen winners."""
        names = ", ".join(map(self.quote, keys))
        return (
            f"DELETE FROM {self.full(table)} WHERE ({self.collated(keys)}) IN "
            f"(SELECT {names} FROM {WINNERS} WHERE {condition})"
        )

    def upsert(
        self,
        table: TableName,
        columns: Sequence[str],
        keys: Sequence[str],
        condition: str,
        replaced: Sequence[str],
    ) -> str:
        """Return the statement that inserts winners, or replaces columns of their rows."""
        names = ", ".join(map(self.quote, columns))
        others = [self.quote(name) for name in replaced if name not in keys]
        updates = ", ".join(f"{name} = excluded.{name}" for name in others)
        action = f"UPDATE SET {updates}" if updates else "NOTHING"
        return (
            f"INSERT INTO {self.full(table)} ({names}) {self.overriding}"
            f"SELECT {names} FROM {WINNERS} WHERE {condition} "
            f"ON CONFLICT ({', '.join(map(self.quote, keys))}) DO {action}"
        )

    def insert_once(self, table: TableName, values: Mapping[str, str]) -> str:
        """Return the statement that adds a row, given as expressions, unless its key exists."""
        names = ", ".join(map(self.quote, values))
        return (
            f"INSERT INTO {self.full(table)} ({names}) "
            f"VALUES ({', '.join(values.values())}) ON CONFLICT DO NOTHING"
        )

    def instant(self, milliseconds: int) -> str:
        """Return the literal of an instant, epoch ms UTC."""
        return f"TIMESTAMPTZ '{instant_text(milliseconds)}+00'"


def instant_text(milliseconds: int) -> str:
    """Return an instant as ``YYYY-MM-DD hh:mm:ss.ffffff``, UTC."""
    text: str = pa.scalar(milliseconds * 1000, pa.timestamp("us")).cast(pa.string()).as_py()
    return text


def are_outside(values: pa.Array, bounds: tuple[int, int]) -> bool:
    """Return whether a number is less than the first of these bounds or greater than the last."""
    found = pc.min_max(values).as_py()
    return found["min"] is not None and (found["min"] < bounds[0] or found["max"] > bounds[1])
