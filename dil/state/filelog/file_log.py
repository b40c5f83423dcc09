"""The file log: a state store on plain files, whose one strong operation is put-if-absent.

Each job has a journal of numbered entries, one per transaction, and every process replays it into
SQLite tables in memory. A transaction runs on those tables and then creates the next entry:
whoever creates a number first has committed, nobody can create it again. That file alone is the
compare-and-swap for blocks, work units, intent and lease together (docs/adr/0003-file-log.md).
"""

from __future__ import annotations

import logging
import os
import random
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from threading import RLock

from dil.errors import CommitConflictError, CommitUnknownError, StateError
from dil.spi.state_store import StateStore
from dil.state.databases.database import Database, Row, Snapshot, SqlValue, Transaction
from dil.state.filelog.chain import ChainFiles
from dil.state.filelog.entry import Entry, damaged, decode, encode, entry_hash
from dil.state.filelog.folder import JobFolder
from dil.state.filelog.replica import Recording, Replica
from dil.state.store.sql_store import SqlStateStore
from dil.storage import filesystem_for

ENTRIES_PER_SNAPSHOT = 100
_BYTES_PER_SNAPSHOT = 4 * 1024 * 1024
_REPLAY_COST = 16  # replaying a byte of the journal takes about so many bytes of a snapshot
_BYTES_PER_ENTRY = 1024 * 1024  # opening a small file takes as long as reading so much of a large
_RACES = 30
_LONGEST_PAUSE_S = 0.2
_STARTS = 5

log = logging.getLogger(__name__)


def open_file_log(directory: str, job: str, *, clock: Callable[[], int]) -> StateStore:
    """Return the store of one job in a folder; touches nothing before it is used.

    Args:
        directory: Absolute path or URI of a folder that many jobs may share.
        job: Key of the chain and of the lease.
        clock: Epoch ms of the real clock.
    """
    folder = JobFolder(filesystem_for(directory), directory, job)
    return SqlStateStore(FileLogDatabase(folder, job, clock=clock), job, clock=clock)


class FileLogDatabase(Database):
    """The tables of one job over its journal; nothing is created before the first write."""

    def __init__(
        self,
        folder: JobFolder,
        job: str,
        *,
        clock: Callable[[], int],
        entries_per_snapshot: int = ENTRIES_PER_SNAPSHOT,
    ) -> None:
        self._folder = folder
        self._job = job
        self._clock = clock
        self._entries_per_snapshot = entries_per_snapshot
        self._chain = ChainFiles(folder, job)
        self._lock = RLock()
        self._replica: Replica | None = None
        self._is_prepared = False
        self._snapshot_number = 0
        self._bytes_since = 0

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Open a transaction; its entry is created when the block ends, unless it raises.

        When other entries came first meanwhile, ours follows them if they change none of the
        answers that the block was given; else nothing of it is recorded.
        """
        with self._lock:
            recording = Recording(self._caught_up().begin())
            try:
                yield recording
                if recording.changes:
                    self._commit(recording)
            finally:
                self._roll_back()
            if recording.changes:
                self._keep_up()

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Open a reading transaction; a folder that does not exist reads as an empty store."""
        with self._lock:
            tx = self._caught_up().begin()
            try:
                yield tx
            finally:
                self._roll_back()

    def snapshot(self) -> Snapshot:
        """Return a copy of the tables, which nobody else sees."""
        with self._lock:
            return self._caught_up().copied()

    def stream(self, statement: str, *values: SqlValue) -> Iterator[Row]:
        """Yield rows of a copy of the tables, which lives as long as the iterator."""
        with self._lock:
            copy = self._caught_up().copied()
        with closing(copy):
            yield from copy.each(statement, values)

    def close(self) -> None:
        """Release the tables; iterators and snapshots have their own."""
        with self._lock:
            self._forget()

    # Replaying

    def _caught_up(self) -> Replica:
        """Return the state after the last entry there is now.

        The look at the snapshots comes last: entries are deleted only below a snapshot, so when
        none is newer than the state, no entry was deleted that the state lacks.
        """
        for _ in range(_STARTS):
            # Kept only when all went well: what stopped halfway must be found again.
            replica, self._replica = self._replica, None
            end = 0
            if replica is None:
                end = self._folder.last_entry()
                replica = self._loaded()
            try:
                problem = self._replayed(replica, end)
                newest = self._folder.newest_snapshot()
            except BaseException:
                replica.close()
                raise
            if problem is None and newest <= replica.number:
                self._replica, self._snapshot_number = replica, newest
                return replica
            replica.close()
            if problem is not None and newest <= replica.number:
                raise problem
        raise damaged(self._folder.path, "its newest snapshot cannot be reached")

    def _loaded(self) -> Replica:
        """Return the newest snapshot that is sound; the empty store when there is none at all."""
        self._bytes_since = 0
        for snapshot in self._folder.snapshots():
            content = self._folder.snapshot(snapshot)
            if content is not None:
                return Replica.loaded(content, self._job, self._folder.snapshot_path(snapshot))
        return Replica.empty(self._job, self._folder.path)

    def _replayed(self, replica: Replica, end: int) -> StateError | None:
        """Apply all entries there are; return what stopped it before the last one."""
        while (content := self._folder.entry(replica.number + 1)) is not None:
            path = self._folder.entry_path(replica.number + 1)
            try:
                replica.apply(decode(content, path), entry_hash(content), path)
            except StateError as error:
                return error
            self._bytes_since += len(content)
        if replica.number < end:
            return damaged(self._folder.entry_path(replica.number + 1), "it is missing")
        return None

    def _roll_back(self) -> None:
        if self._replica is not None:
            self._replica.roll_back()

    def _forget(self) -> None:
        if self._replica is not None:
            self._replica.close()
            self._replica = None

    # Committing

    def _commit(self, recording: Recording) -> None:
        self._prepare()
        for race in range(_RACES):
            if self._replica is not None and self._appended(self._replica, recording):
                return
            self._roll_back()
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE_S, 0.005 * race)))  # noqa: S311
            if not recording.holds_on(self._caught_up().begin()):
                break
        raise CommitConflictError(
            f"another writer changed the state in {self._folder.path} first",
            "Nothing of this run was recorded; run the job again.",
        )

    def _prepare(self) -> None:
        if not self._is_prepared:
            self._folder.prepare()
            self._is_prepared = True

    def _appended(self, replica: Replica, recording: Recording) -> bool:
        """Create the next entry; tell whether it is ours."""
        entry = Entry(
            job=self._job,
            number=replica.number + 1,
            previous=replica.entry_hash,
            writer=f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex}",
            changes=tuple(recording.changes),
        )
        content = encode(entry)
        digest = entry_hash(content)
        if not self._folder.put_entry(entry.number, content):
            return False
        self._bytes_since += len(content)
        try:
            if self._folder.newest_snapshot() < entry.number:
                replica.commit(entry.number, digest)
                return True
            found = self._hash_among_all(entry.number)
        except StateError as error:
            raise self._unknown(entry.number) from error
        if found is None:
            raise self._unknown(entry.number)
        return found == digest

    def _hash_among_all(self, number: int) -> str | None:
        """Return the hash of the entry that counts under a number, as the newest snapshot knows it.

        A writer that slept may create again what was deleted below a snapshot: nobody comes by
        such an entry.
        """
        self._forget()
        return self._caught_up().hash_of(number)

    def _unknown(self, number: int) -> CommitUnknownError:
        return CommitUnknownError(
            f"{self._folder.entry_path(number)} was written, and may have come too late",
            "Nothing was deleted. Run the job again: it looks first.",
        )

    # Upkeep

    def _keep_up(self) -> None:
        """Do what a commit may leave to the next one: block files, snapshot, sweeping."""
        if self._replica is None:
            return
        try:
            self._chain.complete(self._replica.begin())
            self._roll_back()
            if self._is_snapshot_due(self._replica):
                self._folder.put_snapshot(self._replica.number, self._replica.dumped())
                self._bytes_since = 0
                self._folder.sweep(self._clock())
        except StateError as error:
            log.warning("left to the next commit: %s", error.message)
        finally:
            self._roll_back()

    def _is_snapshot_due(self, replica: Replica) -> bool:
        """Tell whether the journal costs as much to replay as a snapshot costs to write."""
        size = replica.size
        limit = max(self._entries_per_snapshot, size // _BYTES_PER_ENTRY)
        entries = replica.number - self._snapshot_number
        return entries >= limit or self._bytes_since >= max(
            _BYTES_PER_SNAPSHOT, size // _REPLAY_COST
        )
