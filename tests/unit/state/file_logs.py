"""File logs for tests: their folder, a filesystem that can be interrupted, and what they commit."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dil.model.dataset import Commit, Move, PublishedFile, RunWork, WorkUnitOutcome
from dil.model.job import StateSpec
from dil.spi.state_store import StateStore
from dil.state import open_store
from dil.state.filelog.file_log import FileLogDatabase
from dil.state.filelog.folder import JobFolder, folder_name
from dil.state.store.sql_store import SqlStateStore
from dil.storage import FileInfo, Filesystem, LocalFilesystem

JOB = "orders"
NOW = 1_735_689_600_000
HOUR = 3_600_000


class Crashed(BaseException):
    """The process is gone: nothing of it runs any more."""


class InterruptedFilesystem(LocalFilesystem):
    """Calls ``listener`` with the operation before (True) and after (False) each one."""

    def __init__(self) -> None:
        self.listener: Callable[[str, bool], None] = lambda operation, is_before: None

    @contextmanager
    def _told(self, operation: str) -> Iterator[None]:
        self.listener(operation, True)
        yield
        self.listener(operation, False)

    def open_input(self, path: str) -> BinaryIO:
        with self._told(f"open_input {path}"):
            return super().open_input(path)

    def put(self, path: str, data: bytes) -> None:
        with self._told(f"put {path}"):
            super().put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self._told(f"put_if_absent {path}"):
            return super().put_if_absent(path, data)

    def make_folder(self, path: str, *, mode: int | None = None) -> None:
        with self._told(f"make_folder {path}"):
            super().make_folder(path, mode=mode)

    def delete_file(self, path: str) -> None:
        with self._told(f"delete_file {path}"):
            super().delete_file(path)

    def sync_folders(self, paths: Iterable[str]) -> None:
        with self._told("sync_folders"):
            super().sync_folders(paths)

    def files(self, path: str) -> Iterator[FileInfo]:
        with self._told(f"files {path}"):
            found = list(super().files(path))
        yield from found


@dataclass(frozen=True)
class Log:
    """One job's log below a directory; what is opened here sees each other's entries."""

    directory: Path
    entries_per_snapshot: int = 100

    @property
    def folder(self) -> Path:
        return self.directory / folder_name(JOB)

    def database(self, files: Filesystem | None = None) -> FileLogDatabase:
        folder = JobFolder(files or LocalFilesystem(), str(self.directory), JOB)
        return FileLogDatabase(
            folder, JOB, clock=lambda: NOW, entries_per_snapshot=self.entries_per_snapshot
        )

    def store(self, files: Filesystem | None = None) -> StateStore:
        return SqlStateStore(self.database(files), JOB, clock=lambda: NOW)

    def names(self, of: str) -> list[str]:
        """List the files of one of its folders."""
        return sorted(each.name for each in (self.folder / of).glob("*"))


def open_file_log(directory: str, job: str, *, clock: Callable[[], int]) -> StateStore:
    """Open the log of a job as its configuration would."""
    return open_store(StateSpec("filelog", directory), job, clock=clock)


@contextmanager
def quick_folder() -> Iterator[Path]:
    """Create a folder in memory where the system has that: no test here pulls the plug."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def outcomes(first: int, count: int) -> tuple[WorkUnitOutcome, ...]:
    return tuple(
        WorkUnitOutcome(f"[{hour}]", "u.{}", hour * HOUR, (hour + 1) * HOUR, (hour + 1) * HOUR, 1)
        for hour in range(first, first + count)
    )


def commit_of(number: int) -> Commit:
    """Return the commit of run ``r<number>``, which publishes ``/data/<number>``."""
    run = f"r{number}"
    target = PublishedFile(f"file:///data/{number}", f"[{number}]", 5, 50, "ab" * 32, run)
    moves = (Move(f"file:///staged/{number}", target),)
    return Commit(run, "c", "dil/orders", moves, (), "s", NOW, NOW, RunWork(outcomes(number, 1)))


def published(store: StateStore) -> list[int]:
    """Return the numbers of all published files, newest first."""
    return [
        int(part["path"].rpartition("/")[2])
        for block in store.blocks()
        for part in ((block["event"].get("newData") or {}).get("parts") or ())
    ]


def payloads(log: Log) -> dict[str, bytes]:
    """Return what the block files must hold, by name."""
    database = log.database()
    with database.read() as tx:
        rows = tx.rows("SELECT seq, payload FROM mc_block")
    database.close()
    return {f"{sequence:020}.json": payload for sequence, payload in rows}


def block_files(log: Log) -> dict[str, bytes]:
    """Return what the block files hold, by name."""
    return {path.name: path.read_bytes() for path in (log.folder / "_chain/blocks").iterdir()}
