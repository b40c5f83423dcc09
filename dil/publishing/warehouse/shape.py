"""Finds the changes that a table needs for staged rows: the table, new columns, wider types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.types as pt

from dil.errors import ConversionError
from dil.publishing.warehouse.dialect import Dialect, Table, TableColumn, TableName
from dil.publishing.warehouse.rows import SIGNATURE, WarehouseRows
from dil.types.warehouse import TEXT, column_type, holds

_OPEN_DIGITS = 76


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The statements that make a table fit, and the table's columns after these statements."""

    statements: tuple[str, ...]
    columns: tuple[TableColumn, ...]


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A target table of rows, with its keys, and the dialect of its statements.

    ``hidden`` is a column that is not filled from rows, even if rows have a column of this name.
    """

    dialect: Dialect
    name: TableName
    keys: tuple[str, ...] = ()
    hidden: str = ""

    def table_changes(self, table: Table | None, rows: WarehouseRows) -> TableChanges:
        """Return the changes that the table needs before rows can be loaded.

        Raises:
            ConversionError: a column has another type, or a narrower type that cannot be widened.
        """
        schema = pa.schema([each for each in rows.schema() if each.name != self.hidden])
        if table is not None:
            given = tuple(each for each in table.columns if each.name != self.hidden)
            table = replace(table, columns=given)
        if not len(schema):
            return TableChanges((), ())
        self._check_names(schema)
        types = {field.name: self._type(field) for field in schema}
        if table is None:
            self._check_keys(types, rows)
            return self._created(types)
        known = {self.dialect.folded(each.name): each for each in table.columns}
        lengths = rows.longest(self._limited(types, known))
        statements, columns = [], []
        for name, data_type in types.items():
            column = known.get(self.dialect.folded(name))
            if column is None:
                columns.append(self.column(name, data_type))
                statements.append(self.added(columns[-1]))
                continue
            self._check_given(column)
            fitting = self._fitting(column, data_type, lengths.get(name, 0))
            columns.append(replace(fitting, name=name))
            if fitting.words != column.words:
                statements.append(self._widening(column, fitting))
        self._check_required(table, types, rows)
        return TableChanges(tuple(statements), tuple(columns))

    def _type(self, field: pa.Field) -> pa.DataType:
        data_type = column_type(field.type)
        is_key = field.name in self.keys
        if data_type is None or not self.dialect.type_words(data_type, is_key=is_key):
            raise ConversionError(
                f"column {field.name} has the type {field.type}, which no column of "
                f"{self.name.name} can hold exactly",
                "Give the column another type with ms.output.schema, or leave it out.",
            )
        return data_type

    def _created(self, types: Mapping[str, pa.DataType]) -> TableChanges:
        columns = [self.column(name, data_type) for name, data_type in types.items()]
        quote = self.dialect.quote
        parts = [
            f"{quote(each.name)} {each.words}{' NOT NULL' if each.name in self.keys else ''}"
            for each in columns
        ]
        if self.keys:
            parts.append(f"PRIMARY KEY ({', '.join(map(quote, self.keys))})")
        statement = f"CREATE TABLE {self.dialect.full(self.name)} ({', '.join(parts)})"
        index = self.dialect.index(self.name, SIGNATURE) if SIGNATURE in types else ""
        return TableChanges(tuple(filter(None, (statement, index))), tuple(columns))

    def _check_keys(self, types: Mapping[str, pa.DataType], rows: WarehouseRows) -> None:
        most = self.dialect.key_characters
        texts = [key for key in self.keys if most is not None and types[key] == TEXT]
        for key, longest in rows.longest(texts).items():
            if longest > (most or 0):
                raise ConversionError(
                    f"column {key} holds more than {most} characters, but a key can have at most"
                    " so many",
                    "Merge by other columns.",
                )

    def added(self, column: TableColumn) -> str:
        """Return the statement that adds a column to the table."""
        words = f"{self.dialect.quote(column.name)} {column.words}"
        return f"ALTER TABLE {self.dialect.full(self.name)} ADD COLUMN {words}"

    def column(self, name: str, data_type: pa.DataType) -> TableColumn:
        """Return a column that the table does not have yet."""
        words = self.dialect.type_words(data_type, is_key=name in self.keys)
        return TableColumn(name, self.dialect.kept(data_type), words)

    def _limited(
        self, types: Mapping[str, pa.DataType], known: Mapping[str, TableColumn]
    ) -> list[str]:
        """Return the names of the columns whose text may be too long for the table."""
        found = []
        for name, data_type in types.items():
            column = known.get(self.dialect.folded(name))
            if column is not None and column.limit is not None and column.type is not None:
                found += [name] if holds(column.type, self.dialect.kept(data_type)) else []
        return found

    def _fitting(self, column: TableColumn, data_type: pa.DataType, longest: int) -> TableColumn:
        """Return the column in a form that holds values of a type, and text up to this length."""
        kept, has = self.dialect.kept(data_type), column.type
        words = self.column(column.name, data_type).words
        wide = replace(column, type=kept, words=words, limit=None)
        if has is None:
            raise self._mismatch(column, wide)
        if pt.is_decimal(has) and has.precision == _OPEN_DIGITS and pt.is_decimal(kept):
            return replace(column, type=kept)
        if holds(has, kept):
            if column.limit is None or column.limit >= longest:
                return column
            if column.name in self.keys:
                raise ConversionError(
                    f"column {column.name} of {self.name.name} is {column.words}, but rows have"
                    " longer texts",
                    "Give the key a longer type, or set other keys.",
                )
            return replace(wide, type=TEXT, words=self.dialect.type_words(TEXT, is_key=False))
        if holds(kept, has) and kept != TEXT:
            return wide
        raise self._mismatch(column, wide)

    def _widening(self, column: TableColumn, fitting: TableColumn) -> str:
        """Return the statement that gives a column another type."""
        attributes = column.attributes
        statement = self.dialect.widen(self.name, column.name, fitting.words, attributes)
        if not statement or attributes is None or column.bound_by:
            raise self._mismatch(column, fitting)
        return statement

    def _check_given(self, column: TableColumn) -> None:
        if column.is_computed:
            raise ConversionError(
                f"column {column.name} of the table {self.name.name} is computed by the database, "
                "but the rows have values for it",
                "Leave the column out of the rows, or rename it with ms.derived.fields.",
            )
        if column.is_fixed and self.keys and column.name not in self.keys:
            raise ConversionError(
                f"column {column.name} of the table {self.name.name} is GENERATED ALWAYS, but rows"
                " are merged, which must give rows other values",
                "Leave the column out of the rows, or make it GENERATED BY DEFAULT.",
            )

    def _mismatch(self, column: TableColumn, wanted: TableColumn) -> ConversionError:
        widen = partial(self.dialect.widen, self.name, column.name, wanted.words)
        because = f", on which {column.bound_by} depends" if column.bound_by else ""
        how = (
            f"If that is intended, give the column the other type: {widen()};"
            if widen(column.attributes) and not column.bound_by
            else "Give the job's rows the type of the table with ms.output.schema, or load into a"
            f" new table: the database cannot change the type of this column{because}."
        )
        return ConversionError(
            f"column {column.name} of the table {self.name.name} has the type {column.words}, but"
            f" the rows need {wanted.words}",
            how,
        )

    def _check_required(
        self, table: Table, types: Mapping[str, pa.DataType], rows: WarehouseRows
    ) -> None:
        given = {self.dialect.folded(name) for name in types}
        lacking = [each.name for each in table.columns
                   if each.is_required and self.dialect.folded(each.name) not in given]  # fmt: skip
        if lacking and not rows.are_hard_deletes():
            raise ConversionError(
                f"column {lacking[0]} of the table {self.name.name} must not be null and has no "
                "default, but the rows have no such column",
                "Give the column a default, or let it be null.",
            )

    def _check_names(self, schema: pa.Schema) -> None:
        seen: dict[str, str] = {}
        for name in schema.names:
            if not self.dialect.holds_name(name):
                raise ConversionError(
                    f"column {name} has a name that is too long for the database",
                    "Rename the column with ms.derived.fields: PostgreSQL keeps 63 bytes, MySQL"
                    " 64 characters.",
                )
            other = seen.setdefault(self.dialect.folded(name), name)
            if other != name:
                raise ConversionError(
                    f"columns {other} and {name} differ only in case, which the database ignores",
                    "Rename one of them with ms.derived.fields.",
                )
        absent = [key for key in self.keys if key not in schema.names]
        if absent:
            raise ConversionError(
                f"the rows have no column {absent[0]}, by which they are merged",
                "Correct extract.primary.key.fields.",
            )


def missing_key(dialect: Dialect, name: TableName, table: Table, keys: Sequence[str]) -> str:
    """Return the statement that adds the key for merging rows, empty if the key exists."""
    wanted = frozenset(map(dialect.folded, keys))
    if any(frozenset(map(dialect.folded, each)) == wanted for each in table.unique):
        return ""
    names = ", ".join(map(dialect.quote, keys))
    if not dialect.merges_by_index:
        return f"ALTER TABLE {dialect.full(name)} ADD PRIMARY KEY ({names})"
    # Not a primary key, because the table may have one of other columns.
    return (
        f"CREATE UNIQUE INDEX {dialect.quote(f'{name.name}_key')} ON {dialect.full(name)} ({names})"
    )
