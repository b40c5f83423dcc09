"""Files of this machine, including mounted file systems."""

from __future__ import annotations

import os
import stat
from io import FileIO

from connectors.files.body import FileStream
from connectors.hdfs.store import HIDDEN, FileStatus, FileStore


class LocalStore(FileStore):
    """The operating system's files; links are followed."""

    def status(self, path: str) -> FileStatus:
        """Return the state of a file or folder."""
        return _status(path, os.stat(path), "")

    def entries(self, path: str) -> list[FileStatus]:
        """Return the files and folders in a folder, without pipes, sockets and devices."""
        folder = os.path.realpath(path).rstrip("/")
        with os.scandir(path) as found:
            # Hidden entries are skipped before ``stat``: an editor's lock is a link to nothing.
            wanted = [entry for entry in found if not entry.name.startswith(HIDDEN)]
            states = [(entry, entry.stat()) for entry in wanted]
        return [
            _status(
                entry.path,
                state,
                os.path.realpath(entry.path) if entry.is_symlink() else f"{folder}/{entry.name}",
            )
            for entry, state in states
            if stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)
        ]

    def open(self, path: str, position: int) -> FileStream:
        """Return a stream over a file from a position on, in bytes."""
        file = FileIO(path)
        if position:
            file.seek(position)
        return file


def _status(path: str, state: os.stat_result, real_path: str) -> FileStatus:
    return FileStatus(
        path,
        stat.S_ISDIR(state.st_mode),
        state.st_size,
        state.st_mtime_ns,
        f"{state.st_dev}:{state.st_ino}",
        state.st_ctime_ns,
        real_path,
    )
