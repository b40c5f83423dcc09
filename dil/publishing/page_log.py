"""Records the progress of an unfinished attempt, page by page, beside its staged files.

Each checkpoint of an attempt is one file ``page-<n>.json``. The file is written as a whole or not
at all, and never changed. So a kill at any moment leaves the earlier checkpoints intact. No task
touches the state store (rule C32). A later attempt of the same work unit, in this run or a later
one, reads the log; the log itself is never published.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from dil.errors import DilError, RefusedAnswer
from dil.publishing.staged import RESULT_NAME
from dil.storage import Filesystem

LOG_FORMAT = 1
_NAME = re.compile(r"page-([0-9]{8})\.json")
_COPIED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LogOwner:
    """A later attempt may continue a log only if it has equal values; times are epoch ms UTC.

    ``low`` and ``high`` are 0 if no request depends on the window. ``full_extract`` is true only if
    the run is full and its requests differ from the requests of an incremental run. ``last_high``
    is the end of the earlier reading of the work unit; a first reading has none. So a second
    reading never continues an attempt that began before the last publish.
    """

    signature: str
    low: int
    high: int
    digest: str
    full_extract: bool
    last_high: int | None = None


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A finished file in the attempt's folder; ``schema`` is its Arrow schema as text."""

    name: str
    rows: int
    bytes: int
    sha256: str
    schema: str
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """A payload row that was put aside: the number of its request, and the receiver's answer.

    A later attempt reads the row itself again from the payload input.
    """

    number: int
    answer: RefusedAnswer


@dataclass(frozen=True, slots=True)
class LoggedCheckpoint:
    """The additions of one checkpoint to the earlier checkpoints.

    Paging continues at ``position``. ``files`` and ``refused`` contain only entries that no earlier
    checkpoint has. The values of the other members replace those of the earlier checkpoint: the
    number of requests so far, the schema, the findings for each column, notes for the report.
    ``read_since`` is the run time (now), epoch ms UTC, of the run that read the first page; 0 if it
    is unknown.
    """

    owner: LogOwner
    position: str = field(repr=False)
    files: tuple[LoggedFile, ...]
    pages: int
    schema: str
    seen: str
    notes: tuple[str, ...] = ()
    refused: tuple[RefusedRequest, ...] = ()
    read_since: int = 0
    format: int = LOG_FORMAT


@dataclass(frozen=True, slots=True)
class PageLog:
    """The log of one attempt: its last checkpoint, and all files.

    ``refused`` are the rows put aside by all checkpoints.
    """

    folder: str
    last: LoggedCheckpoint
    files: tuple[LoggedFile, ...]
    refused: tuple[RefusedRequest, ...] = ()

    def path(self, file: LoggedFile) -> str:
        """Return the path of a file."""
        return f"{self.folder}/{file.name}"


def write_checkpoint(
    filesystem: Filesystem, folder: str, number: int, checkpoint: LoggedCheckpoint
) -> None:
    """Add checkpoint ``number``, counted from 0, to the log of an attempt.

    When this returns, the checkpoint and the finished files that it names are durable.

    Raises:
        WriteError: the file system refused to write.
    """
    filesystem.put(f"{folder}/page-{number:08d}.json", msgspec.json.encode(checkpoint))
    if number == 0:
        unit_folder = folder.rpartition("/")[0]
        run_folder = unit_folder.rpartition("/")[0]
        filesystem.sync_folders([unit_folder, run_folder, run_folder.rpartition("/")[0]])


def read_log(filesystem: Filesystem, folder: str) -> PageLog | None:
    """Return the log of an attempt, None if there is no usable log.

    The log ends before the first checkpoint that is missing, cannot be read, has another owner than
    the first checkpoint, or names a file that does not exist in its full size.
    """
    sizes = {file.path: file.size for file in filesystem.files(folder)}
    if f"{folder}/{RESULT_NAME}" in sizes:
        return None  # The attempt is complete, and its files may have been merged since.
    files: list[LoggedFile] = []
    refused: list[RefusedRequest] = []
    last: LoggedCheckpoint | None = None
    for path in _checkpoints(sizes, folder):
        found = _read(filesystem, path)
        if found is None or (last is not None and found.owner != last.owner):
            break
        if any(sizes.get(f"{folder}/{file.name}") != file.bytes for file in found.files):
            break
        files += found.files
        refused += found.refused
        last = found
    return None if last is None else PageLog(folder, last, tuple(files), tuple(refused))


def best_log(filesystem: Filesystem, unit_folder: str, owner: LogOwner) -> PageLog | None:
    """Return the log with the most progress among a work unit's attempts, None if there is none."""
    found = [
        log
        for attempt in filesystem.folders(unit_folder)
        if (log := read_log(filesystem, f"{unit_folder}/{attempt}")) is not None
        and log.last.owner == owner
    ]
    return max(found, key=lambda log: log.last.pages, default=None)


def page_logs(filesystem: Filesystem, staging_dir: str) -> dict[str, PageLog]:
    """Return the logs that tasks left below a run's staging, by signature.

    If a work unit has several attempts, the result has the log with the most progress.
    """
    found: dict[str, PageLog] = {}
    for log in _logs(filesystem, staging_dir):
        known = found.get(log.last.owner.signature)
        if known is None or log.last.pages > known.last.pages:
            found[log.last.owner.signature] = log
    return found


def drop_logs(filesystem: Filesystem, staging_dir: str, signatures: Collection[str]) -> None:
    """Delete the logs of work units below a run's staging, and the files that these logs name.

    Raises:
        WriteError: the file system refused the deletion.
    """
    for log in _logs(filesystem, staging_dir):
        if log.last.owner.signature in signatures:
            filesystem.delete_tree(log.folder)


def keep_logs(filesystem: Filesystem, staging_dir: str, owed: Collection[str]) -> bool:
    """Delete a run's staging, except the logs of the work units in ``owed``.

    Args:
        filesystem: The filesystem of the staging folder.
        staging_dir: The run's staging folder.
        owed: The signatures of work units that a later run continues.

    Returns: Whether any log was kept; if False, there was no log to keep, and nothing was deleted.
    """
    logs = _logs(filesystem, staging_dir)
    kept = {log.folder for log in logs if log.last.owner.signature in owed}
    if not kept:
        return False
    for unit in filesystem.folders(staging_dir):
        for attempt in filesystem.folders(f"{staging_dir}/{unit}"):
            if f"{staging_dir}/{unit}/{attempt}" not in kept:
                filesystem.delete_tree(f"{staging_dir}/{unit}/{attempt}")
    return True


def take_over(filesystem: Filesystem, log: PageLog, paths: Sequence[str]) -> bool:
    """Copy each file of a log to its path; return whether all files exist and are undamaged.

    The log stays unchanged: it is valid until the new attempt has a checkpoint of its own.

    Raises:
        WriteError: the file system refused to write.
    """
    for file, path in zip(log.files, paths, strict=True):
        digest = hashlib.sha256()
        try:
            with (
                filesystem.open_input(log.path(file)) as source,
                filesystem.open_output(path) as target,
            ):
                while data := source.read(_COPIED_BYTES):
                    digest.update(data)
                    target.write(data)
        except FileNotFoundError:
            return False  # An attempt that seemed dead has just been completed.
        if digest.hexdigest() != file.sha256:
            return False
    return True


def _logs(filesystem: Filesystem, staging_dir: str) -> Iterator[PageLog]:
    for unit in filesystem.folders(staging_dir):
        for attempt in filesystem.folders(f"{staging_dir}/{unit}"):
            log = read_log(filesystem, f"{staging_dir}/{unit}/{attempt}")
            if log is not None:
                yield log


def _checkpoints(paths: Collection[str], folder: str) -> Iterator[str]:
    """Yield the paths of a folder's checkpoints in order, up to the first gap."""
    numbers = sorted(
        int(found[1])
        for path in paths
        if path.rpartition("/")[0] == folder and (found := _NAME.fullmatch(path.rpartition("/")[2]))
    )
    for expected, number in enumerate(numbers):
        if number != expected:
            return
        yield f"{folder}/page-{number:08d}.json"


def _read(filesystem: Filesystem, path: str) -> LoggedCheckpoint | None:
    try:
        with filesystem.open_input(path) as stream:
            found = msgspec.json.decode(stream.read(), type=LoggedCheckpoint)
    except (OSError, DilError, msgspec.MsgspecError):
        return None  # The file is damaged, or of another version of DIL.
    return found if found.format == LOG_FORMAT else None
