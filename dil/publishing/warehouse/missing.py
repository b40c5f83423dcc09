"""Rows whose key a run did not read, though it read all that the source has."""

from __future__ import annotations

from dataclasses import dataclass

from dil.errors import SourceContractError
from dil.model.dataset import Commit, PublishedFile
from dil.model.destination import MergeSpec
from dil.publishing.warehouse.dialect import STAGE, WINNERS, Connection, Dialect, Table, TableName
from dil.publishing.warehouse.rows import DELETED_AT, WarehouseRows

# The end of the name of what a commit takes away, where it takes away what the run did not read.
MARK_OF_MISSING = "#missing"


def takes_missing(commit: Commit) -> bool:
    """Return whether rows go whose key is not among those of the commit."""
    return any(file.uri.endswith(MARK_OF_MISSING) for file in commit.removes)


def missing_rows(address: str) -> PublishedFile:
    """Return the file that a commit removes for missing rows; their number is unknown."""
    return PublishedFile(f"{address}{MARK_OF_MISSING}", "", 0, 0, "", "")


@dataclass(frozen=True, slots=True)
class MissingRows:
    """The rows of a table that are not among the winners of a commit.

    Rows that are marked as deleted are gone already.
    """

    dialect: Dialect
    name: TableName
    table: Table
    spec: MergeSpec

    def require_few(self, connection: Connection, rows: WarehouseRows) -> None:
        """Refuse a commit that would take away too many rows; the keys alone are loaded.

        Raises:
            SourceContractError: more are missing than ms.merge.delete.limit.percent of all rows.
        """
        has_keys = bool(rows.commit.moves)
        if has_keys:
            self._stage_keys(connection, rows)
        total = self._count(connection, self._live())
        missing = self._count(connection, self._is_missing(has_keys=has_keys))
        if missing * 100 > total * self.spec.max_deleted_percent:
            raise SourceContractError(
                f"{missing:,} of {total:,} rows of the table {self.name.name} are missing at the "
                f"source, which is more than ms.merge.delete.limit.percent="
                f"{self.spec.max_deleted_percent} allows to delete. Nothing was published",
                "Look whether the source gave everything. If these rows are to go, run once with a "
                "higher limit: -D ms.merge.delete.limit.percent=100",
            )

    def take_away(self, connection: Connection, commit: Commit) -> int:
        """Delete the rows, or mark them, and return how many.

        The winners are those that were read, all of them.
        """
        condition = self._is_missing(has_keys=bool(commit.moves))
        missing = self._count(connection, condition)
        full = self.dialect.full(self.name)
        if self.spec.is_soft:
            time = self.dialect.instant(commit.system_time)
            change = f"UPDATE {full} SET {self.dialect.quote(DELETED_AT)} = {time}"  # noqa: S608
        else:
            change = f"DELETE FROM {full}"  # noqa: S608 - a quoted name
        connection.change(f"{change} WHERE {condition}")
        return missing

    def _stage_keys(self, connection: Connection, rows: WarehouseRows) -> None:
        keys = self.spec.keys
        names = ", ".join(map(self.dialect.quote, keys))
        full = self.dialect.full(self.name)
        columns = [
            each for key in keys for each in self.table.columns if self._same(each.name, key)
        ]
        empty = f"SELECT {names} FROM {full} WHERE 1 = 0"  # noqa: S608 - quoted names
        connection.change(self.dialect.temporary(STAGE, "", empty))
        stage = TableName("", STAGE, is_temporary=True)
        connection.load(stage, columns, rows.batches(columns))
        distinct = f"SELECT DISTINCT {names} FROM {STAGE}"  # noqa: S608 - quoted names
        clause = self.dialect.key_clause(keys)
        connection.change(self.dialect.temporary(WINNERS, clause, distinct))
        for statement in self.dialect.index_winners(keys):
            connection.change(statement)

    def _same(self, name: str, other: str) -> bool:
        return name == other or (self.dialect.folds_case and name.lower() == other.lower())

    def _count(self, connection: Connection, condition: str) -> int:
        statement = f"SELECT COUNT(*) FROM {self.dialect.full(self.name)} WHERE {condition}"  # noqa: S608
        return int(str(connection.rows(statement)[0][0]))

    def _live(self) -> str:
        has_marks = any(each.name == DELETED_AT for each in self.table.columns)
        is_marked = self.spec.is_soft and has_marks
        return f"{self.dialect.quote(DELETED_AT)} IS NULL" if is_marked else "1 = 1"

    def _is_missing(self, *, has_keys: bool) -> str:
        if not has_keys:
            return self._live()
        quote = self.dialect.quote
        pairs = " AND ".join(
            f"w.{name} = {quote(self.name.name)}.{name}" for name in map(quote, self.spec.keys)
        )
        return f"{self._live()} AND NOT EXISTS (SELECT 1 FROM {WINNERS} w WHERE {pairs})"  # noqa: S608
