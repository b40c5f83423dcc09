"""Reads HDFS by libhdfs, and the other file systems for which Arrow has a client."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import fs

from connectors.files.body import FileStream
from connectors.hdfs.store import FileStatus, FileStore
from dil.errors import SourceError


class ArrowStore(FileStore):
    """One of Arrow's file systems; it puts ``root`` before each path that a caller gives."""

    def __init__(self, filesystem: fs.FileSystem, prefix: str, root: str = "") -> None:
        self._filesystem = filesystem
        self._root = root
        self.prefix = prefix

    def status(self, path: str) -> FileStatus:
        """Return the state of a file or folder."""
        found = self._filesystem.get_file_info(f"{self._root}{path}")
        if found.type == fs.FileType.NotFound:
            raise FileNotFoundError(path)
        return self._status(found)

    def entries(self, path: str) -> list[FileStatus]:
        """Return the files and folders in a folder."""
        found = self._filesystem.get_file_info(fs.FileSelector(f"{self._root}{path}"))
        kinds = (fs.FileType.File, fs.FileType.Directory)
        return [self._status(each) for each in found if each.type in kinds]

    def open(self, path: str, position: int) -> FileStream:
        """Return a stream over a file from a position on, in bytes."""
        # "No compression", because Arrow would unpack a file whose name shows a compression.
        if not position:
            whole: FileStream = self._filesystem.open_input_stream(
                f"{self._root}{path}", compression=None
            )
            return whole
        file = self._filesystem.open_input_file(f"{self._root}{path}")
        file.seek(position)
        rest: FileStream = file
        return rest

    def _status(self, found: Any) -> FileStatus:  # pyarrow ships no types
        return FileStatus(
            found.path.removeprefix(self._root) or "/",
            found.type == fs.FileType.Directory,
            found.size or 0,
            found.mtime_ns or 0,
        )


def hadoop_store(host: str, port: int, user: str, prefix: str) -> ArrowStore | None:
    """Return a store that reads HDFS by libhdfs, None if the library or Java is not installed."""
    try:
        found = fs.HadoopFileSystem(host, port, user=user or None)
    except OSError as error:
        if "load lib" in str(error):  # libhdfs or libjvm is missing, now or in an earlier try
            return None
        raise
    return ArrowStore(found, prefix)


def store_of_uri(scheme: str, authority: str, prefix: str) -> ArrowStore:
    """Return a store on Arrow's file system for a scheme such as gs or abfss.

    Raises:
        SourceError: Arrow has no such file system, or cannot open it.
    """
    uri = f"{scheme}://{authority}/"
    try:
        found, root = fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            f"{uri}: Arrow cannot open this file system ({type(error).__name__})",
            "Check the address, and the credentials that Arrow takes from the environment.",
        ) from error
    return ArrowStore(found, prefix, root.rstrip("/"))
