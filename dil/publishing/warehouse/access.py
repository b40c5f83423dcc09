"""Runs a destination's queries, which may share a connection."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from functools import partial

from dil.errors import ConfigError
from dil.model.dataset import Commit, Intent, Owner, PublishedFile, source_name
from dil.model.job import PublishingSpec, PublishMode
from dil.model.report import MergedRows
from dil.publishing.warehouse.attempts import Attempts
from dil.publishing.warehouse.dialect import Connection, Dialect, TableName
from dil.publishing.warehouse.late import LateTable
from dil.publishing.warehouse.loading import Loading
from dil.publishing.warehouse.missing import takes_missing
from dil.publishing.warehouse.owners import Owners
from dil.publishing.warehouse.records import LoadsFound, Records
from dil.publishing.warehouse.rows import WarehouseFiles
from dil.publishing.warehouse.shape import missing_key
from dil.storage import Filesystem
from dil.text.warehouse_url import Engine, WarehouseAddress

_RIGHTS = {
    PublishMode.APPEND: ("INSERT",),
    PublishMode.REPLACE: ("INSERT", "DELETE"),
    PublishMode.WINDOW_REPLACE: ("SELECT", "INSERT", "DELETE"),
    PublishMode.MERGE: ("SELECT", "INSERT", "UPDATE", "DELETE"),
}


class Access:
    """One table of a database, from the view of one job that publishes to it."""

    def __init__(
        self,
        address: WarehouseAddress,
        schema: str,
        table: str,
        spec: PublishingSpec,
        filesystem: Filesystem,
    ) -> None:
        self._spec = spec
        self._engine = address.engine
        self._dialect = dialect_for(address)
        self._table = TableName(schema, table)
        self._attempts = Attempts(self._dialect, str(address))
        dataset = f"{schema}.{table}".lstrip(".")
        self._records = Records(self._dialect, schema, dataset)
        self._owners = Owners(self._dialect, schema, dataset)
        self._has_records = False
        self._files = WarehouseFiles(filesystem)
        self._late = LateTable.beside(self._dialect, self._table, spec, filesystem)
        self._loading = Loading(
            self._dialect, self._table, self._records, spec, self._files, late=self._late
        )

    def connected(self) -> AbstractContextManager[None]:
        """See ``WarehouseDestination.connected``."""
        return self._attempts.connected()

    def check(self) -> None:
        """See ``WarehouseDestination.check``."""
        self._attempts.run(self._check)

    def claim(self, owner: Owner) -> None:
        """See ``WarehouseDestination.claim``."""
        merge = self._spec.merge
        deletes = merge is not None and merge.deletes_missing
        self._attempts.run(partial(self._owners.claim, owner=owner, deletes_missing=deletes))

    def live(self) -> tuple[PublishedFile, ...]:
        """Return the files whose rows are in the table, according to the recorded commits."""
        return self._attempts.run(self._live)

    def lacks(self, names: Collection[str]) -> frozenset[str]:
        """Return the files, among some names, that are not listed; all if the table was dropped."""

        def listed(connection: Connection) -> tuple[PublishedFile, ...]:
            return self._live(connection) if self._has_table(connection) else ()

        return frozenset(names) - {
            file.uri.rpartition("#")[2] for file in self._attempts.run(listed)
        }

    def has_rows(self) -> bool:
        """Return whether the table has any row."""
        select = f"SELECT 1 FROM {self._dialect.full(self._table)} LIMIT 1"

        def has_rows(connection: Connection) -> bool:
            return self._has_table(connection) and bool(connection.rows(select))

        return self._attempts.run(has_rows)

    def has(self, run_id: str) -> bool:
        """Return whether the database has a run's commit."""
        records = self._records
        return self._attempts.run(
            lambda connection: self._is_recorded(connection) and records.has(connection, run_id)
        )

    def loads(self, names: Collection[str]) -> LoadsFound:
        """Return whether the files of some names are listed as loaded, and their table exists."""

        def found(connection: Connection) -> LoadsFound:
            is_listed = self._is_recorded(connection)
            return LoadsFound(
                is_listed and self._records.has_files(connection, names),
                self._has_table(connection),
            )

        return self._attempts.run(found)

    def has_late(self, run_id: str) -> bool:
        """Return whether the late rows of a run are in their table."""
        return self._attempts.run(partial(self._late.has, run_id=run_id))

    def late_files(self) -> tuple[str, ...]:
        """See ``WarehouseDestination.late_files``."""
        return self._attempts.run(self._late.files)

    def next_sequence(self) -> int:
        """Return the number of the next commit; create the tables that record commits."""

        def made(connection: Connection) -> int:
            self._records.make(connection)
            return self._records.next_sequence(connection)

        return self._attempts.run(made)

    def landed(self, source: str) -> int | None:
        """Return the last commit's number, 0 if there is none, None if other jobs load there."""

        def found(connection: Connection) -> int | None:
            if not self._is_recorded(connection):
                return 0
            if set(map(source_name, self._owners.jobs(connection))) != {source}:
                return None
            return self._records.next_sequence(connection) - 1

        return self._attempts.run(found)

    def require_fit(self, commit: Commit) -> None:
        """See ``WarehouseDestination.require_fit``."""
        if commit.touches_late_rows:
            self._attempts.run(partial(self._late.require_fit, commit=commit))
        if not (commit.moves or commit.removes):
            return
        self._attempts.run(partial(self._loading.require_fit, commit=commit))
        if takes_missing(commit):
            few = partial(self._loading.require_few_missing, commit=commit)
            self._attempts.run(few, is_last=True)

    def carry_out(self, intent: Intent) -> MergedRows | None:
        """See ``WarehouseDestination.carry_out``; return the counts of the merge."""
        return self._attempts.run(partial(self._loading.carry_out, intent=intent), is_last=True)

    def load_late(self, intent: Intent) -> None:
        """Load the late rows of an intent that changes nothing else."""
        commit, sequence = intent.commit, intent.sequence
        load = partial(self._late.load_alone, commit=commit, sequence=sequence)
        self._attempts.run(load, is_last=True)

    def _live(self, connection: Connection) -> tuple[PublishedFile, ...]:
        return self._records.live(connection) if self._is_recorded(connection) else ()

    def _is_recorded(self, connection: Connection) -> bool:
        """Return whether the tables of records exist; once they do, the database is not asked."""
        self._has_records = self._has_records or self._records.are_there(connection)
        return self._has_records

    def _has_table(self, connection: Connection) -> bool:
        return self._dialect.table(connection, self._table) is not None

    def _check(self, connection: Connection) -> None:
        if self._spec.has_side_table:
            self._late.check(connection)
        table = self._dialect.table(connection, self._table)
        name = self._dialect.full(self._table)
        right = self._dialect.missing_right(connection, self._table, _RIGHTS[self._spec.mode])
        if right:
            raise _config(f"is a database in which this user may not load into {name}", right)
        if table is not None and table.problem:
            raise _config(f"is a database where {name} {table.problem}", "Name another table.")
        if table is not None and table.heir and self._spec.mode is not PublishMode.APPEND:
            raise _config(
                f"is a database where {table.heir} inherits from {name}: its rows would count as"
                f" rows of {name}, and would be deleted with them"
                f" (ms.publish.mode={self._spec.mode})",
                f"ALTER TABLE {table.heir} NO INHERIT {name}; or name another table.",
            )
        merge = self._spec.merge
        if table is None or merge is None:
            return
        statement = missing_key(self._dialect, self._table, table, merge.keys)
        if statement:
            raise ConfigError.single(
                "extract.primary.key.fields",
                f"names {', '.join(merge.keys)}, but {name} has no primary key or unique index of"
                " these columns",
                f"Add one: {statement};",
            )
        # Raises if unique indexes disagree.
        self._dialect.merge_keys(connection, self._table, merge.keys)
        if self._engine is Engine.MYSQL and len(table.unique) > 1:
            raise ConfigError.single(
                "ms.warehouse.operation",
                f"is upsert, but {name} has several unique keys: MySQL would update a row that is"
                " equal in any of them",
                "Keep only the key of extract.primary.key.fields, or load into another table.",
            )


def dialect_for(address: WarehouseAddress) -> Dialect:
    """Return the dialect of the database at an address."""
    if address.engine is Engine.POSTGRESQL:
        from dil.publishing.warehouse.postgresql import PostgresqlDialect

        return PostgresqlDialect(address)
    if address.engine is Engine.MYSQL:
        from dil.publishing.warehouse.mysql import MysqlDialect

        return MysqlDialect(address)
    if address.engine is Engine.DUCKDB:
        from dil.publishing.warehouse.duckdb import DuckdbDialect

        return DuckdbDialect(address)
    from dil.publishing.warehouse.sqlite import SqliteDialect

    return SqliteDialect(address)


def _config(what: str, fix: str) -> ConfigError:
    return ConfigError.single("ms.warehouse.url", what, fix)
