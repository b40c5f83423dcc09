"""What an act makes of published files whose rows will be read again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from dil.errors import StateError
from dil.model.dataset import Move, PublishedFile
from dil.model.job import PublishMode
from dil.observe.progress import counted
from dil.operator.acts.desk import Desk

KEPT = "kept"
WITHDRAWN = "withdrawn from the dataset"
DECISIONS = ("--withdraw-files", "--keep-files")


class FileDecision(Enum):
    """What an operator decided about published files of work units that will be read again."""

    UNDECIDED = "undecided"
    KEEP = "keep"
    WITHDRAW = "withdraw"


@dataclass(frozen=True, slots=True)
class FileChange:
    """What an act does to published files.

    ``touched`` are those of its work units that are live, ``fate`` says what becomes of them.
    ``withdrawn`` leave the dataset, ``moves`` bring back what earlier acts withdrew. ``aside``
    moves rows that were put aside, which are no files of the dataset. ``refusal`` is why the act
    is not done, and ``needs`` what it waits for, one of the options.
    """

    touched: tuple[PublishedFile, ...] = ()
    fate: str = KEPT
    withdrawn: tuple[PublishedFile, ...] = ()
    moves: tuple[Move, ...] = ()
    aside: tuple[Move, ...] = ()
    refusal: StateError | None = None

    @property
    def is_empty(self) -> bool:
        """Tell whether no file would enter or leave the dataset."""
        return not (self.moves or self.withdrawn or self.aside)

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the options of which one must be given, none where nothing is to be decided."""
        return () if self.refusal is None else DECISIONS


NO_FILES = FileChange()


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """The job's own live files of some work units; ``notes`` tell of files that others have."""

    files: tuple[PublishedFile, ...] = ()
    notes: tuple[str, ...] = ()


def files_of(desk: Desk, signatures: Collection[str]) -> LiveFiles:
    """Return the live files of some work units that this job published.

    Jobs that append to one dataset have the same signatures when their watermarks are the same.
    """
    if not signatures:
        return LiveFiles()
    wanted = frozenset(signatures)
    found = [file for file in desk.live_files() if file.signature in wanted]
    own = desk.store.own_files(found)
    others = [file for file in found if file.uri not in own]
    if not others:
        return LiveFiles(tuple(found))
    rows = sum(file.rows for file in others)
    note = (
        f"left as they are: {counted(len(others), 'file')} with {counted(rows, 'row')} of the same "
        f"work units, which no run of {desk.job.name} published as far as its state store knows"
    )
    return LiveFiles(tuple(file for file in found if file.uri in own), (note,))


def file_change(
    desk: Desk, touched: tuple[PublishedFile, ...], decision: FileDecision
) -> FileChange:
    """Return what the decision and the publish mode make of files whose rows will be read again.

    Where a run only appends, their rows would be there twice: then a decision is needed.

    Raises:
        StateError: files are to be withdrawn whose rows were merged with others, or that are rows
            of a database.
    """
    if not touched:
        return NO_FILES
    mode = desk.job.publishing.mode
    if decision is FileDecision.WITHDRAW and mode is PublishMode.MERGE:
        raise StateError(
            "ms.publish.mode is merge, and files cannot be withdrawn there: one lacks the rows "
            "that later runs wrote again, and its rows took the place of older ones, which are "
            "gone",
            "Leave --withdraw-files out: rows that are read again take the place of their earlier "
            "versions. To begin anew, run once with ms.publish.mode=replace.",
        )
    if decision is FileDecision.WITHDRAW and desk.job.publishing.warehouse is not None:
        raise StateError(
            "rows were loaded into a database, and cannot be withdrawn from there",
            "Give --keep-files, once you deleted them yourself; with ms.publish.mode=window_replace"
            " the next reading takes their place.",
        )
    if decision is FileDecision.WITHDRAW:
        return withdrawn(touched)
    if mode is not PublishMode.APPEND:
        return FileChange(touched, f"replaced by the next run ({mode.value})")
    refusal = None
    if decision is FileDecision.UNDECIDED:
        rows = sum(file.rows for file in touched)
        refusal = StateError(
            f"{counted(len(touched), 'file')} of these work units with {counted(rows, 'row')} "
            "would stay, and ms.publish.mode is append: the next run would publish these rows a "
            "second time",
            "Give --withdraw-files to take them out of the dataset, which undo brings back, or "
            "--keep-files if the files are gone otherwise or doubled rows are fine.",
        )
    return FileChange(touched, refusal=refusal)


def withdrawn(files: tuple[PublishedFile, ...]) -> FileChange:
    """Return the change that takes files out of the dataset."""
    return FileChange(files, WITHDRAWN, withdrawn=files) if files else NO_FILES
