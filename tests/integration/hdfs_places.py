"""A folder of HDFS as a place of files, for tests: its environment, and a look past ``dil``."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest

from tests.servers.hdfs import SUPERUSER, Hdfs


def use(monkeypatch: pytest.MonkeyPatch, user: str = SUPERUSER) -> None:
    """Let this process, and what it starts, be a user of HDFS."""
    monkeypatch.setenv("HADOOP_USER_NAME", user)
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)


def opened(server: Hdfs, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Return a new folder; this process, and what it starts, is the superuser."""
    use(monkeypatch)
    return Folder(server)


class Folder:
    """A new folder of a cluster, over the administrator's requests."""

    def __init__(self, server: Hdfs) -> None:
        self.server = server
        self.path = f"/t{uuid.uuid4().hex[:12]}"
        self.uri = f"{server.uri}{self.path}"
        self._done("PUT", self.path, "MKDIRS")

    def keys(self, prefix: str = "") -> list[str]:
        """Return the paths of files that begin so, without the folder's own, sorted."""
        found = self._below(self.path)
        keys = (path.removeprefix(f"{self.path}/") for path in found)
        return sorted(key for key in keys if key.startswith(prefix))

    def folders(self) -> list[str]:
        """Return the paths of all folders below, sorted."""
        return sorted(path.removeprefix(f"{self.path}/") for path in self._folders(self.path))

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """Return the content of files by their paths."""
        return {
            key: self._done("GET", f"{self.path}/{key}", "OPEN").content
            for key in self.keys(prefix)
        }

    def mode(self, path: str) -> str:
        """Return the permission bits of a file or folder, in octal."""
        answer = self._done("GET", f"{self.path}/{path}".rstrip("/"), "GETFILESTATUS").json()
        return str(answer["FileStatus"]["permission"])

    def write(self, path: str, data: bytes) -> None:
        """Write a file, over one that may be there."""
        self._done("PUT", f"{self.path}/{path}", "CREATE", data, overwrite="true")

    def restore(self, objects: Mapping[str, bytes]) -> None:
        """Let the folder hold these files and nothing else."""
        self._done("DELETE", self.path, "DELETE", recursive="true")
        self._done("PUT", self.path, "MKDIRS")
        for path, data in objects.items():
            self.write(path, data)

    def give(self, user: str) -> None:
        """Make a user the owner of the folder."""
        self._done("PUT", self.path, "SETOWNER", owner=user)

    def _below(self, folder: str) -> list[str]:
        found = []
        for each in self._entries(folder):
            path = f"{folder}/{each['pathSuffix']}"
            found += self._below(path) if each["type"] == "DIRECTORY" else [path]
        return found

    def _folders(self, folder: str) -> list[str]:
        found = []
        for each in self._entries(folder):
            if each["type"] == "DIRECTORY":
                path = f"{folder}/{each['pathSuffix']}"
                found += [path, *self._folders(path)]
        return found

    def _entries(self, folder: str) -> list[dict[str, str]]:
        answer = self._done("GET", folder, "LISTSTATUS").json()
        return answer["FileStatuses"]["FileStatus"]  # type: ignore[no-any-return]

    def _done(self, method: str, path: str, operation: str, data: bytes = b"", **query: str):
        answer = self.server.ask(method, path, operation, data, **query)
        answer.raise_for_status()
        return answer
