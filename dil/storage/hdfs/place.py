"""Reads paths of HDFS, such as ``webhdfs://host:port/path``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dil.errors import WriteError
from dil.storage.hdfs.nameservices import HadoopSetupError, name_nodes

# The default ports. Source: hdfs-default.xml of Hadoop 3 (dfs.namenode.rpc-address, .http-address,
# .https-address).
DEFAULT_PORTS = {"hdfs": 8020, "webhdfs": 9870, "swebhdfs": 9871}
_PATH = re.compile(
    r"(?P<prefix>(?P<scheme>hdfs|webhdfs|swebhdfs)://(?P<host>[^/:\[\]@]+|\[[^\]/]+\])"
    r"(?::(?P<port>\d+))?)(?P<path>/.*)?",
    re.DOTALL,
)
# Source: hdfs-default.xml (dfs.namenode.fs-limits.max-component-length), HdfsConstants
# (MAX_PATH_LENGTH, MAX_PATH_DEPTH), DFSUtilClient.isValidName.
_MOST_BYTES = 255
_MOST_CHARACTERS = 8000
_MOST_FOLDERS = 1000
_SHORTER = (
    "Choose a shorter name, another data.publisher.final.dir, or fewer columns for"
    " ms.table.partition.fields."
)


class NameTakenError(Exception):
    """A file or folder of that name exists already."""


class NotEmptyError(Exception):
    """The folder is not empty."""


@dataclass(frozen=True, slots=True)
class HdfsPath:
    """A cluster, and an absolute path in it.

    ``prefix`` is the text before that path in DIL's form; ``servers`` are the HTTP addresses of the
    cluster's name nodes, of which one is active.
    """

    prefix: str
    servers: tuple[str, ...]
    path: str

    def beside(self, path: str) -> str:
        """Return DIL's form of another path of the same cluster."""
        return f"{self.prefix}{path}"


def web_address(scheme: str, host: str, port: int | None = None) -> str:
    """Return the address of a name node's HTTP interface.

    The port in ``hdfs:`` is for RPC, which DIL does not use; the port for HTTP is another one.

    >>> web_address("swebhdfs", "nn"), web_address("hdfs", "nn", 8020)
    ('https://nn:9871', 'http://nn:9870')
    """
    if scheme == "hdfs":
        return web_address("webhdfs", host)
    protocol = "https" if scheme == "swebhdfs" else "http"
    return f"{protocol}://{host}:{port or DEFAULT_PORTS[scheme]}"


def web_addresses(scheme: str, host: str, port: int | None = None) -> tuple[str, ...]:
    """Return the addresses of a cluster's name nodes; a name without a port may have several.

    Raises:
        HadoopSetupError: Hadoop's configuration cannot be read.
    """
    return (() if port else name_nodes(scheme, host)) or (web_address(scheme, host, port),)


def found_place(path: str) -> HdfsPath | None:
    """Return the cluster and path that a path names, None if it is not on HDFS.

    Raises:
        WriteError: Hadoop's configuration cannot be read.
    """
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    try:
        servers = web_addresses(match["scheme"], match["host"], int(match["port"] or 0))
    except HadoopSetupError as error:
        raise WriteError(error.message, error.fix) from error
    return HdfsPath(match["prefix"], servers, "/" + (match["path"] or "").strip("/"))


def place_of(path: str) -> HdfsPath:
    """Return the cluster and path that a path names.

    Raises:
        WriteError: the path is not on HDFS.
    """
    place = found_place(path)
    if place is None:
        raise WriteError(
            f"{path} is not on HDFS",
            "The job's files were elsewhere before: set the property that names their folder back"
            " for one run (data.publisher.final.dir, state.store.dir).",
        )
    return place


def check_name(path: str) -> None:
    """Raise if no file of HDFS can have the path.

    Raises:
        WriteError: the path is too long, or has a character or a part that HDFS does not allow.
    """
    inner = place_of(path).path
    parts = inner.split("/")[1:]
    if len(inner) > _MOST_CHARACTERS or len(parts) > _MOST_FOLDERS:
        raise WriteError(
            f"{path[:200]}...: paths of HDFS have {_MOST_CHARACTERS:,} characters and"
            f" {_MOST_FOLDERS:,} folders at most",
            _SHORTER,
        )
    for part in parts:
        if len(part.encode()) > _MOST_BYTES:
            raise WriteError(
                f"{path[:200]}...: a part of the path is longer than {_MOST_BYTES} bytes", _SHORTER
            )
        if ":" in part or part in {".", ".."}:
            raise WriteError(
                f"{path}: HDFS allows no name with a colon, and no . or ..",
                "Choose another name, another data.publisher.final.dir, or other columns for"
                " ms.table.partition.fields.",
            )
