"""Files on this machine, or on a mount that all machines of the cluster share."""

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
# Programs that list or delete a tree descend folder by folder, and support no more levels.
_MOST_LEVELS = 400
# NUL, and halves of surrogate pairs, which have no encoding.
_UNUSABLE = re.compile("[\0\ud800-\udfff]")
# Most paths are of this kind: the URI is ``file://`` and the unchanged path. Recognizing them saves
# time, because a run converts thousands of paths.
_PLAIN_PATH = re.compile(r"(?:/(?!\.(?:/|\Z))[A-Za-z0-9_.~-]+)+")
_PLAIN_URI = re.compile(rf"file://({_PLAIN_PATH.pattern})")
_NAMES = "Choose another ms.extractor.target.file.name or data.publisher.final.dir."
# Folders that only the job's user may read (dil.publishing.layout).
_PRIVATE = frozenset({"_staging", "_audit", "_failed"})
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
_ANY_FILE, _ANY_FOLDER = 0o666, 0o777
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})


# The umask of the process: the only way to read it is to set it.
_UMASK = os.umask(0o077)
os.umask(_UMASK)


class LocalFilesystem(Filesystem):
    """The operating system's files; durable through fsync of files and folders.

    Only the job's user may read staging (it has session keys) and records of requests with their
    answers: these files have the mode 600, their folders 700. If ``is_private`` is true, all files
    and folders have these modes. A file that is moved out of staging gets the mode that the umask
    allows, unless another mode is given.
    """

    _is_all_private = False

    def __init__(self, *, is_private: bool = False) -> None:
        self._is_all_private = is_private

    def open_output(self, path: str) -> BinaryIO:
        """Return a stream that writes a new file and syncs it when closed."""
        return io.BufferedWriter(self._created(path, _SyncedFile), buffer_size=1 << 20)

    def open_input(self, path: str) -> BinaryIO:
        """Return a buffered stream that reads a file."""
        return Path(path).open("rb")

    def put(self, path: str, data: bytes) -> None:
        """Write to a name beside the target, then rename over it."""
        with _as_write_error(path):
            temporary = self._write_beside(path, data)
            try:
                temporary.replace(path)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
            self.sync_folders([str(temporary.parent)])

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file beside the target, then link it: O_EXCL alone would show a partial file."""
        with _as_write_error(path):
            temporary = self._write_beside(path, data)
            try:
                Path(path).hardlink_to(temporary)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno in _NO_LINKS:
                    raise WriteError(
                        f"{temporary.parent} is on a file system without hard links",
                        "Choose another file system: on this one two writers could overwrite each"
                        " other.",
                    ) from error
                raise
            else:
                self.sync_folders([str(temporary.parent)])
                return True
            finally:
                temporary.unlink(missing_ok=True)

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        return Path(path).exists()

    def move(self, source: str, target: str, *, mode: int | None = None) -> None:
        """Link to the target, then delete the source: unlike a rename, it never replaces a file."""
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
                        "Another program wrote into the dataset; move that file away, then run"
                        " again.",
                    ) from None
            except OSError as error:
                # Linux does not let a user link another user's file, but lets the user rename it.
                if error.errno not in _NO_LINKS or Path(target).exists():
                    raise
                Path(source).rename(target)
                return
            os.unlink(source)

    def replace(self, source: str, target: str, *, mode: int | None = None) -> None:
        """Rename the source over the target, unlike ``move``."""
        with _as_write_error(target):
            try:
                self._open_up(source, target, mode)
                Path(source).replace(target)
            except FileNotFoundError:
                if not Path(target).is_file():
                    raise

    def is_folder(self, path: str) -> bool:
        """Return whether a folder, or a link to one, exists."""
        return Path(path).is_dir()

    def real_path(self, path: str) -> str:
        """Return a path with all links resolved; parts that do not exist stay unchanged."""
        with _as_write_error(path):
            return os.path.realpath(path)

    def is_link(self, path: str) -> bool:
        """Return whether a path itself is a link; False if it does not exist."""
        return os.path.islink(path)

    def make_folder(self, path: str, *, mode: int | None = None) -> None:
        """Create the missing folders of a path; existing folders keep their permissions."""
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
                f"{path}: the group {group} does not exist on this machine",
                "Set a group that exists.",
            ) from error

    def delete_file(self, path: str) -> None:
        """Delete a file, if it exists."""
        with _as_write_error(path):
            Path(path).unlink(missing_ok=True)

    def delete_tree(self, path: str) -> None:
        """Delete a folder and all files below it, if it exists."""
        with _as_write_error(path), suppress(FileNotFoundError):
            shutil.rmtree(path)

    def delete_empty_folder(self, path: str) -> None:
        """Delete a folder if it exists and is empty."""
        with suppress(OSError):
            Path(path).rmdir()

    def sync_folders(self, paths: Iterable[str]) -> None:
        """Fsync each folder once."""
        for path in sorted(set(paths)):
            _sync(path)

    def deferring(self) -> LocalFilesystem:
        """Return a filesystem for the same files that does not sync each file when it is closed."""
        return _DeferringFilesystem(is_private=self._is_all_private)

    def sync_files(self, paths: Iterable[str]) -> None:
        """Fsync files in parallel: the journal commits waiting requests together."""
        call_each(_Disk(), _sync, paths)

    def folders(self, path: str) -> list[str]:
        """Return the sorted names of the folders directly below."""
        with _as_write_error(path), suppress(FileNotFoundError), os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
        return []

    def files(self, path: str) -> Iterator[FileInfo]:
        """Yield every file below a folder, sorted by path."""
        entries: list[Path] = []
        with _as_write_error(path), suppress(FileNotFoundError):
            entries = sorted(Path(path).iterdir())
        for entry in entries:
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
            WriteError: the URI belongs to another store.
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
        """Raise if a path or a part is longer than Linux allows, or has forbidden characters.

        It also raises if folders are nested so deep that some programs cannot walk through them.
        """
        parts = path.split("/")
        if _UNUSABLE.search(path):
            raise WriteError(f"{path[:200]!r} has characters that no path can have", _NAMES)
        if len(parts) > _MOST_LEVELS:
            raise WriteError(
                f"{path[:200]}...: {len(parts) - 1:,} nested folders, but at most {_MOST_LEVELS}"
                " are allowed",
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
    def _status(entry: Path) -> os.stat_result | None:
        """Return a file's status, None if another driver deleted the file after it was listed."""
        with _as_write_error(str(entry)), suppress(FileNotFoundError):
            return entry.stat()
        return None

    def _created(self, path: str, kind: type[_NewFile]) -> _NewFile:
        """Return a new file; its folder is made if it is missing."""
        mode = _PRIVATE_FILE if self._is_private(path) else _ANY_FILE
        with _as_write_error(path):
            try:
                return kind(path, mode)
            except FileNotFoundError:
                self._make_parent(Path(path))
                return kind(path, mode)

    def _write_beside(self, path: str, data: bytes) -> Path:
        target = Path(path)
        self._make_parent(target)
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
        try:
            mode = _PRIVATE_FILE if self._is_private(path) else _ANY_FILE
            with io.BufferedWriter(_SyncedFile(str(temporary), mode)) as stream:
                stream.write(data)
        except OSError:
            # The partial file would occupy space, and a lack of space may be the problem.
            temporary.unlink(missing_ok=True)
            raise
        return temporary

    def _is_private(self, path: str) -> bool:
        return self._is_all_private or not _PRIVATE.isdisjoint(path.split("/")[:-1])

    def _open_up(self, source: str, target: str, mode: int | None) -> None:
        """Give a file the mode that its new name requires."""
        if mode is None and self._is_private(source) and not self._is_private(target):
            mode = _ANY_FILE & ~_UMASK
        if mode is not None:
            os.chmod(source, mode)

    def _make_parent(self, path: Path) -> None:
        """Create a file's folder in such a way that a power cut cannot lose the folder."""
        if not path.parent.is_dir():
            self.make_folder(str(path.parent))


class _DeferringFilesystem(LocalFilesystem):
    """Writes files without syncing them; ``sync_files`` makes them durable later."""

    def open_output(self, path: str) -> BinaryIO:
        """Return a stream that leaves the sync of its file to ``sync_files``."""
        return io.BufferedWriter(self._created(path, _NewFile))


class _Disk:
    """Says how many files to sync at a time; on ext4 this takes a tenth of the time."""

    parallel_requests = 16


def _sync(path: str) -> None:
    """Fsync a file or a folder."""
    with _as_write_error(path):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class _NewFile(io.FileIO):
    """A new file, open for writing; the umask reduces ``mode``."""

    def __init__(self, path: str, mode: int) -> None:
        super().__init__(path, "xb", opener=lambda name, flags: os.open(name, flags, mode))


class _SyncedFile(_NewFile):
    """A new file that is synced when it is closed."""

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
