"""The destination contract: where the rows of one job become visible.

A run publishes in this order, and a crash may come between any two steps:

1. ``check`` before a row is read, ``live`` and ``require_fit`` before anything is decided. Nothing
   is changed, so a crash costs nothing.
2. The intent is recorded in the state store. From here on the publish is only ever finished, by
   this run or by the next.
3. ``carry_out`` makes it visible. After a crash the next run calls it once more, with the same
   intent: what is done already is not done again (rule C26).
4. The state store remembers the commit.

Where it is not known whether step 3 was done, ``has_landed`` is asked. A commit that cannot be
finished is given up by ``dil runs abandon``, which calls ``fence`` first and then asks again.
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
            FileNotFoundError: there is none.
        """

    def exists(self, path: str) -> bool:
        """Return whether a file or folder is there."""


@dataclass(frozen=True, slots=True)
class DestinationContext:
    """The context of a destination: where the job publishes, the staged files, the properties.

    ``publishing`` has the publish mode, and ``merge`` with the keys for the mode of that name.
    ``properties.section(YourSection)`` holds the destination's own ``ms.x.*`` properties.
    """

    publishing: PublishingSpec
    files: StagedFiles
    properties: Properties = field(default_factory=lambda: Properties({}))


class Destination(ABC):
    """Where one job's rows become visible. Runs on the driver; one instance serves one command.

    A subclass has to answer what is abstract. The other methods are for what only some destinations
    have: a default says that this one does not have it.

    ``keeps_versions`` says that files which a commit takes away stay for the readers of earlier
    versions; ``refuse_deleted_rows``, ``unremovable`` and ``vacuum`` are asked then.
    ``merges`` says that rows are merged by key here, in ``carry_out``, and not in staged files
    before; ``merged`` then counts what the last commit did, None where that was done before.

    A class that a job names in ``ms.destination.class`` is made from a ``DestinationContext``,
    without any I/O. ``modes`` are the publish modes that it has; with ``merge`` it has to merge by
    itself. ``sections`` and ``properties`` are as in ``Connector``. It gets Parquet files, whatever
    ``writer.output.format`` says.
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
        """Return what is wrong with the properties; runs when a job is loaded, before any I/O."""
        del properties
        return ()

    def check(self) -> None:  # noqa: B027 - what needs no look is found in ``carry_out``
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

    def live(self) -> tuple[PublishedFile, ...]:
        """Return the staged files whose rows are live now, as the commits named them.

        The modes ``replace`` and ``window_replace`` take away what this names, so a destination
        that has them needs it. Where rows of several files were merged, it is not known.
        """
        return ()

    # Before anything is decided

    @abstractmethod
    def uri(self, path: str) -> str:
        """Return how a file is named that a commit puts at an absolute path.

        For the empty path it names the destination itself, without secrets: an intent is only
        finished where that is as it was, and the state store remembers it.
        """

    def next_sequence(self) -> int:
        """Return the number of a commit that is decided now; an intent keeps it.

        It grows from commit to commit, where ``landed`` returns it.
        """
        return 0

    def landed(self, source: str) -> int | None:
        """Return the largest number of a source's commits here, -1 without one, None if not known.

        If the state does not know that number, the state is an older copy, and a run that trusts it
        would append rows a second time.
        """
        del source
        return None

    def has_others(self, source: str) -> bool:
        """Return whether other jobs than that of a source publish here, as far as is known here."""
        del source
        return False

    def late_files(self) -> tuple[str, ...]:
        """Return the names of the files whose rows are in a table of late rows beside this one."""
        return ()

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
        """Make the moves and removes of an intent visible, all at once where readers could see.

        Called again after a crash, however far it came before: the rows are there once. Whether
        they are is to be recorded with them, by ``intent.commit.run_id``, in one transaction.
        A driver that slept may call it when another one has finished the same intent. A commit
        of rows that were put aside alone has neither moves nor removes: nothing is to be done.

        Raises:
            WriteError: the store refused; the next run finishes the rest.
            CommitUnknownError: it is not known whether the store took it.
        """

    @abstractmethod
    def has_landed(self, intent: Intent) -> bool:
        """Return whether readers have the commit of an intent, as its own records say."""

    def lost(self, intent: Intent) -> tuple[Move, ...]:
        """Return the moves that can be neither carried out nor are carried out already."""
        exists = self.context.files.exists
        gone = tuple(move for move in intent.commit.moves if not exists(move.source))
        return () if gone and self.has_landed(intent) else gone

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
