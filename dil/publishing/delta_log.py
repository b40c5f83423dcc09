"""The log of a Delta table: one transaction for each publish.

The transaction carries an application transaction: the job, and the sequence of the intent (rule
U13). If a table has the application transaction, it has the publish. The application is the job and
not the dataset, because several jobs may append to one dataset. New columns are added by an earlier
transaction of their own; until rows arrive they are null.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from dil.errors import CommitUnknownError, ConfigError, StateError, WriteError
from dil.model.dataset import Commit, Intent, Move
from dil.model.job import PublishingSpec, PublishMode
from dil.model.json import JsonObject
from dil.publishing import layout
from dil.publishing.delta_store import NewestTable
from dil.publishing.manifest import given_up_name
from dil.publishing.table_files import (
    ATTEMPTS,
    FORMAT_KEY,
    TableFile,
    gave_up,
    make_durable,
    partition_texts,
    refuse_doubling,
    refuse_marked,
    refuse_marked_since,
    replaces_everything,
    uris,
    words,
)
from dil.storage import Filesystem
from dil.types.table_formats import unfit

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

_COLUMNS = ("path", "num_records", "size_bytes")


class DeltaLog:
    """The ``_delta_log`` of the dataset's folder."""

    def __init__(self, spec: PublishingSpec, filesystem: Filesystem) -> None:
        self._spec = spec
        self._filesystem = filesystem
        self._folder = layout.dataset_dir(spec)
        self._newest = NewestTable(filesystem, self._folder)
        self._listed: tuple[object, Sequence[TableFile]] = (None, ())

    def partition_fields(self) -> Sequence[str] | None:
        """Return the columns by which the table is partitioned.

        Raises:
            ConfigError: the table has properties that a job cannot obey.
        """
        table = self._table()
        if table is None:
            return None
        metadata = table.metadata()
        self._refuse_properties(metadata.configuration)
        return metadata.partition_columns

    def files(self) -> Sequence[TableFile]:
        """Return the files of the newest version."""
        table = self._table()
        return () if table is None else self._files(table)

    def next_sequence(self) -> int:
        """Return the next version: no commit gets a version below its own number."""
        table = self._table()
        return 0 if table is None else table.version() + 1

    def has(self, intent: Intent) -> bool:
        """Return whether the table has the application transaction of an intent."""
        table = self._table()
        return table is not None and _has(table, intent) and not _is_given_up(table, intent)

    def fence(self, intent: Intent) -> None:
        """Write the application transaction of an intent, with the note that it was given up."""
        for _ in range(ATTEMPTS):
            table = self._table()
            if table is None or _has(table, intent):
                return
            try:
                table.create_write_transaction(
                    [],
                    "append",
                    table.schema(),
                    list(self._spec.table.partition_fields),
                    commit_properties=_properties(intent.commit, intent.sequence, gives_up=True),
                )
            except CommitFailedError as error:
                log.info("another writer changed the Delta table: %s", words(error))
            except (DeltaError, OSError) as error:
                raise WriteError(
                    f"the Delta table at {self._folder} refused a commit: {words(error)}",
                    "The publish was not given up. Try again.",
                ) from error
        raise gave_up(self._spec)

    def is_given_up(self, intent: Intent) -> bool:
        """Return whether the table records that an intent was given up."""
        table = self._table()
        return table is not None and _is_given_up(table, intent)

    def require_fit(self, commit: Commit, live: frozenset[str]) -> None:
        """Raise if the table cannot take the columns or partition values of staged files."""
        from dil.types import delta as columns

        table = self._table()
        if table is not None and not replaces_everything(self._spec, commit):
            self._refuse_append_only(table, commit)
            refuse_marked(self._spec, self._stuck(table, commit))
        after = self._schema_after(None if table is None else table.schema(), commit, live)
        fitting: list[pa.Schema] = []  # The files of a run mostly have the same schema.
        for move in commit.moves:
            file = self._columns(move.source)
            if not any(file.equals(each) for each in fitting):
                columns.refuse_unfit(after, file, self._spec.table.partition_fields)
                fitting.append(file)
            self._values(after, move)

    def commit(self, intent: Intent) -> None:
        """Commit to the table; if another writer comes first, commit on top of its version."""
        for _ in range(ATTEMPTS):
            try:
                if self._step(intent):
                    return
            except CommitFailedError as error:
                log.info("another writer changed the Delta table: %s", words(error))
            except (DeltaError, OSError) as error:
                self._explain(intent, error)
                return
        raise gave_up(self._spec)

    def make_durable(self, intent: Intent) -> None:
        """Sync the part of the log that was written since the intent."""
        table = self._table()
        last = -1 if table is None else table.version()
        versions = range(intent.sequence, last + 1)
        kinds = ("json", "checkpoint.parquet")
        names = [f"{version:020}.{kind}" for version in versions for kind in kinds]
        folder = f"{self._folder}/_delta_log"
        paths = [f"{folder}/{name}" for name in (*names, "_last_checkpoint")]
        make_durable(self._filesystem, paths)

    def marks_deleted_rows(self) -> bool:
        """Return whether the table's protocol allows deletion vectors."""
        from dil.publishing.delta_vacuum import marks_deleted_rows

        table = self._table()
        return table is not None and marks_deleted_rows(table)

    def marked_files(self) -> frozenset[str]:
        """Return the URIs of files with a deletion vector."""
        table = self._table()
        return frozenset() if table is None else self._marked(table)

    def unremovable(self, files: Collection[str]) -> frozenset[str]:
        """Return the files whose deletion vector is missing, or that cannot be removed."""
        table = self._table()
        if table is None:
            return frozenset()
        marked = self._marked(table).intersection(files)
        return marked.difference(self._removable(table, marked))

    def vacuum(self, hours: int, now_ms: int, *, is_look: bool) -> tuple[str, ...]:
        """Delete files that only old versions need, by the library's clock; return their paths."""
        from dil.publishing.delta_vacuum import vacuum

        del now_ms
        table = self._table()
        if table is None:
            return ()
        return vacuum(table, self._folder, self._filesystem, hours, is_look=is_look)

    def close(self) -> None:
        """Do nothing: no connection is open between calls."""

    def _refuse_properties(self, properties: Mapping[str, str]) -> None:
        for name, value in sorted(properties.items()):
            is_mapped = name == "delta.columnMapping.mode" and value != "none"
            is_kept = name == "delta.appendOnly" and value == "true"
            is_kept = is_kept and self._spec.mode is not PublishMode.APPEND
            if is_mapped or is_kept or name.startswith("delta.constraints."):
                raise ConfigError.single(
                    FORMAT_KEY,
                    f'is "delta", but the table at {self._folder} has the property {name}={value},'
                    " which this job cannot obey",
                    "Publish to another extract.table.name, or drop the property.",
                )

    def _step(self, intent: Intent) -> bool:
        """Do one step of a commit; return whether the table now has the commit.

        Raises:
            CommitFailedError: another writer committed first.
        """
        from dil.types import delta as columns

        commit, table = intent.commit, self._table()
        if table is None:
            self._create(commit)
            return False
        if _has(table, intent):
            return True
        live = frozenset(file.uri for file in self._files(table))
        gone = uris(commit.removes) - live
        everything = replaces_everything(self._spec, commit)
        if gone and not everything:
            refuse_doubling(self._spec, gone, f"version {table.version()}")
        if commit.removes and not everything:
            stuck = self._stuck(table, commit)
            refuse_marked_since(self._spec, stuck, f"version {table.version()}")
        known = table.schema()
        after = self._schema_after(known, commit, live)
        if columns.retyped(known, after) is not None:
            self._write(table, "overwrite", after, intent)
        elif added := columns.new_columns(known, after):
            table.alter.add_columns(added, commit_properties=_properties(commit))
            return False
        elif not everything and uris(commit.removes) & self._marked(table):
            self._write_removal(table, intent)
        else:
            self._write(table, "overwrite" if everything else "append", known, intent)
        return True

    def _create(self, commit: Commit) -> None:
        DeltaTable.create(
            self._filesystem.uri(self._folder),
            self._schema_after(None, commit, frozenset()),
            mode="ignore",
            partition_by=list(self._spec.table.partition_fields),
            commit_properties=_properties(commit),
            storage_options=dict(self._filesystem.options_of(self._folder)),
        )

    def _write(self, table: DeltaTable, mode: str, schema: Schema, intent: Intent) -> None:
        """Write the transaction; mode ``overwrite`` removes all files and sets the columns."""
        from dil.publishing.delta_actions import add_action, remove_action

        commit = intent.commit
        actions: list[AddAction | RemoveAction] = []
        for move in commit.moves:
            stats = self._statistics(self._filesystem.path_of(move.target.uri))
            path, values = self._relative(move.target.uri), self._values(schema, move)
            actions.append(add_action(path, move.target, stats, values, commit))
        if mode == "append":
            paths = sorted(self._relative(uri) for uri in uris(commit.removes))
            actions += [remove_action(path, commit) for path in paths]
        table.create_write_transaction(
            actions,
            mode,
            schema,
            list(self._spec.table.partition_fields),
            commit_properties=_properties(commit, intent.sequence),
        )

    def _write_removal(self, table: DeltaTable, intent: Intent) -> None:
        from dil.publishing.delta_removal import write_removal

        adds = self._removable(table, uris(intent.commit.removes)).values()
        write_removal(table, self._folder, self._filesystem, adds, intent)

    def _explain(self, intent: Intent, error: Exception) -> None:
        """Log or raise why a commit failed; the reason is not another writer's commit.

        Raises:
            WriteError: the table does not have the commit.
            CommitUnknownError: the table cannot be read.
        """
        try:
            is_there = self.has(intent)
        except (StateError, WriteError) as unread:
            raise CommitUnknownError(
                f"a commit to the Delta table at {self._folder} failed, and the table cannot be"
                f" read now: {words(error)}",
                "Nothing was deleted. Run the job again when the table can be read: the next run"
                " checks whether the table has the commit.",
            ) from unread
        if not is_there:
            raise WriteError(
                f"the Delta table at {self._folder} refused a commit: {words(error)}",
                "Run the job again: it finishes the publish first.",
            ) from error
        what = "the Delta table has the commit; a step after it failed: %s"
        log.warning(what, words(error))

    def _schema_after(self, known: Schema | None, commit: Commit, live: frozenset[str]) -> Schema:
        """Return exactly the columns that the table has after a commit.

        Raises:
            WriteError: a column's type would change while files with the old type stay, or its name
                would change only in capital letters.
        """
        from dil.types import delta as columns
        from dil.types.schema_text import parse_schema

        if known is not None and not commit.schema:
            return known
        wanted = columns.delta_schema(parse_schema(commit.schema))
        if known is None:
            return wanted
        columns.refuse_respelled(known, wanted)
        found = columns.retyped(known, wanted)
        if found is None:
            return columns.merged(known, wanted)
        if not replaces_everything(self._spec, commit) and live - uris(commit.removes):
            path, word, old = found
            raise unfit(path, word, f"and {old} in the Delta table")
        return columns.replaced(known, wanted)

    def _values(self, schema: Schema, move: Move) -> Mapping[str, str | None]:
        if not self._spec.table.partition_fields:
            return {}
        from dil.publishing.delta_actions import partition_values

        return partition_values(schema, partition_texts(self._spec, self._filesystem, move.target))

    def _columns(self, path: str) -> pa.Schema:
        import pyarrow.parquet as pq

        with self._filesystem.open_input(path) as stream:
            return pq.read_schema(stream)

    def _statistics(self, path: str) -> str:
        import pyarrow.parquet as pq

        from dil.publishing.delta_statistics import statistics

        with self._filesystem.open_input(path) as stream, pq.ParquetFile(stream) as file:
            return statistics(file)

    def _table(self) -> DeltaTable | None:
        """Return the table at its newest version, None if there is no table."""
        return self._newest.look()

    def _files(self, table: DeltaTable) -> Sequence[TableFile]:
        """Return the files of a table as of the last look."""
        state, files = self._listed
        if state != self._newest.state:
            actions = table.get_add_actions()
            columns = (actions.column(each).to_pylist() for each in _COLUMNS)
            files = tuple(
                TableFile(self._uri(unquote(path)), rows or 0, size)
                for path, rows, size in zip(*columns, strict=True)
            )
            self._listed = (self._newest.state, files)
        return files

    def _marked(self, table: DeltaTable) -> frozenset[str]:
        from dil.publishing.delta_vacuum import marked_names, marks_deleted_rows

        if not marks_deleted_rows(table):
            return frozenset()
        every = frozenset(file.uri for file in self._files(table))
        names = marked_names(table)
        if names is None:
            return every
        return frozenset(uri for uri in every if uri.rpartition("/")[2] in names)

    def _stuck(self, table: DeltaTable, commit: Commit) -> frozenset[str]:
        """Return the files of a commit that have a deletion vector and cannot be removed.

        The library cannot remove such files. A transaction that DIL writes without the library can
        only remove files.
        """
        removed = uris(commit.removes)
        marked = removed & self._marked(table)
        if commit.moves or not marked:
            return marked
        return removed.difference(self._removable(table, removed))

    def _removable(self, table: DeltaTable, files: Collection[str]) -> Mapping[str, JsonObject]:
        if not files:
            return {}
        from dil.publishing.delta_removal import removable

        return removable(table, self._folder, self._filesystem, files, self._uri)

    def _refuse_append_only(self, table: DeltaTable, commit: Commit) -> None:
        is_taken_out = bool(commit.removes) and not commit.is_compaction
        if is_taken_out and table.metadata().configuration.get("delta.appendOnly") == "true":
            raise StateError(
                f"the Delta table at {self._folder} has the property delta.appendOnly=true, which"
                " forbids removing rows",
                "Nothing was published. Drop the property, or do not remove rows from this table.",
            )

    def _uri(self, path: str) -> str:
        """Return the URI of a file in the log; a file outside the table has one already."""
        return path if "://" in path else self._filesystem.uri(f"{self._folder}/{path}")

    def _relative(self, uri: str) -> str:
        return self._filesystem.path_of(uri).removeprefix(f"{self._folder}/")


def _has(table: DeltaTable, intent: Intent) -> bool:
    landed = table.transaction_version(intent.commit.source_name)
    return landed is not None and landed >= intent.sequence


def _is_given_up(table: DeltaTable, intent: Intent) -> bool:
    name = given_up_name(intent.commit.source_name)
    return table.transaction_version(name) == intent.sequence


def _properties(
    commit: Commit, sequence: int | None = None, *, gives_up: bool = False
) -> CommitProperties:
    """Return the job's own properties for the log.

    The library must not retry by itself: another driver may have finished the same intent
    meanwhile, so DIL reads the table again first.
    """
    done = [] if sequence is None else [Transaction(commit.source_name, sequence)]
    if gives_up and sequence is not None:
        done.append(Transaction(given_up_name(commit.source_name), sequence))
    return CommitProperties(
        custom_metadata={"dil.run": commit.run_id, "dil.source": commit.source_name},
        max_commit_retries=0,
        app_transactions=done,
    )
