"""The destination contract: where the rows of one job become visible.

A run publishes in this order, and a crash may come between any two steps:

1. ``check`` before a row is read, ``live`` and ``require_fit`` before anything is decided. Nothing
   is changed, so a crash costs nothing.
2. The intent is recorded in the state store. From here on the publish is only ever finished, by
   this run or by the next.
3. ``carry_out`` makes it visible. After a crash the next run calls it once more, with the same
   intent: what is done already is not done again (rule C26).
4. The state store remembers the commit.

Where nobody can say whether step 3 was done, ``has_landed`` is asked. A commit that cannot be
finished is given up by ``dil runs abandon``, which calls ``fence`` first and then asks again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import ClassVar

from dil.model.dataset import Commit, Intent, Move, Owner, PublishedFile
from dil.model.report import MergedRows


class Destination(ABC):
    """Where one job's rows become visible. Runs on the driver; one instance serves one command.

    A subclass has to answer what is abstract. The other methods are for what only some destinations
    have: a default says that this one does not have it.

    ``keeps_versions`` tells that files which a commit takes away stay for the readers of earlier
    versions; ``refuse_deleted_rows``, ``unremovable`` and ``vacuum`` are asked then.
    ``merges`` tells that rows are merged by key here, in ``carry_out``, and not in staged files
    before; ``merged`` then counts what the last commit did, None where that was done before.
    """

    keeps_versions: ClassVar[bool] = False
    merges: ClassVar[bool] = False
    merged: MergedRows | None = None

    # Before a row is read

    @abstractmethod
    def check(self) -> None:
        """Look whether rows can be published here at all, before any is read.

        Raises:
            ConfigError: what is there does not fit the job: other columns apart, another owner.
        """

    def claim(self, owner: Owner) -> None:  # noqa: B027 - most keep no owners themselves
        """Enter a job as an owner; called once in each run that has something to read.

        For a destination that knows itself whose it is, wherever a job stages its files.

        Raises:
            ConfigError: another job owns it.
        """

    @abstractmethod
    def live(self) -> tuple[PublishedFile, ...]:
        """Return the files that are live now; none for a warehouse."""

    # Before anything is decided

    @abstractmethod
    def uri(self, path: str) -> str:
        """Return how a file is named that a commit puts at an absolute path."""

    @abstractmethod
    def next_sequence(self) -> int:
        """Return what a commit decided now will be numbered; an intent keeps it."""

    def landed(self, source: str) -> int | None:
        """Return the largest number of a commit of a source; None when nobody can tell.

        A number that the state does not know says that the state is an older copy.
        """
        del source
        return None

    def expired(self, system_time: int) -> tuple[PublishedFile, ...]:
        """Return the live files whose rows go with the next commit, made at epoch ms UTC.

        For a destination that keeps rows for a time.
        """
        del system_time
        return ()

    def missing(self) -> PublishedFile | None:
        """Return what a commit removes that takes away the rows whose key it does not have.

        For a destination that itself looks for the rows that a run did not read.
        """
        return None

    def spared(self, commit: Commit) -> Commit:
        """Return a commit without the files whose rows are there, and those they would replace.

        For a destination that leaves alone what it has already.
        """
        return commit

    def require_fit(self, commit: Commit) -> None:  # noqa: B027 - most take every file
        """Refuse a commit that could not be carried out, while nothing is decided.

        Raises:
            WriteError: a staged file does not fit.
            CommitConflictError: a file to be replaced is not live any more.
        """

    # After the intent is recorded

    @abstractmethod
    def carry_out(self, intent: Intent) -> None:
        """Make the moves and removes of an intent visible, all at once where readers can tell.

        Called again after a crash, however far it came before: the rows are there once. A driver
        that slept may call it while another one has finished the same intent.

        Raises:
            WriteError: the store refused; the next run finishes the rest.
            CommitUnknownError: the store took it, or did not: nobody can tell now.
        """

    @abstractmethod
    def has_landed(self, intent: Intent) -> bool:
        """Return whether readers have the commit of an intent, as its own records say."""

    @abstractmethod
    def lost(self, intent: Intent) -> tuple[Move, ...]:
        """Return the moves that can be neither carried out nor are carried out already."""

    # When a publish is given up

    def fence(self, intent: Intent) -> None:  # noqa: B027 - not every store can
        """Let an intent land no more, unless it has; ``has_landed`` says which.

        For a destination that can keep a driver which wakes up late from carrying it out.

        Raises:
            WriteError: the store refused.
        """

    def is_given_up(self, intent: Intent) -> bool:
        """Return whether ``fence`` came before the intent could land."""
        del intent
        return False

    # Where earlier versions are kept

    def refuse_deleted_rows(self) -> None:  # noqa: B027 - of no meaning without versions
        """Refuse files that hold rows which another program marked as deleted.

        Raises:
            StateError: written anew, the rows would be there again.
        """

    def unremovable(self, files: Collection[str]) -> frozenset[str]:
        """Return those of some live files, by URI, that no commit can take out as a whole.

        Raises:
            StateError: the table cannot be read.
        """
        del files
        return frozenset()

    def vacuum(self, *, hours: int, now_ms: int, is_look: bool) -> tuple[str, ...]:
        """Delete the files of versions that were replaced more than ``hours`` ago.

        Done again after a crash it deletes what was left.

        Args:
            hours: How long a version is kept after another took its place.
            now_ms: The real clock, epoch ms UTC.
            is_look: Whether nothing is to be deleted.

        Returns:
            The paths of the files.

        Raises:
            StateError: the table cannot be read.
            WriteError: it cannot be written.
        """
        del hours, now_ms, is_look
        return ()
