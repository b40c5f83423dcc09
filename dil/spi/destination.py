"""The destination contract: a destination makes the rows of one job visible to readers.

A run publishes in this order, and a crash may come between any two steps:

1. ``check`` before a row is read, ``live`` and ``require_fit`` before anything is decided. These
  change nothing, so a crash costs nothing.
2. The run records the intent in the state store. From here on, this run or the next one always
  finishes the publish.
3. ``carry_out`` makes the rows visible. After a crash the next run calls it again with the same
  intent; steps that are done are not repeated (rule C26).
4. The state store remembers the commit.

If it is unknown whether step 3 was done, the run calls ``has_landed``. ``dil runs abandon`` gives
up a commit that cannot be finished: it calls ``fence`` first and then ``has_landed`` again.
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
    """The file system on which a run stages; files are named by absolute paths."""

    def open_input(self, path: str) -> BinaryIO:
        """Return a stream that reads a file.

        Raises:
            FileNotFoundError: the file does not exist.
        """

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""


@dataclass(frozen=True, slots=True)
class DestinationContext:
    """The context of a destination: the target of the job, the staged files, the properties.

    ``publishing`` has the publish mode, and for the mode ``merge`` a member ``merge`` with the
    keys. ``properties.section(YourSection)`` holds the destination's own ``ms.x.*`` properties.
    """

    publishing: PublishingSpec
    files: StagedFiles
    properties: Properties = field(default_factory=lambda: Properties({}))


class Destination(ABC):
    """Makes one job's rows visible; runs on the driver. One instance serves one command.

    A subclass must define the abstract methods. The other methods are for abilities that only some
    destinations have; their defaults mean that the destination lacks the ability.

    ``keeps_versions`` is true if files that a commit removes stay for readers of earlier versions;
    then DIL calls ``refuse_deleted_rows``, ``unremovable`` and ``vacuum``. If ``merges`` is true,
    ``carry_out`` merges rows by key; if it is false, an earlier step rewrites the staged files.
    ``merged`` counts the rows that the last commit merged, None if an earlier call had done the
    commit.

    A class that a job names in ``ms.destination.class`` is created with a ``DestinationContext``,
    without any I/O. ``modes`` are its publish modes; if ``merge`` is one of them, the class must
    merge rows itself. ``sections`` and ``properties`` are as in ``Connector``. The class gets
    Parquet files, whatever ``writer.output.format`` is.
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

    def check(self) -> None:  # noqa: B027 - others find problems in ``carry_out``
        """Check whether rows can be published to this destination at all, before any row is read.

        Raises:
            ConfigError: the existing dataset does not fit the job: it has other partition columns,
                or another owner.
        """

    def claim(self, owner: Owner) -> None:  # noqa: B027 - most keep no owners themselves
        """Record the job as the owner; called once in each run that has rows to read.

        It is for a destination that itself records its owner, independent of staging folders.

        Raises:
            ConfigError: another job owns the destination.
        """

    def live(self) -> tuple[PublishedFile, ...]:
        """Return the staged files whose rows are live now, under the names that their commits use.

        The modes ``replace`` and ``window_replace`` remove these files, so a destination with these
        modes must define this method. After a merge of rows of several files the files are unknown.
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

        If ``landed`` returns numbers, they must grow from commit to commit.
        """
        return 0

    def landed(self, source: str) -> int | None:
        """Return the largest number of a source's commits, -1 if it has none, None if unknown.

        If the state lacks this commit, the state is an older copy, and a run that trusted it would
        append rows a second time.
        """
        del source
        return None

    def has_others(self, source: str) -> bool:
        """Return whether other jobs than the source's publish here, as far as is known."""
        del source
        return False

    def late_files(self) -> tuple[str, ...]:
        """Return the names of the files whose rows are in the table of late rows."""
        return ()

    def expired(self, system_time: int) -> tuple[PublishedFile, ...]:
        """Return the live files whose rows expire with a commit at ``system_time`` (epoch ms UTC).

        It is for a destination that keeps rows for a limited time.
        """
        del system_time
        return ()

    def missing(self) -> PublishedFile | None:
        """Return the file that stands for all rows that a run did not read; by default None.

        A commit that removes this file deletes all rows whose keys the commit lacks. The method is
        for a destination that itself finds these rows.
        """
        return None

    def spared(self, commit: Commit) -> Commit:
        """Return a commit without the files whose rows are already here, and without their removes.

        It is for a destination that does not write again the rows that it already has.
        """
        return commit

    def require_fit(self, commit: Commit) -> None:  # noqa: B027 - most take every file
        """Raise if a commit could not be carried out, while nothing is decided yet.

        Raises:
            WriteError: a staged file does not fit.
            CommitConflictError: a file to replace is no longer live.
        """

    # After the intent is recorded

    @abstractmethod
    def carry_out(self, intent: Intent) -> None:
        """Carry out the moves and removes of an intent, visible to readers all at once.

        After a crash at any step it is called again, but the rows must land only once. So record
        ``intent.commit.run_id`` with the rows, in one transaction. A driver that slept may call
        ``carry_out`` after another driver has finished the same intent. A commit that only put rows
        aside has neither moves nor removes: then do nothing.

        Raises:
            WriteError: the store refused to write; the next run finishes the rest.
            CommitUnknownError: it is unknown whether the store accepted the commit.
        """

    @abstractmethod
    def has_landed(self, intent: Intent) -> bool:
        """Return whether readers see the commit of an intent, by the destination's own records."""

    def lost(self, intent: Intent) -> tuple[Move, ...]:
        """Return the moves that are not carried out yet and can no longer be carried out."""
        exists = self.context.files.exists
        gone = tuple(move for move in intent.commit.moves if not exists(move.source))
        return () if gone and self.has_landed(intent) else gone

    # When a publish is given up

    def fence(self, intent: Intent) -> None:  # noqa: B027 - not every store can
        """Prevent an intent from landing later; if it has landed, ``has_landed`` returns True.

        It is for a destination that can prevent a driver that wakes up late from carrying out the
        intent.

        Raises:
            WriteError: the store refused to write.
        """

    def is_given_up(self, intent: Intent) -> bool:
        """Return whether ``fence`` came before the intent could land."""
        del intent
        return False

    # If earlier versions are kept

    def refuse_deleted_rows(self) -> None:  # noqa: B027 - of no meaning without versions
        """Raise if files hold rows that another program marked as deleted.

        Raises:
            StateError: such rows exist, and would be live again in a rewritten file.
        """

    def unremovable(self, files: Collection[str]) -> frozenset[str]:
        """Return the URIs of the given live files that no commit can remove as a whole.

        Raises:
            StateError: the table cannot be read.
        """
        del files
        return frozenset()

    def vacuum(self, *, hours: int, now_ms: int, is_look: bool) -> tuple[str, ...]:
        """Delete the files of versions that were replaced over ``hours`` ago; return their paths.

        If it is called again after a crash, it deletes the rest.

        Args:
            hours: The hours for which a version is kept after it was replaced.
            now_ms: The real clock, epoch ms UTC.
            is_look: Whether to return the files without deleting them.

        Returns:
            The paths of the files.

        Raises:
            StateError: the table cannot be read.
            WriteError: the table cannot be written.
        """
        del hours, now_ms, is_look
        return ()
