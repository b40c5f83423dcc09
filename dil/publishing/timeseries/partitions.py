"""Stores labels as partitions of one table of PostgreSQL (rule T22).

``<table>`` is partitioned by LIST (_timelabel). A label is loaded into a new table like
``<table>``, and the transaction that shows the label attaches the new table. So readers can read
while labels are added. If a column is added to ``<table>`` or gets a wider type there, all
partitions change too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from dil.databases.statements import MARK
from dil.errors import ConfigError, ConversionError
from dil.publishing.timeseries.engines import IS_SHOWN, PARTITIONED_BY, PHYSICAL, PostgresqlTables
from dil.publishing.timeseries.names import LABEL
from dil.publishing.timeseries.registry import LabelEntry
from dil.publishing.timeseries.view import ViewBranch
from dil.publishing.warehouse.dialect import Connection, Table, TableColumn, TableName
from dil.publishing.warehouse.loading import change_all
from dil.publishing.warehouse.rows import WarehouseRows
from dil.publishing.warehouse.shape import TableChanges, TargetTable
from dil.types.warehouse import TEXT

_BASE = f"""
SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = {MARK} AND c.relname = {MARK}"""
# A partition in another schema is listed with its schema; it does not belong to DIL.
_PARTITIONS = f"""
SELECT CASE WHEN p.relnamespace = b.relnamespace THEN '' ELSE n.nspname || '.' END || p.relname,
  pg_get_expr(p.relpartbound, p.oid) FROM pg_inherits i
JOIN pg_class p ON p.oid = i.inhrelid JOIN pg_class b ON b.oid = i.inhparent
JOIN pg_namespace n ON n.oid = p.relnamespace
WHERE i.inhparent IN ({_BASE}) ORDER BY 1"""
_OWNER = f"""
SELECT c.relname::text, r.rolname::text FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
WHERE (c.oid IN ({_BASE})
  OR c.oid IN (SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent IN ({_BASE})))
  AND NOT pg_has_role(c.relowner, 'USAGE') ORDER BY 1 LIMIT 1"""
_NUMBERED = f"""
SELECT a.attname::text, pg_get_serial_sequence(format('%I.%I', n.nspname, c.relname), a.attname)
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid IN ({_BASE}) AND a.attidentity <> '' AND NOT a.attisdropped"""
_REFERRING = f"""
SELECT DISTINCT k.conrelid::regclass::text FROM pg_constraint k
WHERE k.contype = 'f' AND k.conparentid = 0 AND k.confrelid IN ({_BASE}) ORDER BY 1"""
# Objects that prevent PostgreSQL from changing a type: views, triggers, policies and so on.
_COLUMN_READERS = f"""
SELECT DISTINCT a.attname::text,
  COALESCE(v.oid::regclass::text, pg_describe_object(d.classid, d.objid, d.objsubid))
FROM pg_depend d
JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
LEFT JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
LEFT JOIN pg_class v ON v.oid = r.ev_class
WHERE d.refclassid = 'pg_class'::regclass AND (d.refobjid IN ({_BASE})
  OR d.refobjid IN (SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent IN ({_BASE})))
  AND d.classid IN ('pg_rewrite'::regclass, 'pg_trigger'::regclass, 'pg_policy'::regclass,
    'pg_proc'::regclass, 'pg_publication_rel'::regclass)
  AND (v.oid IS NULL OR v.oid NOT IN ({_BASE})) ORDER BY 1, 2"""
_IN_BOUND = re.compile(r"'([^']*)'")
_CHECK = "_dil_label"


class PartitionedTables(PostgresqlTables):
    """The base holds the rows of all labels; a partition holds one label or many."""

    @property
    def _words(self) -> str:
        """Return the type of the column of labels, in the database's words."""
        return self.dialect.type_words(TEXT, is_key=False)

    def require_own(self, connection: Connection) -> None:
        """Raise if the base is not partitioned by label, or belongs to another user."""
        base, full = self.names.base, self.dialect.full(self.names.base)
        found, text = self.dialect.table(connection, base), self._words
        if found is None:
            return
        if not connection.rows(PARTITIONED_BY, base.schema, base.name):
            raise ConfigError.single(
                PHYSICAL,
                f'is "native", and {full} is a table that is not partitioned by LIST ({LABEL})',
                f"Set {PHYSICAL}=tables, if such a job made it; or load into another table, "
                "by extract.table.name.",
            )
        if any(each.name == LABEL and each.words != text for each in found.columns):
            raise ConfigError.single(
                PHYSICAL,
                f'is "native", but the column {LABEL} of {full} is not of type text',
                f"Give the column the type text; or set {PHYSICAL}=tables and load into another"
                " table.",
            )
        for name, owner in connection.rows(_OWNER, *(base.schema, base.name) * 2):
            raise ConfigError.single(
                PHYSICAL,
                f'is "native", but {name} belongs to {owner}: PostgreSQL lets only its owner'
                " attach, change and drop partitions",
                f"Run GRANT {owner} TO this user, or make this user the owner of all of them: "
                "ALTER TABLE ... OWNER TO.",
            )

    def require_empty(self, connection: Connection, held: Collection[str]) -> None:
        """Raise if a partition is not in the registry, or a label's partition is missing.

        It also raises if a foreign key refers to the base, because then no partition could be
        dropped.
        """
        base = self.names.base
        for (table,) in connection.rows(_REFERRING, base.schema, base.name):
            raise ConfigError.single(
                PHYSICAL,
                f'is "native", but a foreign key of {table} refers to {self.dialect.full(base)}:'
                " then PostgreSQL drops no partition, but a label that is loaded again gets a new"
                " partition",
                "Drop the foreign key.",
            )
        there, full = self._partitions(connection).keys(), self.dialect.full(base)
        for name in sorted(there - set(held)):
            raise ConfigError.single(
                "ms.warehouse.table.kind",
                f"is timeseries, but {full} has the partition {name}, which no timelabel has",
                f"Run ALTER TABLE {full} DETACH PARTITION {name} and rename that table; or name"
                " another table.",
            )
        for name in sorted(set(held) - there):
            raise ConfigError.single(
                PHYSICAL,
                f'is "native", but {name} has rows of timelabels and is not a partition of {full}',
                f"Attach the table again; or set {PHYSICAL}=tables, if such a job made that table.",
            )

    def table_changes(self, table: Table | None, rows: WarehouseRows) -> TableChanges:
        """Return the changes that the base needs; rows do not fill its column of labels."""
        found = TargetTable(self.dialect, self.names.base, hidden=LABEL).table_changes(table, rows)
        if table is None and found.statements:
            return TableChanges(
                (self._created(found.columns), *found.statements[1:]), found.columns
            )
        return found

    def _created(self, columns: Sequence[TableColumn]) -> str:
        quote = self.dialect.quote
        parts = [f"{quote(each.name)} {each.words}" for each in columns]
        parts.append(f"{quote(LABEL)} {self._words} NOT NULL")
        full = self.dialect.full(self.names.base)
        return f"CREATE TABLE {full} ({', '.join(parts)}) PARTITION BY LIST ({quote(LABEL)})"

    def alter(self, connection: Connection, statements: Sequence[str]) -> None:
        """Change the base and all partitions, in a separate transaction.

        The view reads the base and all partitions. So it is made to read no table before the
        change, and to read the base again afterwards. As everywhere, this waits for the view's lock
        first.
        """
        if not statements:
            return
        connection.begin()
        self.limit_waiting(connection)
        name = self.names.base
        if connection.rows(IS_SHOWN, name.schema, name.name, self.names.view.name):
            change_all(connection, tuple(self.empty_view(connection)))
        change_all(connection, statements)
        base = self.dialect.table(connection, name)
        if base is not None:
            self.show(connection, base, ())
        connection.commit()

    def rehearse(self, connection: Connection, statements: Sequence[str]) -> None:
        """Try the changes on an empty copy of the base, which may have many rows and readers."""
        base, trial = self.names.base, self.names.next_base()
        found = self.dialect.table(connection, base) if statements else None
        if found is None:
            change_all(connection, statements)
            return
        own, other = (f"ALTER TABLE {self.dialect.full(name)} " for name in (base, trial))
        if not all(each.startswith(own) for each in statements):
            # Another driver has created the base since then; that error is reported, and the call
            # is repeated.
            change_all(connection, statements)
            return
        self.like(connection, trial, found)
        change_all(connection, [f"{other}{each.removeprefix(own)}" for each in statements])

    def keep_to(self, connection: Connection, table: TableName, labels: Sequence[str]) -> None:
        """Limit an empty table to some labels; a single label becomes the label column's default.

        Because of the CHECK, PostgreSQL need not read the table when the table is attached. Rows
        get their numbers from the base's sequence, which numbers the rows of all labels, because
        some keys include the number.
        """
        full, quoted = self.dialect.full(table), self.dialect.quote(LABEL)
        check = f"CHECK ({quoted} IS NOT NULL AND {quoted} IN ({_listed(labels)}))"
        changes = [f"ADD CONSTRAINT {self.dialect.quote(_CHECK)} {check}"]
        if len(labels) == 1:
            changes.append(f"ALTER COLUMN {quoted} SET DEFAULT {_listed(labels)}")
        connection.change(f"ALTER TABLE {full} {', '.join(changes)}")
        for column, sequence in self._numbered(connection):
            alter = f"ALTER TABLE {full} ALTER COLUMN {self.dialect.quote(column)}"
            connection.change(f"{alter} DROP IDENTITY")
            text = sequence.replace("'", "''")
            connection.change(f"{alter} SET DEFAULT nextval('{text}'::regclass)")

    def _numbered(self, connection: Connection) -> list[tuple[str, str]]:
        """Return the columns that the base numbers automatically, and their sequences."""
        base = self.names.base
        found = connection.rows(_NUMBERED, base.schema, base.name)
        return [(str(column), str(sequence)) for column, sequence in found]

    def copied(self, entry: LabelEntry, base: Table) -> list[str]:
        """Return all columns: a label also has the columns that were added later."""
        del entry
        return [each.name for each in base.columns]

    def grow(self, connection: Connection, name: TableName, base: Table) -> Table | None:
        """Return the form of a partition; it changes together with the base."""
        del base
        return self.dialect.table(connection, name)

    def hold(self, connection: Connection) -> None:
        """Wait for readers of the base, and keep new readers out."""
        full = self.dialect.full(self.names.base)
        connection.change(f"LOCK TABLE ONLY {full} IN ACCESS EXCLUSIVE MODE")

    def attach(self, connection: Connection, coming: Mapping[TableName, Sequence[str]]) -> None:
        """Attach tables as partitions of their labels."""
        if not coming:
            return
        self._give_up(connection, frozenset(label for held in coming.values() for label in held))
        numbered = self._numbered(connection)
        for table, labels in coming.items():
            full = self.dialect.full(table)
            for column, _ in numbered:
                quoted = self.dialect.quote(column)
                connection.change(f"ALTER TABLE {full} ALTER COLUMN {quoted} DROP DEFAULT")
            self._attach(connection, table, labels)
            connection.change(f"ALTER TABLE {full} DROP CONSTRAINT {self.dialect.quote(_CHECK)}")

    def _attach(self, connection: Connection, table: TableName, labels: Sequence[str]) -> None:
        full = self.dialect.full
        connection.change(
            f"ALTER TABLE {full(self.names.base)} ATTACH PARTITION {full(table)} "
            f"FOR VALUES IN ({_listed(labels)})"
        )

    def _give_up(self, connection: Connection, labels: Collection[str]) -> None:
        """Detach labels from their partitions after their rows were deleted there."""
        full = self.dialect.full
        for name, held in self._partitions(connection).items():
            rest, table = sorted(held.difference(labels)), self.names.of(name)
            if len(rest) < len(held):
                base = full(self.names.base)
                connection.change(f"ALTER TABLE {base} DETACH PARTITION {full(table)}")
                self._attach(connection, table, rest)

    def _partitions(self, connection: Connection) -> dict[str, frozenset[str]]:
        """Return, by partition name, the labels that each partition of the base may hold."""
        base = self.names.base
        found = connection.rows(_PARTITIONS, base.schema, base.name)
        return {str(name): frozenset(_IN_BOUND.findall(str(bound))) for name, bound in found}

    def require_view(self, connection: Connection, base: Table) -> None:
        """Raise if another program's view reads a changing column of the base or of a partition."""
        super().require_view(connection, base)
        name, view = self.names.base, self.names.view
        found = self.dialect.table(connection, name)
        had = {} if found is None else {each.name: each.words for each in found.columns}
        changed = {
            each.name for each in base.columns if had.get(each.name, each.words) != each.words
        }
        place = (name.schema, name.name)
        given = (*place, *place, view.schema, view.name)
        for column, reader in connection.rows(_COLUMN_READERS, *given) if changed else ():
            if column in changed:
                raise ConversionError(
                    f"column {column} of {name.name} gets a wider type, and {reader} reads it: "
                    "PostgreSQL cannot change it then",
                    f"Drop {reader} first, run the job, and create it again.",
                )

    def show(self, connection: Connection, base: Table, found: Sequence[ViewBranch]) -> None:
        """Create the view of the base if it does not exist; changes of labels do not affect it."""
        del found
        name, view = self.names.base, self.view(base)
        before = self.dialect.table(connection, view.name)
        had = [] if before is None else [(each.name, each.words) for each in before.columns]
        is_shown = connection.rows(IS_SHOWN, name.schema, name.name, view.name.name)
        if not is_shown or had != list(view.ordered(before)):
            super().show(connection, base, (ViewBranch(name, None, view.columns),))


def _listed(labels: Sequence[str]) -> str:
    return ", ".join(f"'{label}'" for label in labels)
