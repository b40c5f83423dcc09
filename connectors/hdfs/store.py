"""The seam to file systems that are read from, and the way through their folders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from connectors.files.body import FileStream
from connectors.hdfs.failures import translated_errors
from dil.errors import SourceContractError, SourceError

HIDDEN = (".", "_")
_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One state of a file or folder.

    ``modified_ns`` is epoch nanoseconds UTC. ``identity`` distinguishes a file from another one
    that took its name; empty where the store does not. ``changed_ns`` is when anything of it
    changed, which no user can set back, epoch nanoseconds; 0 where the store does not say.
    ``real_path`` is the path without links, empty where the store was not asked for a folder or has
    no links.
    """

    path: str
    is_folder: bool
    size: int
    modified_ns: int
    identity: str = ""
    changed_ns: int = 0
    real_path: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def modified_ms(self) -> int:
        """Return epoch milliseconds UTC, rounded up: a file is never taken for an older one."""
        return -(-self.modified_ns // _NS_PER_MS)

    @property
    def version(self) -> str:
        """Return what distinguishes the content from an earlier one's."""
        return f"{self.size}-{self.modified_ns}"


class FileStore(ABC):
    """Files by absolute paths with slashes. What goes wrong is an OSError, or one of ours.

    ``prefix`` precedes a path where it is shown or listed: scheme and host, if the job wrote
    them.
    """

    prefix: str = ""

    def shown(self, path: str) -> str:
        """Return the full name of a file, as the job may write it."""
        return f"{self.prefix}{path}"

    @abstractmethod
    def status(self, path: str) -> FileStatus:
        """Return the state of a file or folder.

        Raises:
            FileNotFoundError: there is none.
        """

    @abstractmethod
    def entries(self, path: str) -> list[FileStatus]:
        """Return the entries directly in a folder; neither files nor folders are left out."""

    @abstractmethod
    def open(self, path: str, position: int) -> FileStream:
        """Open a file from a position on."""

    def close(self) -> None:  # noqa: B027 - some stores hold nothing open
        """Release connections."""


def files_below(store: FileStore, path: str) -> Iterator[FileStatus]:
    """Yield a file, or all files below a folder, in the order of their paths.

    What begins with a dot or an underscore is left out, but not the path itself. One folder of
    each level is in memory.

    Raises:
        SourceError: the path does not exist, a link leads around in a circle.
        TransientSourceError: a folder vanished meanwhile.
        AuthenticationError: something may not be read.
    """
    with translated_errors(store.shown(path)):
        begin = store.status(path)
    if begin.is_folder:
        yield from _below(store, begin, frozenset())
    else:
        yield begin


def _below(store: FileStore, folder: FileStatus, above: frozenset[str]) -> Iterator[FileStatus]:
    if folder.identity in above:
        raise SourceError(
            f"{store.shown(folder.path)}: the folder is inside of itself, by a link",
            "Remove the link: its files would be read again and again.",
        )
    if folder.identity:
        above |= {folder.identity}
    with translated_errors(store.shown(folder.path), listed=True):
        found = [each for each in store.entries(folder.path) if not each.name.startswith(HIDDEN)]
    # As a folder's files stand behind "name/", this is the order of whole paths.
    for each in sorted(found, key=lambda each: f"{each.name}/" if each.is_folder else each.name):
        if each.is_folder:
            yield from _below(store, each, above)
        else:
            yield each


def each_once(store: FileStore, files: Iterable[FileStatus]) -> Iterator[FileStatus]:
    """Yield files, of which links must not show one under two paths. Hard links are two files.

    Raises:
        SourceContractError: there is one, whose rows would be read twice.
    """
    seen: dict[str, str] = {}
    for each in files:
        first = seen.setdefault(each.real_path, each.path) if each.real_path else each.path
        if first != each.path:
            raise SourceContractError(
                f"{store.shown(each.path)}: it is the same file as {store.shown(first)}, by a link",
                "Its rows would be read twice. Leave one out by ms.source.files.pattern.",
            )
        yield each
