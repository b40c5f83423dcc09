"""A bucket of the fake of Google Cloud Storage, for tests: its environment, and a look at it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest

from tests.servers.gcs import GcsServer


def use(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process, and what it starts, reach a server and nothing else."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent")


def opened(server: GcsServer, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """Return a new bucket, which this process, and what it starts, reaches."""
    use(server.url, monkeypatch)
    return Bucket(server)


class Bucket:
    """A new bucket of a server, looked at past its API."""

    def __init__(self, server: GcsServer) -> None:
        self.name = f"b{uuid.uuid4().hex[:12]}"
        self.uri = f"gs://{self.name}"
        self.server = server
        server.buckets[self.name] = {}

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """Return the content of all objects by their names."""
        there = self.server.buckets[self.name]
        return {name: there[name].data for name in self.keys(prefix)}

    def keys(self, prefix: str = "") -> list[str]:
        """Return the names that begin so, sorted."""
        return sorted(n for n in self.server.buckets[self.name] if n.startswith(prefix))

    def write(self, key: str, data: bytes) -> None:
        """Write an object, over one that may be there."""
        self.server.put(self.name, key, data)

    def restore(self, objects: Mapping[str, bytes]) -> None:
        """Let the bucket hold these objects and no others; notes on objects are lost."""
        self.server.buckets[self.name].clear()
        for key, data in objects.items():
            self.write(key, data)
