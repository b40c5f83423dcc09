"""Filesystems behind one interface."""

from dil.model.job import Blocks
from dil.storage.filesystem import FileInfo, Filesystem, Folder
from dil.storage.local import LocalFilesystem

__all__ = ["FileInfo", "Filesystem", "Folder", "LocalFilesystem", "filesystem_for"]


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
