"""HDFS as a filesystem; its paths are ``webhdfs://host:port/path``, ``swebhdfs:`` or ``hdfs:``.

A new file gets its name by a rename. The rename replaces another file only if the caller asks for
that. Folders, permissions and moves are real. Links are not followed: HDFS has none.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, cast

from dil.errors import WriteError
from dil.model.job import Blocks
from dil.storage.filesystem import FileInfo, Filesystem
from dil.storage.hdfs.place import (
    NameTakenError,
    NotEmptyError,
    check_name,
    found_place,
    place_of,
)

if TYPE_CHECKING:
    from dil.storage.hdfs.client import FileState, WebHdfs

_READ_AHEAD = 1 << 20
_TRIES = 3


class HdfsFilesystem(Filesystem):
    """Files of HDFS over HTTP, as the user in HADOOP_USER_NAME.

    Picklable: each process makes its own client. ``part_bytes`` is the size of the parts in which a
    large file is sent; ``blocks`` says how the cluster stores the file.
    """

    parallel_requests = 8

    def __init__(self, *, part_bytes: int | None = None, blocks: Blocks | None = None) -> None:
        self._part_bytes = part_bytes
        self._blocks = blocks
        self._made: WebHdfs | None = None
        self._lock = Lock()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without the client."""
        return partial(type(self), part_bytes=self._part_bytes, blocks=self._blocks), ()

    def open_output(self, path: str) -> BinaryIO:
        """Return a stream whose file appears when the stream is closed."""
        from dil.storage.hdfs.writing import PART_BYTES, HdfsFileWriter

        return cast("BinaryIO", HdfsFileWriter(self._client, path, self._part_bytes or PART_BYTES))

    def open_input(self, path: str) -> BinaryIO:
        """Return a buffered stream that reads a file."""
        from dil.storage.hdfs.reading import FileReader

        if found_place(path) is None:
            raise FileNotFoundError(path)
        return io.BufferedReader(FileReader(self._client, path), buffer_size=_READ_AHEAD)

    def put(self, path: str, data: bytes) -> None:
        """Write to a name beside the target, then rename over it."""
        self._put(path, data, over=True)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write beside the target, then rename; return whether this writer was the first."""
        if self.exists(path):
            return False
        try:
            self._put(path, data, over=False)
        except NameTakenError:
            return False
        return True

    def _put(self, path: str, data: bytes, *, over: bool) -> None:
        from dil.storage.hdfs.writing import discard, give_name, write_hidden

        temporary, state = write_hidden(self._client, path, data)
        try:
            give_name(self._client, temporary, path, state, over=over)
        except BaseException:
            discard(self._client, temporary)
            raise

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        return self._state(path) is not None

    def move(self, source: str, target: str, *, mode: int | None = None) -> None:
        """Rename, never over another file."""
        try:
            self._rename(source, target, mode, over=False)
        except NameTakenError:
            raise WriteError(
                f"{target} exists already and is not {source}",
                "Another program wrote into the dataset; move that file away, then run again.",
            ) from None

    def replace(self, source: str, target: str, *, mode: int | None = None) -> None:
        """Rename the source over the target; the target is a file or does not exist."""
        if self.is_folder(target):
            raise WriteError(f"{target} is a folder", "Move it away, then run again.")
        try:
            self._rename(source, target, mode, over=True)
        except NameTakenError:
            raise WriteError(f"{target} blocks the name", "Move it away, then run again.") from None

    def is_folder(self, path: str) -> bool:
        """Return whether a folder exists."""
        state = self._state(path)
        return state is not None and state.is_folder

    def real_path(self, path: str) -> str:
        """Return the path unchanged: HDFS has no links."""
        return path

    def make_folder(self, path: str, *, mode: int | None = None) -> None:
        """Create the missing folders of a path; existing folders keep their permissions."""
        missing, place = [], place_of(path)
        folder = place.path
        while folder not in {"", "/"} and not self.is_folder(place.beside(folder)):
            missing.append(place.beside(folder))
            folder = folder.rpartition("/")[0]
        if not missing:
            return
        self._client.make_folder(path)
        for each in missing if mode is not None else ():
            self._client.set_mode(each, mode or 0)

    def set_group(self, path: str, group: str) -> None:
        """Give a file or folder to a group; the user must be in the group or be a superuser."""
        self._client.set_group(path, group)

    def delete_file(self, path: str) -> None:
        """Delete a file, if it exists."""
        try:
            self._client.delete(path)
        except NotEmptyError:
            raise WriteError(f"{path} is a folder", "Move it away, then run again.") from None

    def delete_tree(self, path: str) -> None:
        """Delete a folder and all files below it, if it exists."""
        self._client.delete(path, recursive=True)

    def delete_empty_folder(self, path: str) -> None:
        """Delete a folder if it exists and is empty."""
        if self.is_folder(path):  # a file would be deleted, too
            try:
                self._client.delete(path)
            except NotEmptyError:
                return

    def sync_folders(self, paths: Iterable[str]) -> None:
        """Do nothing: the name node logs an operation before it answers."""

    def folders(self, path: str) -> list[str]:
        """Return the sorted names of the folders directly below."""
        if found_place(path) is None:
            return []
        return sorted(each.name for each in self._client.listed(path) if each.is_folder)

    def files(self, path: str) -> Iterator[FileInfo]:
        """Yield every file below a folder, sorted by path; one folder per level is in memory."""
        if found_place(path) is None:
            return
        folder, entries = path.rstrip("/"), list(self._client.listed(path))
        # A folder is sorted as "name/", so the files come in the order of their whole paths.
        for each in sorted(entries, key=lambda each: each.name + "/" * each.is_folder):
            if each.is_folder:
                yield from self.files(f"{folder}/{each.name}")
            else:
                yield FileInfo(f"{folder}/{each.name}", each.size, each.modified)

    def uri(self, path: str) -> str:
        """Return the path unchanged: Hadoop's programs take it without escapes."""
        return path

    def path_of(self, uri: str) -> str:
        """Return the URI unchanged: it is the path."""
        return uri

    def check_path(self, path: str) -> None:
        """Raise if HDFS does not allow the path, for example because it is too long."""
        check_name(path)

    @property
    def _client(self) -> WebHdfs:
        from dil.storage.hdfs.client import WebHdfs

        with self._lock:
            if self._made is None:
                self._made = WebHdfs(self._blocks)
            return self._made

    def _state(self, path: str) -> FileState | None:
        return None if found_place(path) is None else self._client.state(path)

    def _rename(self, source: str, target: str, mode: int | None, *, over: bool) -> None:
        """Rename a file; if the old name no longer exists, another driver or request renamed it.

        Raises:
            NameTakenError: the target exists already.
            WriteError: neither source nor target exists, or HDFS refuses the rename.
        """
        for _ in range(_TRIES):
            try:
                if mode is not None:
                    self._client.set_mode(source, mode)
                self._client.rename(source, target, over=over)
            except FileNotFoundError:
                if not self.exists(source):
                    break
                self.make_folder(target.rpartition("/")[0])  # The target's folder is missing.
            else:
                return
        else:
            raise WriteError(
                f"{target}: its folder was deleted repeatedly",
                "Find out which program deletes it, then run again.",
            )
        if not self.exists(target):
            raise WriteError(
                f"{source} no longer exists, and {target} does not exist either",
                "Restore the file from a copy, or run dil runs finish JOB.conf --without-lost.",
            )
