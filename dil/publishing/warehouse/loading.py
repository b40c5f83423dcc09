"""Runs the one transaction of a commit: its rows, the replaced rows, and the commit's record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import ConversionError, WriteError
from dil.model.dataset import Commit, Intent, PublishedFile
from dil.model.destination import DELETED_AT
from dil.model.job import PublishingSpec, PublishMode
from dil.model.report import MergedRows
from dil.publishing.warehouse.attempts import CommitLostError
from dil.publishing.warehouse.dialect import Connection, Dialect, TableColumn, TableName
from dil.publishing.warehouse.merging import Merge
from dil.publishing.warehouse.missing import MissingRows, takes_missing
from dil.publishing.warehouse.records import Records, delete_by
from dil.publishing.warehouse.rows import (
    GONE,
    GONE_COLUMN,
    LABEL,
    SIGNATURE,
    WarehouseFiles,
    WarehouseRows,
)
from dil.publishing.warehouse.shape import TableChanges, TargetTable
from dil.types.lattice import INSTANT


class SideTableRows(Protocol):
    """Rows that a commit loads into a second table, in the same transaction as its other rows."""

    def prepare(self, connection: Connection, commit: Commit) -> None:
        """Create missing parts of the second table outside of a transaction; may be repeated."""

    def load(self, connection: Connection, commit: Commit, sequence: int) -> bool:
        """Load the rows in the open transaction; return False if another run has loaded them."""


def change_all(connection: Connection, statements: Sequence[str]) -> None:
    """Run statements one after the other, each by itself."""
    for statement in statements:
        connection.change(statement)


def units_with_closed_rows(
    live: Iterable[PublishedFile], commit: Commit
) -> dict[str, frozenset[str]]:
    """Return the work units that were read again but keep their rows of closed labels.

    For each of them, by signature, the result has the labels whose rows are removed. ``live`` are
    the loaded files.
    """
    read = {each.signature for each in commit.run.outcomes if each.succeeded}
    removed = {file.uri for file in commit.removes}
    staying: set[str] = set()
    going: defaultdict[str, set[str]] = defaultdict(set)
    for file in live:
        if file.uri in removed:
            going[file.signature].add(file.timelabel or "")
        elif file.signature in read:
            staying.add(file.signature)
    return {signature: frozenset(going[signature]) for signature in sorted(staying)}


@dataclass(frozen=True, slots=True)
class Loading:
    """Loads rows into one table; ``alter`` runs the statements that change its columns.

    ``late`` is the table of late rows, None if this is the table of late rows itself.
    """

    dialect: Dialect
    table: TableName
    records: Records
    spec: PublishingSpec
    files: WarehouseFiles
    alter: Callable[[Connection, Sequence[str]], None] = change_all
    late: SideTableRows | None = None

    def require_fit(self, connection: Connection, commit: Commit) -> None:
        """Check that the table accepts all rows of a commit.

        Missing parts of the table are created and rolled back. If the database cannot roll them
        back, they stay; readers find nothing in an empty table or column.

        Raises:
            ConversionError: a column or a value does not fit.
        """
        rows = self._rows(commit)
        self.records.make(connection)
        self._require_label_column(connection, commit)
        table_changes = self._table_changes(connection, rows)
        columns = table_changes.columns
        checked = (*columns, GONE_COLUMN) if self._is_hard_merge else columns
        for batch in rows.batches(checked, to_check=True):
            self._check_values(batch, columns)
        if table_changes.statements and self.dialect.ddl_in_transaction:
            connection.begin()
            # The table is inspected again, because another job may have changed it meanwhile.
            self._alter(connection, self._table_changes(connection, rows))
            connection.rollback()
        else:
            self._alter(connection, table_changes)

    def require_few_missing(self, connection: Connection, commit: Commit) -> None:
        """Check that a commit does not remove too many rows that the run did not read.

        Raises:
            SourceContractError: the commit removes too many rows.
        """
        missing = self._missing(connection, commit)
        if missing is not None:
            connection.begin()
            missing.require_few(connection, self._rows(commit))
            connection.rollback()

    def carry_out(self, connection: Connection, intent: Intent) -> MergedRows | None:
        """Load the rows of an intent, unless they are loaded; repeating it changes nothing.

        Returns:
            The counts of the merge; None if there was no merge, or if the merge was done before.
        """
        commit = intent.commit
        self.records.make(connection)
        if self.records.has(connection, commit.run_id):
            return None
        if self.dialect.ddl_in_transaction:
            connection.begin()
        rows = self._rows(commit)
        table_changes = self._table_changes(connection, rows)
        self._alter(connection, table_changes)
        merge = None
        if self.spec.merge is not None and commit.moves:
            merge = Merge(self.dialect, self.table, self.spec.merge)
            merge.stage(connection, rows, table_changes.columns)
        if not self.dialect.ddl_in_transaction:
            if self.late is not None:
                self.late.prepare(connection, commit)
            connection.begin()
        if self.spec.mode is not PublishMode.APPEND:
            self._lock(connection)
        merged = self._change(connection, rows, table_changes.columns, merge)
        is_new = self.late is None or self.late.load(connection, commit, intent.sequence)
        if not (is_new and self.records.enter(connection, commit, intent.sequence)):
            connection.rollback()
            return None
        self.records.list_files(connection, (move.target for move in commit.moves))
        try:
            connection.commit()
        except self.dialect.errors() as error:
            raise CommitLostError(error) from error
        return merged

    def prepare(self, connection: Connection, commit: Commit) -> None:
        """Create the missing parts of the table for the rows of a commit; it may be repeated."""
        self._alter(connection, self._table_changes(connection, self._rows(commit)))

    def put(self, connection: Connection, commit: Commit) -> None:
        """Load the rows of a commit in place of replaced rows, in an open transaction."""
        rows = self._rows(commit)
        table_changes = self._table_changes(connection, rows)
        self._alter(connection, table_changes)
        if self.spec.mode is not PublishMode.APPEND:
            self._lock(connection)
        self._change(connection, rows, table_changes.columns, None)

    def _rows(self, commit: Commit) -> WarehouseRows:
        by_unit = self.spec.mode is PublishMode.WINDOW_REPLACE
        by_label = by_unit and self._keeps_readings
        return WarehouseRows(commit, self.files, by_unit, self.spec.merge, by_label)

    @property
    def _is_hard_merge(self) -> bool:
        return self.spec.merge is not None and not self.spec.merge.is_soft

    @property
    def _keeps_readings(self) -> bool:
        return self.spec.warehouse is not None and self.spec.warehouse.keeps_readings

    def _table_changes(self, connection: Connection, rows: WarehouseRows) -> TableChanges:
        """Return the changes that the table needs before these rows can be loaded."""
        table, merge = self.dialect.table(connection, self.table), self.spec.merge
        if merge is None:
            return TargetTable(self.dialect, self.table).table_changes(table, rows)
        target = TargetTable(self.dialect, self.table, merge.keys)
        marks = [] if table is None else [each for each in table.columns if each.name == DELETED_AT]
        if rows.commit.moves:
            possible = Merge(self.dialect, self.table, merge)
            possible.require_possible(connection, table, rows.schema())
        elif merge.is_soft and takes_missing(rows.commit) and table is not None and not marks:
            # Without new rows, no schema of rows adds the column in which removed rows are marked.
            return TableChanges((target.added(target.column(DELETED_AT, INSTANT)),), ())
        # A soft merge refuses a column that cannot hold marks, so such a column has none to clear.
        clears_marks = any(
            each.type == INSTANT and each.takes_null and not each.is_computed for each in marks
        )
        return target.table_changes(table, replace(rows, clears_marks=clears_marks))

    def _alter(self, connection: Connection, table_changes: TableChanges) -> None:
        self.alter(connection, table_changes.statements)

    def _lock(self, connection: Connection) -> None:
        if self.dialect.table(connection, self.table) is not None:
            self.dialect.lock(connection, self.table)

    def _change(
        self,
        connection: Connection,
        rows: WarehouseRows,
        columns: Sequence[TableColumn],
        merge: Merge | None,
    ) -> MergedRows | None:
        commit, mode = rows.commit, self.spec.mode
        missing = self._missing(connection, commit)
        taken = 0 if missing is None else missing.take_away(connection, commit)
        if mode is PublishMode.REPLACE:
            self.records.forget_files(connection)
            if self.dialect.table(connection, self.table) is not None:
                # TRUNCATE would be faster, but readers would wait, or see an empty table.
                connection.change(f"DELETE FROM {self.dialect.full(self.table)}")
        if merge is not None:
            merged = merge.carry_out(connection, columns)
            return replace(merged, deleted=merged.deleted + taken)
        if mode is PublishMode.WINDOW_REPLACE:
            self._empty_units(connection, commit)
        if commit.moves:
            connection.load(self.table, columns, rows.batches(columns))
        return MergedRows(deleted=taken) if mode is PublishMode.MERGE else None

    def _missing(self, connection: Connection, commit: Commit) -> MissingRows | None:
        """Return the rows that the run did not read, if a commit removes them from the table."""
        if self.spec.merge is None or not takes_missing(commit):
            return None
        table = self.dialect.table(connection, self.table)
        if table is None:
            return None
        return MissingRows(self.dialect, self.table, table, self.spec.merge)

    def _empty_units(self, connection: Connection, commit: Commit) -> None:
        """Delete the rows of work units that were read again, except rows of labels that stay."""
        units: dict[str | None, list[str]] = {}
        staying = (
            units_with_closed_rows(self.records.live(connection), commit)
            if commit.closed_labels
            else {}
        )
        for each in commit.run.outcomes:
            if each.succeeded and each.signature not in staying:
                label = each.timelabel if self._keeps_readings else None
                units.setdefault(label, []).append(each.signature)
        table = self.dialect.table(connection, self.table)
        names = set() if table is None else {each.name for each in table.columns}
        for label, signatures in units.items():
            self.records.forget_files(connection, signatures, label)
            which: dict[str, Sequence[str]] = {SIGNATURE: signatures}
            if label is not None:
                which[LABEL] = (label,)
            if names >= which.keys():
                delete_by(connection, self.dialect, self.table, which)
        for signature, gone in staying.items():
            if gone:
                which = {LABEL: sorted(gone), SIGNATURE: (signature,)}
                delete_by(connection, self.dialect, self.table, which)
        if staying:
            self.records.forget_named(connection, (file.uri for file in commit.removes))

    def _require_label_column(self, connection: Connection, commit: Commit) -> None:
        """Raise if rows of closed labels must stay, but the table has no column of labels.

        Raises:
            WriteError: the commit replaces rows of the same work unit with other labels.
        """
        if commit.closed_labels is None or self.spec.mode is not PublishMode.WINDOW_REPLACE:
            return
        staying = units_with_closed_rows(self.records.live(connection), commit)
        table = self.dialect.table(connection, self.table)
        if table is None or not any(staying.values()):
            return
        if LABEL not in {each.name for each in table.columns}:
            raise WriteError(
                f"{self.table.name} has no column {LABEL}: it cannot distinguish the rows of closed"
                " timelabels, which stay, from other rows of the same work units, which are"
                " replaced",
                f"Add {LABEL} to ms.output.system.columns and read everything again once, or set"
                " ms.late.after.close=reopen.",
            )

    def _check_values(self, batch: pa.RecordBatch, columns: Sequence[TableColumn]) -> None:
        merge = self.spec.merge
        keys, deltas = ((), ()) if merge is None else (merge.keys, merge.delta_fields)
        is_written = pc.equal(batch[GONE], 0) if self._is_hard_merge else None
        for column in columns:
            values = batch[column.name]
            refusal = self.dialect.refusal(column, values)
            if not refusal and column.name in deltas:
                refusal = self.dialect.unordered(values)
            if not refusal and column.name in keys and values.null_count:
                refusal = "holds nulls, but rows are merged by it"
            if not refusal and not column.takes_null and values.null_count:
                written = values if is_written is None else values.filter(is_written)
                if written.null_count:
                    refusal = "holds nulls, but the table's column does not accept nulls"
            if refusal:
                raise ConversionError(
                    f"column {column.name} {refusal}",
                    "Correct the values with ms.derived.fields, or leave the column out.",
                )
