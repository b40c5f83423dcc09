"""HDFS as a filesystem; its paths are ``webhdfs://host:port/path``, ``swebhdfs:`` or ``hdfs:``.

What is written gets its name by a rename, which never takes the place of another file unless the
caller asks for it. Folders, permissions and moves are real ones. Links are not followed: HDFS has
none.
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
from dil.storage.hdfs.place import check_name, found_place, place_of

if TYPE_CHECKING:
    from dil.storage.hdfs.client import FileState, WebHdfs

_READ_AHEAD = 1 << 20
_TRIES = 3


class HdfsFilesystem(Filesystem):
    """Files of HDFS over HTTP, as the user that HADOOP_USER_NAME names.

    Picklable: each process has a client of its own. ``part_bytes`` is how much of a file that is
    written is kept in memory, ``blocks`` how the cluster is to keep it.
    """

    parallel_requests = 8

    def __init__(self, *, part_bytes: int | None = None, blocks: Blocks | None = None) -> None:
        self._part_bytes = part_bytes
        self._blocks = blocks
        self._made: WebHdfs | None = None
        self._lock = Lock()

    def __reduce__(self) -> tuple[object, ...]:
        """Leave the client behind."""
        return partial(type(self), part_bytes=self._part_bytes, blocks=self._blocks), ()

    def open_output(self, path: str) -> BinaryIO:
        """Return a stream that becomes a file when it is closed."""
        from dil.storage.hdfs.writing import PART_BYTES, HdfsFileWriter

        return cast("BinaryIO", HdfsFileWriter(self._client, path, self._part_bytes or PART_BYTES))

    def open_input(self, path: str) -> BinaryIO:
        """Return a buffered stream over a file."""
        from dil.storage.hdfs.reading import FileReader

        if found_place(path) is None:
            raise FileNotFoundError(path)
        return io.BufferedReader(FileReader(self._client, path), buffer_size=_READ_AHEAD)

    def put(self, path: str, data: bytes) -> None:
        """Write beside the target, then rename over it."""
        from dil.storage.hdfs.writing import discard, give_name, write_hidden

        temporary, state = write_hidden(self._client, path, data)
        try:
            give_name(self._client, temporary, path, state, over=True)
        except BaseException:
            discard(self._client, temporary)
            raise

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write beside the target, then rename, which of several writers one can do."""
        from dil.storage.hdfs.failures import NameTakenError
        from dil.storage.hdfs.writing import discard, give_name, write_hidden

        if self.exists(path):
            return False
        temporary, state = write_hidden(self._client, path, data)
        try:
            give_name(self._client, temporary, path, state)
        except NameTakenError:
            discard(self._client, temporary)
            return False
        except BaseException:
            discard(self._client, temporary)
            raise
        return True

    def exists(self, path: str) -> bool:
        """Return whether a file or folder is there."""
        return self._state(path) is not None

    def move(self, source: str, target: str, *, mode: int | None = None) -> None:
        """Rename, never over another file."""
        from dil.storage.hdfs.failures import NameTakenError

        try:
            self._rename(source, target, mode, over=False)
        except NameTakenError:
            raise WriteError(
                f"{target} exists already and is not {source}",
                "Another program wrote into the dataset; move it away, then run again.",
            ) from None

    def replace(self, source: str, target: str, *, mode: int | None = None) -> None:
        """Rename over the target, which is a file or is not there."""
        from dil.storage.hdfs.failures import NameTakenError

        if self.is_folder(target):
            raise WriteError(f"{target} is a folder", "Move it away, then run again.")
        try:
            self._rename(source, target, mode, over=True)
        except NameTakenError:
            raise WriteError(f"{target} is in the way", "Move it away, then run again.") from None

    def is_folder(self, path: str) -> bool:
        """Return whether a folder is there."""
        state = self._state(path)
        return state is not None and state.is_folder

    def real_path(self, path: str) -> str:
        """Return the path as it is: there are no links."""
        return path

    def make_folder(self, path: str, *, mode: int | None = None) -> None:
        """Create what is missing of a path; existing folders keep their permissions."""
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
        """Give a file or folder to a group, which the user is in or the superuser gives."""
        self._client.set_group(path, group)

    def delete_file(self, path: str) -> None:
        """Delete a file; a missing one is fine."""
        from dil.storage.hdfs.failures import NotEmptyError

        try:
            self._client.delete(path)
        except NotEmptyError:
            raise WriteError(f"{path} is a folder", "Move it away, then run again.") from None

    def delete_tree(self, path: str) -> None:
        """Delete a folder and all below it; a missing one is fine."""
        self._client.delete(path, recursive=True)

    def delete_empty_folder(self, path: str) -> None:
        """Delete a folder unless something is in it; a missing one is fine."""
        from dil.storage.hdfs.failures import NotEmptyError

        if self.is_folder(path):  # a file would go, too
            try:
                self._client.delete(path)
            except NotEmptyError:
                return

    def sync_folders(self, paths: Iterable[str]) -> None:
        """Do nothing: the name node has written what it answered to its log."""

    def folders(self, path: str) -> list[str]:
        """Return the names of the folders directly below, sorted."""
        if found_place(path) is None:
            return []
        return sorted(each.name for each in self._client.listed(path) if each.is_folder)

    def files(self, path: str) -> Iterator[FileInfo]:
        """Yield every file below, sorted by path; one folder of each level is in memory."""
        if found_place(path) is None:
            return
        folder, entries = path.rstrip("/"), list(self._client.listed(path))
        # As a folder's files stand behind "name/", this is the order of whole paths.
        for each in sorted(entries, key=lambda each: each.name + "/" * each.is_folder):
            if each.is_folder:
                yield from self.files(f"{folder}/{each.name}")
            else:
                yield FileInfo(f"{folder}/{each.name}", each.size, each.modified)

    def uri(self, path: str) -> str:
        """Return the path: it is what Hadoop's programs take as well, without any escapes."""
        return path

    def path_of(self, uri: str) -> str:
        """Return the URI: it is the path."""
        return uri

    def check_path(self, path: str) -> None:
        """Refuse paths that are too long, or that HDFS does not know."""
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
        """Rename a file; where its name is gone, another driver or an earlier request did it.

        Raises:
            NameTakenError: the target is there already.
            WriteError: neither is there, or HDFS refuses.
        """
        for _ in range(_TRIES):
            try:
                if mode is not None:
                    self._client.set_mode(source, mode)
                self._client.rename(source, target, over=over)
            except FileNotFoundError:
                if not self.exists(source):
                    break
                self.make_folder(target.rpartition("/")[0])  # as it is that which is missing
            else:
                return
        else:
            raise WriteError(
                f"{target}: its folder vanishes again and again",
                "Find out who deletes it, then run again.",
            )
        if not self.exists(target):
            raise WriteError(
                f"{source} is gone, and {target} is not there either",
                "Restore it from a copy, or let the run be finished without it.",
            )
