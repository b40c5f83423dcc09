"""The only interface to filesystems, for staging, publishing and manifests.

``Folder`` is a filesystem and the path of a folder in it, in one value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, ClassVar


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file below a folder; ``modified`` is epoch milliseconds UTC."""

    path: str
    size: int
    modified: int


class Filesystem(ABC):
    """Files of one store, named by absolute paths. Safe to use from several threads.

    Every write is durable when the call returns. Missing folders are created. OSError and its
    subclasses are raised as WriteError, so that a full disk is reported as such.
    ``parallel_requests`` is the useful number of files to move or read at a time: more than 1 if
    each call waits for a network.
    """

    parallel_requests: ClassVar[int] = 1

    @abstractmethod
    def open_output(self, path: str) -> BinaryIO:
        """Return a stream that writes a new file; closing the stream makes the file durable."""

    @abstractmethod
    def open_input(self, path: str) -> BinaryIO:
        """Return a stream that reads a file.

        Raises:
            FileNotFoundError: the file does not exist.
        """

    def content(self, path: str) -> bytes | None:
        """Return the content of a small file, None if it does not exist."""
        try:
            with self.open_input(path) as stream:
                return stream.read()
        except FileNotFoundError:
            return None

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Write a whole file at once; readers see the old or the new content, never a mix."""

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a whole file unless one exists; return whether it was written.

        If several writers call this, exactly one gets True, and readers see the whole file or none.
        After an error, or if a network lost the reply, the file may exist all the same. A caller
        that must know whether it exists reads the file back.
        """

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""

    @abstractmethod
    def move(self, source: str, target: str, *, mode: int | None = None) -> None:
        """Move a file, never over another; if only the target exists, the file was moved before.

        ``mode`` are the permission bits that the moved file gets.

        Raises:
            WriteError: neither file exists, or both exist.
        """

    @abstractmethod
    def replace(self, source: str, target: str, *, mode: int | None = None) -> None:
        """Move a file over any file at the target; readers see the old or the new file.

        If only the target exists, the file was moved before, and nothing changes. ``mode`` are the
        permission bits that the moved file gets.

        Raises:
            WriteError: neither file exists, or the target is a folder.
        """

    @abstractmethod
    def is_folder(self, path: str) -> bool:
        """Return whether a folder, or a link to one, exists."""

    @abstractmethod
    def real_path(self, path: str) -> str:
        """Return a path with all links resolved; parts that do not exist stay unchanged."""

    def is_link(self, path: str) -> bool:
        """Return whether a path itself is a link; most stores have no links."""
        del path
        return False

    @abstractmethod
    def make_folder(self, path: str, *, mode: int | None = None) -> None:
        """Create a folder with these permission bits, and its missing parents."""

    @abstractmethod
    def set_group(self, path: str, group: str) -> None:
        """Give a file or folder to a group; has no effect in a store without groups.

        Raises:
            WriteError: the group is unknown, or the user of this process is not in it.
        """

    @abstractmethod
    def delete_file(self, path: str) -> None:
        """Delete a file, if it exists."""

    @abstractmethod
    def delete_tree(self, path: str) -> None:
        """Delete a folder and all files below it, if it exists."""

    @abstractmethod
    def delete_empty_folder(self, path: str) -> None:
        """Delete a folder if it exists and is empty."""

    @abstractmethod
    def sync_folders(self, paths: Iterable[str]) -> None:
        """Make the entries of these folders durable, if the store needs that."""

    @abstractmethod
    def folders(self, path: str) -> list[str]:
        """Return the sorted names of a folder's direct subfolders; empty if there is no folder."""

    @abstractmethod
    def files(self, path: str) -> Iterator[FileInfo]:
        """Yield every file below a folder, at any depth, sorted by path.

        If the folder does not exist, no file is yielded.
        """

    @abstractmethod
    def uri(self, path: str) -> str:
        """Return the absolute URI of a path."""

    @abstractmethod
    def path_of(self, uri: str) -> str:
        """Return the path of a URI that ``uri`` made."""

    @abstractmethod
    def check_path(self, path: str) -> None:
        """Raise if no file can have the path, for example because it is too long.

        Raises:
            WriteError: the path is refused; no request was sent.
        """

    def deferring(self) -> Filesystem:
        """Return a filesystem for the same files; ``sync_files`` makes its new files durable.

        This helps only if a store waits for each file separately; other stores return themselves.
        """
        return self

    def sync_files(self, paths: Iterable[str]) -> None:  # noqa: B027 - most stores are durable
        """Make the files of a ``deferring`` filesystem durable, but not their folder entries.

        Raises:
            WriteError: a file no longer exists, or the disk refused to sync.
        """

    def options_of(self, path: str) -> Mapping[str, str]:
        """Return the options with which Rust's object_store reaches a path as DIL does.

        The values may be secret, and are valid for some minutes.
        """
        del path
        return {}


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder by its absolute ``path``, which need not exist yet.

    The names of its files begin with ``prefix``: each user of a shared folder has its own prefix.
    """

    filesystem: Filesystem
    path: str
    prefix: str = ""

    def file(self, name: str) -> str:
        """Return the path of a file directly below the folder."""
        return f"{self.path.rstrip('/')}/{self.prefix}{name}"

    @property
    def parent(self) -> str:
        """Return the path of the folder that contains this one."""
        return self.path.rstrip("/").rpartition("/")[0]
