"""What an act makes of published files whose rows will be read again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from dil.acts.desk import Desk
from dil.errors import StateError
from dil.model.dataset import Move, PublishedFile
from dil.model.job import PublishMode

KEPT = "kept"
WITHDRAWN = "withdrawn from the dataset"
BROUGHT_BACK = "brought back"


class FileDecision(Enum):
    """What an operator decided about published files of work units that will be read again."""

    UNDECIDED = "undecided"
    KEEP = "keep"
    WITHDRAW = "withdraw"


@dataclass(frozen=True, slots=True)
class FileChange:
    """What an act does to published files.

    ``touched`` are those of its work units, ``fate`` says what becomes of them. ``withdrawn`` leave
    the dataset, ``moves`` bring files back from the folder of the act ``source``. ``refusal`` is
    why the act is not done.
    """

    touched: tuple[PublishedFile, ...] = ()
    fate: str = KEPT
    withdrawn: tuple[PublishedFile, ...] = ()
    moves: tuple[Move, ...] = ()
    source: str = ""
    refusal: StateError | None = None

    @property
    def is_empty(self) -> bool:
        """Tell whether no file would enter or leave the dataset."""
        return not (self.moves or self.withdrawn)


NO_FILES = FileChange()


def files_of(desk: Desk, signatures: Collection[str]) -> tuple[PublishedFile, ...]:
    """Return the live files of some work units."""
    if not signatures:
        return ()
    wanted = frozenset(signatures)
    return tuple(file for file in desk.live_files() if file.signature in wanted)


def file_change(
    desk: Desk, touched: tuple[PublishedFile, ...], decision: FileDecision
) -> FileChange:
    """Return what the decision and the publish mode make of files whose rows will be read again.

    Where a run only appends, their rows would be there twice: then a decision is needed.
    """
    if not touched:
        return NO_FILES
    if decision is FileDecision.WITHDRAW:
        return withdrawn(touched)
    mode = desk.job.publishing.mode
    if mode is not PublishMode.APPEND:
        return FileChange(touched, f"replaced by the next run ({mode.value})")
    refusal = None
    if decision is FileDecision.UNDECIDED:
        rows = sum(file.rows for file in touched)
        refusal = StateError(
            f"{len(touched)} files of these work units with {rows} rows are published, and "
            "ms.publish.mode is append: the next run would publish these rows a second time",
            "Give --withdraw-files to take them out of the dataset, which undo brings back, or "
            "--keep-files if the files are gone otherwise or doubled rows are fine.",
        )
    return FileChange(touched, refusal=refusal)


def withdrawn(files: tuple[PublishedFile, ...]) -> FileChange:
    """Return the change that takes files out of the dataset."""
    return FileChange(files, WITHDRAWN, withdrawn=files)


def brought_back(moves: tuple[Move, ...], source: str) -> FileChange:
    """Return the change that brings back what the act ``source`` withdrew."""
    files = tuple(move.target for move in moves)
    return FileChange(files, BROUGHT_BACK, moves=moves, source=source)
