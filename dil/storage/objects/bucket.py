"""What a service of objects has to do, so that a filesystem can be made of it."""

from __future__ import annotations

import base64
import hashlib
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dil.model.messages import shortened
from dil.storage.objects.place import ObjectAddress, ObjectPath
from dil.storage.side_by_side import call_each

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class ObjectExistsError(Exception):
    """There is an object already, or another one than was asked for."""


def md5(data: ReadableBuffer) -> str:
    """Return the digest that services compare with what arrived, in base64."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def reason(error: Exception) -> str:
    """Return the first line of what an error says, the name of its kind where it says nothing."""
    return shortened(str(error).partition("\n")[0]) or type(error).__name__


@dataclass(frozen=True, slots=True)
class ObjectState:
    """An object as it is; ``version`` names this content, ``note`` of what it was copied."""

    size: int
    version: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ObjectPiece:
    """Bytes of an object that has ``total`` of them, in one version."""

    data: bytes
    total: int
    version: str


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object in a list; ``modified`` is epoch milliseconds UTC."""

    key: str
    size: int
    modified: int


class ObjectUpload(ABC):
    """An object that is sent in parts, and is not there before ``end`` returns."""

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Send a part that is not the last one; all of them have the same size."""

    @abstractmethod
    def end(self, data: bytes) -> None:
        """Send the last part, and make the object appear."""

    @abstractmethod
    def drop(self) -> None:
        """Forget what was sent. Fails silently: the service forgets it later by itself."""


class Bucket(ABC):
    """One bucket, or container, with the credentials it is reached by. Safe for several threads.

    Keys neither begin nor end with a slash; prefixes are empty or end with one. Objects appear as
    a whole, and are durable with the answer. Everything else that fails raises WriteError.
    """

    parallel_requests = 8
    # Whether objects of another bucket can be copied into this one.
    copies_across = False

    @abstractmethod
    def state(self, key: str) -> ObjectState | None:
        """Return an object's state, None without one."""

    @abstractmethod
    def reader(self, key: str) -> io.RawIOBase:
        """Return a stream over one version of an object.

        Raises:
            FileNotFoundError: there is none.
        """

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write an object, over one that may be there."""

    @abstractmethod
    def create(self, key: str, data: bytes) -> bool:
        """Write an object unless one is there; say whether it was written."""

    @abstractmethod
    def copy(
        self, source: ObjectPath, state: ObjectState, target: str, note: str, *, over: bool
    ) -> None:
        """Let the service copy an object to a key of this bucket, with a note.

        It is whole when this returns. The source is in this bucket, unless ``copies_across``.

        Raises:
            FileNotFoundError: the source is gone.
            ObjectExistsError: the source is of another version, or there is a target, and not
                ``over``.
        """

    @abstractmethod
    def delete(self, key: str) -> None:
        """Delete an object; a missing one is fine."""

    @abstractmethod
    def entries(self, prefix: str) -> Iterator[ListedObject]:
        """Yield the objects below a prefix, sorted by key, without the markers of folders."""

    @abstractmethod
    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the names of the folders below a prefix: what keys have up to the next slash."""

    @abstractmethod
    def upload(self, key: str) -> ObjectUpload:
        """Begin an object that is sent in parts."""

    def has_any(self, prefix: str) -> bool:
        """Return whether an object's key begins with the prefix."""
        return next(self.entries(prefix), None) is not None

    def markers(self, prefix: str) -> Iterator[str]:  # noqa: ARG002 - a service without any
        """Yield the keys of the markers of folders below a prefix, a folder after what is in it.

        Consoles, Hadoop, and accounts that have real folders make them.
        """
        return iter(())

    def delete_below(self, prefix: str) -> None:
        """Delete all objects whose keys begin with the prefix, then the markers of folders."""
        call_each(self, self.delete, [entry.key for entry in self.entries(prefix)])
        for marker in list(self.markers(prefix)):
            self.delete(marker)

    def delete_empty(self, prefix: str) -> None:
        """Delete the marker of a folder, where nothing else is in it."""
        if not self.has_any(prefix):
            for marker in list(self.markers(prefix)):
                self.delete(marker)

    def options(self) -> Mapping[str, str]:
        """Return what other libraries need to reach the bucket; secret, and soon outdated.

        Raises:
            WriteError: the bucket cannot be reached.
        """
        return {}


class ObjectService(ABC):
    """A service of objects; picklable."""

    # How its paths are written.
    address: ClassVar[ObjectAddress]

    @abstractmethod
    def opened(self, place: ObjectPath) -> Bucket:
        """Return the bucket of a place; nothing is sent yet."""
