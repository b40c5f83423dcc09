"""Chooses the client for a file system."""

from __future__ import annotations

import logging

from connectors.hdfs.place import ARROW_SCHEMES, WEB_SCHEMES, HdfsSourcePath
from connectors.hdfs.store import FileStore
from dil.errors import SourceError
from dil.storage.hdfs.nameservices import HadoopSetupError
from dil.storage.hdfs.place import web_addresses
from dil.storage.hdfs.session import user_here

_LOG = logging.getLogger(__name__)


def open_store(place: HdfsSourcePath, user: str = "") -> FileStore:
    """Return the store of a file system; its client is loaded now.

    HDFS is read by libhdfs if Hadoop's native library and Java are installed, else by WebHDFS.

    Raises:
        SourceError: no client can be made.
    """
    if place.scheme == "file":
        from connectors.hdfs.local_store import LocalStore

        return LocalStore()
    if place.scheme in ARROW_SCHEMES:
        from connectors.hdfs.arrow_store import store_of_uri

        return store_of_uri(place.scheme, place.authority, place.prefix)
    if place.scheme in WEB_SCHEMES:
        return _by_web(place, user)
    return _hadoop(place, user)


def _hadoop(place: HdfsSourcePath, user: str) -> FileStore:
    from connectors.hdfs.arrow_store import hadoop_store

    host, port = _host_and_port(place.authority)
    scheme = "" if place.scheme == "hdfs" else f"{place.scheme}://"
    try:
        found = hadoop_store(f"{scheme}{host}" if host else "default", port, user, place.prefix)
    except OSError as error:
        raise SourceError(
            f"{place.prefix or place.authority}: libhdfs cannot open it ({type(error).__name__})",
            "Check the address, and Hadoop's configuration (HADOOP_CONF_DIR, CLASSPATH).",
        ) from error
    if found is not None:
        return found
    if place.scheme != "hdfs" or not host:
        raise SourceError(
            f"{place.scheme}://{place.authority}: needs libhdfs, which is not there",
            "Install Hadoop's native client and set HADOOP_HOME, CLASSPATH and"
            " ARROW_LIBHDFS_DIR, or write webhdfs://host:9870/path.",
        )
    _LOG.info("libhdfs is not there: %s is read by WebHDFS", host)
    return _by_web(place, user)


def _by_web(place: HdfsSourcePath, user: str) -> FileStore:
    from connectors.hdfs.webhdfs_store import WebHdfsStore

    try:
        servers = web_addresses(place.scheme, *_host_and_port(place.authority))
        reader = user or user_here()
    except HadoopSetupError as error:
        raise SourceError(error.message, error.fix) from None
    return WebHdfsStore(servers, reader, place.prefix)


def _host_and_port(authority: str) -> tuple[str, int]:
    host, _, port = authority.rpartition(":")
    return (host, int(port)) if host and port.isdigit() else (authority, 0)
