"""Plans a compaction: which small live files are joined, and in which commits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from dil.model.dataset import PublishedFile
from dil.model.job import Job, PublishMode
from dil.observe.progress import counted
from dil.publishing.shared_files import is_small, packed
from dil.spi.destination import Destination
from dil.spi.state_store import StateStore
from dil.state.blocks.source_state import COMMITTED

# One block of the chain names the files of one commit, and must not grow without bound.
FILES_PER_COMMIT = 1_000
BYTES_PER_COMMIT = 4 * 1024**3
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    """An operator's request; ``clock`` is the real clock, epoch ms UTC.

    ``target_bytes`` is the size that files should reach, None for the job's own target. At most
    ``max_bytes`` are read, None for no limit. ``vacuum_hours`` is how long versions of a table can
    still be read afterwards, None for no vacuum. A dry run changes nothing. One commit takes at
    most ``files_per_commit`` files.
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
        """Return the signature of the files' work unit; empty if they have several work units."""
        found = {file.signature for file in self.files}
        return found.pop() if len(found) == 1 else ""


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The groups of ``live`` files to join; ``left`` counts groups beyond ``max_bytes``."""

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
    """Return the plan of a compaction, with the oldest files first; changes nothing."""
    destination.check()
    live = destination.live()
    target = request.target_bytes or job.writing.target_bytes
    own = store.own_files(live)
    small = [
        file
        for file in live
        if file.uri in own and not file.is_dump and is_small(file, target) and file.rows
    ]
    ours = [file for file in small if file.uri.endswith(f".{job.writing.format}")]
    alike: dict[tuple[str, str, str], list[PublishedFile]] = defaultdict(list)
    again = _units_read_again(job, store)
    for file in ours:
        alike[_key(job, file, again)].append(file)
    groups = [
        FileGroup(joined)
        for files in alike.values()
        for joined in packed(files, target, request.files_per_commit)
    ]
    taken: list[FileGroup] = []
    spent = 0
    for group in groups:
        spent += group.bytes
        if request.max_bytes is not None and spent > request.max_bytes:
            break
        taken.append(group)
    lone = len(ours) - sum(len(group.files) for group in groups)
    notes = [*_left_alone(job, alike, len(live) - len(own), len(small) - len(ours), lone)]
    unknown = sum(not all(file.unit_rows for file in group.files) for group in taken)
    if unknown and job.publishing.mode is PublishMode.APPEND:
        notes.append(
            f"{counted(unknown, 'new file')} with rows whose work units are unknown, because an "
            "earlier release joined them: `dil state forget` and `rewind` cannot withdraw single "
            "work units from such files"
        )
    return CompactionPlan(
        target_bytes=target,
        live=len(live),
        groups=tuple(taken),
        left=len(groups) - len(taken),
        notes=tuple(notes),
    )


def _key(job: Job, file: PublishedFile, again: frozenset[str]) -> tuple[str, str, str]:
    """Return the key that files must share to be joined."""
    folder = file.uri.rpartition("/")[0]
    whose = ""
    if not again.isdisjoint(file.signatures):
        whose = file.signature or file.uri
    elif job.publishing.mode is PublishMode.APPEND and not file.unit_rows:
        # The file's work units are unknown: if it were joined with other files, theirs would be,
        # too.
        whose = _UNKNOWN
    return folder, file.timelabel or "", whose


def _units_read_again(job: Job, store: StateStore) -> frozenset[str]:
    """Return the work units whose rows the next runs read again and replace.

    If they shared a file with other work units, their rows would leave the file at once, and its
    rest would be rewritten. A unit that is behind other units is treated as if it were as far as
    they are. This only saves work: no row depends on it.
    """
    if job.publishing.mode is not PublishMode.WINDOW_REPLACE:
        return frozenset()
    entries = tuple(store.unit_entries())
    reached = max((entry.high or 0 for entry in entries), default=0)
    cutoff = reached + job.planning.abstinent_ms - job.planning.grace_range_ms[1]
    return frozenset(
        entry.signature
        for entry in entries
        if entry.status != COMMITTED or entry.expected_high >= cutoff
    )


def _left_alone(
    job: Job, keys: Collection[tuple[str, str, str]], others: int, unlike: int, lone: int
) -> Iterator[str]:
    """Yield a text for each kind of small files that stay as they are, with the reason.

    Args:
        job: The job.
        keys: The keys of files, see ``_key``.
        others: How many files are of other writers.
        unlike: How many have another format than the job's.
        lone: How many have no other file of their key.
    """
    if others:
        yield f"left as they are: {counted(others, 'file')} of other writers"
    if unlike:
        yield f"left as they are: {counted(unlike, 'small file')} of another format than the job's"
    is_window = job.publishing.mode is PublishMode.WINDOW_REPLACE
    if lone and is_window and any(whose for *_, whose in keys):
        yield (
            f"left as they are: {counted(lone, 'small file')}; ms.publish.mode is window_replace,"
            " so files of work units that the next runs may read again are joined only with each "
            "other"
        )
    elif lone and any(label for _, label, _ in keys):
        yield (
            f"left as they are: {counted(lone, 'small file')}; only files of one timelabel are "
            "joined, and their timelabels have no other file"
        )


def commits_of(groups: Sequence[FileGroup], most: int) -> Iterator[list[FileGroup]]:
    """Yield the groups of each commit, which takes at most ``most`` files."""
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
