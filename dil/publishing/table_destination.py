"""Publishes to Delta and Iceberg tables; they differ only in the table's own log.

First the files are moved to their names; readers of the table do not look there yet. Then one
transaction of the log adds these files and removes replaced files. At last the manifest records the
work units of the files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import cached_property
from typing import ClassVar, Protocol

from dil.errors import StateError
from dil.model.dataset import Commit, Intent, Move, PublishedFile
from dil.model.destination import TableFormat
from dil.model.job import PublishingSpec, PublishMode
from dil.publishing import dumps, layout, manifest
from dil.publishing.table_files import (
    TableFile,
    put_in_place,
    record_owners,
    refuse_gone,
    refuse_marked,
    refuse_other_partitions,
    refuse_plain_files,
    replaces_everything,
    taken_apart,
    uris,
    with_owners,
)
from dil.spi.destination import Destination, DestinationContext
from dil.storage import Filesystem


class TableLog(Protocol):
    """The operations of a table's log.

    Every call uses the table's newest state. It first queries the version, because any program may
    have changed the table, and then reads only the new part.
    """

    def partition_fields(self) -> Sequence[str] | None:
        """Return the columns by which the table is partitioned, None if there is no table.

        Raises:
            ConfigError: no job can write to the table.
        """

    def files(self) -> Sequence[TableFile]:
        """Return the live files; empty if there is no table."""

    def next_sequence(self) -> int:
        """Return a number that is larger than the number of every commit in the table."""

    def has(self, intent: Intent) -> bool:
        """Return whether the table has the commit of an intent."""

    def is_set_back(self, source: str, landed: int) -> bool:
        """Return whether a program set the table back to before a source's last commit.

        ``landed`` is the number of that commit in the dataset's manifest.
        """

    def runs_set_back(self, source: str, landed: int, runs: frozenset[str]) -> frozenset[str]:
        """Return those of some runs of a source that the table lost when it was set back.

        These are all of the runs if the table is gone.
        """

    def require_fit(self, commit: Commit, live: frozenset[str]) -> None:
        """Raise if the table cannot take the columns of staged files; ``live`` are its files' URIs.

        Raises:
            WriteError: a column does not fit; nothing was changed.
        """

    def fence(self, intent: Intent) -> None:
        """Prevent the commit of an intent from ever landing, unless the table has it.

        Raises:
            WriteError: the table refused the change.
        """

    def is_given_up(self, intent: Intent) -> bool:
        """Return whether ``fence`` came before the commit of an intent."""

    def commit(self, intent: Intent) -> None:
        """Add and remove files in one transaction, at most once however often it is called.

        Raises:
            WriteError: the table refused; no part of the commit landed.
            CommitUnknownError: the commit may have landed, or would double rows.
        """

    def make_durable(self, intent: Intent) -> None:
        """Make the files written since the intent durable, so that they survive a power failure."""

    def marks_deleted_rows(self) -> bool:
        """Return whether another program may mark rows as deleted outside of the data files."""

    def marked_files(self) -> frozenset[str]:
        """Return the URIs of live files with rows that another program marked as deleted."""

    def unremovable(self, files: Collection[str]) -> frozenset[str]:
        """Return the URIs of the given live files that no transaction of DIL can remove."""

    def vacuum(self, hours: int, now_ms: int, *, is_look: bool) -> tuple[str, ...]:
        """Delete the files of versions replaced more than ``hours`` ago; return their paths.

        Raises:
            WriteError: the table refused the change.
        """

    def close(self) -> None:
        """Close connections."""


class TableDestination(Destination):
    """A table of Parquet files in the dataset's folder."""

    modes = frozenset(PublishMode)

    keeps_versions: ClassVar[bool] = True

    def __init__(self, spec: PublishingSpec, filesystem: Filesystem) -> None:
        super().__init__(DestinationContext(spec, filesystem))
        self._spec = spec
        self._filesystem = filesystem
        self._is_connected = False

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Let calls share the connections to a catalog."""
        self._is_connected = True
        try:
            yield
        finally:
            self._is_connected = False
            if "_kept" in vars(self):  # else no call needed the library of the format
                self._kept.close()

    @cached_property
    def _kept(self) -> TableLog:
        # Only this method loads the library of the table's format.
        if self._spec.table.format is TableFormat.DELTA:
            from dil.publishing.delta_log import DeltaLog

            return DeltaLog(self._spec, self._filesystem)
        from dil.publishing.iceberg_log import IcebergLog

        return IcebergLog(self._spec, self._filesystem)

    def _log(self) -> AbstractContextManager[TableLog]:
        """Yield the log; afterwards close its connections, unless calls share them."""
        return nullcontext(self._kept) if self._is_connected else closing(self._kept)

    def check(self) -> None:
        """Raise if the folder holds plain files, or a table with other partition columns.

        Raises:
            ConfigError: the folder's dataset does not fit the job.
            StateError: the job merges, and the table has rows that are marked as deleted.
        """
        with self._log() as log:
            found = log.partition_fields()
            self._refuse_merge(log)
        if found is None:
            refuse_plain_files(self._filesystem, self._spec)
        else:
            refuse_other_partitions(self._spec, found)

    def live(self) -> tuple[PublishedFile, ...]:
        """Return the files that the table has now."""
        with self._log() as log:
            return with_owners(self._filesystem, self._spec, log.files())

    def next_sequence(self) -> int:
        """Return the table's number for a commit that is decided now.

        The table, or its catalog, may be an older copy than the manifest.
        """
        newest = manifest.newest(self._filesystem, layout.dataset_dir(self._spec))
        with self._log() as log:
            return max(log.next_sequence(), *(each + 1 for each in newest.landed.values()), 0)

    def landed(self, source: str) -> int:
        """Return the largest number of a source's commits, -1 if the source has no commit."""
        newest = manifest.newest(self._filesystem, layout.dataset_dir(self._spec))
        return newest.landed.get(source, -1)

    def uri(self, path: str) -> str:
        """Return the file's URI."""
        return self._filesystem.uri(path)

    def lost(self, intent: Intent) -> tuple[Move, ...]:
        """Return the moves whose file no longer exists; empty if the table has the commit."""
        with self._log() as log:
            if log.has(intent):
                return ()
        return dumps.lost_moves(intent.commit.moves, self._filesystem)

    def has_landed(self, intent: Intent) -> bool:
        """Return whether the table has the commit, even if other writers changed files since."""
        with self._log() as log:
            return log.has(intent)

    def fence(self, intent: Intent) -> None:
        """Prevent the intent from ever landing, unless the table has its commit."""
        with self._log() as log:
            log.fence(intent)
            log.make_durable(intent)

    def is_given_up(self, intent: Intent) -> bool:
        """Return whether ``fence`` came before the commit."""
        with self._log() as log:
            return log.is_given_up(intent)

    def is_set_back(self, source: str) -> bool:
        """Return whether another program set the table back to before a source's last commit."""
        with self._log() as log:
            return log.is_set_back(source, self.landed(source))

    def set_back_files(self, source: str, uris: Iterable[str]) -> list[str]:
        """Return those of a source's published files that the table lost when it was set back.

        Files that another program compacted, or whose rows it deleted, are not among them.
        """
        folder = self._filesystem.uri(layout.dataset_dir(self._spec))
        here = (uri for uri in uris if uri.startswith(f"{folder}/"))
        live = {file.uri.rpartition("/")[2] for file in self.live()}
        absent = {uri: layout.run_ids_in(uri) for uri in here if uri.rpartition("/")[2] not in live}
        if not absent:
            return []
        runs = frozenset().union(*absent.values())
        with self._log() as log:
            lost = log.runs_set_back(source, self.landed(source), runs)
        return sorted(uri for uri, ids in absent.items() if ids & lost)

    def require_fit(self, commit: Commit) -> None:
        """Raise if the table cannot take the files of a commit, before anything is decided.

        Raises:
            WriteError: a column does not fit.
            CommitConflictError: a file to be replaced is no longer in the table.
            StateError: a file to be replaced has rows that are marked as deleted.
        """
        with self._log() as log:
            live = frozenset(file.uri for file in log.files())
            if not replaces_everything(self._spec, commit):
                refuse_gone(self._spec, uris(commit.removes) - live)
                if apart := taken_apart(self._spec, commit):
                    refuse_marked(self._spec, apart & log.marked_files())
            self._refuse_merge(log)
            log.require_fit(commit, live)

    def _refuse_merge(self, log: TableLog) -> None:
        """Raise if the table has rows marked as deleted: a merge would count their keys as live."""
        if self._spec.mode is PublishMode.MERGE:
            refuse_marked(self._spec, log.marked_files())

    def carry_out(self, intent: Intent) -> None:
        """Move files in, commit to the table's log, then write the manifest."""
        if not (intent.commit.moves or intent.commit.removes):
            return
        with self._log() as log:
            if not log.has(intent):
                put_in_place(intent.commit.moves, self._spec, self._filesystem)
                log.commit(intent)
            log.make_durable(intent)
            # The manifest is read first. So if another job adds files now, they are not in
            # ``known``, and their entries in the manifest stay.
            known = manifest.newest(self._filesystem, intent.dataset_dir)
            live = frozenset(file.uri for file in log.files())
        record_owners(self._filesystem, intent, known, live)

    def refuse_deleted_rows(self) -> None:
        """Raise if files of the table may hold rows that another program marked as deleted.

        Raises:
            StateError: rewriting the files would bring the deleted rows back.
        """
        with self._log() as log:
            is_marked = log.marks_deleted_rows()
        if is_marked:
            raise StateError(
                f"the {self._spec.table.format} table at {layout.dataset_dir(self._spec)} marks"
                " rows as deleted (another program did that): if its files were rewritten, these"
                " rows would come back",
                "Let that program rewrite the table without such marks, then run the command"
                " again.",
            )

    def unremovable(self, files: Collection[str]) -> frozenset[str]:
        """Return the URIs of the given live files that cannot be removed as a whole."""
        with self._log() as log:
            return log.unremovable(files)

    def vacuum(self, *, hours: int, now_ms: int, is_look: bool) -> tuple[str, ...]:
        """Delete the files of versions replaced more than ``hours`` ago; return their paths."""
        with self._log() as log:
            return log.vacuum(hours, now_ms, is_look=is_look)
