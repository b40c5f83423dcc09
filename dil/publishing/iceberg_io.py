"""Reads and writes the metadata files of an Iceberg table in the same way as published files.

So these files are durable after closing, on any store, and need no second set of credentials.
Tables name files by URIs without escapes; other writers use several forms for local files, and
Hadoop's form for files on S3.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from dil.storage import Filesystem, LocalFilesystem, filesystem_for

# A property of a catalog: the filesystem of the job's final directory, whose client is reused.
FILESYSTEM = "dil.filesystem"
_S3 = re.compile(r"s3[an]?://", re.IGNORECASE)


def path_of(location: str) -> str:
    """Return the path of a file from the table's name for it.

    Names of files in stores other than this machine and S3 stay unchanged.
    """
    scheme, colon, rest = location.partition(":")
    if not colon or scheme == "file":
        return "/" + (rest if colon else location).lstrip("/")
    return _S3.sub("s3://", location)


def uri_of(location: str) -> str:
    """Return the URI of a file from the table's name for it."""
    path = path_of(location)
    return filesystem_for(path).uri(path) if path.startswith("/") else path


def location_of(filesystem: Filesystem, uri: str) -> str:
    """Return the name of a file in the form for tables."""
    is_local = isinstance(filesystem, LocalFilesystem)
    return f"file://{filesystem.path_of(uri)}" if is_local else uri


class PublishingFileIO(FileIO):
    """Opens files through the filesystems that publish rows."""

    def new_input(self, location: str) -> _File:
        """Return a file for reading."""
        return self._file(location)

    def new_output(self, location: str) -> _File:
        """Return a file for writing."""
        return self._file(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file; a missing file is no error."""
        name = location if isinstance(location, str) else location.location
        path = path_of(name)
        self._filesystem(path).delete_file(path)

    def _file(self, location: str) -> _File:
        return _File(location, self._filesystem(path_of(location)))

    def _filesystem(self, path: str) -> Filesystem:
        given: Filesystem | None = self.properties.get(FILESYSTEM)
        is_local = path.startswith("/")
        if given is not None and is_local == isinstance(given, LocalFilesystem):
            return given
        return filesystem_for(path)


class _File(InputFile, OutputFile):
    def __init__(self, location: str, filesystem: Filesystem) -> None:
        super().__init__(location=location)
        self._path = path_of(location)
        self._filesystem = filesystem

    def __len__(self) -> int:
        with self._filesystem.open_input(self._path) as stream:
            return stream.seek(0, 2)

    def exists(self) -> bool:
        return self._filesystem.exists(self._path)

    def open(self, seekable: bool = True) -> InputStream:  # noqa: FBT001, FBT002 - as inherited
        del seekable
        return cast("InputStream", self._filesystem.open_input(self._path))

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: FBT001, FBT002 - as inherited
        if not overwrite and self.exists():
            raise FileExistsError(self.location)
        if isinstance(self._filesystem, LocalFilesystem):
            Path(self._path).unlink(missing_ok=True)
        return cast("OutputStream", self._filesystem.open_output(self._path))

    def to_input_file(self) -> _File:
        return self
