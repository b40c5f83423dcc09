"""Reads paths and URIs in a job file. See rules F14 and F15."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

from dil.storage.hdfs.place import DEFAULT_PORTS

_FILE_URI = re.compile(r"file:(?://(?:localhost)?)?(?=/)(.*)", re.DOTALL)
_REMOTE_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?://([^/]*))?(/.*)?", re.DOTALL)
_LOCAL_FILE_SYSTEM = re.compile(r"file:(?://(?:localhost)?)?/*")
_OTHER_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
# Secret parameters in the query of an address: signatures, SAS and delegation tokens.
_SIGNATURE = re.compile(
    r"[?&](?:sig|signature|x-(?:goog|amz)-(?:signature|credential|security-token)|delegation|token)=",
    re.IGNORECASE,
)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_S3_FORM = "Write s3://bucket/folder."
# https://learn.microsoft.com/azure/storage/common/storage-account-overview, and
# https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
_CONTAINER = re.compile(
    r"(\$?[a-z0-9][a-z0-9-]*)@([a-z0-9]+)\.(?:dfs|blob)(\.[a-z0-9.-]+)", re.ASCII
)
_AZURE_FORM = "Write abfss://container@account.dfs.core.windows.net/folder."
_LOCAL_OR_S3 = "Use a local path, or s3://bucket/folder."
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]+))?")
# Python keeps bytes of a path that are not UTF-8 as these halves of surrogate pairs.
_UNDECODED = re.compile("[\udc80-\udcff]")
_HDFS_FORM = "Write hdfs://host:8020/folder, or webhdfs://host:9870/folder, of the name node."


class PathError(ValueError):
    """A text does not name a usable place; ``fix`` says what to write instead."""

    def __init__(self, what: str, fix: str = "Use a local path.") -> None:
        super().__init__(what)
        self.fix = fix


def local_path(text: str, folder: Path) -> Path:
    """Return the absolute path that a text names; a relative path starts at ``folder``.

    ``file:/x``, ``file:///x`` and ``file://localhost/x`` are the path ``/x``.

    Raises:
        PathError: the text is a URI of another kind, or ``folder`` has a name that is not UTF-8.
    """
    match = _FILE_URI.fullmatch(text)
    if match:
        return Path(os.path.normpath(unquote(match[1])))
    other = _OTHER_SCHEME.match(text)
    if other:
        raise PathError(f"is on {other[1]}:, but must be on this machine")
    if text.startswith("~"):
        raise PathError("begins with ~, which is not expanded; write ${env:HOME}")
    path = os.path.normpath(folder / text)
    if _UNDECODED.search(path):
        # Records name the path, and neither JSON nor a database can hold such bytes.
        raise PathError(
            f"is a relative path, and the name of the job's folder {folder} is not UTF-8",
            "Rename the folder, or write an absolute path.",
        )
    return Path(path)


def any_path(text: str, folder: Path, system: str = "") -> str:
    """Return the absolute path that a text names, on this machine or in a store of ``_REMOTE``.

    A remote path is ``scheme://authority/path``; if several forms mean the same path, one of them
    is returned. Nothing in it is decoded. A text without a scheme is a path on the file system
    ``system``.

    Raises:
        PathError: DIL cannot publish to this place, or read from it.
    """
    text = on_file_system(text, system)
    match = _REMOTE_URI.fullmatch(text)
    remote = _REMOTE.get(match[1].lower()) if match else None
    if match and remote:
        if _SIGNATURE.search(text):
            raise PathError(
                "has a signature or a token in it, which would be logged",
                "Remove the part from ? on, and give credentials by the environment:"
                " docs/storage.md names the variables.",
            )
        return remote(match[1].lower(), match[2] or "", match[3] or "")
    other = _OTHER_SCHEME.match(text)
    if other and not _FILE_URI.fullmatch(text):
        raise PathError(f"is on {other[1]}:, which is not a file system known here", _LOCAL_OR_S3)
    return str(local_path(text, folder))


def on_file_system(text: str, system: str) -> str:
    """Return the URI of a path on the file system ``system``; a URI is returned unchanged.

    ``system`` is a URI without a path; an empty text or ``file:`` means this machine.

    Raises:
        PathError: the path is relative, and ``system`` is not this machine.
    """
    if _OTHER_SCHEME.match(text) or not system or is_this_machine(system):
        return text
    if not text.startswith("/"):
        raise PathError(
            f"is a relative path, but its file system is {system}",
            "Begin the path with /, or write file:///path if it is on this machine.",
        )
    return system.rstrip("/") + text


def is_this_machine(system: str) -> bool:
    """Return whether the URI of a file system, without a path, means this machine."""
    return _LOCAL_FILE_SYSTEM.fullmatch(system) is not None


def check_file_system(uri: str) -> None:
    """Raise if a text is not the URI of a file system for files.

    Raises:
        PathError: the file system is unknown, or the text names a folder on it.
    """
    if is_this_machine(uri):
        return
    if not _OTHER_SCHEME.match(uri):
        raise PathError("names no file system", "Write hdfs://lake, s3://bucket or file:///.")
    if any_path(uri, Path("/")).partition("://")[2].partition("/")[2] or uri.startswith("file:"):
        raise PathError(
            "names a folder, but must name only a file system",
            "Remove the path here, and write it in the properties that hold paths.",
        )


def is_local(path: str) -> bool:
    """Return whether a path that ``any_path`` returned is on this machine."""
    return "://" not in path


def _s3_path(scheme: str, bucket: str, key: str) -> str:
    """Return a path on S3; Hadoop's ``s3a:`` and ``s3n:`` become ``s3:``."""
    del scheme
    if "@" in bucket:
        raise PathError(
            "has credentials in it, which would be logged",
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead, or use a role.",
        )
    if not _BUCKET.fullmatch(bucket):
        raise PathError("names no bucket", _S3_FORM)
    if ".." in key.split("/"):
        raise PathError("has .. in it, which S3 does not know", _S3_FORM)
    if find_spec("botocore") is None:
        raise PathError(
            "is on S3, but botocore is not installed", "Install it: pip install 'dil-spark[s3]'"
        )
    return f"s3://{bucket}{_folder(key)}"


def _gs_path(scheme: str, bucket: str, key: str) -> str:
    """Return a path on Google Cloud Storage."""
    form = "Write gs://bucket/folder."
    if not _BUCKET.fullmatch(bucket):
        raise PathError("names no bucket", form)
    if ".." in key.split("/"):
        raise PathError("has .. in it, which Google Cloud Storage does not know", form)
    if _is_missing("google.auth"):
        raise PathError(
            "is on Google Cloud Storage, but google-auth is not installed",
            "Install it: pip install 'dil-spark[gcs]'",
        )
    return f"{scheme}://{bucket}{_folder(key)}"


def _azure_path(scheme: str, authority: str, key: str) -> str:
    """Return a path on Azure; all of Hadoop's forms of the path mean the same blobs."""
    del scheme
    match = _CONTAINER.fullmatch(authority.lower())
    if match is None:
        raise PathError("names no container of an account", _AZURE_FORM)
    if ".." in key.split("/"):
        raise PathError("has .. in it, which Azure does not know", _AZURE_FORM)
    for package, module in (("storage-blob", "storage.blob"), ("identity", "identity")):
        if _is_missing(f"azure.{module}"):
            raise PathError(
                f"is on Azure, but azure-{package} is not installed",
                "Install it: pip install 'dil-spark[azure]'",
            )
    return f"abfss://{match[1]}@{match[2]}.dfs{match[3]}{_folder(key)}"


def _hdfs_path(scheme: str, authority: str, path: str) -> str:
    """Return a path on HDFS; the scheme's own port is left out."""
    if "@" in authority:
        raise PathError("names a user, which only HADOOP_USER_NAME may name", _HDFS_FORM)
    match = _HOST.fullmatch(authority)
    if match is None:
        raise PathError("names no host", _HDFS_FORM)
    if ".." in path.split("/") or ":" in path:
        raise PathError("has .. or a colon in it, which HDFS does not allow", _HDFS_FORM)
    port = "" if match[2] in {None, str(DEFAULT_PORTS[scheme])} else f":{match[2]}"
    return f"{scheme}://{match[1].lower()}{port}{_folder(path)}"


def _viewfs_path(scheme: str, authority: str, path: str) -> str:
    """Raise for a path whose meaning depends on Hadoop's configuration."""
    del authority, path
    raise PathError(f"is on {scheme}:, which only Hadoop's own client knows", _HDFS_FORM)


def _is_missing(module: str) -> bool:
    """Return whether a module is not installed, importing only the empty packages above it."""
    try:
        return find_spec(module) is None
    except ModuleNotFoundError:
        return True


def _folder(path: str) -> str:
    """Return the path after the authority, without a slash at its end; empty for the root."""
    return posixpath.normpath("/" + path.lstrip("/")).rstrip("/")


# Each function takes scheme, authority and path; it returns the form that DIL uses, or raises.
_REMOTE: Mapping[str, Callable[[str, str, str], str]] = {
    **dict.fromkeys(("s3", "s3a", "s3n"), _s3_path),
    **dict.fromkeys(DEFAULT_PORTS, _hdfs_path),
    "viewfs": _viewfs_path,
    "gs": _gs_path,
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), _azure_path),
}
