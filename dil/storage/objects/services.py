"""Google Cloud Storage, and Azure's Blob Storage: a path says which of them is meant."""

from __future__ import annotations

from dil.storage.objects.bucket import Bucket, Service
from dil.storage.objects.place import GOOGLE_AND_AZURE, Place


class GoogleAndAzure(Service):
    """``gs://bucket/key`` and ``abfss://container@account.dfs.core.windows.net/key``."""

    address = GOOGLE_AND_AZURE

    def opened(self, place: Place) -> Bucket:
        """Return a bucket, or a container: only that has a host."""
        if place.host:
            from dil.storage.objects.azure import AzureContainer

            return AzureContainer(place)
        from dil.storage.objects.gcs import GcsBucket

        return GcsBucket(place)
