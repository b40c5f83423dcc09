"""Makes the view of all timelabels from the registry (rule T20)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dil.publishing.timeseries.names import LABEL
from dil.publishing.timeseries.registry import LabelEntry
from dil.publishing.warehouse.dialect import Dialect, Table, TableName
from dil.types.warehouse import TEXT


@dataclass(frozen=True, slots=True)
class ViewBranch:
    """A table that the view reads; ``columns`` are its types in words, by column name.

    ``label`` is the label of all its rows. ``label`` is None if the table has the column
    ``_timelabel``, and empty if the rows have no label yet.
    """

    table: TableName
    label: str | None
    columns: Mapping[str, str]


def branches(
    entries: Iterable[LabelEntry], label_table: Mapping[str, TableName], schema: str
) -> tuple[ViewBranch, ...]:
    """Return the branches in order of labels; many labels in one table are one branch.

    Args:
        entries: The registry.
        label_table: The tables of labels that have a table of their own, by label.
        schema: The schema of the other tables.
    """
    found: dict[TableName, ViewBranch] = {}
    for entry in entries:
        if entry.is_live:
            own = label_table.get(entry.label)
            table = own or TableName(schema, entry.object)
            found.setdefault(table, ViewBranch(table, entry.label if own else None, entry.columns))
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class TimeseriesView:
    """The columns of the view: the base table's columns, by name in words, and the label.

    ``casts`` is true if the database can cast to the type words of any column.
    """

    dialect: Dialect
    name: TableName
    columns: Mapping[str, str]
    casts: bool = True

    def ordered(self, before: Table | None) -> tuple[tuple[str, str], ...]:
        """Return the columns with their types; new columns come after the earlier view's columns.

        PostgreSQL can only append columns to a view.
        """
        label = self.dialect.type_words(TEXT, is_key=False)
        wanted = {**{name: words for name, words in self.columns.items() if name != LABEL}}
        wanted[LABEL] = label
        first = [each.name for each in before.columns if each.name in wanted] if before else []
        return tuple((name, wanted[name]) for name in dict.fromkeys((*first, *wanted)))

    def text(self, base: TableName, found: Sequence[ViewBranch], before: Table | None) -> str:
        """Return the SELECT; if there is no branch, select from the base table, which is empty."""
        quote, columns, parts = self.dialect.quote, self.ordered(before), []
        for branch in found or (ViewBranch(base, "", self.columns),):
            terms = [
                f"{self._term(name, words, branch)} AS {quote(name)}" for name, words in columns
            ]
            parts.append(f"SELECT {', '.join(terms)} FROM {self.dialect.full(branch.table)}")
        return " UNION ALL ".join(parts)

    def _term(self, name: str, words: str, branch: ViewBranch) -> str:
        quoted = self.dialect.quote(name)
        if name == LABEL and branch.label is not None:
            return self._cast(f"'{branch.label}'" if branch.label else "NULL", words)
        has = branch.columns.get(name)
        if name == LABEL or has == words:
            return quoted
        return self._cast("NULL" if has is None else quoted, words)

    def _cast(self, term: str, words: str) -> str:
        return f"CAST({term} AS {words})" if self.casts else term
