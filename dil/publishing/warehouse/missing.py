"""Finds rows whose keys a run did not read, although it read all rows of the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dil.errors import SourceContractError
from dil.model.dataset import Commit, PublishedFile
from dil.model.destination import DELETED_AT, MergeSpec
from dil.publishing.warehouse.dialect import STAGE, WINNERS, Connection, Dialect, Table, TableName
from dil.publishing.warehouse.rows import ORDER, ORDER_COLUMN, WarehouseRows

# A commit that removes the rows that the run did not read has one more file among the files that it
# removes. No such file exists; its name ends with this mark.
MARK_OF_MISSING = "#missing"


def takes_missing(commit: Commit) -> bool:
    """Return whether a commit removes the table's rows whose keys the run did not read."""
    return any(file.uri.endswith(MARK_OF_MISSING) for file in commit.removes)


def missing_rows(address: str) -> PublishedFile:
    """Return the file that represents the missing rows in a commit.

    The file has 0 rows, because the number of missing rows is not known yet.
    """
    return PublishedFile(f"{address}{MARK_OF_MISSING}", "", 0, 0, "", "")


@dataclass(frozen=True, slots=True)
class MissingRows:
    """The rows of a table whose keys the run did not read, except rows that are marked as deleted.

    The temporary table WINNERS holds the keys that the run read.
    """

    dialect: Dialect
    name: TableName
    table: Table
    spec: MergeSpec

    def require_few(self, connection: Connection, rows: WarehouseRows) -> None:
        """Raise if a commit would remove too many rows.

        To find them, load only the keys of the rows that the run read.

        Raises:
            SourceContractError: more rows are missing than ms.merge.delete.limit.percent of all
                rows.
        """
        has_keys = bool(rows.commit.moves)
        if has_keys:
            self._stage_keys(connection, rows)
        total = self._count(connection, self._live())
        missing = self._count(connection, self._is_missing(connection, has_keys=has_keys))
        if missing * 100 > total * self.spec.max_deleted_percent:
            raise SourceContractError(
                f"{missing:,} of {total:,} rows of the table {self.name.name} are missing at the"
                f" source, but ms.merge.delete.limit.percent={self.spec.max_deleted_percent}"
                " allows fewer deletions. Nothing was published",
                "Check whether the source returned all rows. To delete these rows, run once with a "
                "higher limit: -D ms.merge.delete.limit.percent=100",
            )

    def take_away(self, connection: Connection, commit: Commit) -> int:
        """Delete the missing rows, or mark them as deleted; return their number.

        The merge has to fill WINNERS first, with the keys of all rows that the run read.
        """
        condition = self._is_missing(connection, has_keys=bool(commit.moves))
        missing = self._count(connection, condition)
        full = self.dialect.full(self.name)
        if self.spec.is_soft:
            time = self.dialect.instant(commit.system_time)
            change = f"UPDATE {full} SET {self.dialect.quote(DELETED_AT)} = {time}"
        else:
            change = f"DELETE FROM {full}"
        connection.change(f"{change} WHERE {condition}")
        return missing

    def _stage_keys(self, connection: Connection, rows: WarehouseRows) -> None:
        keys = self.spec.keys
        names = ", ".join(map(self.dialect.quote, keys))
        full = self.dialect.full(self.name)
        folded = self.dialect.folded
        columns = [
            each for key in keys for each in self.table.columns if folded(each.name) == folded(key)
        ]
        order = f"CAST(0 AS {self.dialect.big_integer}) AS {self.dialect.quote(ORDER)}"
        empty = f"SELECT {names}, {order} FROM {full} WHERE 1 = 0"
        connection.change(self.dialect.temporary(STAGE, self.dialect.key_clause((ORDER,)), empty))
        stage = TableName("", STAGE, is_temporary=True)
        loaded = (*columns, ORDER_COLUMN)
        connection.load(stage, loaded, rows.batches(loaded))
        alike = self.dialect.collated(self._merge_keys(connection))
        self.dialect.keep_first(connection, names, keys, alike, alike)

    def _count(self, connection: Connection, condition: str) -> int:
        statement = f"SELECT COUNT(*) FROM {self.dialect.full(self.name)} WHERE {condition}"
        return int(str(connection.rows(statement)[0][0]))

    def _live(self) -> str:
        has_marks = any(each.name == DELETED_AT for each in self.table.columns)
        is_marked = self.spec.is_soft and has_marks
        return f"{self.dialect.quote(DELETED_AT)} IS NULL" if is_marked else "1 = 1"

    def _is_missing(self, connection: Connection, *, has_keys: bool) -> str:
        if not has_keys:
            return self._live()
        table = self.dialect.quote(self.name.name)
        equal = self.dialect.equal(table, "w", self._merge_keys(connection))
        return f"{self._live()} AND NOT EXISTS (SELECT 1 FROM {WINNERS} w WHERE {equal})"

    def _merge_keys(self, connection: Connection) -> Mapping[str, str]:
        return self.dialect.merge_keys(connection, self.name, self.spec.keys)
