"""Finds the name nodes of a nameservice, such as ``hdfs://lake``.

Source: hdfs-default.xml of Hadoop 3 (dfs.nameservices, dfs.ha.namenodes,
dfs.namenode.http-address), and its page "HDFS High Availability".
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

CONF_DIR = "HADOOP_CONF_DIR"
_EVERYWHERE = ("0.0.0.0", "")  # noqa: S104 - an address to listen on, not to connect to
# By protocol: the property of a name node's web address, and the default port.
_ADDRESSES = {
    "http": ("dfs.namenode.http-address", 9870),
    "https": ("dfs.namenode.https-address", 9871),
}


class HadoopSetupError(Exception):
    """A setting that a cluster needs is missing on this machine; see ``message`` and ``fix``.

    It is not yet an error of reading or of writing: a reader turns it into a SourceError, a writer
    into a WriteError.
    """

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message, fix)
        self.message = message
        self.fix = fix


def name_nodes(scheme: str, name: str) -> tuple[str, ...]:
    """Return the web addresses of a nameservice's name nodes; empty if the name is no nameservice.

    For ``hdfs:`` the property ``dfs.http.policy`` decides the protocol.

    Raises:
        HadoopSetupError: hdfs-site.xml cannot be read, or lacks a name node's address.
    """
    site = hadoop_site("hdfs-site.xml")
    services = {each.lower(): each for each in _words(site.get("dfs.nameservices", ""))}
    service = services.get(name.lower())
    if service is None:
        return ()
    is_secure = scheme == "swebhdfs"
    if scheme == "hdfs":
        is_secure = site.get("dfs.http.policy") == "HTTPS_ONLY"
    protocol = "https" if is_secure else "http"
    nodes = _words(site.get(f"dfs.ha.namenodes.{service}", ""))
    suffixes = [f"{service}.{node}" for node in nodes] or [service]
    return tuple(f"{protocol}://{_address(site, protocol, suffix)}" for suffix in suffixes)


def _address(site: Mapping[str, str], protocol: str, suffix: str) -> str:
    """Return host and port of a name node's web server; the host may come from the RPC address."""
    key, port = _ADDRESSES[protocol]
    host, _, written = site.get(f"{key}.{suffix}", "").rpartition(":")
    if host in _EVERYWHERE:
        host = site.get(f"dfs.namenode.rpc-address.{suffix}", "").rpartition(":")[0]
    if host in _EVERYWHERE:
        raise HadoopSetupError(
            f"hdfs-site.xml has no address of the name node {suffix}",
            f"Set {CONF_DIR} to the folder of the cluster's configuration, in which"
            f" {key}.{suffix} is host:port.",
        )
    return f"{host}:{written or port}"


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def hadoop_site(name: str) -> Mapping[str, str]:
    """Return the properties in a file under HADOOP_CONF_DIR; empty if the file does not exist.

    Raises:
        HadoopSetupError: the file cannot be read.
    """
    folder = os.environ.get(CONF_DIR)  # noqa: TID251 - as Hadoop's own clients do
    return _site(Path(folder) / name) if folder else {}


@cache
def _site(path: Path) -> Mapping[str, str]:
    # Imported here: most jobs name no cluster.
    from xml.etree import ElementTree as ET

    try:
        root = ET.parse(path).getroot()  # noqa: S314 - the administrator's file
    except FileNotFoundError:
        return {}
    except (OSError, ET.ParseError) as error:
        raise HadoopSetupError(
            f"{path} cannot be read: {error}", f"Correct the file, or its folder in {CONF_DIR}."
        ) from error
    return {
        each.findtext("name", "").strip(): each.findtext("value", "").strip()
        for each in root.iter("property")
    }
