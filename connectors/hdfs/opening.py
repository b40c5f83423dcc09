"""Chooses the client for a file system; files of this machine need none."""

from __future__ import annotations

import logging
import os
import stat
from io import FileIO

from connectors.files.body import FileStream
from connectors.hdfs.place import ARROW_SCHEMES, WEB_SCHEMES, HdfsSourcePath
from connectors.hdfs.store import HIDDEN, FileStatus, FileStore
from dil.errors import SourceError
from dil.storage.hdfs.nameservices import HadoopSetupError
from dil.storage.hdfs.place import web_addresses
from dil.storage.hdfs.session import user_here

log = logging.getLogger(__name__)


def open_store(source_path: HdfsSourcePath, user: str = "") -> FileStore:
    """Return the store of a file system, and load its client.

    HDFS is read by libhdfs if Hadoop's native library and Java are installed, else by WebHDFS.

    Raises:
        SourceError: no client can be made.
    """
    if source_path.scheme == "file":
        return LocalStore()
    if source_path.scheme in ARROW_SCHEMES:
        from connectors.hdfs.arrow_store import store_of_uri

        return store_of_uri(source_path.scheme, source_path.authority, source_path.prefix)
    if source_path.scheme in WEB_SCHEMES:
        return _by_web(source_path, user)
    from connectors.hdfs.arrow_store import hadoop_store

    host, port = _host_and_port(source_path.authority)
    scheme = "" if source_path.scheme == "hdfs" else f"{source_path.scheme}://"
    try:
        found = hadoop_store(
            f"{scheme}{host}" if host else "default", port, user, source_path.prefix
        )
    except OSError as error:
        raise SourceError(
            f"{source_path.prefix or source_path.authority}: libhdfs cannot open it"
            f" ({type(error).__name__})",
            "Check the address, and Hadoop's configuration (HADOOP_CONF_DIR, CLASSPATH).",
        ) from error
    if found is not None:
        return found
    if source_path.scheme != "hdfs" or not host:
        raise SourceError(
            f"{source_path.scheme}://{source_path.authority}: needs libhdfs, which is not there",
            "Install Hadoop's native client and set HADOOP_HOME, CLASSPATH and"
            " ARROW_LIBHDFS_DIR, or write webhdfs://host:9870/path.",
        )
    log.info("libhdfs is not there: %s is read by WebHDFS", host)
    return _by_web(source_path, user)


def _by_web(source_path: HdfsSourcePath, user: str) -> FileStore:
    from connectors.hdfs.webhdfs_store import WebHdfsStore

    try:
        servers = web_addresses(source_path.scheme, *_host_and_port(source_path.authority))
        reader = user or user_here()
    except HadoopSetupError as error:
        raise SourceError(error.message, error.fix) from None
    return WebHdfsStore(servers, reader, source_path.prefix)


def _host_and_port(authority: str) -> tuple[str, int]:
    host, _, port = authority.rpartition(":")
    return (host, int(port)) if host and port.isdigit() else (authority, 0)


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
