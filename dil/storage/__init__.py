"""Filesystems behind one interface."""

from collections.abc import Iterable
from itertools import groupby

from dil.model.job import Blocks
from dil.storage.filesystem import FileInfo, Filesystem, Folder
from dil.storage.local import LocalFilesystem
from dil.storage.side_by_side import call_each

__all__ = [
    "FileInfo",
    "Filesystem",
    "Folder",
    "LocalFilesystem",
    "filesystem_for",
    "first_missing",
]


def filesystem_for(place: str, blocks: Blocks | None = None) -> Filesystem:
    """Return the filesystem of an absolute path or URI that the job's checks have accepted.

    The filesystem sends no request, and makes no client, before the first file is accessed.
    ``blocks`` says how HDFS stores new files.
    """
    # Imported here: most jobs stay on this machine.
    if place.startswith(("s3://", "gs://", "abfss://")):
        from dil.storage.objects.filesystem import ObjectFilesystem
        from dil.storage.objects.services import S3, GoogleAndAzure

        return ObjectFilesystem(S3() if place.startswith("s3://") else GoogleAndAzure())
    if place.startswith(("hdfs://", "webhdfs://", "swebhdfs://")):
        from dil.storage.hdfs.filesystem import HdfsFilesystem

        return HdfsFilesystem(blocks=blocks)
    return LocalFilesystem()


def first_missing(uris: Iterable[str]) -> str | None:
    """Return the path of the first file that does not exist, None if all exist."""
    for _, files in groupby(uris, key=lambda uri: uri.partition("://")[0]):
        each = list(files)
        filesystem = filesystem_for(each[0])
        paths = [filesystem.path_of(uri) for uri in each]
        found = call_each(filesystem, filesystem.exists, paths)
        if not all(found):
            return paths[found.index(False)]
    return None
