"""Published files whose rows an amendment has read again: kept, or taken away."""

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

    ``affected`` are the live files of its work units, and ``fate`` says what happens to them.
    ``withdrawn`` leave the dataset; ``moves`` bring back files that an earlier act withdrew. A file
    that also has rows of other work units is here as if it had the rows of these alone.
    ``quarantine`` moves files of quarantined rows, which are no files of the dataset. ``refusal``
    is why the amendment is refused until the operator decides. With ``only_records`` the files came
    and went already, and only the chain changes. With ``is_final`` no copy of withdrawn files is
    kept.
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
        """Return whether no file would enter or leave the dataset."""
        return not (self.moves or self.withdrawn or self.quarantine)

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the options of which one must be given, none if there is nothing to decide."""
        return () if self.refusal is None else DECISIONS


NO_FILES = FileChange()


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """The job's own live files of some work units; ``notes`` mention files of other jobs.

    A file that also has rows of others is here as if it had the rows of these alone.
    """

    files: tuple[PublishedFile, ...] = ()
    notes: tuple[str, ...] = ()


def live_files_of(session: OperatorSession, signatures: Collection[str]) -> LiveFiles:
    """Return the live files of some work units that this job published.

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
    if session.job.publishing.mode is not PublishMode.APPEND:  # then no other job publishes here
        return LiveFiles(tuple(found))
    own = session.store.own_files(found)
    others = [file for file in found if file.uri not in own]
    if not others:
        return LiveFiles(tuple(found))
    rows = sum(file.rows for file in others)
    note = (
        f"left as they are: {counted(len(others), 'file')} with {counted(rows, 'row')} of the same "
        f"work units, which no run of {session.job.name} published as far as its state store knows"
    )
    return LiveFiles(tuple(file for file in found if file.uri in own), (note,))


def file_change(
    session: OperatorSession, affected: tuple[PublishedFile, ...], decision: FileDecision
) -> FileChange:
    """Return the fate of files whose rows will be read again, by decision and publish mode.

    A job that only appends would publish their rows a second time, so there the operator must
    decide.

    Raises:
        StateError: files are to be withdrawn whose rows were merged with others, or were loaded
            into a database.
    """
    if not affected:
        return NO_FILES
    mode = session.job.publishing.mode
    if decision is FileDecision.WITHDRAW and mode is PublishMode.MERGE:
        raise StateError(
            "ms.publish.mode is merge, and files cannot be withdrawn there: one lacks the rows "
            "that later runs wrote again, and its rows took the place of older ones, which are "
            "gone",
            "Leave --withdraw-files out: rows that are read again take the place of their earlier "
            "versions. To begin anew, run once with ms.publish.mode=replace.",
        )
    if decision is FileDecision.WITHDRAW and not session.job.publishing.keeps_files:
        raise StateError(
            "rows were loaded into a database, and cannot be withdrawn from there",
            "Give --keep-files, once you deleted them yourself; with ms.publish.mode=window_replace"
            " the next reading takes their place.",
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
            "Give --withdraw-files to take them out of the dataset, which undo brings back, or "
            "--keep-files if the files are gone otherwise or doubled rows are fine.",
        )
    return FileChange(affected, refusal=refusal)


def with_late_rows(
    session: OperatorSession,
    change: FileChange,
    forgotten: Collection[str] = (),
    since: Collection[str] | None = None,
) -> FileChange:
    """Return a change of files that takes late rows along.

    Late rows of ``forgotten`` work units, and those that were published with files that are
    withdrawn, go aside: the next reading would publish them a second time. Those that went aside
    with files that come back come back, too.

    Args:
        session: The operator's session.
        change: What becomes of the dataset's files.
        forgotten: The signatures of work units that are read again.
        since: The URIs of the late rows that go with ``forgotten``, None for all of theirs.
    """
    filesystem, spec = session.filesystem(), session.job.publishing
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
    """Return the moves that take the job's own late rows of some work units aside.

    Of those of some runs, by their ids, unless ``runs`` is None.
    """
    filesystem, spec = session.filesystem(), session.job.publishing
    if spec.warehouse is not None:
        return ()  # their rows are in a table, where no act takes any away
    moves = set_aside.late_taken(filesystem, spec, act_id, units, runs)
    if spec.mode is not PublishMode.APPEND or not moves:
        return moves
    own = session.late_files()  # other jobs may append to the dataset
    return tuple(move for move in moves if filesystem.uri(move.source) in own)


def withdrawal_of(files: tuple[PublishedFile, ...]) -> FileChange:
    """Return the change that takes files out of the dataset."""
    return FileChange(files, WITHDRAWN, withdrawn=files) if files else NO_FILES
