"""Small live files put together: an act of an operator that keeps every row.

Files are written anew in staging, then published as a run's are: intent, moves, removes, commit.
Before the intent a crash costs nothing; after it the next run, or the next compaction, finishes.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dil import publishing
from dil.errors import ConfigError, ConversionError, StateError
from dil.model.dataset import Commit, Lease, Move, OperatorAct, PublishedFile, source_name
from dil.model.destination import TableFormat
from dil.model.job import Job, PublishMode
from dil.model.task import StagedFile
from dil.model.work_unit import unit_hash
from dil.observe.progress import counted
from dil.publishing import Destination, VersionedDestination
from dil.publishing.compacted import VERB
from dil.publishing.layout import MERGED, final_name
from dil.publishing.page_log import page_logs
from dil.run.runs import leased
from dil.spi.state_store import StateStore
from dil.state import open_store
from dil.storage import filesystem_for

if TYPE_CHECKING:
    import pyarrow as pa

    from dil.reshaping.files import RowFile, Workshop

log = logging.getLogger(__name__)

# One block of the chain names the files of one commit, and must not grow without bound.
FILES_A_COMMIT = 1_000
BYTES_A_COMMIT = 4 * 1024**3


@dataclass(frozen=True, slots=True)
class Wish:
    """What an operator wants; ``clock`` is the real clock, epoch ms UTC.

    ``target_bytes`` None means the job's own target. ``max_bytes`` is how much may be read, None
    for no limit. ``vacuum_hours`` is how long versions of a table can still be read afterwards,
    None for no vacuum. With ``is_look`` nothing is changed. One commit takes at most
    ``files_a_commit`` files.
    """

    clock: Callable[[], int]
    target_bytes: int | None = None
    max_bytes: int | None = None
    vacuum_hours: int | None = None
    is_look: bool = False
    files_a_commit: int = FILES_A_COMMIT


@dataclass(frozen=True, slots=True)
class Bin:
    """Live files of one folder that become one file, in the order of their rows."""

    files: tuple[PublishedFile, ...]

    @property
    def bytes(self) -> int:
        """Return the bytes of all files."""
        return sum(file.bytes for file in self.files)

    @property
    def signature(self) -> str:
        """Return the work unit's signature, empty text for several."""
        found = {file.signature for file in self.files}
        return found.pop() if len(found) == 1 else ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Which files would become which; ``left`` counts bins that are beyond the budget."""

    target_bytes: int
    live: int
    bins: tuple[Bin, ...] = ()
    left: int = 0
    notes: tuple[str, ...] = ()

    @property
    def files(self) -> int:
        """Return how many files would be put together."""
        return sum(len(each.files) for each in self.bins)

    @property
    def bytes(self) -> int:
        """Return how many bytes would be read."""
        return sum(each.bytes for each in self.bins)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a compaction did.

    ``added`` are the new files, ``removed`` counts those that they took the place of. ``vacuumed``
    are paths of files that no version of the table needs any more, deleted unless it was a look.
    """

    proposal: Proposal
    act_id: str | None = None
    added: tuple[PublishedFile, ...] = ()
    removed: int = 0
    finished: str | None = None
    vacuumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def compact(job: Job, wish: Wish) -> Outcome:
    """Put small files of a job's dataset together.

    Raises:
        ConfigError: the job publishes no files of rows, or keeps no state.
        LeaseHeldError: a run is under way.
        StateError: what a crashed run completed waits to be published.
        ConversionError: a file is not what was published; nothing was changed since the last
            commit.
        WriteError: the store refused.
    """
    _refuse(job, wish)
    with open_store(job.state, job.name, clock=wish.clock) as store:
        if wish.is_look:
            notes = _unfinished(store)
            filesystem = filesystem_for(job.publishing.final_dir)
            destination = publishing.destination_for(job.publishing, filesystem)
            vacuumed = _vacuum(destination, wish)
            proposal = _proposal(job, store, wish, destination)
            return Outcome(proposal, notes=notes, vacuumed=vacuumed)
        with leased(job, store, VERB, wish.clock) as lease:
            return _Compaction(job, wish, store, lease).carry_out()


def _refuse(job: Job, wish: Wish) -> None:
    spec = job.publishing
    if not job.state.enabled:
        raise ConfigError.single(
            "state.store.enabled",
            f"is off: no chain says which files {job.name} published",
            "Only datasets of jobs that keep state can be compacted.",
            job.properties.origin("state.store.enabled"),
        )
    if spec.warehouse is not None:
        raise ConfigError.single(
            "ms.warehouse.url",
            "is set: the rows are in a database, which keeps its own files",
            "`dil compact` is for files, Delta and Iceberg tables.",
        )
    if job.writing.file_name:
        raise ConfigError.single(
            "ms.extractor.class",
            "dumps files as they are, and what is in them is not known",
            "`dil compact` is for files of rows.",
        )
    if wish.vacuum_hours is not None and spec.table.format is TableFormat.FILES:
        raise ConfigError.single(
            "--vacuum-hours",
            "is for tables that keep earlier versions, and ms.table.format is files",
            "Leave it out: what is replaced is deleted at once.",
        )


def _unfinished(store: StateStore) -> tuple[str, ...]:
    intent = store.pending_intent()
    if intent is None:
        return ()
    return (f"{intent.commit.run_id} began to publish; that is finished first",)


def _vacuum(destination: Destination, wish: Wish) -> tuple[str, ...]:
    hours = wish.vacuum_hours
    if hours is None or not isinstance(destination, VersionedDestination):
        return ()
    return destination.vacuum(hours=hours, now_ms=wish.clock(), is_look=wish.is_look)


def _proposal(job: Job, store: StateStore, wish: Wish, destination: Destination) -> Proposal:
    """Return what can be put together, the oldest files first."""
    destination.check()
    live = destination.live()
    target = wish.target_bytes or job.writing.target_bytes
    own = store.own_files(live)
    small = [
        file
        for file in live
        if file.uri in own and not file.is_dump and 2 * file.bytes < target and file.rows
    ]
    ours = [file for file in small if file.uri.endswith(f".{job.writing.format}")]
    groups: dict[tuple[str, str, str], list[PublishedFile]] = defaultdict(list)
    for file in ours:
        groups[_key(job, file)].append(file)
    bins = [each for files in groups.values() for each in _bins(files, target, wish.files_a_commit)]
    taken = list(_within(bins, wish.max_bytes))
    return Proposal(
        target_bytes=target,
        live=len(live),
        bins=tuple(taken),
        left=len(bins) - len(taken),
        notes=(
            *_of_others(len(live) - len(own), len(small) - len(ours)),
            *_kept_apart(job, groups, bins),
            *_mixed(job, taken),
        ),
    )


def _key(job: Job, file: PublishedFile) -> tuple[str, str, str]:
    """Return what files must have in common to become one."""
    folder = file.uri.rpartition("/")[0]
    # A later window replace finds the files of a work unit by its signature.
    is_by_unit = job.publishing.mode is PublishMode.WINDOW_REPLACE
    return folder, file.timelabel or "", file.signature if is_by_unit else ""


def _bins(files: Sequence[PublishedFile], target: int, most: int) -> Iterator[Bin]:
    """Yield neighbours that are about as large as a file should be, the last ones less."""
    held: list[PublishedFile] = []
    size = 0
    for file in files:
        if held and (size + file.bytes > target or len(held) == most):
            yield from [Bin(tuple(held))] if len(held) > 1 else []
            held, size = [], 0
        held.append(file)
        size += file.bytes
    if len(held) > 1:
        yield Bin(tuple(held))


def _within(bins: Sequence[Bin], budget: int | None) -> Iterator[Bin]:
    spent = 0
    for each in bins:
        spent += each.bytes
        if budget is not None and spent > budget:
            return
        yield each


def _of_others(others: int, unlike: int) -> Iterator[str]:
    if others:
        yield f"left as they are: {counted(others, 'file')} of other writers"
    if unlike:
        yield f"left as they are: {counted(unlike, 'small file')} of another format than the job's"


def _kept_apart(
    job: Job, groups: dict[tuple[str, str, str], list[PublishedFile]], bins: Sequence[Bin]
) -> Iterator[str]:
    """Yield what stays small because its work unit, or its timelabel, has no other file."""
    lone = sum(len(files) for files in groups.values()) - sum(len(each.files) for each in bins)
    if lone and job.publishing.mode is PublishMode.WINDOW_REPLACE:
        yield (
            f"left as they are: {counted(lone, 'small file')}; ms.publish.mode is window_replace,"
            " which finds the files of a work unit by its signature, so that only files of the same"
            " one are put together"
        )
    elif lone and any(label for _, label, _ in groups):
        yield (
            f"left as they are: {counted(lone, 'small file')}; only files of one timelabel are put"
            " together, and theirs have no other"
        )


def _mixed(job: Job, bins: Sequence[Bin]) -> Iterator[str]:
    mixed = sum(not each.signature for each in bins)
    if mixed and job.publishing.mode is PublishMode.APPEND:
        yield (
            f"{counted(mixed, 'new file')} with rows of several work units: `dil state forget` and"
            " `rewind` cannot withdraw single ones of them any more"
        )


class _Compaction:
    """One compaction under the job's lease."""

    def __init__(self, job: Job, wish: Wish, store: StateStore, lease: Lease) -> None:
        self._job = job
        self._wish = wish
        self._store = store
        self._lease = lease
        self._id = lease.holder.run_id
        self._files = filesystem_for(job.publishing.final_dir)
        self._destination = publishing.destination_for(job.publishing, self._files)
        self._staging = publishing.run_staging_dir(job.publishing, job.name, self._id)

    def carry_out(self) -> Outcome:
        """Finish what was begun, then put files together, then vacuum."""
        spec = self._job.publishing
        pending = publishing.finish_pending(self._store, self._lease, spec, self._files)
        self._refuse_staged_work()
        self._sweep_earlier()
        if isinstance(self._destination, VersionedDestination):
            self._destination.refuse_deleted_rows()
        proposal = _proposal(self._job, self._store, self._wish, self._destination)
        added: list[PublishedFile] = []
        removed = 0
        for number, bins in enumerate(_commits(proposal.bins, self._wish.files_a_commit), 1):
            commit = self._commit(f"{self._id}-{number}", bins)
            publishing.publish(
                self._store, self._lease, commit, spec, self._files, self._destination
            )
            added += [move.target for move in commit.moves]
            removed += len(commit.removes)
            log.info("put %d files together into %d", len(commit.removes), len(commit.moves))
        publishing.sweep(self._files, self._staging)
        self._files.delete_empty_folder(self._staging.rpartition("/")[0])
        return Outcome(
            proposal=proposal,
            act_id=self._id,
            added=tuple(added),
            removed=removed,
            finished=None if pending is None else pending.run_id,
            vacuumed=_vacuum(self._destination, self._wish),
        )

    def _refuse_staged_work(self) -> None:
        """Refuse while completed work of a run waits: after another commit it is not used."""
        for run in self._store.unfinished_runs():
            is_kept = run.is_open and (
                publishing.staged_work(self._files, run) or page_logs(self._files, run.staging_dir)
            )
            if is_kept:
                raise StateError(
                    f"what run {run.run_id} completed waits in staging, and would have to be read"
                    " again after a compaction",
                    "Run the job first, or give it up with `dil runs clean`.",
                )

    def _sweep_earlier(self) -> None:
        """Delete what compactions left in staging that were killed; nobody needs it."""
        root = self._staging.rpartition("/")[0]
        for name in self._files.folders(root):
            if name.startswith(f"{VERB}-") and name != self._id:
                publishing.sweep(self._files, f"{root}/{name}")

    def _commit(self, act_id: str, bins: Sequence[Bin]) -> Commit:
        """Write files anew in staging, and return the commit that puts them in place."""
        moves = tuple(
            self._move(act_id, number, each, staged)
            for number, each in enumerate(bins)
            for staged in self._rewritten(f"{act_id}-{number}", each)
        )
        now = self._wish.clock()
        return Commit(
            run_id=act_id,
            config_digest=self._job.digest,
            source_name=source_name(self._job.name),
            moves=moves,
            removes=tuple(file for each in bins for file in each.files),
            outcomes=(),
            schema="",
            system_time=now,
            horizon=now,
            act=OperatorAct(VERB, "small files put together"),
        )

    def _move(self, act_id: str, number: int, each: Bin, staged: StagedFile) -> Move:
        folder = self._files.path_of(each.files[0].uri).rpartition("/")[0]
        owner = unit_hash(each.signature) if each.signature else MERGED
        name = final_name(
            act_id,
            owner,
            number,
            rows=staged.rows if self._job.writing.record_count_in_names else None,
            extension=staged.path.rpartition(".")[2],
            prefix=self._job.writing.file_prefix,
        )
        return Move(
            staged.path,
            PublishedFile(
                uri=self._destination.uri(f"{folder}/{name}"),
                signature=each.signature,
                rows=staged.rows,
                bytes=staged.bytes,
                sha256=staged.sha256,
                run_id=act_id,
                timelabel=each.files[0].timelabel,
            ),
        )

    def _rewritten(self, name: str, each: Bin) -> tuple[StagedFile, ...]:
        """Write the rows of a bin into one file.

        Raises:
            ConversionError: its files do not hold what was published.
        """
        from dil.model.schema_text import parse_schema
        from dil.reshaping.files import Workshop, row_file
        from dil.writing.ownership import give
        from dil.writing.widening import conform

        job = self._job
        # As large as the bin becomes, for it was cut to the target already.
        writing = replace(job.writing, target_bytes=max(8 * each.bytes, 1 << 30))
        workshop = Workshop(job.publishing.final_dir, self._staging, writing)
        known = parse_schema(publishing.recorded_schema(self._store))
        sources = [
            row_file(self._files, self._files.path_of(file.uri), known) for file in each.files
        ]
        target = _joint_schema(sources, known)
        batches = (
            conform(batch, target)
            for source, file in zip(sources, each.files, strict=True)
            for batch in _counted(source, file, workshop)
        )
        staged = workshop.write(name, batches, StagedFile("", 0, 0, ""))
        owner = (job.properties.text(f"writer.file.{word}") for word in ("owner", "group"))
        give(staged, *owner)
        return staged


def _commits(bins: Sequence[Bin], most: int) -> Iterator[list[Bin]]:
    """Yield the bins of each commit."""
    held: list[Bin] = []
    files = size = 0
    for each in bins:
        if held and (files + len(each.files) > most or size + each.bytes > BYTES_A_COMMIT):
            yield held
            held, files, size = [], 0, 0
        held.append(each)
        files += len(each.files)
        size += each.bytes
    if held:
        yield held


def _counted(source: RowFile, file: PublishedFile, workshop: Workshop) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file.

    Raises:
        ConversionError: there are more or fewer than were published.
    """
    rows = 0
    for batch in source.batches(workshop):
        rows += batch.num_rows
        yield batch
    if rows != file.rows:
        raise ConversionError(
            f"{file.uri} has {counted(rows, 'row')}, and {file.rows:,} were published",
            "Nothing was done with it. `dil state verify` lists such files.",
        )


def _joint_schema(sources: Sequence[RowFile], known: pa.Schema) -> pa.Schema:
    """Return the schema that all files fit: their own, or the recorded types of their columns.

    Raises:
        ConversionError: a file has a column that the recorded schema does not have.
    """
    import pyarrow as pa

    from dil.reshaping.files import unknown_column

    first = sources[0].schema
    if all(source.schema.equals(first, check_metadata=True) for source in sources):
        return first
    columns: dict[str, list[pa.Field]] = defaultdict(list)
    recorded = frozenset(known.names)
    for source in sources:
        for field in source.schema:
            if field.name not in recorded:
                raise unknown_column(source.path, field.name)
            columns[field.name].append(field)
    return pa.schema(
        [
            # The type words are those of the last file that has the column.
            field.with_nullable(
                nullable=len(having) < len(sources) or any(each.nullable for each in having)
            ).with_metadata(having[-1].metadata)
            for field in known
            if (having := columns.get(field.name))
        ]
    )
