"""The differences between databases in copying, replacing and showing tables."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta

import pyarrow as pa

from dil.databases.statements import MARK
from dil.errors import ConfigError, ConversionError, WriteError
from dil.model.interval import DAY_MS, Interval
from dil.publishing.timeseries.grants import grants_of
from dil.publishing.timeseries.names import LABEL, Names
from dil.publishing.timeseries.registry import LabelEntry
from dil.publishing.timeseries.view import TimeseriesView, ViewBranch
from dil.publishing.warehouse.dialect import (
    Connection,
    Dialect,
    Table,
    TableColumn,
    TableName,
    instant_text,
)
from dil.publishing.warehouse.loading import change_all
from dil.publishing.warehouse.rows import WarehouseRows
from dil.publishing.warehouse.shape import TableChanges, TargetTable
from dil.text.zones import EPOCH
from dil.types.warehouse import TEXT

PHYSICAL = "ms.timeseries.physical"
_LOCK_S = 3
_READERS = f"""
SELECT DISTINCT v.oid::regclass::text FROM pg_depend d
JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
JOIN pg_class v ON v.oid = r.ev_class JOIN pg_class c ON c.oid = d.refobjid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = {MARK} AND c.relname = {MARK} AND v.oid <> c.oid ORDER BY 1"""
IS_SHOWN = f"""
SELECT 1 FROM pg_depend d
JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
JOIN pg_class v ON v.oid = r.ev_class JOIN pg_class c ON c.oid = d.refobjid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = {MARK} AND c.relname = {MARK} AND v.relnamespace = n.oid AND v.relname = {MARK}
LIMIT 1"""
PARTITIONED_BY = f"""
SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = {MARK} AND c.relname = {MARK} AND c.relkind = 'p'
  AND pg_get_partkeydef(c.oid) = 'LIST ({LABEL})'"""
_TABLE_READERS = f"""
SELECT DISTINCT c.relname::text, v.oid::regclass::text FROM pg_depend d
JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
JOIN pg_class v ON v.oid = r.ev_class JOIN pg_class c ON c.oid = d.refobjid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE d.refclassid = 'pg_class'::regclass AND n.nspname = {MARK} AND c.relkind = 'r'
  AND NOT (v.relnamespace = n.oid AND v.relname = {MARK}) ORDER BY 1, 2"""
_GENERATED = f"""
SELECT a.attname::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = {MARK} AND c.relname = {MARK} AND a.attgenerated <> ''
  AND NOT a.attisdropped"""
_GENERATED_OF_MYSQL = f"""
SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE()
AND table_name = {MARK} AND COALESCE(generation_expression, '') <> ''"""
# The second column is null for a part that cannot be in a plain index: the hash of a long text, or
# an expression.
_UNIQUE_OF_MYSQL = f"""
SELECT index_name, CASE WHEN index_type = 'BTREE' THEN column_name END, sub_part
FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = {MARK}
AND non_unique = 0 ORDER BY index_name, seq_in_index"""
_BEGINNING = f"""
SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()
AND LEFT(table_name, CHAR_LENGTH({MARK})) = {MARK} ORDER BY 1"""

_COLLATION = re.compile(r" CHARACTER SET \w+ COLLATE \w+")


class Tables(ABC):
    """The tables of one dialect.

    ``loads_inside`` is true if labels are loaded in the transaction that shows them;
    ``follows_tables`` is true if a view still reads a table after the table was renamed.
    """

    loads_inside = True
    follows_tables = False
    casts = True
    overriding = ""

    def __init__(self, dialect: Dialect, names: Names) -> None:
        self.dialect = dialect
        self.names = names

    def lock(self, connection: Connection) -> None:
        """Keep other runs away from the tables until the connection is closed."""
        del connection

    def limit_waiting(self, connection: Connection) -> None:
        """Make the transaction's statements fail if they wait too long for a lock."""
        del connection

    def require_own(self, connection: Connection) -> None:
        """Raise if the base was made with another ``ms.timeseries.physical``.

        Raises:
            ConfigError: the base was made with another value of that property.
        """
        del connection

    def require_empty(self, connection: Connection, held: Collection[str]) -> None:
        """Raise if the base has rows without a label; ``held`` are the tables of labels.

        Raises:
            ConfigError: the base has such rows.
        """
        del held
        base, full = self.names.base, self.dialect.full(self.names.base)
        if self.dialect.table(connection, base) is None:
            return
        if connection.rows(f"SELECT 1 FROM {full} LIMIT 1"):
            raise ConfigError.single(
                "ms.warehouse.table.kind",
                f"is timeseries, but {full} has rows of its own",
                "Name another table, or move the rows away: the table of a timeseries must be"
                " empty.",
            )

    def table_changes(self, table: Table | None, rows: WarehouseRows) -> TableChanges:
        """Return the changes that the base needs for rows."""
        return TargetTable(self.dialect, self.names.base).table_changes(table, rows)

    @abstractmethod
    def like(self, connection: Connection, new: TableName, base: Table) -> None:
        """Create an empty table like the base; a table of that name is dropped first."""

    def alter(self, connection: Connection, statements: Sequence[str]) -> None:
        """Change the columns of the base."""
        change_all(connection, statements)

    def rehearse(self, connection: Connection, statements: Sequence[str]) -> None:
        """Check that the columns can be changed: change them in a transaction, and roll back."""
        self.alter(connection, statements)

    def keep_to(self, connection: Connection, table: TableName, labels: Sequence[str]) -> None:
        """Limit an empty table to rows of some labels, if the database can enforce that."""
        del connection, table, labels

    def copied(self, entry: LabelEntry, base: Table) -> list[str]:
        """Return the columns to copy from a label's table."""
        del base
        return list(entry.columns)

    def hold(self, connection: Connection) -> None:
        """Hide a transaction's labels until all are loaded, if the view does not hide them."""
        del connection

    def attach(self, connection: Connection, coming: Mapping[TableName, Sequence[str]]) -> None:
        """Attach tables with their final names to the base, if the view reads only the base."""
        del connection, coming

    def drop(self, connection: Connection, table: TableName) -> None:
        """Drop a table if it exists."""
        connection.change(f"DROP TABLE IF EXISTS {self.dialect.full(table)}")

    def rename(self, connection: Connection, old: TableName, new: TableName) -> None:
        """Give a table another name."""
        connection.change(
            f"ALTER TABLE {self.dialect.full(old)} RENAME TO {self.dialect.quote(new.name)}"
        )

    def copy(self, connection: Connection, source: TableName, target: TableName,
             columns: Sequence[str], condition: str = "", *values: str) -> None:  # fmt: skip
        """Insert rows of one table into another, without the columns that the target computes."""
        computed = self.computed(connection, target)
        plain = (name for name in columns if name not in computed)
        names = ", ".join(map(self.dialect.quote, plain))
        where = f" WHERE {condition}" if condition else ""
        connection.change(
            f"INSERT INTO {self.dialect.full(target)} ({names}) {self.overriding}"
            f"SELECT {names} FROM {self.dialect.full(source)}{where}",
            *values,
        )

    def computed(self, connection: Connection, table: TableName) -> frozenset[str]:
        """Return the columns of a table that the database computes, so that they take no values."""
        del connection, table
        return frozenset()

    def bound(
        self, connection: Connection, table: TableName, column: TableColumn, window: Interval
    ) -> None:
        """Record in the database that all times of a full table are in a window, if that is true.

        A query for other times then skips the table.
        """
        del connection, table, column, window

    def count(self, connection: Connection, table: TableName, condition: str = "") -> int:
        """Return the number of a table's rows."""
        where = f" WHERE {condition}" if condition else ""
        statement = f"SELECT COUNT(*) FROM {self.dialect.full(table)}{where}"
        return int(str(connection.rows(statement)[0][0]))

    def new_words(self, column: TableColumn) -> str:
        """Return the type and collation that a column of the base gets in another table.

        Existing rows have null in such a column.
        """
        return f"{column.words}{column.attributes or ''}"

    def grow(self, connection: Connection, name: TableName, base: Table) -> Table | None:
        """Add the base's newer columns to a table; return the table's new form."""
        found = self.dialect.table(connection, name)
        if found is None:
            return None
        has = {each.name: each for each in found.columns}
        for column in base.columns:
            own = has.get(column.name)
            if own is None:
                quoted, words = self.dialect.quote(column.name), self.new_words(column)
                connection.change(
                    f"ALTER TABLE {self.dialect.full(name)} ADD COLUMN {quoted} {words}"
                )
            elif own.words != column.words:
                attributes = _kept_attributes(own, column)
                widen = self.dialect.widen(name, column.name, column.words, attributes)
                if widen:
                    connection.change(widen)
        return self.dialect.table(connection, name)

    def show(self, connection: Connection, base: Table, found: Sequence[ViewBranch]) -> None:
        """Create the view again."""
        before = self.dialect.table(connection, self.names.view)
        connection.change(f"DROP VIEW IF EXISTS {self.dialect.full(self.names.view)}")
        self.create_view(connection, base, found, before)

    def create_view(self, connection: Connection, base: Table, found: Sequence[ViewBranch],
                    before: Table | None) -> None:  # fmt: skip
        """Create the view if it does not exist; ``before`` is its earlier form."""
        self._create(connection, self.view(base), found, before)

    def present_view(self, connection: Connection) -> Table | None:
        """Return the form of the view, None if there is none."""
        return self.dialect.table(connection, self.names.view)

    def require_view(self, connection: Connection, base: Table) -> None:
        """Raise if the view cannot have the base's columns.

        Raises:
            ConversionError: other views depend on the view's present form.
        """
        del connection, base

    def view(self, base: Table) -> TimeseriesView:
        """Return the view with the columns of the base."""
        columns = {each.name: each.words for each in base.columns}
        return TimeseriesView(self.dialect, self.names.view, columns, self.casts)

    def _create(self, connection: Connection, view: TimeseriesView, found: Sequence[ViewBranch],
                before: Table | None, word: str = "CREATE VIEW") -> None:  # fmt: skip
        text = view.text(self.names.base, found, before)
        connection.change(f"{word} {self.dialect.full(view.name)} AS {text}")


def _kept_attributes(own: TableColumn, base: TableColumn) -> str | None:
    """Return the attributes that a column keeps with the base's type: collation, NOT NULL.

    These are the column's own attributes, because existing rows may not fit attributes that the
    base got later.
    """
    is_alike = (own.type == TEXT) == (base.type == TEXT)
    return own.attributes if is_alike and own.attributes is not None else base.attributes


_INSTANTS = (pa.timestamp("us"), pa.timestamp("us", "UTC"))


class PostgresqlTables(Tables):
    """Views follow tables; labels are loaded before the transaction that shows them."""

    loads_inside = False
    follows_tables = True
    # Row numbers are copied, even if the table generates its own numbers.
    overriding = "OVERRIDING SYSTEM VALUE "

    def lock(self, connection: Connection) -> None:
        """Take an advisory lock of the session."""
        name = f"dil timeseries {self.names.base.schema}.{self.names.base.name}"
        number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
        connection.rows(f"SELECT pg_advisory_lock({number}) IS NULL")

    def require_own(self, connection: Connection) -> None:
        """Raise if the base is partitioned by label."""
        base = self.names.base
        if connection.rows(PARTITIONED_BY, base.schema, base.name):
            raise ConfigError.single(
                PHYSICAL,
                f'is "tables", and {self.dialect.full(base)} is partitioned by LIST ({LABEL})',
                f"Set {PHYSICAL}=native, if such a job made it; or load into another table, "
                "by extract.table.name.",
            )

    def limit_waiting(self, connection: Connection) -> None:
        """Limit the wait for locks, because waiting statements block readers and writers."""
        connection.change(f"SET LOCAL lock_timeout = '{_LOCK_S}s'")

    def like(self, connection: Connection, new: TableName, base: Table) -> None:
        """Copy columns, defaults, checks and indexes."""
        del base
        self.drop(connection, new)
        full = self.dialect.full
        connection.change(f"CREATE TABLE {full(new)} (LIKE {full(self.names.base)} INCLUDING ALL)")

    def bound(
        self, connection: Connection, table: TableName, column: TableColumn, window: Interval
    ) -> None:
        """Add a CHECK of constants: PostgreSQL skips no table by an expression (rule T23).

        An earlier configuration may have chosen the label by other times, so that rows are outside
        of the window. Then no CHECK is added, because a decided publish can no longer be refused.
        """
        low, high = (self._literal(column, at) for at in (window.low, window.high))
        if not low:
            return
        quoted, full = self.dialect.quote(column.name), self.dialect.full(table)
        check = f"{quoted} >= {low} AND {quoted} < {high}"
        if not connection.rows(f"SELECT 1 FROM {full} WHERE NOT ({check}) LIMIT 1"):
            connection.change(f"ALTER TABLE {full} ADD CHECK ({check})")

    def _literal(self, column: TableColumn, ms: int) -> str:
        """Return an instant as a constant of the column's type, empty if the type has no times."""
        if column.type in _INSTANTS:
            return f"'{instant_text(ms)}{'+00' if column.type.tz else ''}'::{column.words}"
        if column.type == pa.date32():
            first_day = (EPOCH + timedelta(milliseconds=ms + DAY_MS - 1)).date()
            return f"'{first_day.isoformat()}'::date"
        return f"{ms}::bigint" if column.type == pa.int64() else ""

    def computed(self, connection: Connection, table: TableName) -> frozenset[str]:
        """Return generated columns."""
        found = connection.rows(_GENERATED, table.schema, table.name)
        return frozenset(str(name) for (name,) in found)

    def alter(self, connection: Connection, statements: Sequence[str]) -> None:
        """Change the columns of the base; if the view reads the base, empty the view first."""
        base, view = self.names.base, self.names.view.name
        if statements and connection.rows(IS_SHOWN, base.schema, base.name, view):
            super().alter(connection, tuple(self.empty_view(connection)))
        super().alter(connection, statements)

    def grow(self, connection: Connection, name: TableName, base: Table) -> Table | None:
        """Grow a table; if a type that the view shows changes, empty the view first."""
        found = self.dialect.table(connection, name)
        has = {} if found is None else {each.name: each.words for each in found.columns}
        if any(has.get(each.name, each.words) != each.words for each in base.columns):
            super().alter(connection, tuple(self.empty_view(connection)))
        return super().grow(connection, name, base)

    def empty_view(self, connection: Connection) -> Iterator[str]:
        """Yield the statement after which the view reads no table; nothing if there is no view.

        The view keeps its columns, so that rights on the view, and other views that read it, stay.
        """
        view = self.dialect.table(connection, self.names.view)
        if view is not None:
            full, quote = self.dialect.full(self.names.view), self.dialect.quote
            terms = (
                f"CAST(NULL AS {each.words}){each.attributes or ''} AS {quote(each.name)}"
                for each in view.columns
            )
            yield f"CREATE OR REPLACE VIEW {full} AS SELECT {', '.join(terms)} WHERE false"

    def require_free(self, connection: Connection, tables: Collection[str]) -> None:
        """Raise if other programs' views read tables that are to be dropped."""
        place = (self.names.base.schema, self.names.view.name)
        for table, reader in connection.rows(_TABLE_READERS, *place) if tables else ():
            if table in tables:
                raise WriteError(
                    f"{reader} reads {table}, and this commit replaces that table: PostgreSQL does"
                    " not drop a table that a view reads",
                    f"Let that view read {self.names.view.name} and select rows by {LABEL}: drop"
                    " it, run the job, and create it again.",
                )

    def require_view(self, connection: Connection, base: Table) -> None:
        """Raise if columns of the view change and other views read it."""
        before = self.dialect.table(connection, self.names.view)
        if _only_adds(self.view(base), before):
            return
        place = (self.names.view.schema, self.names.view.name)
        readers = [str(row[0]) for row in connection.rows(_READERS, *place)]
        if readers:
            raise ConversionError(
                f"columns of {self.names.view.name} change, but {', '.join(readers)} reads it:"
                " PostgreSQL can only add columns to such a view",
                "Drop what reads the view, run the job, and create it again.",
            )

    def show(self, connection: Connection, base: Table, found: Sequence[ViewBranch]) -> None:
        """Replace the view; if it must be dropped first, grant its rights again."""
        view = self.view(base)
        before = self.dialect.table(connection, view.name)
        if _only_adds(view, before):
            self._create(connection, view, found, before, "CREATE OR REPLACE VIEW")
            return
        grants = grants_of(connection, self.dialect, view.name)
        connection.change(f"DROP VIEW {self.dialect.full(view.name)}")
        self._create(connection, view, found, before)
        for statement in grants:
            connection.change(statement)


def _only_adds(view: TimeseriesView, before: Table | None) -> bool:
    """Return whether a view keeps its columns unchanged and only gets new columns at the end."""
    had = [] if before is None else [(each.name, each.words) for each in before.columns]
    return had == list(view.ordered(before)[: len(had)])


class MysqlTables(Tables):
    """Every change of a table commits at once; one RENAME TABLE renames many tables."""

    loads_inside = False
    casts = False

    def lock(self, connection: Connection) -> None:
        """Take a named lock of the session."""
        self.dialect.lock(connection, self.names.of(f"{self.names.base.name} timeseries"))

    def like(self, connection: Connection, new: TableName, base: Table) -> None:
        """Copy columns and indexes."""
        del base
        self.drop(connection, new)
        full = self.dialect.full
        connection.change(f"CREATE TABLE {full(new)} LIKE {full(self.names.base)}")

    def computed(self, connection: Connection, table: TableName) -> frozenset[str]:
        """Return generated columns."""
        found = connection.rows(_GENERATED_OF_MYSQL, table.name)
        return frozenset(str(name) for (name,) in found)

    def new_words(self, column: TableColumn) -> str:
        """Return the type and its collation, without the other attributes of MySQL's columns."""
        found = _COLLATION.match(column.attributes or "")
        return f"{column.words}{found[0] if found else ''}"

    def loosen(self, connection: Connection, table: TableName) -> None:
        """Allow equal keys in a table: its unique indexes become plain ones."""
        columns: dict[str, list[str]] = {}
        quote = self.dialect.quote
        for index, column, length in connection.rows(_UNIQUE_OF_MYSQL, table.name):
            parts = columns.setdefault(str(index), [])
            if column is not None:
                parts.append(f"{quote(str(column))}{'' if length is None else f'({length})'}")
        changes = []
        for index, parts in columns.items():
            is_primary = index == "PRIMARY"
            changes.append("DROP PRIMARY KEY" if is_primary else f"DROP INDEX {quote(index)}")
            changes += [f"ADD INDEX ({', '.join(parts)})"] if parts else []
        if changes:
            connection.change(f"ALTER TABLE {self.dialect.full(table)} {', '.join(changes)}")

    def beginning_with(self, connection: Connection, prefix: str) -> list[str]:
        """Return the names of the tables whose names begin with a prefix."""
        return [str(name) for (name,) in connection.rows(_BEGINNING, prefix, prefix)]

    def swap(self, connection: Connection, pairs: Sequence[tuple[TableName, TableName]]) -> None:
        """Rename several tables at one moment."""
        full = self.dialect.full
        parts = ", ".join(f"{full(old)} TO {full(new)}" for old, new in pairs)
        connection.change(f"RENAME TABLE {parts}")

    def show(self, connection: Connection, base: Table, found: Sequence[ViewBranch]) -> None:
        """Replace the view in one statement."""
        view = self.view(base)
        before = self.dialect.table(connection, view.name)
        self._create(connection, view, found, before, "CREATE OR REPLACE VIEW")


class FileTables(Tables):
    """DuckDB and SQLite: tables change inside the transaction, after the views were dropped."""

    def present_view(self, connection: Connection) -> Table | None:
        """Return the form of the view, None if there is none, or if it reads a missing table."""
        try:
            return super().present_view(connection)
        except self.dialect.errors():
            return None

    def like(self, connection: Connection, new: TableName, base: Table) -> None:
        """Create the columns without keys, because the code that loads a label knows the keys."""
        self.drop(connection, new)
        quote = self.dialect.quote
        columns = ", ".join(f"{quote(each.name)} {each.words}" for each in base.columns)
        connection.change(f"CREATE TABLE {self.dialect.full(new)} ({columns})")
