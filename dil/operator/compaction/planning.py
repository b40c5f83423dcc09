"""Plans a compaction: which small live files become one, and in which commits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from dil.model.dataset import PublishedFile
from dil.model.job import Job, PublishMode
from dil.observe.progress import counted
from dil.publishing import Destination
from dil.spi.state_store import StateStore

# One block of the chain names the files of one commit, and must not grow without bound.
FILES_PER_COMMIT = 1_000
BYTES_PER_COMMIT = 4 * 1024**3


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    """What an operator asks for; ``clock`` is the real clock, epoch ms UTC.

    ``target_bytes`` is how large files should become, None for the job's own target. ``max_bytes``
    is how much may be read, None for no limit. ``vacuum_hours`` is how long versions of a table
    can still be read afterwards, None for no vacuum. A dry run changes nothing. One commit takes
    at most ``files_per_commit`` files.
    """

    clock: Callable[[], int]
    target_bytes: int | None = None
    max_bytes: int | None = None
    vacuum_hours: int | None = None
    is_dry_run: bool = False
    files_per_commit: int = FILES_PER_COMMIT


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Live files of one folder that become one file, in the order of their rows."""

    files: tuple[PublishedFile, ...]

    @property
    def bytes(self) -> int:
        """Return the bytes of all files."""
        return sum(file.bytes for file in self.files)

    @property
    def signature(self) -> str:
        """Return the signature of the files' work unit, empty if they have several."""
        found = {file.signature for file in self.files}
        return found.pop() if len(found) == 1 else ""


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Which of the ``live`` files become one; ``left`` counts groups beyond ``max_bytes``."""

    target_bytes: int
    live: int
    groups: tuple[FileGroup, ...] = ()
    left: int = 0
    notes: tuple[str, ...] = ()

    @property
    def files(self) -> int:
        """Return how many files would be compacted."""
        return sum(len(group.files) for group in self.groups)

    @property
    def bytes(self) -> int:
        """Return how many bytes would be read."""
        return sum(group.bytes for group in self.groups)


def plan_compaction(
    job: Job, store: StateStore, request: CompactionRequest, destination: Destination
) -> CompactionPlan:
    """Return which files can be compacted, the oldest files first; changes nothing."""
    destination.check()
    live = destination.live()
    target = request.target_bytes or job.writing.target_bytes
    own = store.own_files(live)
    small = [
        file
        for file in live
        if file.uri in own and not file.is_dump and 2 * file.bytes < target and file.rows
    ]
    ours = [file for file in small if file.uri.endswith(f".{job.writing.format}")]
    alike: dict[tuple[str, str, str], list[PublishedFile]] = defaultdict(list)
    for file in ours:
        alike[_key(job, file)].append(file)
    groups = [
        group
        for files in alike.values()
        for group in _groups(files, target, request.files_per_commit)
    ]
    taken = list(_within(groups, request.max_bytes))
    lone = len(ours) - sum(len(group.files) for group in groups)
    return CompactionPlan(
        target_bytes=target,
        live=len(live),
        groups=tuple(taken),
        left=len(groups) - len(taken),
        notes=(
            *_left_alone(job, alike, len(live) - len(own), len(small) - len(ours), lone),
            *_mixed(job, taken),
        ),
    )


def _key(job: Job, file: PublishedFile) -> tuple[str, str, str]:
    """Return what files must have in common to become one."""
    folder = file.uri.rpartition("/")[0]
    # A later window replace finds the files of a work unit by its signature.
    is_by_unit = job.publishing.mode is PublishMode.WINDOW_REPLACE
    return folder, file.timelabel or "", file.signature if is_by_unit else ""


def _groups(files: Sequence[PublishedFile], target: int, most: int) -> Iterator[FileGroup]:
    """Yield neighbours that are together about as large as a file should be, the last ones less."""
    held: list[PublishedFile] = []
    size = 0
    for file in files:
        if held and (size + file.bytes > target or len(held) == most):
            yield from [FileGroup(tuple(held))] if len(held) > 1 else []
            held, size = [], 0
        held.append(file)
        size += file.bytes
    if len(held) > 1:
        yield FileGroup(tuple(held))


def _within(groups: Sequence[FileGroup], budget: int | None) -> Iterator[FileGroup]:
    spent = 0
    for group in groups:
        spent += group.bytes
        if budget is not None and spent > budget:
            return
        yield group


def _left_alone(
    job: Job, keys: Collection[tuple[str, str, str]], others: int, unlike: int, lone: int
) -> Iterator[str]:
    """Yield which small files stay as they are, and why.

    Args:
        job: The job.
        keys: What files had to have in common, see ``_key``.
        others: How many files other writers wrote.
        unlike: How many have another format than the job's.
        lone: How many have no other file of their key.
    """
    if others:
        yield f"left as they are: {counted(others, 'file')} of other writers"
    if unlike:
        yield f"left as they are: {counted(unlike, 'small file')} of another format than the job's"
    if lone and job.publishing.mode is PublishMode.WINDOW_REPLACE:
        yield (
            f"left as they are: {counted(lone, 'small file')}; ms.publish.mode is window_replace,"
            " which finds the files of a work unit by its signature, so that only files of the same"
            " one are put together"
        )
    elif lone and any(label for _, label, _ in keys):
        yield (
            f"left as they are: {counted(lone, 'small file')}; only files of one timelabel are put"
            " together, and theirs have no other"
        )


def _mixed(job: Job, groups: Sequence[FileGroup]) -> Iterator[str]:
    mixed = sum(not group.signature for group in groups)
    if mixed and job.publishing.mode is PublishMode.APPEND:
        yield (
            f"{counted(mixed, 'new file')} with rows of several work units: `dil state forget` and"
            " `rewind` cannot withdraw single ones of them any more"
        )


def commits_of(groups: Sequence[FileGroup], most: int) -> Iterator[list[FileGroup]]:
    """Yield the groups of each commit, which take at most so many files."""
    held: list[FileGroup] = []
    files = size = 0
    for group in groups:
        if held and (files + len(group.files) > most or size + group.bytes > BYTES_PER_COMMIT):
            yield held
            held, files, size = [], 0, 0
        held.append(group)
        files += len(group.files)
        size += group.bytes
    if held:
        yield held
