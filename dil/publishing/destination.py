"""What a commit is carried out on: plain files, a table of files, a warehouse.

A destination only ever finishes what an intent says; each of its steps, done again, changes
nothing (rule C26).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from importlib import import_module
from typing import Protocol, cast, runtime_checkable
from urllib.parse import urlsplit

from dil.model.dataset import Commit, Intent, Move, PublishedFile
from dil.model.destination import TableFormat, TableKind
from dil.model.job import PublishingSpec
from dil.model.report import MergedRows
from dil.model.secret import SecretUrl
from dil.publishing import layout
from dil.publishing.owner import Owner
from dil.storage import Filesystem
from dil.storage.side_by_side import call_each

# Modules by name: a job that publishes plain files should not pay for the import of a table format.
_FORMATS = {
    TableFormat.FILES: ("files", "FileDestination"),
    TableFormat.DELTA: ("delta", "DeltaDestination"),
    TableFormat.ICEBERG: ("iceberg", "IcebergDestination"),
}
_KINDS = {
    TableKind.REGULAR: ("warehouse", "WarehouseDestination"),
    TableKind.TIMESERIES: ("timeseries", "TimeseriesDestination"),
}


class Destination(Protocol):
    """Where one job's rows become visible."""

    def check(self) -> None:
        """Look whether rows can be published here at all, before any is read.

        Raises:
            ConfigError: what is there does not fit the job: other columns apart, another owner.
        """

    def live(self) -> tuple[PublishedFile, ...]:
        """Return the files that are live now; none for a warehouse."""

    def next_sequence(self) -> int:
        """Return what a commit decided now will be numbered; an intent keeps it."""

    def uri(self, path: str) -> str:
        """Return how a file is named that a commit puts at an absolute path."""

    def lost(self, intent: Intent) -> tuple[Move, ...]:
        """Return the moves that can be neither carried out nor are carried out already."""

    def has_landed(self, intent: Intent) -> bool:
        """Return whether readers have the commit of an intent, as its own records say."""

    def carry_out(self, intent: Intent) -> None:
        """Make the moves and removes of an intent visible, all at once where readers can tell.

        Raises:
            WriteError: the store refused; the next run finishes the rest.
            CommitUnknownError: the store took it, or did not: nobody can tell now.
        """


@runtime_checkable
class ParticularDestination(Destination, Protocol):
    """A destination that cannot take every file, as a table whose columns have types."""

    def require_fit(self, commit: Commit) -> None:
        """Refuse a commit that could not be carried out, while nothing is decided.

        Raises:
            WriteError: a staged file does not fit.
            CommitConflictError: a file to be replaced is not live any more.
        """


@runtime_checkable
class FencingDestination(Destination, Protocol):
    """A destination that can keep a driver which wakes up late from carrying out an intent."""

    def fence(self, intent: Intent) -> None:
        """Let an intent land no more, unless it has; ``has_landed`` says which.

        Raises:
            WriteError: the store refused.
        """

    def is_given_up(self, intent: Intent) -> bool:
        """Return whether ``fence`` came before the intent could land."""


@runtime_checkable
class RetainingDestination(Destination, Protocol):
    """A destination that keeps rows for a time."""

    def expired(self, system_time: int) -> tuple[PublishedFile, ...]:
        """Return the live files whose rows go with the next commit, made at epoch ms UTC."""


@runtime_checkable
class OwnedDestination(Destination, Protocol):
    """A destination that knows itself whose it is, wherever a job stages its files."""

    def claim(self, owner: Owner) -> None:
        """Enter a job as an owner.

        Raises:
            ConfigError: another job owns it.
        """


@runtime_checkable
class DetectingDestination(Destination, Protocol):
    """A destination that itself looks for the rows that a run did not read."""

    def missing(self) -> PublishedFile:
        """Return what a commit removes that takes away the rows whose key it does not have."""


@runtime_checkable
class MergingDestination(Destination, Protocol):
    """A destination that merges rows itself.

    ``merged`` counts what the last commit did, None where that was done before.
    """

    merged: MergedRows | None


@runtime_checkable
class SparingDestination(Destination, Protocol):
    """A destination that leaves alone what it has already."""

    def spared(self, commit: Commit) -> Commit:
        """Return a commit without the files whose rows are there, and those they would replace."""


@runtime_checkable
class VersionedDestination(Destination, Protocol):
    """A destination that keeps the files of earlier versions for their readers."""

    def refuse_deleted_rows(self) -> None:
        """Refuse files that hold rows which another program marked as deleted.

        Raises:
            StateError: written anew, the rows would be there again.
        """

    def unremovable(self, files: Collection[str]) -> frozenset[str]:
        """Return those of some live files, by URI, that no commit can take out as a whole.

        Raises:
            StateError: the table cannot be read.
        """

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


def destination_for(spec: PublishingSpec, filesystem: Filesystem) -> Destination:
    """Return where rows are published; ``filesystem`` holds staging, and files of tables."""
    warehouse = spec.warehouse
    module, name = _FORMATS[spec.table.format] if warehouse is None else _KINDS[warehouse.kind]
    made = getattr(import_module(f"dil.publishing.{module}"), name)
    return cast("Destination", made(spec, filesystem))


def described(spec: PublishingSpec, filesystem: Filesystem) -> str:
    """Return where and how rows are published, in words of the job and without its secrets.

    An intent is only finished where this is as it was: final names, transactions and what a
    replace takes away are those of one destination.
    """
    table = spec.table
    words = {"ms.publish.mode": spec.mode.value, "ms.table.format": table.format.value}
    if table.format is not TableFormat.FILES:
        words["ms.table.partition.fields"] = ",".join(table.partition_fields)
    if table.catalog_uri is not None:
        words["ms.iceberg.catalog.uri"] = shown(table.catalog_uri)
        words["extract.namespace"] = table.namespace
        words["extract.table.name"] = table.name
    place = layout.dataset_dir(spec) if spec.warehouse is None else ""
    uri = destination_for(spec, filesystem).uri(place).rstrip("#")
    return f"{uri} with {', '.join(f'{name}={value}' for name, value in words.items())}"


def shown(url: SecretUrl) -> str:
    """Return a service's address without user, password and options."""
    address = urlsplit(url.reveal())
    host = address.netloc.rpartition("@")[2]
    return f"{address.scheme}://{host}{address.path}"


def place(moves: Collection[Move], spec: PublishingSpec, filesystem: Filesystem) -> None:
    """Move staged files to their names, in any order; durable when this returns."""
    targets = [(move, filesystem.path_of(move.target.uri)) for move in moves]
    folders = {path.rpartition("/")[0] for _, path in targets}
    for folder in sorted(folders):
        filesystem.make_folder(folder, mode=spec.dir_mode)
    if spec.group:
        for folder in sorted(_between(layout.dataset_dir(spec), folders)):
            filesystem.set_group(folder, spec.group)

    def put(target: tuple[Move, str]) -> None:
        move, path = target
        put = filesystem.replace if move.target.is_dump else filesystem.move
        put(move.source, path, mode=spec.file_mode)
        if spec.group:
            filesystem.set_group(path, spec.group)

    call_each(filesystem, put, targets)
    filesystem.sync_folders(folders)


def _between(dataset_dir: str, folders: Iterable[str]) -> set[str]:
    """Return folders below a dataset's own, with those on the way to them."""
    found: set[str] = set()
    for lowest in folders:
        folder = lowest
        while folder not in found and folder.startswith(f"{dataset_dir}/"):
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found
