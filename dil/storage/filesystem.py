"""The one seam to filesystems: what staging, publishing and manifests need, and no more."""

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
    kin leave as WriteError, so that a full disk reads as one. ``parallel_requests`` is how many
    files are worth moving or reading at a time: more than 1 where each call waits for a network.
    """

    parallel_requests: ClassVar[int] = 1

    @abstractmethod
    def open_output(self, path: str) -> BinaryIO:
        """Return a stream that writes a new file, durable once closed."""

    @abstractmethod
    def open_input(self, path: str) -> BinaryIO:
        """Return a stream over a file.

        Raises:
            FileNotFoundError: there is none.
        """

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Write a whole file at once; readers see the old or the new content, never a part."""

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a whole file unless one exists; say whether it was written.

        Of several writers exactly one gets True, and readers see the whole file or none. After
        an error, or when a network lost the reply, the file may be there all the same: a caller
        who must know reads it back.
        """

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Return whether a file or folder is there."""

    @abstractmethod
    def move(self, source: str, target: str, *, mode: int | None = None) -> None:
        """Move a file, never over another; where only the target exists it was moved before.

        ``mode`` are the permission bits of the moved file.

        Raises:
            WriteError: neither exists, or both do.
        """

    @abstractmethod
    def replace(self, source: str, target: str, *, mode: int | None = None) -> None:
        """Move a file, in the place of one that may be there; readers see the one or the other.

        Where ``source`` is gone it was moved before, and nothing changes. ``mode`` are the
        permission bits of the moved file.

        Raises:
            WriteError: neither exists, or the target is a folder.
        """

    @abstractmethod
    def is_folder(self, path: str) -> bool:
        """Return whether a folder is there, or a link to one."""

    @abstractmethod
    def real_path(self, path: str) -> str:
        """Return a path without links in it; what does not exist is taken as it is."""

    def is_link(self, path: str) -> bool:
        """Return whether a path is a link by itself; most stores have none."""
        del path
        return False

    @abstractmethod
    def make_folder(self, path: str, *, mode: int | None = None) -> None:
        """Create a folder and its missing parents, with these permission bits."""

    @abstractmethod
    def set_group(self, path: str, group: str) -> None:
        """Give a file or folder to a group; stores that know none leave it as it is.

        Raises:
            WriteError: the group is unknown, or the user of this process is not in it.
        """

    @abstractmethod
    def delete_file(self, path: str) -> None:
        """Delete a file; a missing one is fine."""

    @abstractmethod
    def delete_tree(self, path: str) -> None:
        """Delete a folder and all below it; a missing one is fine."""

    @abstractmethod
    def delete_empty_folder(self, path: str) -> None:
        """Delete a folder unless something is in it; a missing one is fine."""

    @abstractmethod
    def sync_folders(self, paths: Iterable[str]) -> None:
        """Make the entries of these folders durable, where the store needs that."""

    @abstractmethod
    def folders(self, path: str) -> list[str]:
        """Return the names of the folders directly below, sorted; none for a missing folder."""

    @abstractmethod
    def files(self, path: str) -> Iterator[FileInfo]:
        """Yield every file below, however deep, sorted by path; none for a missing folder."""

    @abstractmethod
    def uri(self, path: str) -> str:
        """Return the absolute URI of a path."""

    @abstractmethod
    def path_of(self, uri: str) -> str:
        """Return the path of a URI that ``uri`` made."""

    @abstractmethod
    def check_path(self, path: str) -> None:
        """Refuse a path that no file can have, such as one that is too long.

        Raises:
            WriteError: nothing was asked or changed.
        """

    def deferring(self) -> Filesystem:
        """Return the same files, those written from now on durable only after ``sync_files``.

        Only worth it where a store waits for each file by itself; others return themselves.
        """
        return self

    def sync_files(self, paths: Iterable[str]) -> None:  # noqa: B027 - most stores are durable
        """Make files durable that were written ``deferring``; not their entries in folders.

        Raises:
            WriteError: one is gone, or the disk refused.
        """

    def options_of(self, path: str) -> Mapping[str, str]:
        """Return what Rust's object_store needs to reach a path as we do.

        The values may be secret, and are good for some minutes.
        """
        del path
        return {}
