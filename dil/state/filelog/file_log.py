"""The file log: a state store on plain files, which relies only on put-if-absent.

Each job has a journal of numbered entries, one per transaction, and every process replays it into
SQLite tables in memory. A transaction runs on these tables and then creates the next entry: the
writer that creates a number first has committed, and no other can create it again. That file is the
one compare-and-swap for blocks, work units, intent and lease (docs/adr/0003-file-log.md).

A log of an older format is upgraded by an entry of the present format, which earlier releases
refuse. If another writer creates an entry of the same number first, the log continues under the old
format. After an upgrade, entries go to a new generation, and the journal that ended is the copy of
the old log.
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
from dil.state.blocks.canonical import content_hash
from dil.state.databases import tables
from dil.state.databases.database import Allow, Database, Row, Snapshot, SqlValue, Transaction
from dil.state.filelog.chain import ChainFiles
from dil.state.filelog.entry import LogEntry, damaged, decode, encode
from dil.state.filelog.folder import JobFolder
from dil.state.filelog.rechecking import log_problems
from dil.state.filelog.replica import Recording, Replica
from dil.storage import LocalFilesystem, filesystem_for

ENTRIES_PER_SNAPSHOT = 100
_BYTES_PER_SNAPSHOT = 4 * 1024 * 1024
_REPLAY_COST = 16  # replaying a byte of the journal takes as long as loading so many of a snapshot
_BYTES_PER_ENTRY = 1024 * 1024  # opening a small file takes as long as reading so many bytes
_RACES = 30
_LONGEST_PAUSE_S = 0.2
_STARTS = 5

log = logging.getLogger(__name__)


def file_log_database(directory: str, job: str, *, clock: Callable[[], int]) -> FileLogDatabase:
    """Return the tables of one job in a folder; no file is read before their first use.

    Args:
        directory: Absolute path or URI of a folder that many jobs may share.
        job: The key of the chain and of the lease.
        clock: Returns epoch ms of the real clock.
    """
    files = filesystem_for(directory)
    if isinstance(files, LocalFilesystem):
        files = LocalFilesystem(is_private=True)
    folder = JobFolder(files, directory, job)
    return FileLogDatabase(folder, job, clock=clock)


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
        self.place = folder.path
        self._first = folder  # the log's first folder; ``_folder`` is its present generation
        self._folder = folder
        self._job = job
        self._clock = clock
        self._entries_per_snapshot = entries_per_snapshot
        self._chain = ChainFiles(folder, job)
        self._lock = RLock()
        self._replica: Replica | None = None
        self._prepared: JobFolder | None = None
        self._snapshot_number = 0
        self._bytes_since = 0

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Open a transaction; its entry is created at the end, unless the block raises.

        If other entries came first, and change none of the answers that the block got, our entry
        follows them. If they change an answer, our entry is not recorded.
        """
        with self._written() as recording:
            yield recording

    @contextmanager
    def upgrade(self, allow: Allow) -> Iterator[Transaction]:
        """Open a transaction whose entry also ends the old generation, if there is one."""
        with self._written(upgrades=True) as recording:
            if self._replica is not None and self._replica.format < tables.FORMAT:
                allow(recording, self._replica.format)
            yield recording

    def copy_place(self, number: int) -> str:
        """Return the place where the old generation stays."""
        del number
        return f"journal and snapshots in {self.place}"

    def set_chain_aside(self, name: str) -> None:
        """Move the block files away; the next commit writes them again from the journal."""
        with self._lock:
            self._chain.set_aside(name)

    @contextmanager
    def _written(self, *, upgrades: bool = False) -> Iterator[Recording]:
        with self._lock:
            recording = Recording(self._begun(upgrades=upgrades))
            try:
                yield recording
                if recording.changes:
                    self._commit(recording, upgrades=upgrades)
            finally:
                self._roll_back()
            if recording.changes:
                self._keep_up()

    def _begun(self, *, upgrades: bool) -> Transaction:
        """Begin a transaction on the newest state; if ``upgrades``, it has the new tables."""
        replica = self._caught_up()
        tx = replica.begin()
        if upgrades and replica.format < tables.FORMAT:
            replica.upgrade()
        return tx

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
        """Return a copy of the tables, which other transactions do not see or change."""
        with self._lock:
            return self._caught_up().copied()

    def stream(self, statement: str, *values: SqlValue) -> Iterator[Row]:
        """Yield rows from a copy of the tables, which exists as long as the iterator."""
        with self._lock:
            copy = self._caught_up().copied()
        with closing(copy):
            yield from copy.each(statement, values)

    def problems(self) -> Iterator[str]:
        """Yield contradictions between the journal, the snapshots and the chain's files.

        A snapshot replaces the entries before it, so an older snapshot and the entries after it
        must give the same tables.
        """
        with self._lock:
            replica = self._caught_up()  # this finds the log's generation
            yield from log_problems(self._folder, replica, self._job)

    def close(self) -> None:
        """Release the tables; iterators and snapshots have their own."""
        with self._lock:
            self._forget()

    # Replaying

    def _caught_up(self) -> Replica:
        """Return the state after the last present entry.

        The snapshots are listed last. Entries are deleted only below a snapshot, so if no snapshot
        is newer than the state, all entries after the state still exist.
        """
        for _ in range(_STARTS):
            # The state is only kept if all went well: an error must be found again.
            replica, self._replica = self._replica, None
            end = 0
            if replica is None:
                replica = self._loaded()
                end = self._folder.last_entry()
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
        """Return the newest sound snapshot; the empty store if there is none at all.

        ``_folder`` is then the snapshot's generation. A generation without a sound snapshot is
        reached by replaying the earlier generation.
        """
        self._bytes_since = 0
        names = self._first.snapshot_names()
        later = range(tables.FORMAT, tables.OLDEST_FORMAT, -1)
        for folder in (*map(self._first.generation, later), self._first):
            self._folder = folder
            for snapshot in folder.snapshots(names):
                content = folder.snapshot(snapshot)
                if content is not None:
                    return Replica.loaded(content, self._job, folder.snapshot_path(snapshot))
        return Replica.empty(self._job, self._folder.path)

    def _replayed(self, replica: Replica, end: int) -> StateError | None:
        """Apply all present entries; return the error that stopped this before the last entry."""
        while (content := self._folder.entry(replica.number + 1)) is not None:
            path = self._folder.entry_path(replica.number + 1)
            before = replica.format
            try:
                replica.apply(decode(content, path), content_hash(content), path)
            except StateError as error:
                return error
            self._bytes_since += len(content)
            if replica.format > before:
                self._folder = self._first.generation(replica.format)
                end = self._folder.last_entry()
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

    def _commit(self, recording: Recording, *, upgrades: bool) -> None:
        for race in range(_RACES):
            self._prepare()
            if self._replica is not None and self._appended(
                self._replica, recording, upgrades=upgrades
            ):
                return
            self._roll_back()
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE_S, 0.005 * race)))  # noqa: S311 - not a secret
            if not recording.holds_on(self._begun(upgrades=upgrades)):
                break
        raise CommitConflictError(
            f"another writer changed the state in {self._folder.path} first",
            "Nothing of this run was recorded; run the job again.",
        )

    def _prepare(self) -> None:
        if self._prepared is not self._folder:
            self._folder.prepare()
            self._prepared = self._folder

    def _appended(self, replica: Replica, recording: Recording, *, upgrades: bool) -> bool:
        """Create the next entry; return whether it is ours."""
        entry = LogEntry(
            format=tables.FORMAT if upgrades else replica.format,
            job=self._job,
            number=replica.number + 1,
            previous=replica.entry_hash,
            writer=f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex}",
            changes=tuple(recording.changes),
        )
        content = encode(entry)
        digest = content_hash(content)
        if not self._folder.put_entry(entry.number, content):
            return False
        self._bytes_since += len(content)
        try:
            if self._folder.newest_snapshot() < entry.number:
                before = replica.format
                replica.commit(entry.number, digest)
                if replica.format > before:
                    self._folder = self._first.generation(replica.format)
                    self._snapshot_number = 0
                return True
            # A writer that slept may create an entry again that was deleted below a snapshot, and
            # that no reader reads: the newest snapshot has the hash of the valid entry.
            self._forget()
            found = self._caught_up().hash_of(entry.number)
        except StateError as error:
            raise self._unknown(entry.number) from error
        if found is None:
            raise self._unknown(entry.number)
        return found == digest

    def _unknown(self, number: int) -> CommitUnknownError:
        return CommitUnknownError(
            f"{self._folder.entry_path(number)} was written, and may have come too late",
            "Nothing was deleted. Run the job again: it checks that first.",
        )

    # Upkeep

    def _keep_up(self) -> None:
        """Do the work that a commit may leave to the next one: block files, snapshot, sweeping."""
        if self._replica is None:
            return
        try:
            self._chain.complete(self._replica.begin())
            self._roll_back()
            if self._is_snapshot_due(self._replica):
                self._prepare()
                self._folder.put_snapshot(self._replica.number, self._replica.dumped())
                self._bytes_since = 0
                self._folder.sweep(self._clock())
        except StateError as error:
            log.warning("left to the next commit: %s", error.message)
        finally:
            self._roll_back()

    def _is_snapshot_due(self, replica: Replica) -> bool:
        """Return whether replaying the journal costs as much as writing a snapshot.

        A later generation begins with a snapshot, so that it can be read without the earlier one.
        """
        if self._folder is not self._first and self._snapshot_number == 0:
            return True
        size = replica.size
        limit = max(self._entries_per_snapshot, size // _BYTES_PER_ENTRY)
        entries = replica.number - self._snapshot_number
        return entries >= limit or self._bytes_since >= max(
            _BYTES_PER_SNAPSHOT, size // _REPLAY_COST
        )
