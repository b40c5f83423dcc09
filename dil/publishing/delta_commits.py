"""Commits to a Delta table, and does everything else with the table that needs Arrow."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from dil.errors import CommitUnknownError, StateError, WriteError
from dil.model.dataset import Commit, Intent, Move
from dil.model.job import PublishingSpec
from dil.model.json import JsonObject
from dil.publishing import delta_vacuum, layout
from dil.publishing.delta_removal import removable, write_removal
from dil.publishing.delta_statistics import partition_values, statistics
from dil.publishing.delta_store import (
    NewestTable,
    commit_properties,
    has_commit,
    marks_deleted_rows,
    transaction_time,
)
from dil.publishing.table_files import (
    ATTEMPTS,
    gave_up,
    partition_texts,
    refuse_doubling,
    refuse_marked,
    refuse_marked_since,
    replaces_everything,
    uris,
    words,
)
from dil.storage import Filesystem
from dil.types import delta as columns
from dil.types.schema_text import parse_schema
from dil.types.table_formats import unfit

log = logging.getLogger(__name__)


class DeltaCommits:
    """Adds files to the Delta table in a folder and removes files from it, in one transaction."""

    def __init__(self, spec: PublishingSpec, filesystem: Filesystem, newest: NewestTable) -> None:
        self._spec = spec
        self._filesystem = filesystem
        self._folder = layout.dataset_dir(spec)
        self._newest = newest

    def require_fit(self, commit: Commit, live: frozenset[str]) -> None:
        """Raise if the table cannot take the columns or partition values of staged files."""
        table = self._newest.look()
        if table is not None and not replaces_everything(self._spec, commit):
            self._refuse_append_only(table, commit)
            refuse_marked(self._spec, self._stuck(table, commit))
        after = self._schema_after(None if table is None else table.schema(), commit, live)
        fitting: list[pa.Schema] = []  # The files of a run mostly have the same schema.
        for move in commit.moves:
            with self._filesystem.open_input(move.source) as stream:
                file = pq.read_schema(stream)
            if not any(file.equals(each) for each in fitting):
                columns.refuse_unfit(after, file, self._spec.table.partition_fields)
                fitting.append(file)
            self._values(after, move)

    def commit(self, intent: Intent) -> None:
        """Commit to the table; if another writer commits first, commit on top of its version."""
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

    def marked_files(self) -> frozenset[str]:
        """Return the URIs of files with a deletion vector."""
        table = self._newest.look()
        return frozenset() if table is None else self._marked(table)

    def unremovable(self, files: Collection[str]) -> frozenset[str]:
        """Return the files that DIL cannot remove because they have a deletion vector."""
        table = self._newest.look()
        if table is None:
            return frozenset()
        marked = self._marked(table).intersection(files)
        return marked.difference(self._removable(table, marked))

    def vacuum(self, hours: int, *, is_look: bool) -> tuple[str, ...]:
        """Delete files that only old versions need; return their paths."""
        table = self._newest.look()
        if table is None:
            return ()
        return delta_vacuum.vacuum(table, self._folder, self._filesystem, hours, is_look=is_look)

    def _step(self, intent: Intent) -> bool:
        """Do one step of a commit; return whether the table now has the commit.

        Raises:
            CommitFailedError: another writer committed first.
        """
        commit, table = intent.commit, self._newest.look()
        if table is None:
            self._create(commit)
            return False
        if has_commit(table, intent):
            return True
        live = frozenset(file.uri for file in self._newest.files())
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
            table.alter.add_columns(added, commit_properties=commit_properties(commit))
            return False
        elif not everything and uris(commit.removes) & self._marked(table):
            adds = self._removable(table, uris(commit.removes)).values()
            write_removal(table, self._folder, self._filesystem, adds, intent)
        else:
            self._write(table, "overwrite" if everything else "append", known, intent)
        return True

    def _create(self, commit: Commit) -> None:
        DeltaTable.create(
            self._filesystem.uri(self._folder),
            self._schema_after(None, commit, frozenset()),
            mode="ignore",
            partition_by=list(self._spec.table.partition_fields),
            commit_properties=commit_properties(commit),
            storage_options=dict(self._filesystem.options_of(self._folder)),
        )

    def _write(self, table: DeltaTable, mode: str, schema: Schema, intent: Intent) -> None:
        """Write the transaction; mode ``overwrite`` removes all files and sets the columns."""
        commit = intent.commit
        actions: list[AddAction | RemoveAction] = []
        for move in commit.moves:
            path = self._filesystem.path_of(move.target.uri)
            with self._filesystem.open_input(path) as stream, pq.ParquetFile(stream) as file:
                stats = statistics(file)
            actions.append(
                AddAction(
                    path=self._newest.relative(move.target.uri),
                    size=move.target.bytes,
                    partition_values=self._values(schema, move),
                    modification_time=commit.system_time,
                    data_change=not commit.is_compaction,
                    stats=stats,
                )
            )
        if mode == "append":
            now = transaction_time()
            actions += [
                RemoveAction(
                    path,
                    data_change=not commit.is_compaction,
                    deletion_timestamp=now,
                )
                for path in sorted(self._newest.relative(uri) for uri in uris(commit.removes))
            ]
        table.create_write_transaction(
            actions,
            mode,
            schema,
            list(self._spec.table.partition_fields),
            commit_properties=commit_properties(commit, intent.sequence),
        )

    def _explain(self, intent: Intent, error: Exception) -> None:
        """Log or raise why a commit failed; the reason is not another writer's commit.

        Raises:
            WriteError: the table does not have the commit.
            CommitUnknownError: the table cannot be read.
        """
        try:
            is_there = self._newest.has(intent)
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
        """Return the columns that the table has after a commit.

        Raises:
            WriteError: a column's type would change while files with the old type stay, or a
                column's name would differ from the table's name only in letter case.
        """
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
        return partition_values(schema, partition_texts(self._spec, self._filesystem, move.target))

    def _marked(self, table: DeltaTable) -> frozenset[str]:
        if not marks_deleted_rows(table):
            return frozenset()
        every = frozenset(file.uri for file in self._newest.files())
        names = delta_vacuum.marked_names(table)
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
        return removable(table, self._folder, self._filesystem, files, self._newest.uri)

    def _refuse_append_only(self, table: DeltaTable, commit: Commit) -> None:
        is_taken_out = bool(commit.removes) and not commit.is_compaction
        if is_taken_out and table.metadata().configuration.get("delta.appendOnly") == "true":
            raise StateError(
                f"the Delta table at {self._folder} has the property delta.appendOnly=true, which"
                " forbids removing rows",
                "Nothing was published. Drop the property, or do not remove rows from this table.",
            )
