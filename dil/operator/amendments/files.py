"""Decides whether published files whose rows will be read again are kept or withdrawn."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum

from dil.errors import StateError
from dil.model.dataset import Move, PublishedFile
from dil.model.job import PublishMode
from dil.observe.progress import counted
from dil.operator.session import OperatorSession
from dil.publishing import set_aside
from dil.publishing.lost_state import not_loaded

KEPT = "kept"
WITHDRAWN = "withdrawn from the dataset"
DECISIONS = ("--withdraw-files", "--keep-files")


class FileDecision(Enum):
    """The decision about published files of work units that will be read again."""

    UNDECIDED = "undecided"
    KEEP = "keep"
    WITHDRAW = "withdraw"


@dataclass(frozen=True, slots=True)
class FileChange:
    """The published files that an amendment keeps and takes away.

    ``affected`` are the live files of the amended work units; ``fate`` says what happens to
    them. ``withdrawn`` leave the dataset; ``moves`` bring back files that an earlier act withdrew.
    A file that also has rows of other work units is listed with only the rows of the amended ones.
    ``quarantine`` moves files of quarantined rows, which are no files of the dataset. ``refusal``
    is the error until the operator decides. If ``only_records`` is true, the files were added and
    removed already, and only the chain changes. If ``is_final`` is true, no copy of withdrawn files
    is kept.
    """

    affected: tuple[PublishedFile, ...] = ()
    fate: str = KEPT
    withdrawn: tuple[PublishedFile, ...] = ()
    moves: tuple[Move, ...] = ()
    quarantine: tuple[Move, ...] = ()
    refusal: StateError | None = None
    only_records: bool = False
    is_final: bool = False

    @property
    def is_empty(self) -> bool:
        """Return whether no file would be added to or removed from the dataset."""
        return not (self.moves or self.withdrawn or self.quarantine)

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the options from which the operator must choose; empty if there is no choice."""
        return () if self.refusal is None else DECISIONS


NO_FILES = FileChange()


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """The job's own live files of some work units; ``notes`` mention files of other jobs.

    A file that also has rows of other work units is listed with only the rows of the wanted ones.
    """

    files: tuple[PublishedFile, ...] = ()
    notes: tuple[str, ...] = ()


def live_files_of(session: OperatorSession, signatures: Collection[str]) -> LiveFiles:
    """Return the live files that this job published for some work units.

    Another job that appends to the same dataset may have work units of the same signatures.
    """
    if not signatures:
        return LiveFiles()
    wanted = frozenset(signatures)
    found = [
        file.narrowed(wanted)
        for file in session.live_files()
        if not wanted.isdisjoint(file.signatures)
    ]
    names = [file.uri for file in found]
    lost = set(not_loaded(names, session.job.publishing, session.filesystem))
    found = [file for file in found if file.uri not in lost]
    if session.job.publishing.mode is not PublishMode.APPEND:  # such a dataset has no other job
        return LiveFiles(tuple(found))
    own = session.store.own_files(found)
    others = [file for file in found if file.uri not in own]
    if not others:
        return LiveFiles(tuple(found))
    rows = sum(file.rows for file in others)
    note = (
        f"left as they are: {counted(len(others), 'file')} with {counted(rows, 'row')} of the same "
        f"work units, which no run of {session.job.name} has published, according to its state "
        "store"
    )
    return LiveFiles(tuple(file for file in found if file.uri in own), (note,))


def file_change(
    session: OperatorSession, affected: tuple[PublishedFile, ...], decision: FileDecision
) -> FileChange:
    """Return the change for files whose rows will be read again, by decision and publish mode.

    A job that only appends would publish these rows a second time, so its operator must decide.

    Raises:
        StateError: files cannot be withdrawn, because their rows were merged with other rows or
            loaded into a database.
    """
    if not affected:
        return NO_FILES
    mode = session.job.publishing.mode
    if decision is FileDecision.WITHDRAW and mode is PublishMode.MERGE:
        raise StateError(
            "ms.publish.mode is merge, so files cannot be withdrawn: later runs may have moved "
            "their rows into other files, and the rows that these files replaced are gone",
            "Leave out --withdraw-files: rows that are read again replace their earlier versions. "
            "To start over, run once with ms.publish.mode=replace.",
        )
    if decision is FileDecision.WITHDRAW and not session.job.publishing.keeps_files:
        raise StateError(
            "rows were loaded into a database, and cannot be withdrawn from there",
            "Delete the rows yourself, then give --keep-files; with "
            "ms.publish.mode=window_replace the next reading replaces them.",
        )
    if decision is FileDecision.WITHDRAW:
        return withdrawal_of(affected)
    if mode is not PublishMode.APPEND:
        return FileChange(affected, f"replaced by the next run ({mode.value})")
    refusal = None
    if decision is FileDecision.UNDECIDED:
        rows = sum(file.rows for file in affected)
        refusal = StateError(
            f"{counted(len(affected), 'file')} of these work units with {counted(rows, 'row')} "
            "would stay, and ms.publish.mode is append: the next run would publish these rows a "
            "second time",
            "Give --withdraw-files to take the files out of the dataset (undo brings them back), "
            "or --keep-files if you removed the files yourself, or if you accept doubled rows.",
        )
    return FileChange(affected, refusal=refusal)


def with_late_rows(
    session: OperatorSession,
    change: FileChange,
    forgotten: Collection[str] = (),
    since: Collection[str] | None = None,
) -> FileChange:
    """Return a change of files, with the moves of the files of late rows added.

    Late rows of ``forgotten`` work units, and late rows that were published with withdrawn files,
    are moved aside: the next reading would publish them a second time. If withdrawn files come
    back, the late rows that were moved aside with them are moved back, too.

    Args:
        session: The operator's session.
        change: The change of the dataset's files.
        forgotten: The signatures of work units that are read again.
        since: The URIs of the late files of ``forgotten`` to move, None for all of them.
    """
    filesystem, spec = session.filesystem, session.job.publishing
    act_id = session.act_id or ""
    gone = [
        move
        for move in late_taken(session, act_id, forgotten)
        if since is None or filesystem.uri(move.source) in since
    ]
    if not forgotten or since is not None:
        units = {signature for file in change.withdrawn for signature in file.signatures}
        runs = {file.run_id for file in change.withdrawn}
        gone += [move for move in late_taken(session, act_id, units, runs) if move not in gone]
    back = set_aside.late_back(filesystem, spec, act_id, change.moves, session.late_files)
    return replace(change, quarantine=(*change.quarantine, *gone, *back))


def late_taken(
    session: OperatorSession,
    act_id: str,
    units: Collection[str],
    runs: Collection[str] | None = None,
) -> tuple[Move, ...]:
    """Return the moves that put the job's own late rows of some work units aside.

    ``runs`` are the ids of the runs whose late rows are moved, None for all runs.
    """
    filesystem, spec = session.filesystem, session.job.publishing
    if spec.warehouse is not None:
        return ()  # late rows are in a table, from which no act removes rows
    moves = set_aside.late_taken(filesystem, spec, act_id, units, runs)
    if spec.mode is not PublishMode.APPEND or not moves:
        return moves
    own = session.late_files()  # other jobs may append to the dataset
    return tuple(move for move in moves if filesystem.uri(move.source) in own)


def withdrawal_of(files: tuple[PublishedFile, ...]) -> FileChange:
    """Return the change that takes files out of the dataset."""
    return FileChange(files, WITHDRAWN, withdrawn=files) if files else NO_FILES
