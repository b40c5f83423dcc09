"""Records which jobs may load into a table: ``dil_owner``, beside ``dil_commit`` (rule U21).

Claims are numbered; the last claim of a job counts. Each number is given only once. So if two jobs
come at the same moment, the second job sees the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from dil.databases.statements import MARK
from dil.errors import ConfigError
from dil.model.dataset import Owner
from dil.model.job import PublishMode
from dil.publishing.warehouse.dialect import Connection, Dialect, TableName
from dil.publishing.warehouse.records import KEY_TEXT, make_table
from dil.types.warehouse import TEXT

_COLUMNS: Mapping[str, object] = {
    "dataset": KEY_TEXT, "number": pa.int64(), "job": TEXT, "store": TEXT, "mode": TEXT,
}  # fmt: skip
# In these modes two jobs may load into one table, if each changes only its own rows.
_SHARED = {PublishMode.APPEND.value, PublishMode.MERGE.value}
_DELETES = " that deletes missing rows"


@dataclass(frozen=True, slots=True)
class Owners:
    """The claims of jobs to one table; ``dataset`` is the table's name in ``dil_owner``."""

    dialect: Dialect
    schema: str
    dataset: str

    def claim(self, connection: Connection, owner: Owner, *, deletes_missing: bool) -> None:
        """Enter a job as an owner of the table.

        Raises:
            ConfigError: the job loaded the table with another state, or another job owns the table
                and one of the two jobs removes rows that it did not load.
        """
        mode = owner.mode.value + _DELETES * deletes_missing
        self.dialect.make_schema(connection, self.schema)
        make_table(self.dialect, connection, self._table, _COLUMNS, (("dataset", "number"),))
        values = dict.fromkeys(_COLUMNS, MARK)
        statement = self.dialect.insert_once(self._table, values)
        is_entered = False
        while not is_entered:
            known, last = self._known(connection)
            if known.get((owner.job, owner.store)) == mode:
                if not self.dialect.has_one_writer:  # else it would wait while another job loads
                    # Inserts nothing, but a server that accepts no writes refuses it: before rows
                    # are read, and before a publish is decided that this server cannot finish.
                    connection.change(statement, self.dataset, last, owner.job, owner.store, mode)
                return
            for (job, store), other in known.items():
                if (job, store) != (owner.job, owner.store):
                    self._check(owner, mode, Owner(job, store, owner.mode), other)
            given = (self.dataset, last + 1, owner.job, owner.store, mode)
            is_entered = connection.change(statement, *given) == 1

    def jobs(self, connection: Connection) -> frozenset[str]:
        """Return the names of the jobs that load into the table."""
        if self.dialect.table(connection, self._table) is None:
            return frozenset()
        return frozenset(job for job, _ in self._known(connection)[0])

    def _known(self, connection: Connection) -> tuple[dict[tuple[str, str], str], int]:
        """Return the last mode of each job and state, and the last number of a claim."""
        names = ", ".join(map(self.dialect.quote, ("number", "job", "store", "mode")))
        statement = (
            f"SELECT {names} FROM {self.dialect.full(self._table)} "
            f"WHERE {self.dialect.quote('dataset')} = {MARK} ORDER BY 1"
        )
        rows = connection.rows(statement, self.dataset)
        last = max((int(str(row[0])) for row in rows), default=0)
        return {(str(job), str(store)): str(mode) for _, job, store, mode in rows}, last

    def _check(self, owner: Owner, mode: str, other: Owner, other_mode: str) -> None:
        forget = (
            f"DELETE FROM {self.dialect.full(self._table)} "
            f"WHERE dataset = '{self.dataset}' AND job = '{other.job}';"
        )
        if owner.job == other.job:
            raise ConfigError.single(
                "state.store.dir / state.store.db.url",
                f"is {owner.store}, but job {owner.job} kept its watermarks in {other.store} when "
                f"it loaded {self.dataset}. Without them the job would read everything again",
                "Name the earlier state store again. Or copy the state from there, and then delete"
                f" the claim of that store: {forget}",
            )
        if not {mode, other_mode} <= _SHARED:
            raise ConfigError.single(
                "extract.table.name",
                f"leads to {self.dataset}, which belongs to job {other.job} with its state in "
                f"{other.store} (publish mode {other_mode}; this job: {mode})",
                "Two jobs may load one table only if both append or merge. Name another table,"
                f" or, if that job is gone: {forget}",
            )

    @property
    def _table(self) -> TableName:
        return TableName(self.schema, "dil_owner")
