"""Loads late rows into a table of their own, ``<table>_late``, beside the dataset's table.

Late rows are loaded in the transaction of the dataset's rows. Their files in the folder of late
rows stay: the chain names the files, and the table can be built from them again. Whatever the
publish mode is, each row has its work unit in ``_dil_signature``, because the mode may have changed
when the work unit is read again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dil.errors import ConfigError
from dil.model.dataset import Commit, Move
from dil.model.job import PublishingSpec, PublishMode
from dil.model.work_unit import unit_hash
from dil.publishing.layout import LATE, unit_hash_in
from dil.publishing.warehouse.attempts import CommitLostError
from dil.publishing.warehouse.dialect import Connection, Dialect, TableName
from dil.publishing.warehouse.loading import Loading, change_all
from dil.publishing.warehouse.records import Records
from dil.publishing.warehouse.rows import WarehouseFiles
from dil.storage import Filesystem

# Columns that identify a table of late rows.
_OWN = frozenset({"_late_at", "_batch"})


@dataclass(frozen=True, slots=True)
class LateTable:
    """Loads late rows into their table; ``loading`` is for this table."""

    loading: Loading
    filesystem: Filesystem

    @classmethod
    def beside(
        cls, dialect: Dialect, table: TableName, spec: PublishingSpec, filesystem: Filesystem
    ) -> LateTable:
        """Return the table of late rows beside another table.

        In every mode of the job, rows are added to this table, and a work unit's rows are removed
        when it is read again; a replace removes all rows.
        """
        name = TableName(table.schema, f"{table.name}{LATE}")
        records = Records(dialect, name.schema, f"{name.schema}.{name.name}".lstrip("."))
        is_replace = spec.mode is PublishMode.REPLACE
        mode = PublishMode.REPLACE if is_replace else PublishMode.WINDOW_REPLACE
        own = replace(spec, mode=mode, merge=None, warehouse=None)
        files = WarehouseFiles(filesystem)
        return cls(Loading(dialect, name, records, own, files, change_all), filesystem)

    def check(self, connection: Connection) -> None:
        """Raise if a table of that name is not for late rows, or the name is too long.

        Raises:
            ConfigError: such a table exists, or the name is too long.
        """
        if not self.loading.dialect.holds_name(self.loading.table.name):
            raise ConfigError.single(
                "extract.table.name",
                f"is too long: the table of late rows is called {self.loading.table.name}, and the"
                " database would cut that name",
                f"Make the name at least {len(LATE)} characters shorter.",
            )
        names = self._names(connection)
        if names and not names >= _OWN:
            full = self.loading.dialect.full(self.loading.table)
            raise ConfigError.single(
                "ms.warehouse.url",
                f"leads to a database where late rows go to {full}, but the table of that name is"
                f" another one: it lacks the columns {' and '.join(sorted(_OWN))}",
                "Rename that table or the job's, or set ms.late.action and ms.late.after.close"
                " to something else than side_table.",
            )

    def files(self, connection: Connection) -> tuple[str, ...]:
        """Return the names of the files whose rows are in the table; empty if there is no table."""
        records = self.loading.records
        if not self._names(connection) >= _OWN or not records.are_there(connection):
            return ()
        return tuple(file.uri.rpartition("/")[2] for file in records.live(connection))

    def require_fit(self, connection: Connection, commit: Commit) -> None:
        """Check that the table accepts the late rows of a commit; see ``Loading.require_fit``."""
        self.loading.require_fit(connection, self._own(commit))

    def prepare(self, connection: Connection, commit: Commit) -> None:
        """Create missing parts of the table, outside of a transaction; it may be repeated."""
        if commit.touches_late_rows:
            self.loading.records.make(connection)
            self.loading.prepare(connection, self._own(commit))

    def has(self, connection: Connection, run_id: str) -> bool:
        """Return whether the late rows of a run are loaded."""
        records = self.loading.records
        return records.are_there(connection) and records.has(connection, run_id)

    def load(self, connection: Connection, commit: Commit, sequence: int) -> bool:
        """Load the late rows of a commit in the open transaction, unless they are loaded.

        Returns:
            False if another process loaded the rows meanwhile; then the transaction must be rolled
            back.
        """
        own, records = self._own(commit), self.loading.records
        if not commit.touches_late_rows or records.has(connection, commit.run_id):
            return True
        self.loading.put(connection, own)
        if not records.enter(connection, own, sequence):
            return False
        records.list_files(connection, (move.target for move in own.moves))
        return True

    def load_alone(self, connection: Connection, commit: Commit, sequence: int) -> None:
        """Load late rows of a commit that changes nothing else in the database.

        Raises:
            CommitLostError: it is unknown whether the rows were loaded.
        """
        self.prepare(connection, commit)
        connection.begin()
        if not self.load(connection, commit, sequence):
            connection.rollback()
            return
        try:
            connection.commit()
        except self.loading.dialect.errors() as error:
            raise CommitLostError(error) from error

    def _own(self, commit: Commit) -> Commit:
        """Return a commit that has only the changes to late rows.

        A file that is not yet at its name is read from staging. The result has only the outcomes of
        work units whose older late rows are removed.
        """
        gone = {unit_hash_in(uri) for uri in commit.late_removes}
        outcomes = (each for each in commit.run.outcomes if unit_hash(each.signature) in gone)
        return replace(
            commit,
            moves=tuple(map(self._found, commit.late_moves)),
            removes=(),
            closed_labels=None,
            run=replace(commit.run, outcomes=tuple(outcomes)),
        )

    def _names(self, connection: Connection) -> frozenset[str]:
        """Return the names of the table's columns; empty if there is no such table."""
        table = self.loading.dialect.table(connection, self.loading.table)
        return frozenset() if table is None else frozenset(each.name for each in table.columns)

    def _found(self, move: Move) -> Move:
        path = self.filesystem.path_of(move.target.uri)
        return replace(move, source=path) if self.filesystem.exists(path) else move
