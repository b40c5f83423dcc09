"""Streams over one object: one class reads at any position, the other writes in parts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from dil.errors import WriteError
from dil.storage.objects.bucket import Bucket, ObjectExistsError, ObjectPiece, ObjectUpload
from dil.storage.objects.place import ObjectPath
from dil.storage.streams import PartWriter, RemoteReader

# Google's parts must also be a multiple of this size: 256 KiB.
PART_BYTES = 16 << 20
READ_AHEAD = 4 << 20


class PieceReader(RemoteReader):
    """Reads one version of an object, and holds ``READ_AHEAD`` bytes of it.

    ``read`` gets a key, a position, a number of bytes and a version, which may be empty. It returns
    at most that many bytes from the position on, or raises ObjectExistsError if the object has
    another version.

    Raises:
        FileNotFoundError: the object does not exist.
    """

    def __init__(
        self, place: ObjectPath, key: str, read: Callable[[str, int, int, str], ObjectPiece]
    ) -> None:
        super().__init__()
        self._key = key
        self._path = place.path(key)
        self._ask = read
        self._start = 0
        self._piece = read(key, 0, READ_AHEAD, "")

    @property
    def _size(self) -> int:
        return self._piece.total

    def readall(self) -> bytes:
        """Return the rest of the object; the base class would read it in very small pieces."""
        found = bytearray()
        while data := self.read(READ_AHEAD):
            found += data
        return bytes(found)

    def _read(self, size: int) -> bytes:
        at = self._position - self._start
        if not 0 <= at < len(self._piece.data):
            try:
                piece = self._ask(self._key, self._position, READ_AHEAD, self._piece.version)
            except (ObjectExistsError, FileNotFoundError):
                raise WriteError(
                    f"{self._path}: the object was replaced while it was read",
                    "Another program writes there; run again.",
                ) from None
            if not piece.data:
                raise WriteError(
                    f"{self._path}: the answer has no data at byte {self._position:,} of"
                    f" {self._piece.total:,}",
                    "Check the network between this machine and the service.",
                )
            self._piece, self._start, at = piece, self._position, 0
        return self._piece.data[at : at + size]


class ObjectWriter(PartWriter):
    """Writes an object; a small object in one request. Some services need parts of a fixed size."""

    def __init__(self, bucket: Bucket, key: str, part_bytes: int) -> None:
        super().__init__(part_bytes)
        self._bucket = bucket
        self._key = key
        self._upload: ObjectUpload | None = None

    def _send(self, data: bytes) -> None:
        if self._upload is None:
            self._upload = self._bucket.upload(self._key)
        self._upload.send(data)

    def _end(self, data: bytes) -> None:
        if self._upload is None:
            self._bucket.put(self._key, data)
        else:
            self._upload.end(data)

    def _drop(self) -> None:
        if self._upload is not None:
            with suppress(WriteError, OSError):
                self._upload.drop()
