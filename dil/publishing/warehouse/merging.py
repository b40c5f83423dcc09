"""Merges rows by their keys (rule U18).

The rows of a commit are loaded into a temporary table. Among rows with the same key, the row with
the greatest delta fields wins; if these are equal, the later row wins. A winner that is older than
the table's row is dropped. The other winners are upserted, or delete or mark the rows with their
keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from dil.errors import ConversionError, WriteError
from dil.model.destination import DELETED_AT, MergeSpec
from dil.model.report import MergedRows
from dil.publishing.warehouse.dialect import (
    STAGE,
    WINNERS,
    Connection,
    Dialect,
    Table,
    TableColumn,
    TableName,
)
from dil.publishing.warehouse.rows import GONE, GONE_COLUMN, ORDER, ORDER_COLUMN, WarehouseRows
from dil.publishing.warehouse.shape import missing_key
from dil.types.warehouse import TEXT, column_type

_STAGE = TableName("", STAGE, is_temporary=True)
_LONG = {TEXT, pa.binary()}  # types whose values may be long


@dataclass(frozen=True, slots=True)
class Merge:
    """The merge of one commit's rows into a table."""

    dialect: Dialect
    table: TableName
    spec: MergeSpec

    def require_possible(
        self, connection: Connection, table: Table | None, schema: pa.Schema
    ) -> None:
        """Raise if rows cannot be merged by the configured columns; ``table`` is the target's form.

        Raises:
            ConversionError: a field is missing, or the database could not compare its values, or a
                column has a name that the merge needs for itself.
            WriteError: the table has no unique index of the keys, or several that disagree.
        """
        for name in (ORDER, GONE):
            if name in schema.names:
                raise ConversionError(
                    f"the rows have a column {name}, a name that merges use for a column of their"
                    " own",
                    "Rename the column with ms.derived.fields.",
                )
        for name in (*self.spec.keys, *self.spec.delta_fields):
            if name not in schema.names:
                raise ConversionError(
                    f"the rows have no column {name}, by which they are merged",
                    "Correct extract.primary.key.fields and extract.delta.fields.",
                )
            data_type = column_type(schema.field(name).type)
            if data_type is not None and self.dialect.kept(data_type) == TEXT and data_type != TEXT:
                raise ConversionError(
                    f"rows cannot be merged by {name}: the database keeps {data_type} as text",
                    "Merge by a column of another type.",
                )
        keys = self.spec.keys
        statement = "" if table is None else missing_key(self.dialect, self.table, table, keys)
        if statement:
            raise WriteError(
                f"{self.table.name} has no primary key or unique index of {', '.join(keys)}",
                f"Add one: {statement};",
            )
        self.dialect.merge_keys(connection, self.table, keys)  # raises if unique indexes disagree

    def stage(
        self, connection: Connection, rows: WarehouseRows, columns: Sequence[TableColumn]
    ) -> None:
        """Load the rows into a temporary table and choose the winners; the target is only read."""
        quote, dialect = self.dialect.quote, self.dialect
        names = ", ".join(quote(each.name) for each in columns)
        of_table = ", ".join(f"t.{quote(each.name)}" for each in columns)
        zero = f"CAST(0 AS {dialect.big_integer})"
        # A row that deletes may lack values. MySQL would copy NOT NULL, except from the right side
        # of a LEFT JOIN.
        connection.change(
            dialect.temporary(
                STAGE,
                dialect.key_clause((ORDER,)),
                f"SELECT {of_table}, {zero} AS {quote(ORDER)}, {zero} AS {quote(GONE)} "
                f"FROM (SELECT 1 AS dil_one) o LEFT JOIN {dialect.full(self.table)} t ON 1 = 0 "
                "WHERE 1 = 0",
            )
        )
        loaded = (*columns, ORDER_COLUMN, GONE_COLUMN)
        connection.load(_STAGE, loaded, rows.batches(loaded))
        keys = dialect.collated(dialect.merge_keys(connection, self.table, self.spec.keys))
        ages = {each: self._age(quote(each), each, columns) for each in self.spec.delta_fields}
        long = [ages[each.name] for each in columns if each.name in ages and each.type in _LONG]
        dialect.sort_whole(connection, long)
        order = [f"({age} IS NULL), {age} DESC" for age in ages.values()]
        order.append(f"{quote(ORDER)} DESC")
        dialect.keep_first(
            connection, f"{names}, {quote(GONE)}", self.spec.keys, keys, ", ".join(order)
        )

    def carry_out(self, connection: Connection, columns: Sequence[TableColumn]) -> MergedRows:
        """Change the table, whose other writers are locked out; return the numbers of rows."""
        dialect = self.dialect
        keys = dialect.merge_keys(connection, self.table, self.spec.keys)
        equal = dialect.equal("t", WINNERS, keys)
        if self.spec.delta_fields:
            connection.change(
                f"DELETE FROM {WINNERS} WHERE EXISTS (SELECT 1 "
                f"FROM {dialect.full(self.table)} t "
                f"WHERE {equal} AND {self._is_newer(columns)})"
            )
        merged = self._counted(connection, equal)
        gone = dialect.quote(GONE)
        names = [each.name for each in columns]
        upsert = partial(dialect.upsert, self.table, names, self.spec.keys)
        if merged.inserted or merged.updated:
            # Without a required column, MySQL refuses the statement even if no row is upserted.
            connection.change(upsert(f"{gone} = 0", names))
        if self.spec.is_soft:
            # A delete may come with its key alone, so the table's row keeps its other values.
            connection.change(upsert(f"{gone} = 1", (*self.spec.delta_fields, DELETED_AT)))
        elif self.spec.op_field:
            connection.change(dialect.delete_matching(self.table, keys, f"{gone} = 1"))
        return merged

    def _counted(self, connection: Connection, equal: str) -> MergedRows:
        """Return the numbers of rows that the winners will insert, update and delete."""
        full = self.dialect.full(self.table)
        here = f"EXISTS (SELECT 1 FROM {full} t WHERE {equal})"
        known = self._count(connection, f"WHERE {here}")
        rows = self._count(connection, "").get(0, 0)
        updated = known.get(0, 0)
        return MergedRows(rows - updated, updated, known.get(1, 0))

    def _count(self, connection: Connection, condition: str) -> dict[int, int]:
        """Return the numbers of winners, separately for winners that delete."""
        gone = self.dialect.quote(GONE)
        found = connection.rows(
            f"SELECT {gone}, COUNT(*) FROM {WINNERS} {condition} GROUP BY {gone}"
        )
        return {int(str(is_gone)): int(str(count)) for is_gone, count in found}

    def _is_newer(self, columns: Sequence[TableColumn]) -> str:
        """Return the condition that the table's row has greater delta fields; null is the least."""
        cases, equal = [], ""
        for name in self.spec.delta_fields:
            quoted = self.dialect.quote(name)
            old = self._age(f"t.{quoted}", name, columns)
            new = self._age(f"{WINNERS}.{quoted}", name, columns)
            greater = f"({old} > {new} OR ({new} IS NULL AND {old} IS NOT NULL))"
            cases.append(f"({equal}{greater})")
            equal += f"{self.dialect.same(old, new)} AND "
        return f"({' OR '.join(cases)})"

    def _age(self, value: str, name: str, columns: Sequence[TableColumn]) -> str:
        """Return a delta field's value in a form that is comparable as in files."""
        column = next(each for each in columns if each.name == name)
        return self.dialect.comparable(value, column)
