"""The interface to file systems for reading, the walk through their folders, and one file there.

``translated_errors`` makes errors of ``dil.errors`` of the errors that file systems raise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from connectors.files.body import FileStream, RemoteFile, changed
from connectors.files.names import pattern_of_wildcards
from dil.errors import AuthenticationError, SourceContractError, SourceError, TransientSourceError

HIDDEN = (".", "_")
_NS_PER_MS = 1_000_000
_MISSING_FIX = (
    "Check ms.source.uri. If the file may be missing, let the job read the folder above and"
    " select files by ms.source.files.pattern."
)
_GONE_FIX = (
    "Another program removed or renamed it, or it is a broken link. The next attempt lists again."
)
_RIGHTS_FIX = "Grant the user that runs tasks the right to read it, and the folders above it."


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One state of a file or folder.

    ``modified_ns`` is epoch nanoseconds UTC. ``identity`` distinguishes a file from another file
    that took its name; it is empty if the store has no identities. ``changed_ns`` is the time, in
    epoch nanoseconds, of the last change of content or metadata. Users cannot set it; it is 0 if
    the store does not give it. ``real_path`` is the path without links. It is empty if the store
    has no links, or if the status does not come from ``FileStore.entries``.
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
        """Return the last change in epoch ms UTC, rounded up so that no file seems older."""
        return -(-self.modified_ns // _NS_PER_MS)

    @property
    def version(self) -> str:
        """Return a text that distinguishes the content from earlier content."""
        return f"{self.size}-{self.modified_ns}"


class FileStore(ABC):
    """Reads files by absolute paths with slashes; raises OSError or errors of dil.errors.

    In messages and lists, paths begin with ``prefix``: the scheme and host of the job's URI, or
    nothing if the URI has neither.
    """

    prefix: str = ""

    def shown(self, path: str) -> str:
        """Return the full name of a file in the form of the job's URI."""
        return f"{self.prefix}{path}"

    @abstractmethod
    def status(self, path: str) -> FileStatus:
        """Return the state of a file or folder.

        Raises:
            FileNotFoundError: the path does not exist.
        """

    @abstractmethod
    def entries(self, path: str) -> list[FileStatus]:
        """Return the files and folders directly in a folder; hidden entries may be left out."""

    @abstractmethod
    def open(self, path: str, position: int) -> FileStream:
        """Return a stream over a file from a position on, in bytes."""

    def close(self) -> None:  # noqa: B027 - some stores hold nothing open
        """Release connections."""


def files_below(store: FileStore, path: str) -> Iterator[FileStatus]:
    """Yield the file at a path, or all files below the folder, in the order of their paths.

    Names that begin with a dot or an underscore are skipped, except the path itself. Only one
    folder of each level is in memory.

    Raises:
        SourceError: the path does not exist, or links form a circle.
        TransientSourceError: a folder vanished meanwhile.
        AuthenticationError: the user may not read a file or folder.
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
    # The paths of a folder's files begin with "name/", so sorting by that gives the order of paths.
    for each in sorted(found, key=lambda each: f"{each.name}/" if each.is_folder else each.name):
        if each.is_folder:
            yield from _below(store, each, above)
        else:
            yield each


def each_once(store: FileStore, files: Iterable[FileStatus]) -> Iterator[FileStatus]:
    """Yield the files; raise if links show a file under two paths. Hard links count as two files.

    Raises:
        SourceContractError: links show a file twice, so its rows would be read twice.
    """
    seen: dict[str, str] = {}
    for each in files:
        first = seen.setdefault(each.real_path, each.path) if each.real_path else each.path
        if first != each.path:
            raise SourceContractError(
                f"{store.shown(each.path)}: it is the same file as {store.shown(first)}, by a link",
                "Exclude one of them by ms.source.files.pattern, because its rows would be read"
                " twice.",
            )
        yield each


class WatchedFile(RemoteFile):
    """One state of a file of a store; it must not change until it is read to its end."""

    def __init__(self, store: FileStore, status: FileStatus) -> None:
        self._store = store
        self._status = status
        self._part: FileStream | None = None
        self.size = status.size
        self.shown = store.shown(status.path)

    def open_at(self, position: int) -> FileStream:
        """Return a stream from a position on; check that the file is unchanged, except at 0."""
        if position:
            self._compare()
        with translated_errors(self.shown, listed=True):
            self._part = _TranslatingStream(
                self._store.open(self._status.path, position), self.shown
            )
        return self._part

    def taken(self, data: bytes) -> None:
        """Do nothing: file systems give no checksum for comparison."""

    def check_end(self) -> None:
        """Check that the file has not changed since it was listed, and has no more bytes.

        A file of HDFS that is still being written has more bytes than its reported size.

        Raises:
            SourceContractError: the file changed.
            TransientSourceError: the file no longer exists.
        """
        if self._part is not None and self._part.read(1):
            raise changed(self.shown, f"it has more than the {self.size} bytes that were listed")
        self._compare()

    def _compare(self) -> None:
        with translated_errors(self.shown, listed=True):
            now = self._store.status(self._status.path)
        if now.size != self.size:
            raise changed(self.shown, f"{self.size} bytes when listed, {now.size} now")
        if now != self._status:
            raise changed(
                self.shown,
                "it was written to; its owner, rights or links were changed; or another file took"
                " its place",
            )


class _TranslatingStream:
    """An open stream whose errors are errors of dil.errors."""

    def __init__(self, part: FileStream, shown: str) -> None:
        self._part = part
        self._shown = shown

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes, empty at the end."""
        with translated_errors(self._shown):
            return self._part.read(size)

    def close(self) -> None:
        """Close the file."""
        self._part.close()


@contextmanager
def translated_errors(shown: str, *, listed: bool = False) -> Iterator[None]:
    """Translate errors of a file system; ``listed`` is true if the file was listed just before."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        if listed:
            raise TransientSourceError(
                f"{_named(error, shown)}: it was there when its folder was listed, and is gone",
                _GONE_FIX,
            ) from None
        fix = _missing_fix(shown)
        raise SourceError(f"{shown}: there is no such file or folder", fix) from None
    except PermissionError as error:
        where = _named(error, shown)
        raise AuthenticationError(f"{where}: permission denied", _RIGHTS_FIX) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise TransientSourceError(
            f"{shown}: {reason}", "Check that the file system can be reached and works."
        ) from error


def _missing_fix(shown: str) -> str:
    """Return the advice for a missing path, also for a path with wildcards."""
    folder, _, name = shown.rpartition("/")
    if not set("*?") & set(name):
        return _MISSING_FIX
    pattern = pattern_of_wildcards(name)
    return (
        f"ms.source.uri takes no wildcards. Set it to the folder, {folder or '/'}, and select"
        f" files by ms.source.files.pattern=.*/{pattern}, which the whole path has to match."
    )


def _named(error: OSError, shown: str) -> str:
    """Return the path that the error names, perhaps one in the requested folder; else ``shown``."""
    return error.filename if isinstance(error.filename, str) else shown
