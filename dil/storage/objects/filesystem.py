"""Objects as a filesystem; its paths are the service's paths, with keys unescaped.

A folder exists while an object is below it. There are no permissions and no links.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from threading import Lock
from typing import BinaryIO, cast

from dil.errors import WriteError
from dil.storage.filesystem import FileInfo, Filesystem
from dil.storage.objects.bucket import Bucket, ObjectExistsError, ObjectService, ObjectState
from dil.storage.objects.place import ObjectPath
from dil.storage.objects.streams import PART_BYTES, ObjectWriter

_BUFFER = 1 << 20


class ObjectFilesystem(Filesystem):
    """Objects of one service, with the credentials that the service's own tools would find.

    Picklable, because each process makes its own clients. ``part_bytes`` is the size of an upload's
    parts.
    """

    parallel_requests = Bucket.parallel_requests

    def __init__(self, service: ObjectService, *, part_bytes: int | None = None) -> None:
        self._service = service
        self._address = service.address
        self._part_bytes = part_bytes
        self._made: dict[str, Bucket] = {}
        self._lock = Lock()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without the clients."""
        return partial(type(self), self._service, part_bytes=self._part_bytes), ()

    def open_output(self, path: str) -> BinaryIO:
        """Return a stream whose object appears when the stream is closed."""
        place = self._address.place(path)
        part_bytes = self._part_bytes or PART_BYTES
        return cast("BinaryIO", ObjectWriter(self._bucket(place), place.key, part_bytes))

    def open_input(self, path: str) -> BinaryIO:
        """Return a buffered stream that reads an object."""
        place = self._address.found(path)
        if place is None or not place.key:
            raise FileNotFoundError(path)
        return io.BufferedReader(self._bucket(place).reader(place.key), buffer_size=_BUFFER)

    def put(self, path: str, data: bytes) -> None:
        """Write an object."""
        place = self._address.place(path)
        self._bucket(place).put(place.key, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write an object unless it exists, by a conditional request; return whether it was new."""
        place = self._address.place(path)
        return self._bucket(place).create(place.key, data)

    def exists(self, path: str) -> bool:
        """Return whether an object exists at or below a path."""
        return self._state(path) is not None or self.is_folder(path)

    def move(self, source: str, target: str, *, mode: int | None = None) -> None:
        """Copy the source, then delete it.

        If both exist after a crash, the note in the copy shows that it is the copy of this source.
        ``mode`` has no effect.
        """
        del mode
        state = self._state(source)
        if state is None:
            self._require(target, source)
        elif self._is_moved(source, target) or self._copied(source, state, target, over=False):
            self.delete_file(source)

    def replace(self, source: str, target: str, *, mode: int | None = None) -> None:
        """Copy over the target, then delete the source. ``mode`` has no effect."""
        del mode
        if self.is_folder(target):
            raise WriteError(f"{target} is a folder", "Move it away, then run again.")
        state = self._state(source)
        if state is None:
            self._require(target, source)
        elif self._copied(source, state, target, over=True):
            self.delete_file(source)

    def is_folder(self, path: str) -> bool:
        """Return whether an object is below a path."""
        place = self._address.found(path)
        return place is not None and self._bucket(place).has_any(place.below)

    def real_path(self, path: str) -> str:
        """Return the path unchanged: there are no links."""
        return path

    def set_group(self, path: str, group: str) -> None:
        """Do nothing: objects belong to no group."""

    def make_folder(self, path: str, *, mode: int | None = None) -> None:
        """Do nothing: a folder comes with its first object."""

    def delete_file(self, path: str) -> None:
        """Delete an object, if it exists."""
        place = self._address.place(path)
        self._bucket(place).delete(place.key)

    def delete_tree(self, path: str) -> None:
        """Delete all objects below a path, then the markers of folders."""
        place = self._address.place(path)
        self._bucket(place).delete_below(place.below)

    def delete_empty_folder(self, path: str) -> None:
        """Delete the marker of a folder if the folder has no other object."""
        place = self._address.place(path)
        self._bucket(place).delete_empty(place.below)

    def sync_folders(self, paths: Iterable[str]) -> None:
        """Do nothing: an answered request is durable."""

    def folders(self, path: str) -> list[str]:
        """Return the names of the folders directly below, sorted."""
        place = self._address.found(path)
        if place is None:
            return []
        return sorted({name for name in self._bucket(place).folders(place.below) if name})

    def files(self, path: str) -> Iterator[FileInfo]:
        """Yield every object below a path in the order of keys, without folder markers."""
        place = self._address.found(path)
        if place is None:
            return
        for entry in self._bucket(place).entries(place.below):
            yield FileInfo(place.path(entry.key), entry.size, entry.modified)

    def uri(self, path: str) -> str:
        """Return the path unchanged: other programs take it without escapes."""
        return path

    def path_of(self, uri: str) -> str:
        """Return the URI unchanged: it is the path."""
        return uri

    def check_path(self, path: str) -> None:
        """Raise if a key is too long."""
        self._address.place(path)

    def options_of(self, path: str) -> Mapping[str, str]:
        """Return the options with which other libraries reach the objects."""
        return self._bucket(self._address.place(path)).options()

    def _bucket(self, place: ObjectPath) -> Bucket:
        with self._lock:
            if place.root not in self._made:
                self._made[place.root] = self._service.opened(place)
            return self._made[place.root]

    def _state(self, path: str) -> ObjectState | None:
        """Return the state of an object, None if it does not exist."""
        place = self._address.found(path)
        if place is None or not place.key:
            return None
        return self._bucket(place).state(place.key)

    def _is_moved(self, source: str, target: str) -> bool:
        """Return whether the target is the copy of exactly this source.

        Raises:
            WriteError: the target is another object.
        """
        there = self._state(target)
        if there is not None and there.note != _note(source):
            raise WriteError(
                f"{target} exists already and is not {source}",
                "Another program wrote into the dataset; move that object away, then run again.",
            )
        return there is not None

    def _copied(self, source: str, state: ObjectState, target: str, *, over: bool) -> bool:
        """Copy an object; return whether the source still existed.

        Another driver that finishes the same publish may have copied or moved the object, or the
        answer to this driver's first request was lost.
        """
        origin, place = self._address.place(source), self._address.place(target)
        bucket = self._bucket(place)
        if origin.root != place.root and not bucket.copies_across:
            raise WriteError(
                f"{source} cannot be moved to {target}: they are not in the same bucket",
                "Set data.publisher.final.dir back for one run, which finishes the publish that"
                " has begun.",
            )
        try:
            bucket.copy(origin, state, place.key, _note(source), over=over)
        except FileNotFoundError:
            self._require(target, source)
            return False
        except ObjectExistsError:
            if not over and self._is_moved(source, target):
                return True
            raise WriteError(
                f"{source} changed while it was copied", "Another program writes there; run again."
            ) from None
        return True

    def _require(self, target: str, source: str) -> None:
        if self._state(target) is None:
            raise WriteError(
                f"{source} no longer exists, and {target} does not exist either",
                "Restore the object from a copy, or run dil runs finish JOB.conf --without-lost.",
            )


def _note(source: str) -> str:
    """Return a text that identifies a path, short and in ASCII, as metadata must be."""
    return hashlib.sha256(source.encode()).hexdigest()
