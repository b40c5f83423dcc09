"""Records DIL's commits in a database: ``dil_commit``, and the loaded files, ``dil_part``.

Both are in the schema of the table and belong to the transaction that loads the rows. A row in
``dil_commit`` shows that a run's commit is done (rule U13).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from dil.databases.statements import MARK
from dil.model.dataset import Commit, PublishedFile
from dil.publishing.warehouse.dialect import Connection, Dialect, TableColumn, TableName
from dil.types.lattice import INSTANT
from dil.types.warehouse import TEXT

# Text columns that are part of a key.
KEY_TEXT = "key text"
_COMMIT: Mapping[str, object] = {
    "dataset": KEY_TEXT, "sequence": pa.int64(), "run_id": KEY_TEXT, "time": INSTANT,
    "rows": pa.int64(),
}  # fmt: skip
_PART: Mapping[str, object] = {
    "dataset": KEY_TEXT, "name": KEY_TEXT, "uri": TEXT, "signature": TEXT, "rows": pa.int64(),
    "bytes": pa.int64(), "sha256": TEXT, "run_id": TEXT, "timelabel": TEXT,
}  # fmt: skip
_IN_A_STATEMENT = 200


@dataclass(frozen=True, slots=True)
class LoadsFound:
    """What a database has of some loads.

    ``are_listed`` is whether its records list all of them, ``has_table`` whether their table
    exists.
    """

    are_listed: bool
    has_table: bool


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one loaded table, in ``dil_commit`` and ``dil_part``.

    ``dataset`` is the name of the loaded table, with its schema.
    """

    dialect: Dialect
    schema: str
    dataset: str

    def make(self, connection: Connection) -> None:
        """Create missing tables; it may be repeated."""
        if self.are_there(connection):
            return
        self.dialect.make_schema(connection, self.schema)
        keys = (("dataset", "sequence"), ("dataset", "run_id"))
        make_table(self.dialect, connection, self._commits, _COMMIT, keys)
        make_table(self.dialect, connection, self._parts, _PART, (("dataset", "name"),))

    def are_there(self, connection: Connection) -> bool:
        """Return whether the tables of records exist: ``dil_part`` is created last."""
        return self.dialect.table(connection, self._parts) is not None

    def has(self, connection: Connection, run_id: str) -> bool:
        """Return whether the database has a run's commit."""
        quote = self.dialect.quote
        statement = (
            f"SELECT 1 FROM {self.dialect.full(self._commits)} "
            f"WHERE {quote('dataset')} = {MARK} AND {quote('run_id')} = {MARK}"
        )
        return bool(connection.rows(statement, self.dataset, run_id))

    def runs(self, connection: Connection, run_ids: Collection[str]) -> frozenset[str]:
        """Return the runs, among some ids, whose commits the database has."""
        found: set[str] = set()
        ordered, quote = sorted(run_ids), self.dialect.quote
        for low in range(0, len(ordered), _IN_A_STATEMENT):
            condition, given = self.dialect.any_of("run_id", ordered[low : low + _IN_A_STATEMENT])
            statement = (
                f"SELECT {quote('run_id')} FROM {self.dialect.full(self._commits)} "
                f"WHERE {quote('dataset')} = {MARK} AND {condition}"
            )
            found.update(str(run) for (run,) in connection.rows(statement, self.dataset, *given))
        return frozenset(found)

    def has_files(self, connection: Connection, names: Collection[str]) -> bool:
        """Return whether all files of some names, few enough for a statement, are loaded."""
        condition, given = self.dialect.any_of("name", sorted(names))
        statement = (
            f"SELECT COUNT(*) FROM {self.dialect.full(self._parts)} "
            f"WHERE {self.dialect.quote('dataset')} = {MARK} AND {condition}"
        )
        return int(str(connection.rows(statement, self.dataset, *given)[0][0])) == len(names)

    def next_sequence(self, connection: Connection) -> int:
        """Return the number after the last commit's number."""
        quote = self.dialect.quote
        statement = (
            f"SELECT COALESCE(MAX({quote('sequence')}), 0) "
            f"FROM {self.dialect.full(self._commits)} WHERE {quote('dataset')} = {MARK}"
        )
        return int(str(connection.rows(statement, self.dataset)[0][0])) + 1

    def enter(self, connection: Connection, commit: Commit, sequence: int) -> bool:
        """Record a commit; return whether it was new.

        If another job that loads into the same table has taken the number, the next number is used,
        because a commit is identified by the run's id.
        """
        values = {"dataset": MARK, "sequence": MARK, "run_id": MARK, "rows": MARK,
                  "time": self.dialect.instant(commit.system_time)}  # fmt: skip
        statement = self.dialect.insert_once(self._commits, values)
        rows = sum(move.target.rows for move in commit.moves)
        number = max(sequence, self.next_sequence(connection))
        while not self.has(connection, commit.run_id):
            if connection.change(statement, self.dataset, number, commit.run_id, rows) == 1:
                return True
            number = max(number + 1, self.next_sequence(connection))
        return False

    def live(self, connection: Connection) -> tuple[PublishedFile, ...]:
        """Return the files whose rows are in the table, according to the commits."""
        names = ("uri", "signature", "rows", "bytes", "sha256", "run_id", "timelabel")
        statement = (
            f"SELECT {', '.join(map(self.dialect.quote, names))} "
            f"FROM {self.dialect.full(self._parts)} WHERE {self.dialect.quote('dataset')} = {MARK}"
        )
        return tuple(
            PublishedFile(
                str(uri), str(signature), int(str(rows)), int(str(size)), str(sha256), str(run_id),
                None if label is None else str(label),
            )
            for uri, signature, rows, size, sha256, run_id, label in connection.rows(
                statement, self.dataset
            )
        )  # fmt: skip

    def signatures(
        self, connection: Connection, labels: Collection[str]
    ) -> dict[str, frozenset[str]]:
        """Return the work units with rows in each label; a label without rows is left out."""
        quote = self.dialect.quote
        found: defaultdict[str, set[str]] = defaultdict(set)
        ordered = sorted(labels)
        for low in range(0, len(ordered), _IN_A_STATEMENT):
            some = ordered[low : low + _IN_A_STATEMENT]
            condition, given = self.dialect.any_of("timelabel", some)
            statement = (
                f"SELECT {quote('timelabel')}, {quote('signature')} "
                f"FROM {self.dialect.full(self._parts)} "
                f"WHERE {quote('dataset')} = {MARK} AND {condition}"
            )
            for label, signature in connection.rows(statement, self.dataset, *given):
                found[str(label)].add(str(signature))
        return {label: frozenset(each) for label, each in found.items()}

    def forget_files(
        self,
        connection: Connection,
        signatures: Sequence[str] | None = None,
        label: str | None = None,
    ) -> None:
        """Remove the table's files from the list: all, or those of these work units or label."""
        own: dict[str, Sequence[str]] = {"dataset": (self.dataset,)}
        if label is not None:
            own["timelabel"] = (label,)
        which = own if signatures is None else {"signature": signatures, **own}
        delete_by(connection, self.dialect, self._parts, which)

    def forget_named(self, connection: Connection, uris: Iterable[str]) -> None:
        """Remove files from the list by their URIs."""
        names = sorted({uri.rpartition("#")[2] for uri in uris})
        which = {"name": names, "dataset": (self.dataset,)}
        delete_by(connection, self.dialect, self._parts, which)

    def list_files(self, connection: Connection, files: Iterable[PublishedFile]) -> None:
        """Add files to the list."""
        rows = [
            {
                "dataset": self.dataset, "name": file.uri.rpartition("#")[2], "uri": file.uri,
                "signature": file.signature, "rows": file.rows, "bytes": file.bytes,
                "sha256": file.sha256, "run_id": file.run_id, "timelabel": file.timelabel,
            }
            for file in files
        ]  # fmt: skip
        columns = [
            TableColumn(name, pa.int64() if kind == pa.int64() else TEXT, "")
            for name, kind in _PART.items()
        ]
        schema = pa.schema((each.name, each.type) for each in columns)
        if rows:
            batch = pa.RecordBatch.from_pylist(rows, schema=schema)
            connection.load(self._parts, columns, [batch])

    @property
    def _commits(self) -> TableName:
        return TableName(self.schema, "dil_commit")

    @property
    def _parts(self) -> TableName:
        return TableName(self.schema, "dil_part")


def make_table(
    dialect: Dialect,
    connection: Connection,
    name: TableName,
    columns: Mapping[str, object],
    keys: Sequence[Sequence[str]],
) -> None:
    """Create a table of records unless it exists; the first key is the primary one."""
    if dialect.table(connection, name) is not None:
        return
    quote, parts = dialect.quote, []
    for column, kind in columns.items():
        is_key = kind == KEY_TEXT
        words = dialect.type_words(TEXT if is_key else kind, is_key=is_key)
        parts.append(f"{quote(column)} {words}{' NOT NULL' if column in keys[0] else ''}")
    for number, key in enumerate(keys):
        word = "UNIQUE" if number else "PRIMARY KEY"
        parts.append(f"{word} ({', '.join(map(quote, key))})")
    connection.change(f"CREATE TABLE IF NOT EXISTS {dialect.full(name)} ({', '.join(parts)})")


def delete_by(
    connection: Connection, dialect: Dialect, table: TableName, values: Mapping[str, Sequence[str]]
) -> None:
    """Delete rows by the texts of their columns; the first column may have several texts."""
    (first, many), *others = values.items()
    for low in range(0, len(many), _IN_A_STATEMENT):
        some = many[low : low + _IN_A_STATEMENT]
        condition, given = dialect.any_of(first, some)
        conditions = [condition]
        conditions += [f"{dialect.quote(name)} = {MARK}" for name, _ in others]
        statement = f"DELETE FROM {dialect.full(table)} WHERE {' AND '.join(conditions)}"
        connection.change(statement, *given, *(one for _, (one,) in others))
