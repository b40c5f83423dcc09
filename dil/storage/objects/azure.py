"""A container of Azure's Blob Storage, in an account with or without real folders."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dil.errors import WriteError
from dil.storage.objects.azure_access import container_client, translated_errors
from dil.storage.objects.bucket import (
    Bucket,
    ListedObject,
    ObjectExistsError,
    ObjectPiece,
    ObjectState,
    ObjectUpload,
)
from dil.storage.objects.place import ObjectPath
from dil.storage.objects.streams import PieceReader

if TYPE_CHECKING:
    from azure.storage.blob import BlobProperties

# The names of metadata must be valid names of C# variables.
_FROM = "dil_moved_from"
# Hadoop, and accounts with real folders, put this note on a blob that represents a folder.
_FOLDER = "hdi_isfolder"
# The waits for a copy, in seconds: the first pause, the longest pause, and all pauses together.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _COPY_LIMIT_S = 0.2, 15.0, 900.0
_LOST = frozenset({"failed", "aborted"})


class AzureContainer(Bucket):
    """Block blobs of one container, at the account's Blob endpoint."""

    def __init__(self, place: ObjectPath) -> None:
        self._place = place
        self._client = container_client(place)
        self._at = f"{self._client.scheme}://{self._client.primary_hostname}"

    def state(self, key: str) -> ObjectState | None:
        """Return a blob's state; None for a missing blob, a folder, and a failed copy."""
        found = self._found(key)
        if found is None or _is_marker(found):
            return None
        return ObjectState(found.size, str(found.etag), (found.metadata or {}).get(_FROM, ""))

    def reader(self, key: str) -> PieceReader:
        """Return a stream that requests some megabytes at a time."""
        return PieceReader(self._place, key, self._read)

    def _read(self, key: str, start: int, size: int, version: str) -> ObjectPiece:
        """Return bytes of a blob."""
        from azure.core import MatchConditions
        from azure.core.exceptions import HttpResponseError

        options: dict[str, Any] = {}
        if version:
            options = {"etag": version, "match_condition": MatchConditions.IfNotModified}
        with self._translated_errors(key):
            try:
                answer = self._client.download_blob(key, offset=start, length=size, **options)
                data: bytes = answer.readall()
            except HttpResponseError as error:
                if getattr(error, "error_code", None) != "InvalidRange":
                    raise
                return self._nothing(key)
        about = answer.properties
        # The size that the library returns is the size of the range.
        total = int(str(about.content_range).rpartition("/")[2])
        return ObjectPiece(data, total, str(about.etag))

    def put(self, key: str, data: bytes) -> None:
        """Write a blob; the service compares the data with its MD5."""
        with self._translated_errors(key):
            self._blob(key).upload_blob(
                data, length=len(data), overwrite=True, validate_content="md5"
            )

    def create(self, key: str, data: bytes) -> bool:
        """Write a blob by a conditional request, If-None-Match: *; return whether it was new."""
        try:
            with self._translated_errors(key):
                self._blob(key).upload_blob(
                    data, length=len(data), overwrite=False, validate_content="md5"
                )
        except ObjectExistsError:
            return False
        return True

    def copy(
        self, source: ObjectPath, state: ObjectState, target: str, note: str, *, over: bool
    ) -> None:
        """Let the service copy a blob, and wait until the copy is complete."""
        from azure.core import MatchConditions

        options: dict[str, Any] = {}
        if not over:
            options = {"match_condition": MatchConditions.IfMissing}
        with self._translated_errors(source.key):
            answer = self._blob(target).start_copy_from_url(
                self._blob(source.key).url,
                metadata={_FROM: note},
                source_etag=state.version,
                source_match_condition=MatchConditions.IfNotModified,
                **options,
            )
        if answer.get("copy_status") != "success" and self._found(target) is None:
            raise WriteError(
                f"{self._place.path(source.key)} could not be copied by Azure",
                "Nothing was lost: run again.",
            )

    def delete(self, key: str) -> None:
        """Delete a blob."""
        try:
            with self._translated_errors(key):
                self._client.delete_blob(key, delete_snapshots="include")
        except FileNotFoundError:
            return

    def entries(self, prefix: str) -> Iterator[ListedObject]:
        """Yield the blobs below a prefix, sorted, because some accounts list folders first."""
        found = (blob for blob in self._listed(prefix) if not _is_marker(blob))
        for blob in sorted(found, key=lambda blob: str(blob.name)):
            modified = int(blob.last_modified.timestamp() * 1000)
            yield ListedObject(str(blob.name), int(blob.size), modified)

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the names of the folders directly below a prefix."""
        from azure.storage.blob import BlobPrefix

        with self._translated_errors(prefix):
            for each in self._client.walk_blobs(name_starts_with=prefix or None, delimiter="/"):
                if isinstance(each, BlobPrefix):
                    yield str(each.name)[len(prefix) :].strip("/")

    def upload(self, key: str) -> ObjectUpload:
        """Return a new blob that is sent in blocks."""
        return _BlockUpload(self, key)

    def has_any(self, prefix: str) -> bool:
        """Return whether a blob's name begins with the prefix."""
        return any(not _is_marker(blob) for blob in self._listed(prefix, page_size=10))

    def markers(self, prefix: str) -> Iterator[str]:
        """Yield the blobs that represent folders, the blob of the prefix's own folder last."""
        found = [str(blob.name) for blob in self._listed(prefix) if _is_marker(blob)]
        yield from sorted(found, reverse=True)
        own = prefix.rstrip("/")
        if own and own not in found:
            with self._translated_errors(own):
                if _is_folder(self._properties(own)):
                    yield own

    def send_block(self, key: str, name: str, data: bytes) -> None:
        """Send a block, which readers do not see yet."""
        with self._translated_errors(key):
            self._blob(key).stage_block(name, data, len(data), validate_content="md5")

    def commit_blocks(self, key: str, names: list[str]) -> None:
        """Make a blob from the blocks."""
        from azure.storage.blob import BlobBlock

        with self._translated_errors(key):
            self._blob(key).commit_block_list([BlobBlock(block_id=name) for name in names])

    def _found(self, key: str) -> BlobProperties | None:
        """Return the properties of a blob after any copy into it has ended; None if it is missing.

        If a copy by DIL failed, this deletes the blob without content that the copy left.
        """
        found = self._settled(key)
        if found is None or found.copy.status not in _LOST or _FROM not in (found.metadata or {}):
            return found
        from azure.core import MatchConditions
        from azure.core.exceptions import ResourceModifiedError, ResourceNotFoundError

        with self._translated_errors(key), suppress(ResourceModifiedError, ResourceNotFoundError):
            # A newer blob that another driver has put in its place stays.
            self._client.delete_blob(
                key, delete_snapshots="include", etag=str(found.etag),
                match_condition=MatchConditions.IfNotModified,
            )  # fmt: skip
        return None

    def _nothing(self, key: str) -> ObjectPiece:
        """Return the empty piece, for reads after a blob's end and for an empty blob."""
        state = self.state(key)
        if state is None:
            raise FileNotFoundError(self._place.path(key))
        return ObjectPiece(b"", state.size, state.version)

    def _settled(self, key: str) -> BlobProperties | None:
        """Return the properties of a blob that is not being copied.

        Raises:
            WriteError: the blob is still being copied after ``_COPY_LIMIT_S`` seconds.
        """
        end, pause_s = time.monotonic() + _COPY_LIMIT_S, _FIRST_PAUSE_S
        while True:
            with self._translated_errors(key):
                found = self._properties(key)
            if found is None or found.copy.status != "pending":
                return found
            left_s = end - time.monotonic()
            if left_s <= 0:
                raise WriteError(
                    f"{self._place.path(key)}: Azure is still copying it ({found.copy.progress}"
                    " bytes)",
                    "Nothing was lost: run again to continue waiting.",
                )
            time.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _properties(self, key: str) -> BlobProperties | None:
        from azure.core.exceptions import ResourceNotFoundError

        try:
            found: BlobProperties = self._blob(key).get_blob_properties()
        except ResourceNotFoundError as error:
            if getattr(error, "error_code", None) == "ContainerNotFound":
                raise
            return None
        return found

    def _listed(self, prefix: str, page_size: int | None = None) -> Iterator[BlobProperties]:
        with self._translated_errors(prefix):
            yield from self._client.list_blobs(
                name_starts_with=prefix or None, include=["metadata"], results_per_page=page_size
            )

    def _blob(self, key: str) -> Any:  # the library's types hide what it takes
        return self._client.get_blob_client(key)

    def _translated_errors(self, key: str) -> Any:
        return translated_errors(self._place.path(key), self._at)


class _BlockUpload(ObjectUpload):
    """Blocks that the service deletes after a week unless they become a blob."""

    def __init__(self, container: AzureContainer, key: str) -> None:
        self._container = container
        self._key = key
        # Two uploads to the same key must not have blocks with equal names.
        self._prefix = uuid.uuid4().hex[:12]
        self._names: list[str] = []

    def send(self, data: bytes) -> None:
        """Send a block."""
        name = f"{self._prefix}{len(self._names):06d}"
        self._container.send_block(self._key, name, data)
        self._names.append(name)

    def end(self, data: bytes) -> None:
        """Send the last block, and commit all blocks."""
        self.send(data)
        self._container.commit_blocks(self._key, self._names)

    def drop(self) -> None:
        """Do nothing: blocks cannot be deleted."""


def _is_marker(blob: BlobProperties) -> bool:
    return str(blob.name).endswith("/") or _is_folder(blob)


def _is_folder(blob: BlobProperties | None) -> bool:
    return blob is not None and (blob.metadata or {}).get(_FOLDER, "").lower() == "true"
