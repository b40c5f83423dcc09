"""Late rows in a table of their own, ``<table>_late``, beside that of the dataset.

They are loaded in the transaction of the dataset's rows. Their files in the folder of late rows
stay: the chain names them, and the table can be made of them again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dil.errors import ConfigError
from dil.model.dataset import Commit, Move
from dil.model.job import PublishingSpec, PublishMode
from dil.publishing.layout import LATE
from dil.publishing.warehouse.attempts import CommitLostError
from dil.publishing.warehouse.dialect import Connection, Dialect, TableName
from dil.publishing.warehouse.loading import Loading, change_all
from dil.publishing.warehouse.records import Records
from dil.publishing.warehouse.rows import StagedFiles
from dil.storage import Filesystem

# Columns by which a table is known for one of late rows.
_OWN = frozenset({"_late_at", "_batch"})


@dataclass(frozen=True, slots=True)
class LateTable:
    """How late rows get into their table; ``loading`` is that of this table."""

    loading: Loading
    filesystem: Filesystem

    @classmethod
    def beside(
        cls, dialect: Dialect, table: TableName, spec: PublishingSpec, filesystem: Filesystem
    ) -> LateTable:
        """Return the table of late rows beside another one. Rows of a merge are not merged here."""
        name = TableName(table.schema, f"{table.name}{LATE}")
        records = Records(dialect, name.schema, f"{name.schema}.{name.name}".lstrip("."))
        mode = PublishMode.APPEND if spec.mode is PublishMode.MERGE else spec.mode
        own = replace(spec, mode=mode, merge=None, warehouse=None)
        files = StagedFiles(filesystem)
        return cls(Loading(dialect, name, records, own, files, change_all), filesystem)

    def check(self, connection: Connection) -> None:
        """Refuse a table of that name which is not one of late rows, and a name that is too long.

        Raises:
            ConfigError: there is such a table, or there can be none.
        """
        if not self.loading.dialect.holds_name(self.loading.table.name):
            raise ConfigError.single(
                "extract.table.name",
                f"is too long: late rows go to {self.loading.table.name}, and the database cuts"
                " that name off",
                f"Make it {len(LATE)} characters shorter.",
            )
        table = self.loading.dialect.table(connection, self.loading.table)
        if table is not None and not {each.name for each in table.columns} >= _OWN:
            full = self.loading.dialect.full(self.loading.table)
            raise ConfigError.single(
                "ms.warehouse.url",
                f"is a database where {full}, the table of late rows, is another one: it has no"
                f" columns {' and '.join(sorted(_OWN))}",
                "Rename that table or the job's, or set ms.late.action and ms.late.after.close"
                " to something else than side_table.",
            )

    def require_fit(self, connection: Connection, commit: Commit) -> None:
        """Look whether the table takes the late rows of a commit; see ``Loading.require_fit``."""
        if commit.touches_late_rows:
            self.loading.require_fit(connection, self._own(commit))

    def prepare(self, connection: Connection, commit: Commit) -> None:
        """Make what the table lacks, outside of a transaction; may be done again."""
        if commit.touches_late_rows:
            self.loading.records.make(connection)
            self.loading.prepare(connection, self._own(commit))

    def has(self, connection: Connection, run_id: str) -> bool:
        """Return whether the late rows of a run are loaded."""
        records = self.loading.records
        return records.are_there(connection) and records.has(connection, run_id)

    def load(self, connection: Connection, commit: Commit, sequence: int) -> None:
        """Load late rows in the transaction that is open, unless they are there."""
        own, records = self._own(commit), self.loading.records
        if not commit.touches_late_rows or records.has(connection, commit.run_id):
            return
        self.loading.put(connection, own)
        records.enter(connection, own, sequence)
        records.list_files(connection, (move.target for move in own.moves))

    def load_alone(self, connection: Connection, commit: Commit, sequence: int) -> None:
        """Load late rows of a commit that does nothing else in the database.

        Raises:
            CommitLostError: they may be loaded.
        """
        self.prepare(connection, commit)
        connection.begin()
        self.load(connection, commit, sequence)
        try:
            connection.commit()
        except self.loading.dialect.errors() as error:
            raise CommitLostError(error) from error

    def _own(self, commit: Commit) -> Commit:
        """Return what a commit does to late rows; its files are placed, or are still staged."""
        return replace(
            commit, moves=tuple(map(self._found, commit.late_moves)), removes=(), books=None
        )

    def _found(self, move: Move) -> Move:
        path = self.filesystem.path_of(move.target.uri)
        return replace(move, source=path) if self.filesystem.exists(path) else move
