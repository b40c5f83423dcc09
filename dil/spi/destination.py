"""The destination contract: a destination makes the rows of one job visible to readers.

A run publishes in this order, and a crash may come between any two steps:

1. ``check`` before a row is read, ``live`` and ``require_fit`` before anything is decided. Nothing
   is changed, so a crash costs nothing.
2. The intent is recorded in the state store. From here on the publish is always finished, by this
   run or by the next one.
3. ``carry_out`` makes the rows visible. After a crash the next run calls it once more, with the
   same intent: steps that are done are not done again (rule C26).
4. The state store remembers the commit.

If it is not known whether step 3 was done, ``has_landed`` is called. ``dil runs abandon`` gives up
a commit that cannot be finished: it calls ``fence`` first and then ``has_landed`` again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import BinaryIO, ClassVar, Protocol

from dil.errors import Problem
from dil.model.dataset import Commit, Intent, Move, Owner, PublishedFile
from dil.model.job import PublishingSpec, PublishMode
from dil.model.properties import Properties
from dil.model.report import MergedRows
from dil.model.section import Section
from dil.spi.connector import PluginProperty


class StagedFiles(Protocol):
    """The file system that a run stages on. Files are named by absolute paths."""

    def open_input(self, path: str) -> BinaryIO:
        """Return a stream over a file.

        Raises:
            FileNotFoundError: there is no such file.
        """

    def exists(self, path: str) -> bool:
        """Return whether a file or folder is there."""


@dataclass(frozen=True, slots=True)
class DestinationContext:
    """The context of a destination: the target of the job, the staged files, the properties.

    ``publishing`` has the publish mode, and ``merge`` with the keys for the mode of that name.
    ``properties.section(YourSection)`` holds the destination's own ``ms.x.*`` properties.
    """

    publishing: PublishingSpec
    files: StagedFiles
    properties: Properties = field(default_factory=lambda: Properties({}))


class Destination(ABC):
    """Makes one job's rows visible. Runs on the driver; one instance serves one command.

    A subclass has to define the abstract methods. The other methods are for abilities that only
    some destinations have; their defaults mean that a destination does not have them.

    ``keeps_versions`` says that files which a commit removes stay for readers of earlier versions;
    then ``refuse_deleted_rows``, ``unremovable`` and ``vacuum`` are called. ``merges`` says that
    ``carry_out`` merges rows by key, instead of a step before it that rewrites staged files;
    ``merged`` then counts the rows that the last commit merged, None if it was already done.

    A class that a job names in ``ms.destination.class`` is made from a ``DestinationContext``,
    without any I/O. ``modes`` are the publish modes that it has; with ``merge`` it has to merge by
    itself. ``sections`` and ``properties`` are as in ``Connector``. Such a destination gets Parquet
    files, independent of ``writer.output.format``.
    """

    modes: ClassVar[frozenset[PublishMode]] = frozenset({PublishMode.APPEND})
    sections: ClassVar[tuple[type[Section], ...]] = ()
    properties: ClassVar[tuple[PluginProperty, ...]] = ()
    keeps_versions: ClassVar[bool] = False
    merges: bool = False
    merged: MergedRows | None = None

    def __init__(self, context: DestinationContext) -> None:
        self.context = context

    # Before a row is read

    @classmethod
    def check_properties(cls, properties: Properties) -> Iterable[Problem]:
        """Return the problems of the properties; runs when a job is loaded, before any I/O."""
        del properties
        return ()

    def check(self) -> None:  # noqa: B027 - what needs no look is found in ``carry_out``
        """Check whether rows can be published here at all, before any row is read.

        Raises:
            ConfigError: the existing dataset does not fit the job: it has other partition columns,
                or another owner.
        """

    def claim(self, owner: Owner) -> None:  # noqa: B027 - most keep no owners themselves
        """Record the job as the owner; called once in each run that has rows to read.

        It is for a destination that keeps its owner itself, independent of staging folders.

        Raises:
            ConfigError: another job owns it.
        """

    def live(self) -> tuple[PublishedFile, ...]:
        """Return the staged files whose rows are live now, as the commits named them.

        The modes ``replace`` and ``window_replace`` remove these files, so a destination with these
        modes has to define it. After merges of rows of several files the files are not known.
        """
        return ()

    # Before anything is decided

    @abstractmethod
    def uri(self, path: str) -> str:
        """Return the name of a file that a commit puts at an absolute path.

        For the empty path it returns the name of the destination itself, without secrets. The state
        store keeps this name, and an intent is finished only if the name has not changed.
        """

    def next_sequence(self) -> int:
        """Return the number for a commit that is decided now; the intent keeps it.

        If ``landed`` returns numbers, they have to grow from commit to commit.
        """
        return 0

    def landed(self, source: str) -> int | None:
        """Return the largest number of a source's commits here, -1 without one, None if not known.

        If the state has no such commit, the state is an older copy, and a run that trusted it would
        append rows a second time.
        """
        del source
        return None

    def has_others(self, source: str) -> bool:
        """Return whether jobs other than the source's publish here, as far as is known here."""
        del source
        return False

    def late_files(self) -> tuple[str, ...]:
        """Return the names of the files whose rows are in a table of late rows beside this one."""
        return ()

    def expired(self, system_time: int) -> tuple[PublishedFile, ...]:
        """Return the live files whose rows go with the next commit, made at epoch ms UTC.

        It is for a destination that keeps rows for a limited time.
        """
        del system_time
        return ()

    def missing(self) -> PublishedFile | None:
        """Return the file to remove in a commit that deletes all rows whose keys it does not have.

        It is for a destination that itself finds the rows that a run did not read.
        """
        return None

    def spared(self, commit: Commit) -> Commit:
        """Return a commit without files whose rows are here already, and without their removes.

        It is for a destination that does not write again the rows that it has.
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
        """Make the moves and removes of an intent visible to readers, all at once.

        It is called again after a crash, at whatever step that was: the rows must be there once.
        So record ``intent.commit.run_id`` with the rows, in one transaction. A driver that slept
        may call it after another driver has finished the same intent. A commit that only put rows
        aside has neither moves nor removes: then do nothing.

        Raises:
            WriteError: the store refused; the next run finishes the rest.
            CommitUnknownError: it is not known whether the store took it.
        """

    @abstractmethod
    def has_landed(self, intent: Intent) -> bool:
        """Return whether readers have the commit of an intent, by the destination's own records."""

    def lost(self, intent: Intent) -> tuple[Move, ...]:
        """Return the moves that are not carried out yet and cannot be carried out any more."""
        exists = self.context.files.exists
        gone = tuple(move for move in intent.commit.moves if not exists(move.source))
        return () if gone and self.has_landed(intent) else gone

    # When a publish is given up

    def fence(self, intent: Intent) -> None:  # noqa: B027 - not every store can
        """Prevent that an intent lands later; if it has landed already, ``has_landed`` says so.

        It is for a destination that can stop a driver which wakes up late from carrying it out.

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
            StateError: there are such rows, which would be live again in a rewritten file.
        """

    def unremovable(self, files: Collection[str]) -> frozenset[str]:
        """Return the URIs of those live files that no commit can remove as a whole.

        Raises:
            StateError: the table cannot be read.
        """
        del files
        return frozenset()

    def vacuum(self, *, hours: int, now_ms: int, is_look: bool) -> tuple[str, ...]:
        """Delete the files of versions that were replaced more than ``hours`` ago.

        Called again after a crash, it deletes the rest.

        Args:
            hours: How long a version is kept after it was replaced.
            now_ms: The real clock, epoch ms UTC.
            is_look: Whether to return the files without deleting them.

        Returns:
            The paths of the files.

        Raises:
            StateError: the table cannot be read.
            WriteError: it cannot be written.
        """
        del hours, now_ms, is_look
        return ()
