"""A container as a place of files, for tests: its environment, and a look at it past ``dil``."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest
from azure.storage.blob import ContainerClient

from tests.servers.azurite import ACCOUNT, Azurite

_OF_THIS_MACHINE = (
    "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_CONNECTION_STRING",
)  # fmt: skip


def use(server: Azurite, monkeypatch: pytest.MonkeyPatch, port: int = 0) -> None:
    """Let this process, and what it starts, reach a server and nothing else."""
    for name in _OF_THIS_MACHINE:
        monkeypatch.delenv(name, raising=False)
    url = f"http://127.0.0.1:{port}/{ACCOUNT}" if port else ""
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", server.connection_string(url))


def opened(server: Azurite, monkeypatch: pytest.MonkeyPatch) -> Container:
    """Return a new container, which this process, and what it starts, reaches."""
    use(server, monkeypatch)
    return Container(server)


class Container:
    """A new container of a server, over the administrator's client."""

    def __init__(self, server: Azurite) -> None:
        self.name = f"c{uuid.uuid4().hex[:12]}"
        self.uri = f"abfss://{self.name}@{ACCOUNT}.dfs.core.windows.net"
        self.client: ContainerClient = server.client().create_container(self.name)

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """Return the content of all blobs by their names."""
        return {key: self.client.download_blob(key).readall() for key in self.keys(prefix)}

    def keys(self, prefix: str = "") -> list[str]:
        """Return the names that begin so, sorted."""
        return sorted(self.client.list_blob_names(name_starts_with=prefix))

    def write(self, key: str, data: bytes) -> None:
        """Write a blob, over one that may be there."""
        self.client.upload_blob(key, data, overwrite=True)

    def restore(self, objects: Mapping[str, bytes]) -> None:
        """Let the container hold these blobs and no others; notes on blobs are lost."""
        for key in self.keys():
            self.client.delete_blob(key)
        for key, data in objects.items():
            self.write(key, data)
