"""A bucket of Google Cloud Storage, by its JSON API."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote

from dil.errors import WriteError
from dil.storage.objects.bucket import (
    Bucket,
    ListedObject,
    ObjectExistsError,
    ObjectPiece,
    ObjectState,
    ObjectUpload,
    md5,
)
from dil.storage.objects.gcs_requests import Requests, no_bucket
from dil.storage.objects.place import ObjectPath
from dil.storage.objects.streams import PieceReader

_FROM = "dil-moved-from"
_TYPE = "application/octet-stream"
_LIST = "nextPageToken,prefixes,items(name,size,updated)"
_STATE = "size,generation,metadata"
# The service's status for a part that is not the last one.
_GOES_ON = 308
_SEEN = (200, 201, _GOES_ON)
_RESENT = 8


class GcsBucket(Bucket):
    """Objects of one bucket."""

    def __init__(self, place: ObjectPath) -> None:
        self._place = place
        self._requests = Requests(place.root)
        self._objects = f"/storage/v1/b/{place.bucket}/o"
        self._uploads = f"/upload/storage/v1/b/{place.bucket}/o"

    def state(self, key: str) -> ObjectState | None:
        """Return an object's state, None if it does not exist."""
        try:
            answer = self._request(key, "GET", self._address(key), params={"fields": _STATE})
        except FileNotFoundError:
            return None
        about = answer.json()
        note = (about.get("metadata") or {}).get(_FROM, "")
        return ObjectState(int(about.get("size", 0)), str(about["generation"]), note)

    def reader(self, key: str) -> PieceReader:
        """Return a stream that requests some megabytes at a time."""
        return PieceReader(self._place, key, self._read)

    def _read(self, key: str, start: int, size: int, version: str) -> ObjectPiece:
        """Return bytes of an object."""
        params = {"alt": "media"} | ({"ifGenerationMatch": version} if version else {})
        answer = self._request(
            key, "GET", self._address(key), params=params, fine=(200, 206, 416),
            headers={"Range": f"bytes={start}-{start + size - 1}"},
        )  # fmt: skip
        if answer.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            # An object without content has no range.
            state = self.state(key)
            if state is None:
                raise FileNotFoundError(self._place.path(key))
            return ObjectPiece(b"", state.size, state.version)
        data = answer.content
        total = int(answer.headers.get("Content-Range", f"/{len(data)}").rpartition("/")[2])
        if answer.status_code == HTTPStatus.OK:
            data = data[start : start + size]
        return ObjectPiece(data, total, answer.headers["X-Goog-Generation"])

    def put(self, key: str, data: bytes) -> None:
        """Write an object; the service compares the data with its MD5."""
        self._upload(key, data, {})

    def create(self, key: str, data: bytes) -> bool:
        """Write an object unless it exists (condition generation 0); return whether it was new."""
        try:
            self._upload(key, data, {"ifGenerationMatch": "0"})
        except ObjectExistsError:
            return False
        return True

    def copy(
        self, source: ObjectPath, state: ObjectState, target: str, note: str, *, over: bool
    ) -> None:
        """Make the service copy an object, in as many steps as it needs."""
        params = {"ifSourceGenerationMatch": state.version}
        if not over:
            params["ifGenerationMatch"] = "0"
        copied = f"/rewriteTo/b/{self._place.bucket}/o/{_quoted(target)}"
        about = {"metadata": {_FROM: note}, "contentType": _TYPE}
        while True:
            answer = self._request(
                source.key, "POST", self._address(source.key) + copied, params=params, json=about
            ).json()
            if answer["done"]:
                return
            params["rewriteToken"] = answer["rewriteToken"]

    def delete(self, key: str) -> None:
        """Delete an object."""
        with suppress(FileNotFoundError):
            self._request(key, "DELETE", self._address(key), fine=(200, 204))

    def entries(self, prefix: str) -> Iterator[ListedObject]:
        """Yield the objects below a prefix."""
        for item in self._items(prefix):
            if not item["name"].endswith("/"):
                modified = datetime.fromisoformat(item["updated"]).timestamp()
                yield ListedObject(item["name"], int(item.get("size", 0)), int(modified * 1000))

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the names of the folders directly below a prefix."""
        for page in self._pages(prefix, delimiter="/"):
            yield from (name[len(prefix) :].strip("/") for name in page.get("prefixes", ()))

    def upload(self, key: str) -> ObjectUpload:
        """Return a new resumable upload."""
        answer = self._into(
            key, json={"contentType": _TYPE}, params={"uploadType": "resumable", "name": key}
        )
        return _Upload(self._requests, self._place.path(key), answer.headers["Location"])

    def has_any(self, prefix: str) -> bool:
        """Return whether an object's key begins with the prefix."""
        found = (item["name"] for item in self._items(prefix, maxResults="10"))
        return any(not name.endswith("/") for name in found)

    def markers(self, prefix: str) -> Iterator[str]:
        """Yield the objects that consoles create for folders."""
        found = [item["name"] for item in self._items(prefix) if item["name"].endswith("/")]
        yield from sorted(found, reverse=True)

    def _upload(self, key: str, data: bytes, condition: Mapping[str, str]) -> None:
        boundary = uuid.uuid4().hex
        about = {"name": key, "contentType": _TYPE, "md5Hash": md5(data)}
        body = (
            f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n"
            f"{json.dumps(about)}\r\n--{boundary}\r\nContent-Type: {_TYPE}\r\n\r\n"
        ).encode()
        self._into(
            key, params={"uploadType": "multipart", **condition},
            data=body + data + f"\r\n--{boundary}--\r\n".encode(),
            headers={"Content-Type": f"multipart/related; boundary={boundary}"},
        )  # fmt: skip

    def _items(self, prefix: str, **options: str) -> Iterator[dict[str, Any]]:
        for page in self._pages(prefix, **options):
            yield from page.get("items", ())

    def _pages(self, prefix: str, **options: str) -> Iterator[dict[str, Any]]:
        params = {"prefix": prefix, "fields": _LIST, **options}
        while True:
            page = cast(
                "dict[str, Any]",
                self._in_bucket(prefix, "GET", self._objects, params=params).json(),
            )
            yield page
            if not page.get("nextPageToken"):
                return
            params["pageToken"] = page["nextPageToken"]

    def _into(self, key: str, **options: Any) -> Any:  # of requests
        return self._in_bucket(key, "POST", self._uploads, **options)

    def _in_bucket(self, key: str, method: str, address: str, **options: Any) -> Any:
        """Send a request for which status 404 can only mean a missing bucket; return the answer."""
        try:
            return self._request(key, method, address, **options)
        except FileNotFoundError:
            raise no_bucket(self._place.path(key), self._requests.at) from None

    def _request(self, key: str, method: str, address: str, **options: Any) -> Any:
        return self._requests.ask(self._place.path(key), method, address, **options)

    def _address(self, key: str) -> str:
        return f"{self._objects}/{_quoted(key)}"


class _Upload(ObjectUpload):
    """A resumable upload, which the service deletes after a week unless it is completed.

    If an answer was lost, the service is asked how many bytes arrived.
    """

    def __init__(self, asking: Requests, path: str, address: str) -> None:
        self._requests = asking
        self._path = path
        self._address = address
        self._sent = 0
        self._digest = hashlib.md5(usedforsecurity=False)

    def send(self, data: bytes) -> None:
        """Send a part whose size is a multiple of 256 KiB."""
        end = self._sent + len(data)
        self._digest.update(data)
        self._deliver(data, "*")
        if self._sent != end:
            raise self._broken()

    def end(self, data: bytes) -> None:
        """Send the last part."""
        self._digest.update(data)
        total = self._sent + len(data)
        about = self._deliver(data, str(total))
        digest = base64.b64encode(self._digest.digest()).decode()
        if about is None or int(about["size"]) != total or about.get("md5Hash", digest) != digest:
            raise self._broken()

    def drop(self) -> None:
        """Cancel the upload; the service confirms this with status 499."""
        self._requests.ask(self._path, "DELETE", self._address, fine=(200, 204, 499))

    def _deliver(self, data: bytes, total: str) -> dict[str, Any] | None:
        """Send the missing bytes of a part; return the object if it exists now, else None."""
        start = self._sent
        for _ in range(_RESENT):
            rest = data[self._sent - start :]
            span = f"{self._sent}-{self._sent + len(rest) - 1}"
            answer = self._put(f"{span}/{total}", rest, fine=(*_SEEN, 400, 416, 503))
            if answer.status_code not in _SEEN:
                # The service may have received these bytes before, and its answer was lost.
                answer = self._put(f"*/{total}", b"", fine=_SEEN)
            if answer.status_code != _GOES_ON:
                return cast("dict[str, Any]", answer.json())
            last = answer.headers.get("Range", "").rpartition("-")[2]  # such as bytes=0-42
            self._sent = int(last) + 1 if last else 0
            if not start <= self._sent <= start + len(data):
                raise self._broken()
            if self._sent == start + len(data) and total == "*":
                return None
        raise self._broken()

    def _put(self, span: str, data: bytes, fine: tuple[int, ...]) -> Any:
        headers = {"Content-Range": f"bytes {span}"}
        try:
            return self._requests.ask(
                self._path, "PUT", self._address, data=data, headers=headers, fine=fine
            )
        except FileNotFoundError:
            raise self._broken() from None

    def _broken(self) -> WriteError:
        return WriteError(
            f"{self._path}: the service did not receive all data",
            "Check the network between this machine and the service. Nothing was lost: run again.",
        )


def _quoted(key: str) -> str:
    return quote(key, safe="")
