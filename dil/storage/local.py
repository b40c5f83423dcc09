"""Files of this machine, or of a mount that all machines of the cluster share."""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from dil.errors import WriteError
from dil.storage.filesystem import FileInfo, Filesystem
from dil.storage.side_by_side import call_each

_MOST_BYTES = 255
_MOST_PATH_BYTES = 4095
# Who lists or deletes a tree goes down it folder by folder, and accepts no more levels than that.
_MOST_LEVELS = 400
# Zero, and halves of surrogate pairs, which have no bytes.
_UNUSABLE = re.compile("[\0\ud800-\udfff]")
# Of work units by the thousand most are: their URI is their path.
_PLAIN_PATH = re.compile(r"(?:/(?!\.(?:/|\Z))[A-Za-z0-9_.~-]+)+")
_PLAIN_URI = re.compile(rf"file://({_PLAIN_PATH.pattern})")
_NAMES = "Choose another ms.extractor.target.file.name or data.publisher.final.dir."
# Folders of what is for the job's user alone (dil.publishing.layout).
_PRIVATE = frozenset({"_staging", "_audit", "_failed"})
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
_ANY_FILE, _ANY_FOLDER = 0o666, 0o777
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})


def _umask() -> int:
    """Return the process's umask, which can only be asked for by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


_UMASK = _umask()


class LocalFilesystem(Filesystem):
    """The operating system's files; durable through fsync of files and folders.

    What is for the job's user alone has the mode 600, its folders 700: staging, where session keys
    are, and records of requests with their answers. With ``is_private`` that is everything. A file
    that is moved out of staging gets the mode that the umask leaves, unless another is given.
    """

    _is_all_private = False

    def __init__(self, *, is_private: bool = False) -> None:
        self._is_all_private = is_private

    def open_output(self, path: str) -> BinaryIO:
        """Return a stream that is fsynced when it is closed."""
        mode = _PRIVATE_FILE if self._is_private(path) else _ANY_FILE
        with _as_write_error(path):
            try:
                file = _SyncedFile(path, mode)
            except FileNotFoundError:
                self._make_parent(Path(path))
                file = _SyncedFile(path, mode)
            return io.BufferedWriter(file, buffer_size=1 << 20)

    def open_input(self, path: str) -> BinaryIO:
        """Return a buffered stream over a file."""
        return Path(path).open("rb")

    def put(self, path: str, data: bytes) -> None:
        """Write beside the target, then rename over it."""
        with _as_write_error(path):
            temporary = self._write_beside(path, data)
            try:
                temporary.replace(path)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
            self.sync_folders([str(temporary.parent)])

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write beside the target, then link: O_EXCL alone would expose half-written files."""
        with _as_write_error(path):
            temporary = self._write_beside(path, data)
            try:
                Path(path).hardlink_to(temporary)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno in _NO_LINKS:
                    raise WriteError(
                        f"{temporary.parent} lies on a file system without hard links",
                        "Choose another one: without them two writers cannot be kept apart.",
                    ) from error
                raise
            else:
                self.sync_folders([str(temporary.parent)])
                return True
            finally:
                temporary.unlink(missing_ok=True)

    def exists(self, path: str) -> bool:
        """Return whether a file or folder is there."""
        return Path(path).exists()

    def move(self, source: str, target: str, *, mode: int | None = None) -> None:
        """Link to the target, then drop the source: unlike rename, never over a file."""
        with _as_write_error(target):
            with suppress(FileNotFoundError):
                self._open_up(source, target, mode)
            try:
                os.link(source, target)
            except FileNotFoundError:
                if not Path(target).exists():
                    raise
                return
            except FileExistsError:
                if not Path(source).samefile(target):
                    raise WriteError(
                        f"{target} exists already and is not {source}",
                        "Another program wrote into the dataset; move it away, then run again.",
                    ) from None
            except OSError as error:
                # Linux lets no user link another user's file; renaming it is allowed.
                if error.errno not in _NO_LINKS or Path(target).exists():
                    raise
                Path(source).rename(target)
                return
            os.unlink(source)

    def replace(self, source: str, target: str, *, mode: int | None = None) -> None:
        """Rename over the target; unlike ``move``, which never does."""
        with _as_write_error(target):
            try:
                self._open_up(source, target, mode)
                Path(source).replace(target)
            except FileNotFoundError:
                if not Path(target).is_file():
                    raise

    def is_folder(self, path: str) -> bool:
        """Return whether a folder is there, or a link to one."""
        return Path(path).is_dir()

    def real_path(self, path: str) -> str:
        """Return a path without links in it; what does not exist is taken as it is."""
        with _as_write_error(path):
            return os.path.realpath(path)

    def is_link(self, path: str) -> bool:
        """Return whether a path is a link by itself; False for what does not exist."""
        return os.path.islink(path)

    def make_folder(self, path: str, *, mode: int | None = None) -> None:
        """Create what is missing of a path; existing folders keep their permissions."""
        with _as_write_error(path):
            missing = [
                folder for folder in (Path(path), *Path(path).parents) if not folder.exists()
            ]
            for folder in reversed(missing):
                is_private = mode is None and self._is_private(f"{folder}/")
                folder.mkdir(_PRIVATE_FOLDER if is_private else _ANY_FOLDER, exist_ok=True)
            if not Path(path).is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            for folder in missing:
                if mode is not None:
                    folder.chmod(mode)
            self.sync_folders(str(folder.parent) for folder in missing)

    def set_group(self, path: str, group: str) -> None:
        """Give a file or folder to a group of this machine."""
        try:
            with _as_write_error(path):
                shutil.chown(path, group=group)
        except LookupError as error:
            raise WriteError(
                f"{path}: {group} is no group here", "Name one that exists."
            ) from error

    def delete_file(self, path: str) -> None:
        """Delete a file; a missing one is fine."""
        with _as_write_error(path):
            Path(path).unlink(missing_ok=True)

    def delete_tree(self, path: str) -> None:
        """Delete a folder and all below it; a missing one is fine."""
        with _as_write_error(path), suppress(FileNotFoundError):
            shutil.rmtree(path)

    def delete_empty_folder(self, path: str) -> None:
        """Delete a folder unless something is in it; a missing one is fine."""
        with suppress(OSError):
            Path(path).rmdir()

    def sync_folders(self, paths: Iterable[str]) -> None:
        """Fsync each folder once."""
        for path in sorted(set(paths)):
            with _as_write_error(path):
                handle = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)

    def deferring(self) -> LocalFilesystem:
        """Return the same files without an fsync for each that is closed."""
        return _DeferringFilesystem(is_private=self._is_all_private)

    def sync_files(self, paths: Iterable[str]) -> None:
        """Fsync files, some at a time: the journal takes those together that wait together."""
        call_each(_Disk(), _sync_file, paths)

    def folders(self, path: str) -> list[str]:
        """Return the names of the folders directly below, sorted."""
        with _as_write_error(path), suppress(FileNotFoundError), os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
        return []

    def files(self, path: str) -> Iterator[FileInfo]:
        """Yield every file below, sorted by path."""
        for entry in self._listed(path):
            if entry.is_dir():
                yield from self.files(str(entry))
            elif (status := self._status(entry)) is not None:
                yield FileInfo(str(entry), status.st_size, status.st_mtime_ns // 1_000_000)

    def uri(self, path: str) -> str:
        """Return a ``file:///`` URI."""
        if _PLAIN_PATH.fullmatch(path):
            return f"file://{path}"
        return Path(path).as_uri()

    def path_of(self, uri: str) -> str:
        """Return the path of a ``file:///`` URI.

        Raises:
            WriteError: it is of another store.
        """
        if (plain := _PLAIN_URI.fullmatch(uri)) is not None:
            return plain[1]
        parts = urlsplit(uri)
        if parts.scheme != "file":
            raise WriteError(
                f"{uri} is not on this machine",
                "The job published elsewhere before; set data.publisher.final.dir back for one"
                " run.",
            )
        return unquote(parts.path)

    def check_path(self, path: str) -> None:
        """Refuse paths, and parts of them, that are longer than Linux takes, or that none can be.

        Folders may lie in each other to a depth that all who walk through them stand.
        """
        parts = path.split("/")
        if _UNUSABLE.search(path):
            raise WriteError(f"{path[:200]!r} has characters that no path can have", _NAMES)
        if len(parts) > _MOST_LEVELS:
            raise WriteError(
                f"{path[:200]}...: {len(parts) - 1:,} folders in each other, where {_MOST_LEVELS}"
                " are the most",
                _NAMES,
            )
        is_long = any(len(part.encode()) > _MOST_BYTES for part in parts)
        if is_long or len(path.encode()) > _MOST_PATH_BYTES:
            raise WriteError(
                f"{path[:200]}...: paths have {_MOST_PATH_BYTES:,} bytes at most, and their parts"
                f" {_MOST_BYTES}",
                "Choose a shorter name, another data.publisher.final.dir, or fewer columns for"
                " ms.table.partition.fields.",
            )

    @staticmethod
    def _listed(path: str) -> list[Path]:
        with _as_write_error(path), suppress(FileNotFoundError):
            return sorted(Path(path).iterdir())
        return []

    @staticmethod
    def _status(entry: Path) -> os.stat_result | None:
        """Return a file's status, None when another driver took it away since it was listed."""
        with _as_write_error(str(entry)), suppress(FileNotFoundError):
            return entry.stat()
        return None

    def _write_beside(self, path: str, data: bytes) -> Path:
        target = Path(path)
        self._make_parent(target)
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
        try:
            mode = _PRIVATE_FILE if self._is_private(path) else _ANY_FILE
            with io.BufferedWriter(_SyncedFile(str(temporary), mode)) as stream:
                stream.write(data)
        except OSError:
            # A part of it would take the room that may be what is missing.
            temporary.unlink(missing_ok=True)
            raise
        return temporary

    def _is_private(self, path: str) -> bool:
        return self._is_all_private or not _PRIVATE.isdisjoint(path.split("/")[:-1])

    def _open_up(self, source: str, target: str, mode: int | None) -> None:
        """Give a file the mode that it is to have under its new name."""
        if mode is None and self._is_private(source) and not self._is_private(target):
            mode = _ANY_FILE & ~_UMASK
        if mode is not None:
            os.chmod(source, mode)

    def _make_parent(self, path: Path) -> None:
        """Create the folder of a file, such that a power cut takes neither away."""
        if not path.parent.is_dir():
            self.make_folder(str(path.parent))


class _DeferringFilesystem(LocalFilesystem):
    """Writes files that whoever wrote them makes durable later."""

    def open_output(self, path: str) -> BinaryIO:
        """Return a stream that leaves its file to ``sync_files``."""
        mode = _PRIVATE_FILE if self._is_private(path) else _ANY_FILE
        with _as_write_error(path):
            try:
                file = _new_file(path, mode)
            except FileNotFoundError:
                self._make_parent(Path(path))
                file = _new_file(path, mode)
            return io.BufferedWriter(file)


class _Disk:
    """Says how many files are worth an fsync at a time; measured on ext4: a tenth of the time."""

    parallel_requests = 16


def _sync_file(path: str) -> None:
    with _as_write_error(path):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _new_file(path: str, mode: int) -> io.FileIO:
    """Return a new file, open to be written; ``mode`` is what the umask may take from."""
    return io.FileIO(path, "xb", opener=lambda name, flags: os.open(name, flags, mode))


class _SyncedFile(io.FileIO):
    """A new file that is fsynced when it is closed; ``mode`` is what the umask may take from."""

    def __init__(self, path: str, mode: int) -> None:
        super().__init__(path, "xb", opener=lambda name, flags: os.open(name, flags, mode))

    def close(self) -> None:
        if not self.closed:
            os.fsync(self.fileno())
        super().close()


@contextmanager
def _as_write_error(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WriteError(
            f"{error.filename or path}: {error.strerror or error}",
            "Check free space and permissions there, then run again: nothing was lost.",
        ) from error
