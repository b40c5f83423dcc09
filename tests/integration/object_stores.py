"""Object stores for one suite of rules: a new bucket of each, and the words of its protocol."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from azure.storage.blob import ContainerClient

from dil.storage.objects import services
from dil.storage.objects.bucket import ObjectService
from dil.storage.objects.filesystem import ObjectFilesystem
from dil.storage.objects.services import GoogleAndAzure
from dil.storage.s3.bucket import S3Bucket
from tests.integration import azure_places, gcs_places, s3_places
from tests.servers.azurite import ACCOUNT
from tests.servers.programs import free_port


class ObjectStore(ABC):
    """A store's server and a new bucket of it, ``bucket``, which this process reaches."""

    # What lets this process reach an address, and what is reached.
    use: ClassVar[Callable[[str, pytest.MonkeyPatch], None]]
    service: ClassVar[ObjectService] = GoogleAndAzure()
    # What stands in a request that copies, and in one that writes only where nothing is.
    copying: ClassVar[bytes]
    creating: ClassVar[bytes] = b"If-None-Match"
    # The name of a bucket that is not there, and what is said of it.
    nowhere: ClassVar[str]
    no_bucket: ClassVar[str] = "there is no such bucket"
    # Named where the service cannot be reached.
    reached_by: ClassVar[str]
    longest_name: ClassVar[str] = "ü" * 512

    def __init__(self, server: Any, bucket: Any) -> None:
        self.server = server
        self.bucket = bucket

    def filesystem(self, **options: int) -> ObjectFilesystem:
        """Return a new filesystem, with clients of its own."""
        return ObjectFilesystem(self.service, **options)

    def reach(self, port: int, monkeypatch: pytest.MonkeyPatch) -> str:
        """Let this process reach what is at a port, and nothing else; return its address."""
        url = f"http://127.0.0.1:{port}"
        self.use(url, monkeypatch)
        return url

    @abstractmethod
    def check_parts(self, key: str, sizes: list[int]) -> None:
        """Check that an object came in parts of these sizes, and that no upload is open."""

    @abstractmethod
    def make_pages_small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let a listing be answered by a few objects at a time."""

    def lose(self, monkeypatch: pytest.MonkeyPatch) -> str:
        """Let this process reach nothing; return the address at which it looks."""
        return self.reach(free_port(), monkeypatch)


class S3(ObjectStore):
    """A bucket of moto's."""

    use = staticmethod(s3_places.use)
    service = services.S3()
    copying = b"x-amz-copy-source:"
    nowhere = "s3://nowhere-at-all/lake"
    reached_by = "AWS_ENDPOINT_URL"

    def check_parts(self, key: str, sizes: list[int]) -> None:
        about = self.bucket.client.head_object(Bucket=self.bucket.name, Key=key)
        assert about["ETag"].endswith(f'-{len(sizes)}"')
        assert self.bucket.uploads() == []

    def make_pages_small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        page = S3Bucket._page
        small = lambda *at, **options: page(*at, **{"MaxKeys": 2, **options})  # noqa: E731
        monkeypatch.setattr(S3Bucket, "_page", small)
        monkeypatch.setattr("dil.storage.s3.bucket._PER_DELETE", 3)


class Azure(ObjectStore):
    """A container of azurite's."""

    copying = b"x-ms-copy-source:"
    nowhere = f"abfss://nowhere@{ACCOUNT}.dfs.core.windows.net/lake"
    no_bucket = "there is no such container"
    reached_by = "the account's name"
    longest_name = "n" * 1024

    def reach(self, port: int, monkeypatch: pytest.MonkeyPatch) -> str:
        azure_places.use(self.server, monkeypatch, port)
        return f"http://127.0.0.1:{port}/{ACCOUNT}"

    def check_parts(self, key: str, sizes: list[int]) -> None:
        blocks, waiting = self.bucket.client.get_blob_client(key).get_block_list("all")
        assert [block.size for block in blocks] == sizes
        assert waiting == []

    def make_pages_small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("list_blobs", "walk_blobs"):
            listed = getattr(ContainerClient, name)
            small = lambda *at, listed=listed, **options: listed(  # noqa: E731
                *at, **{**options, "results_per_page": 2}
            )
            monkeypatch.setattr(ContainerClient, name, small)


class Google(ObjectStore):
    """A bucket of the stated fake of Google Cloud Storage."""

    use = staticmethod(gcs_places.use)
    copying = b"/rewriteTo/"
    creating = b"ifGenerationMatch=0"
    nowhere = "gs://nowhere-at-all/lake"
    reached_by = "STORAGE_EMULATOR_HOST"

    def check_parts(self, key: str, sizes: list[int]) -> None:
        sent = [each for each in self.server.requests if each.startswith("PUT /upload/")]
        assert len(sent) == len(sizes)
        assert self.server.sessions == {}

    def make_pages_small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server.page = 2

    def lose(self, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr("dil.storage.objects.gcs_requests._PAUSES_S", (0.0,))
        return super().lose(monkeypatch)


STORES: dict[str, Any] = {"S3": S3, "Azure": Azure, "Google": Google}
