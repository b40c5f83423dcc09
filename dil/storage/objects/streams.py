"""Streams over one object: to read it from anywhere, and to write it by parts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from dil.errors import WriteError
from dil.storage.objects.bucket import Bucket, ObjectExistsError, ObjectPiece, ObjectUpload
from dil.storage.objects.place import ObjectPath
from dil.storage.streams import PartWriter, RemoteReader

# Also what Google's parts are a multiple of: 256 KiB.
PART_BYTES = 16 << 20
READ_AHEAD = 4 << 20


class PieceReader(RemoteReader):
    """Reads one version of an object, of which it holds ``READ_AHEAD`` bytes.

    ``read`` returns up to so many bytes of a key from a position on, of a version where one is
    given; it raises ObjectExistsError where the object is of another one.

    Raises:
        FileNotFoundError: there is none.
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
        """Read the rest; the base class would do so in very small portions."""
        found = bytearray()
        while data := self.read(READ_AHEAD):
            found += data
        return bytes(found)

    def _read(self, size: int) -> bytes:
        at = self._position - self._start
        if not 0 <= at < len(self._piece.data):
            self._piece, self._start, at = self._asked(), self._position, 0
        return self._piece.data[at : at + size]

    def _asked(self) -> ObjectPiece:
        try:
            piece = self._ask(self._key, self._position, READ_AHEAD, self._piece.version)
        except (ObjectExistsError, FileNotFoundError):
            raise WriteError(
                f"{self._path}: another object took its place while it was read",
                "Another program writes there; run again.",
            ) from None
        if not piece.data:
            raise WriteError(
                f"{self._path}: the answer has nothing at byte {self._position:,} of"
                f" {self._piece.total:,}",
                "Check the network between here and the service.",
            )
        return piece


class ObjectWriter(PartWriter):
    """Writes an object, by one request where it is small. Some services ask for parts of a size."""

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
