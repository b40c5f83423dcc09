"""The services of objects: S3, Google Cloud Storage, Azure's Blob Storage."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dil.storage.objects.bucket import Bucket, ObjectService
from dil.storage.objects.place import ObjectAddress, ObjectPath
from dil.storage.s3.client import connect


@dataclass(frozen=True)
class S3(ObjectService):
    """``s3://bucket/key``, with the credentials of the AWS tools.

    ``copy_bytes`` is the most bytes that the service copies in one request.
    """

    address = ObjectAddress(
        # Names of buckets begin with a letter or a digit; no object can exist under other names.
        re.compile(
            r"(?P<root>s3://(?P<bucket>[A-Za-z0-9][A-Za-z0-9._-]*))(?:/(?P<key>.*))?", re.DOTALL
        ),
        "S3",
        "not on S3",
        "The job published elsewhere before; set data.publisher.final.dir back for one run.",
    )

    copy_bytes: int | None = None

    def opened(self, place: ObjectPath) -> Bucket:
        """Return a bucket.

        Raises:
            WriteError: the client library is not installed, or its configuration cannot be used.
        """
        client = connect().client
        from dil.storage.s3.bucket import S3Bucket  # needs the library that ``connect`` looks for

        return S3Bucket(place, client, self.copy_bytes)


class GoogleAndAzure(ObjectService):
    """Google Cloud Storage and Azure; the form of a path selects one of them.

    The forms are ``gs://bucket/key`` and ``abfss://container@account.dfs.core.windows.net/key``.
    """

    address = ObjectAddress(
        re.compile(
            r"(?P<root>gs://(?P<bucket>[A-Za-z0-9][A-Za-z0-9._-]*)"
            r"|abfss://(?P<container>[$A-Za-z0-9][A-Za-z0-9-]*)@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*))"
            r"(?:/(?P<key>.*))?",
            re.DOTALL,
        ),
        "objects",
        "neither on Google Cloud Storage nor on Azure",
        "The job's files were elsewhere before: set the property that names their folder back for"
        " one run (data.publisher.final.dir, state.store.dir).",
    )

    def opened(self, place: ObjectPath) -> Bucket:
        """Return a bucket or a container: only a container's place has a host."""
        if place.host:
            from dil.storage.objects.azure import AzureContainer

            return AzureContainer(place)
        from dil.storage.objects.gcs import GcsBucket

        return GcsBucket(place)
