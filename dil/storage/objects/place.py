"""Reads an object store's path: its bucket or container, and its key."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dil.errors import WriteError

# Google and S3 count bytes, Azure counts characters; a name within this limit fits all of them.
_MOST_BYTES = 1024


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """A bucket and a key; the key of the whole bucket is empty; no key begins or ends with /.

    ``root`` is the path of the bucket. ``host`` is the account's host on Azure, empty elsewhere.
    """

    root: str
    bucket: str
    host: str
    key: str

    @property
    def below(self) -> str:
        """Return the prefix of the keys below this folder."""
        return f"{self.key}/" if self.key else ""

    def path(self, key: str) -> str:
        """Return the path of another key of the bucket."""
        return f"{self.root}/{key}"


@dataclass(frozen=True, slots=True)
class ObjectAddress:
    """The form of a store's paths, and the messages about other paths.

    ``pattern`` has the groups ``root``, ``bucket`` (or ``container`` and ``host``) and ``key``.
    ``owner`` is the store's name in messages about keys, ``elsewhere`` and ``fix`` are the message
    for paths of other stores.
    """

    pattern: re.Pattern[str]
    owner: str
    elsewhere: str
    fix: str

    def found(self, path: str) -> ObjectPath | None:
        """Return the place of a path, None if it is in another store.

        Raises:
            WriteError: the key is too long.
        """
        match = self.pattern.fullmatch(path)
        if match is None:
            return None
        parts = match.groupdict("")
        key = parts["key"].strip("/")
        if len(key.encode()) > _MOST_BYTES:
            raise WriteError(
                f"{path[:200]}...: keys of {self.owner} have {_MOST_BYTES:,} bytes at most",
                "Choose a shorter name, another data.publisher.final.dir, or fewer columns for"
                " ms.table.partition.fields.",
            )
        bucket = parts["bucket"] or parts["container"]
        return ObjectPath(parts["root"], bucket, parts.get("host", ""), key)

    def place(self, path: str) -> ObjectPath:
        """Return the place of a path.

        Raises:
            WriteError: the path is in another store.
        """
        place = self.found(path)
        if place is None:
            raise WriteError(f"{path} is {self.elsewhere}", self.fix)
        return place
