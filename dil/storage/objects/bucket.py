"""The interface to a service of objects, on which a filesystem is built."""

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
    """The object exists already, or its version is not the version in the request's condition."""


def md5(data: ReadableBuffer) -> str:
    """Return the base64 digest with which services check the data that arrived."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def reason(error: Exception) -> str:
    """Return the first line of an error's message, or the name of its class if it has none."""
    return shortened(str(error).partition("\n")[0]) or type(error).__name__


@dataclass(frozen=True, slots=True)
class ObjectState:
    """An object's state; ``version`` identifies the content, ``note`` the source of a copy."""

    size: int
    version: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ObjectPiece:
    """Bytes of one version of an object with ``total`` bytes."""

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
    """An object that is sent in parts, and exists only after ``end`` returns."""

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Send a part that is not the last one; all these parts have the same size."""

    @abstractmethod
    def end(self, data: bytes) -> None:
        """Send the last part, which makes the object appear."""

    @abstractmethod
    def drop(self) -> None:
        """Delete the sent parts, ignoring errors: the service deletes them later by itself."""


class Bucket(ABC):
    """One bucket or container, with its credentials. Safe for several threads.

    Keys neither begin nor end with a slash; a prefix is empty or ends with a slash. Objects appear
    as a whole, and are durable when the answer arrives. A failure raises WriteError unless the
    method names another error.
    """

    parallel_requests = 8
    # Whether objects of another bucket can be copied into this one.
    copies_across = False

    @abstractmethod
    def state(self, key: str) -> ObjectState | None:
        """Return an object's state, None if it does not exist."""

    @abstractmethod
    def reader(self, key: str) -> io.RawIOBase:
        """Return a stream that reads one version of an object.

        Raises:
            FileNotFoundError: the object does not exist.
        """

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write an object, replacing any existing one."""

    @abstractmethod
    def create(self, key: str, data: bytes) -> bool:
        """Write an object unless one exists; return whether it was written."""

    @abstractmethod
    def copy(
        self, source: ObjectPath, state: ObjectState, target: str, note: str, *, over: bool
    ) -> None:
        """Make the service copy an object to a key of this bucket, with a note.

        The copy is complete when this returns. The source is in this bucket, unless
        ``copies_across`` is true.

        Raises:
            FileNotFoundError: the source does not exist.
            ObjectExistsError: the source has another version, or the target exists and ``over`` is
                false.
        """

    @abstractmethod
    def delete(self, key: str) -> None:
        """Delete an object, if it exists."""

    @abstractmethod
    def entries(self, prefix: str) -> Iterator[ListedObject]:
        """Yield the objects below a prefix, sorted by key, without the markers of folders."""

    @abstractmethod
    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the names of the folders below a prefix: the keys' parts up to the next slash."""

    @abstractmethod
    def upload(self, key: str) -> ObjectUpload:
        """Return a new object that is sent in parts."""

    def has_any(self, prefix: str) -> bool:
        """Return whether an object's key begins with the prefix."""
        return next(self.entries(prefix), None) is not None

    def markers(self, prefix: str) -> Iterator[str]:  # noqa: ARG002 - a service without any
        """Yield the keys of folder markers below a prefix; a folder comes after its content.

        Consoles, Hadoop, and accounts with real folders make such markers.
        """
        return iter(())

    def delete_below(self, prefix: str) -> None:
        """Delete all objects whose keys begin with the prefix, then the markers of folders."""
        call_each(self, self.delete, [entry.key for entry in self.entries(prefix)])
        for marker in list(self.markers(prefix)):
            self.delete(marker)

    def delete_empty(self, prefix: str) -> None:
        """Delete the marker of a folder if the folder has no other object."""
        if not self.has_any(prefix):
            for marker in list(self.markers(prefix)):
                self.delete(marker)

    def options(self) -> Mapping[str, str]:
        """Return other libraries' options to reach the bucket; secret, and valid for minutes.

        Raises:
            WriteError: the bucket cannot be reached.
        """
        return {}


class ObjectService(ABC):
    """A service of objects; picklable."""

    # The form of the service's paths.
    address: ClassVar[ObjectAddress]

    @abstractmethod
    def opened(self, place: ObjectPath) -> Bucket:
        """Return the bucket of a place; no request is sent yet."""
