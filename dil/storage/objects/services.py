"""Google Cloud Storage and Azure's Blob Storage; the form of a path selects one of them."""

from __future__ import annotations

from dil.storage.objects.bucket import Bucket, ObjectService
from dil.storage.objects.place import GOOGLE_AND_AZURE, ObjectPath


class GoogleAndAzure(ObjectService):
    """``gs://bucket/key`` and ``abfss://container@account.dfs.core.windows.net/key``."""

    address = GOOGLE_AND_AZURE

    def opened(self, place: ObjectPath) -> Bucket:
        """Return a bucket or a container: only a container's place has a host."""
        if place.host:
            from dil.storage.objects.azure import AzureContainer

            return AzureContainer(place)
        from dil.storage.objects.gcs import GcsBucket

        return GcsBucket(place)
