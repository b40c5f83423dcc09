"""A folder of files: the filesystem and the path, in one value."""

from __future__ import annotations

from dataclasses import dataclass

from dil.storage.filesystem import Filesystem


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder by its absolute ``path``, which need not exist yet.

    The names of its files begin with ``prefix``: each user of a shared folder has its own prefix.
    """

    filesystem: Filesystem
    path: str
    prefix: str = ""

    def file(self, name: str) -> str:
        """Return the path of a file directly below the folder."""
        return f"{self.path.rstrip('/')}/{self.prefix}{name}"

    @property
    def parent(self) -> str:
        """Return the path of the folder that contains this one."""
        return self.path.rstrip("/").rpartition("/")[0]
