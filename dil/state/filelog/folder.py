"""The files of one job's log: their names, durability, and the outcome of a failed write.

<state.store.dir>/<job>/journal/<20-digit number>.json         one per transaction
<state.store.dir>/<job>/snapshots/<20-digit number>-<sha>.db   SQLite file after that entry
<state.store.dir>/<job>/_chain/blocks/<20-digit sequence>.json  canonical bytes of a block
<state.store.dir>/<job>/_chain/head.json                       a hint that no reader trusts

An entry exists if its file exists: the file is complete, and no writer can create it again.

A log that was upgraded continues in a new generation: entries in <job>/journal-<format>, snapshots
named <20-digit number>-<sha>.format-<format>.db. The earlier journal ends with the entry that
upgraded it; that journal and its snapshots stay.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dil.errors import CommitUnknownError, StateError, WriteError
from dil.state.filelog.entry import damaged
from dil.storage import Filesystem

_ENTRY = re.compile(r"(\d{20})\.json")
_KEPT_SNAPSHOTS = 2
_TORN_MS = 24 * 60 * 60 * 1000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, order=True)
class SnapshotFile:
    """A snapshot, named by the number of its last entry and the SHA-256 of its bytes."""

    number: int
    digest: str

    @property
    def name(self) -> str:
        """Return the file's name without its generation."""
        return f"{self.number:020}-{self.digest}"


class JobFolder:
    """One job's folder on a filesystem whose ``put_if_absent`` lets exactly one writer win.

    Storage errors are raised as StateError.
    """

    def __init__(
        self, files: Filesystem, directory: str, job: str, *, generation: int | None = None
    ) -> None:
        self.path = f"{directory.rstrip('/')}/{folder_name(job)}"
        self._above = directory
        self._files = files
        self._job = job
        self._journal = f"{self.path}/journal"
        self._ending = ".db"
        if generation is not None:
            self._journal += f"-{generation}"
            self._ending = f".format-{generation}.db"
        self._snapshots = f"{self.path}/snapshots"
        self._chain = f"{self.path}/_chain"

    def generation(self, number: int) -> JobFolder:
        """Return the folder in which the log continues after an upgrade to a format."""
        return JobFolder(self._files, self._above, self._job, generation=number)

    def prepare(self) -> None:
        """Create the folders, and make their names durable."""
        with _translated(self.path):
            for folder in (self._journal, self._snapshots, f"{self._chain}/blocks"):
                self._files.make_folder(folder)
            # Another process may have created them a moment ago, but not made them durable yet.
            self._files.sync_folders([self._above, self.path, self._chain])

    # Journal

    def entry_path(self, number: int) -> str:
        """Return the path of an entry's file."""
        return f"{self._journal}/{number:020}.json"

    def entry(self, number: int) -> bytes | None:
        """Return an entry's content, None if it does not exist."""
        return self._content(self.entry_path(number))

    def last_entry(self) -> int:
        """Return the largest listed number, 0 if there is none."""
        return max(self.entries(), default=0)

    def put_entry(self, number: int, content: bytes) -> bool:
        """Create an entry; return whether the entry now has this content.

        Raises:
            StateError: the entry could not be written.
            CommitUnknownError: it is unknown whether the entry was written.
        """
        path = self.entry_path(number)
        try:
            if self._files.put_if_absent(path, content):
                return True
        except WriteError as error:
            return self._landed(path, content, error)
        # On a network mount the reply may have been lost, and the repeated request refused.
        return self._content(path) == content

    def entries(self) -> list[int]:
        """Return the listed numbers of entries, in order."""
        found = (_ENTRY.fullmatch(name) for name in self._names(self._journal))
        return sorted(int(each[1]) for each in found if each)

    # Snapshots

    def snapshot_names(self) -> list[str]:
        """Return the names in the folder of snapshots, of all generations."""
        return self._names(self._snapshots)

    def snapshots(self, names: Iterable[str] | None = None) -> list[SnapshotFile]:
        """Return this generation's snapshots, newest first, from these names or from a listing."""
        pattern = rf"(\d{{20}})-([0-9a-f]{{64}}){re.escape(self._ending)}"
        listed = self.snapshot_names() if names is None else names
        found = (re.fullmatch(pattern, name) for name in listed)
        return sorted((SnapshotFile(int(each[1]), each[2]) for each in found if each), reverse=True)

    def newest_snapshot(self) -> int:
        """Return the number of the newest snapshot, 0 if there is none."""
        return max((each.number for each in self.snapshots()), default=0)

    def snapshot_path(self, snapshot: SnapshotFile) -> str:
        """Return the path of a snapshot's file."""
        return f"{self._snapshots}/{snapshot.name}{self._ending}"

    def snapshot(self, snapshot: SnapshotFile) -> bytes | None:
        """Return a snapshot's content, None if it is gone or its hash differs."""
        path = self.snapshot_path(snapshot)
        content = self._content(path)
        if content is None or hashlib.sha256(content).hexdigest() == snapshot.digest:
            return content
        log.warning("%s is damaged: it does not fit its name", path)
        return None

    def put_snapshot(self, number: int, content: bytes) -> None:
        """Write a snapshot and read it back.

        Raises:
            StateError: the content read back differs from the written one.
        """
        snapshot = SnapshotFile(number, hashlib.sha256(content).hexdigest())
        path = self.snapshot_path(snapshot)
        with _translated(path):
            self._files.put_if_absent(path, content)
            if self.snapshot(snapshot) is None:
                self._files.delete_file(path)
                raise damaged(path, "it was not read as it was written")

    def sweep(self, now: int) -> None:
        """Delete files that two snapshots made superfluous, and torn files of crashed writers.

        Args:
            now: Epoch ms; a file's age distinguishes torn files from files that are being written.
        """
        snapshots = self.snapshots()
        floor = superfluous_until(snapshots)
        with _translated(self.path):
            # A snapshot is deleted before the entries after it, so that a crash leaves no snapshot
            # without them.
            for snapshot in snapshots:
                if snapshot.number < floor:
                    self._files.delete_file(self.snapshot_path(snapshot))
            for number in self.entries():
                if number <= floor:
                    self._files.delete_file(self.entry_path(number))
            for folder in (self._journal, self._snapshots):
                for each in self._files.files(folder):
                    name = each.path.rpartition("/")[2]
                    is_torn = name.startswith(".") and name.endswith(".tmp")
                    if is_torn and each.modified < now - _TORN_MS:
                        self._files.delete_file(each.path)

    # The chain for readers without dil (rule C33)

    def block(self, sequence: int) -> bytes | None:
        """Return the content of a block's file, None if there is none."""
        return self._content(self._block_path(sequence))

    def last_block(self) -> int:
        """Return the largest sequence of a block's file, -1 if there is none."""
        found = (_ENTRY.fullmatch(name) for name in self._names(f"{self._chain}/blocks"))
        return max((int(each[1]) for each in found if each), default=-1)

    def put_block(self, sequence: int, content: bytes) -> None:
        """Create a block's file.

        Raises:
            StateError: the file exists with another content.
        """
        path = self._block_path(sequence)
        with _translated(path):
            written = self._files.put_if_absent(path, content)
        if not written and self._content(path) != content:
            raise self.other_block(sequence)

    def other_block(self, sequence: int) -> StateError:
        """Return the error for a block's file that differs from the journal."""
        return StateError(
            f"{self._block_path(sequence)} holds another block than the journal",
            f"The journal is right. Move {self._chain} away: DIL writes it again from the journal.",
        )

    def put_head(self, content: bytes) -> None:
        """Overwrite the hint."""
        path = f"{self._chain}/head.json"
        with _translated(path):
            self._files.put(path, content)

    def set_chain_aside(self, name: str) -> None:
        """Move the chain's files to a folder beside it, the hint first, then the newest blocks."""
        aside = f"{self.path}/_chain-{name}"
        with _translated(self._chain):
            paths = sorted((each.path for each in self._files.files(self._chain)), reverse=True)
            if not paths:
                return
            self._files.make_folder(f"{aside}/blocks")
            for path in paths:
                self._files.move(path, aside + path[len(self._chain) :])
            self._files.sync_folders([self.path, aside, f"{aside}/blocks", f"{self._chain}/blocks"])

    def _block_path(self, sequence: int) -> str:
        return f"{self._chain}/blocks/{sequence:020}.json"

    def _landed(self, path: str, content: bytes, error: WriteError) -> bool:
        """Return whether a write that failed at some point was carried out."""
        try:
            found = self._content(path)
            if found == content:
                # A visible file is not yet durable.
                self._files.sync_folders([self._journal])
                return True
        except (StateError, WriteError) as second:
            raise CommitUnknownError(
                f"{path} may have been written: {error.message}",
                "Nothing was deleted. Once the folder can be read, run the job again: it checks "
                "that first.",
            ) from second
        if found is None:
            raise _failed(path, "written", error) from error
        return False

    def _names(self, folder: str) -> list[str]:
        with _translated(folder, act="read"):
            return [each.path.rpartition("/")[2] for each in self._files.files(folder)]

    def _content(self, path: str) -> bytes | None:
        with _translated(path, act="read"):
            return self._files.content(path)


def superfluous_until(snapshots: Iterable[SnapshotFile]) -> int:
    """Return the number of the last entry that two snapshots make superfluous, 0 if there is none.

    Entries up to this number, and older snapshots, may or may not exist: sweeping deletes them one
    by one, and a writer that slept may have created such an entry again.
    """
    kept = sorted({each.number for each in snapshots}, reverse=True)[:_KEPT_SNAPSHOTS]
    return kept[-1] if len(kept) == _KEPT_SNAPSHOTS else 0


def folder_name(job: str) -> str:
    """Return a folder name that is safe on every filesystem and different for each job.

    Some filesystems lose case, blanks at the end or other scripts: the hash keeps names apart.
    """
    readable = re.sub(r"[^A-Za-z0-9-]+", "_", job)[:40].strip("_")
    return f"{readable}-{hashlib.sha256(job.encode()).hexdigest()[:16]}".lstrip("-")


@contextmanager
def _translated(path: str, *, act: str = "written") -> Iterator[None]:
    """Raise errors of the filesystem as StateError: the path cannot be ``act``."""
    try:
        yield
    except WriteError as error:
        raise _failed(path, act, error) from error
    except OSError as error:
        raise StateError(
            f"the state file {error.filename or path}: {error.strerror or error}",
            "Check that state.store.dir exists and that this user may read and write it.",
        ) from error


def _failed(path: str, act: str, error: WriteError) -> StateError:
    return StateError(f"the state file {path} cannot be {act}: {error.message}", error.fix)
