"""S3 as a filesystem; its paths are ``s3://bucket/key``, with the key as it stands."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from dil.storage.objects.filesystem import ObjectFilesystem
from dil.storage.objects.place import Place
from dil.storage.s3.client import connect
from dil.storage.s3.place import S3

if TYPE_CHECKING:
    from dil.storage.s3.bucket import S3Bucket


class S3Filesystem(ObjectFilesystem):
    """Objects of S3, or of a service like it, by the credentials of the AWS tools.

    ``copy_bytes`` is how much the service copies by one request.
    """

    address = S3

    def __init__(self, *, part_bytes: int | None = None, copy_bytes: int | None = None) -> None:
        super().__init__(part_bytes=part_bytes)
        self._copy_bytes = copy_bytes

    def __reduce__(self) -> tuple[object, ...]:
        """Leave the clients behind."""
        sizes = {"part_bytes": self._part_bytes, "copy_bytes": self._copy_bytes}
        return partial(type(self), **sizes), ()

    def delete_tree(self, path: str) -> None:
        """Delete all objects below, many by one request, and what was sent of others."""
        place = S3.place(path)
        cast("S3Bucket", self._bucket(place)).delete_below(place.below)

    def delete_empty_folder(self, path: str) -> None:
        """Do nothing: a folder goes with its last object."""

    def options_of(self, path: str) -> Mapping[str, str]:
        """Return the service's address, the bucket's region, and credentials.

        Raises:
            WriteError: the bucket cannot be reached.
        """
        from dil.storage.s3.options import object_store_options

        return object_store_options(connect(), S3.place(path).bucket)

    def _opened(self, place: Place) -> S3Bucket:
        client = connect().client
        from dil.storage.s3.bucket import S3Bucket  # needs the library that connect asks for

        return S3Bucket(place, client, self._copy_bytes)
