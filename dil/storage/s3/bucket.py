"""A bucket of S3, or of a service that speaks its protocol.

The module also has the stream that reads an object, and the options with which other libraries
reach the bucket.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from dil.errors import WriteError
from dil.storage.objects.bucket import (
    Bucket,
    ListedObject,
    ObjectExistsError,
    ObjectState,
    ObjectUpload,
    md5,
)
from dil.storage.objects.place import ObjectPath
from dil.storage.s3.client import S3Connection, connect, is_of_aws
from dil.storage.s3.copying import COPY_BYTES, copy, names, noted
from dil.storage.s3.failures import (
    BROKEN,
    RacingError,
    UnknownConditionError,
    translated_errors,
)
from dil.storage.streams import RemoteReader, ResumedAnswers

_PER_DELETE = 1000
_RACES = 8
_PAUSE_S = 0.05

# This process has seen that these services refuse a second object under one key.
_obeying: set[str] = set()


class S3Bucket(Bucket):
    """Objects of one bucket; the service copies at most ``copy_bytes`` in one request."""

    copies_across = True

    def __init__(self, place: ObjectPath, client: Any, copy_bytes: int | None) -> None:
        self._place = place
        self._client = client
        self._copy_bytes = copy_bytes or COPY_BYTES
        self._at = self._client.meta.endpoint_url

    def state(self, key: str) -> ObjectState | None:
        """Return an object's state, None if it does not exist."""
        try:
            with self._translated_errors(key):
                answer = self._client.head_object(**self._names(key))
        except FileNotFoundError:
            return None
        _require(answer, self._place.path(key), "ContentLength", "ETag")
        note = noted(answer.get("Metadata", {}))
        return ObjectState(answer["ContentLength"], answer["ETag"], note)

    def reader(self, key: str) -> ObjectReader:
        """Return a stream over one answer that continues to the end of the object."""
        return ObjectReader(self._client, self._of(key))

    def put(self, key: str, data: bytes) -> None:
        """Write an object; the service compares the data with its MD5."""
        self._put(key, data)

    def create(self, key: str, data: bytes) -> bool:
        """Write an object unless it exists, by a conditional request; return whether it was new."""
        self._require_obedience(key)
        return self._created(key, data)

    def copy(
        self, source: ObjectPath, state: ObjectState, target: str, note: str, *, over: bool
    ) -> None:
        """Make the service copy an object; a target that appears meanwhile is replaced."""
        del over  # few services support a condition on the target of a copy
        copy(self._client, source, state, self._of(target), note, self._copy_bytes)

    def delete(self, key: str) -> None:
        """Delete an object."""
        with self._translated_errors(key):
            self._client.delete_object(**self._names(key))

    def delete_below(self, prefix: str) -> None:
        """Delete all objects, many in each request, and the parts of unfinished uploads."""
        # Killed tasks had uploaded these parts; the service may not let us delete them.
        with suppress(WriteError, OSError), self._translated_errors(prefix):
            pages = self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self._place.bucket, Prefix=prefix
            )
            for upload in [each for page in pages for each in page.get("Uploads", ())]:
                self._client.abort_multipart_upload(
                    Bucket=self._place.bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                )
        keys = [{"Key": each["Key"]} for each in self._listed(prefix)]
        for start in range(0, len(keys), _PER_DELETE):
            some = {"Objects": keys[start : start + _PER_DELETE], "Quiet": True}
            with self._translated_errors(prefix):
                answer = self._client.delete_objects(Bucket=self._place.bucket, Delete=some)
            for refused in answer.get("Errors", ()):
                raise WriteError(
                    f"{self._place.path(refused['Key'])} cannot be deleted: {refused.get('Code')}"
                    f" ({refused.get('Message', '')})",
                    "Grant the credentials s3:DeleteObject there.",
                )

    def delete_empty(self, prefix: str) -> None:
        """Do nothing: a folder disappears with its last object."""

    def options(self) -> Mapping[str, str]:
        """Return the service's address, the bucket's region, and credentials."""
        # Read again, because another program may have renewed the credentials.
        return object_store_options(connect(), self._place.bucket)

    def entries(self, prefix: str) -> Iterator[ListedObject]:
        """Yield the objects below a prefix."""
        for each in self._listed(prefix):
            if not each["Key"].endswith("/"):
                modified = int(each["LastModified"].timestamp() * 1000)
                yield ListedObject(each["Key"], each["Size"], modified)

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the names of the folders directly below a prefix."""
        for page in self._pages(prefix, Delimiter="/"):
            for each in page.get("CommonPrefixes", ()):
                yield each["Prefix"][len(prefix) :].strip("/")

    def upload(self, key: str) -> ObjectUpload:
        """Return a new multipart upload."""
        with self._translated_errors(key):
            answer = self._client.create_multipart_upload(**self._names(key))
        names = {**self._names(key), "UploadId": answer["UploadId"]}
        return _PartUpload(self._client, self._place.path(key), names)

    def has_any(self, prefix: str) -> bool:
        """Return whether an object's key, or a marker's key, begins with the prefix."""
        return bool(self._page(prefix, MaxKeys=1).get("Contents"))

    def _put(self, key: str, data: bytes, **condition: str) -> None:
        with self._translated_errors(key):
            self._client.put_object(
                **self._names(key), Body=data, ContentMD5=md5(data), **condition
            )

    def _created(self, key: str, data: bytes) -> bool:
        """Write an object unless it exists; return whether it was new.

        If another writer changes the key at the same moment, the request is repeated.
        """
        for _ in range(_RACES):
            try:
                self._put(key, data, IfNoneMatch="*")
            except ObjectExistsError:
                return False
            except RacingError:
                time.sleep(random.uniform(0, _PAUSE_S))  # noqa: S311 - not a secret
            except UnknownConditionError:
                raise self._disobedience(key) from None
            else:
                return True
        raise WriteError(
            f"{self._place.path(key)}: other writers change it all the time", "Run again."
        )

    def _require_obedience(self, key: str) -> None:
        """Raise if the service does not refuse a second object, before code relies on the refusal.

        AWS refuses a second object. Other services may ignore the condition silently, and two
        writers would both get the answer that they were first.
        """
        service = f"{self._at} {self._place.bucket}"
        if service in _obeying or is_of_aws(self._client):
            return
        # All DIL code skips this name, and deletes the object if a crash leaves it.
        folder = key.rpartition("/")[0]
        probe = f"{folder}/.probe-{uuid.uuid4().hex}.tmp".lstrip("/")
        try:
            obeys = self._created(probe, b"") and not self._created(probe, b"")
        finally:
            with suppress(WriteError):  # A failed deletion must not hide an error of the writes.
                self.delete(probe)
        if not obeys:
            raise self._disobedience(key)
        _obeying.add(service)

    def _disobedience(self, key: str) -> WriteError:
        return WriteError(
            f"{self._place.path(key)}: {self._at} does not obey If-None-Match, so two"
            " writers may overwrite each other",
            "Use a service that obeys it (AWS S3, MinIO, Ceph 19 and others), or a newer version.",
        )

    def _listed(self, prefix: str) -> Iterator[dict[str, Any]]:
        for page in self._pages(prefix):
            yield from page.get("Contents", ())

    def _pages(self, prefix: str, **options: object) -> Iterator[dict[str, Any]]:
        token: dict[str, str] = {}
        begin = ""
        while True:
            page = self._page(prefix, **token, **options)
            entries = page.get("Contents", ())
            if entries and entries[0]["Key"] == begin:
                raise self._no_list(prefix, "begins again")
            begin = entries[0]["Key"] if entries else begin
            yield page
            following = page.get("NextContinuationToken")
            if not page.get("IsTruncated"):
                return
            if not following or following == token.get("ContinuationToken"):
                raise self._no_list(prefix, "continues, but the service does not say where")
            token = {"ContinuationToken": following}

    def _no_list(self, prefix: str, flaw: str) -> WriteError:
        return WriteError(
            f"{self._place.path(prefix)}: the list {flaw}",
            "The service does not implement list-type=2 as S3 does; inform its owner.",
        )

    def _page(self, prefix: str, **options: object) -> dict[str, Any]:
        with self._translated_errors(prefix):
            page = self._client.list_objects_v2(Bucket=self._place.bucket, Prefix=prefix, **options)
        return cast("dict[str, Any]", page)

    def _of(self, key: str) -> ObjectPath:
        return replace(self._place, key=key)

    def _names(self, key: str) -> dict[str, Any]:
        return names(self._of(key))

    def _translated_errors(self, key: str) -> Any:
        return translated_errors(self._place.path(key), self._client)


class _PartUpload(ObjectUpload):
    """Parts that cost money until they become an object or are aborted."""

    def __init__(self, client: Any, path: str, names: dict[str, Any]) -> None:
        self._client = client
        self._path = path
        self._names = names
        self._parts: list[dict[str, object]] = []

    def send(self, data: bytes) -> None:
        """Send a part; the service compares the data with its MD5."""
        number = len(self._parts) + 1
        with translated_errors(self._path, self._client):
            answer = self._client.upload_part(
                **self._names, PartNumber=number, Body=data, ContentMD5=md5(data)
            )
        self._parts.append({"PartNumber": number, "ETag": answer["ETag"]})

    def end(self, data: bytes) -> None:
        """Send the last part, and complete the upload."""
        self.send(data)
        with translated_errors(self._path, self._client):
            self._client.complete_multipart_upload(
                **self._names, MultipartUpload={"Parts": self._parts}
            )

    def drop(self) -> None:
        """Abort the upload."""
        with translated_errors(self._path, self._client):
            self._client.abort_multipart_upload(**self._names)


class ObjectReader(RemoteReader):
    """Reads one version of an object.

    Raises:
        FileNotFoundError: the object does not exist.
    """

    def __init__(self, client: Any, place: ObjectPath) -> None:  # botocore has no types
        super().__init__()
        self._answers = ResumedAnswers(BROKEN, self._asked, lambda body, size: body.read(size))
        self._client = client
        self._place = place
        self._path = place.path(place.key)
        self._etag = ""
        self._total = -1
        self._answers.open()

    @property
    def _size(self) -> int:
        return self._total

    def _asked(self) -> Any:
        options = {"IfMatch": self._etag} if self._etag else {}
        if self._position:
            options["Range"] = f"bytes={self._position}-"
        try:
            with translated_errors(self._path, self._client):
                answer = self._client.get_object(
                    Bucket=self._place.bucket, Key=self._place.key, **options
                )
        except ObjectExistsError:
            raise self._changed() from None
        _require(answer, self._path, "ContentLength")
        if self._total < 0:
            self._etag, self._total = answer.get("ETag", ""), int(answer["ContentLength"])
        else:
            self._check_part(answer)
        return answer["Body"]

    def _check_part(self, answer: dict[str, Any]) -> None:
        """Check that an answer is the rest of the same object; not every service obeys headers."""
        is_same = answer.get("ETag", self._etag) == self._etag
        length, rest = int(answer["ContentLength"]), self._total - self._position
        if is_same and length == rest:
            return
        answer["Body"].close()
        if is_same and self._position and length == self._total:
            raise WriteError(
                f"{self._path}: the service ignores Range, and sends the whole object instead of"
                f" the rest from byte {self._position:,}",
                "Nothing was published. Use a service, or a proxy, that obeys Range.",
            )
        raise self._changed()

    def _changed(self) -> WriteError:
        return WriteError(
            f"{self._path}: the object was replaced while it was read",
            "Another program writes there; run again.",
        )

    def _read(self, size: int) -> bytes:
        data = self._answers.read(size)
        if not data:
            raise WriteError(
                f"{self._path}: the answer breaks off at byte {self._position:,} of"
                f" {self._total:,}",
                "Check the network between this machine and the service.",
            )
        return data

    def _leave(self) -> None:
        self._answers.close()


def object_store_options(connection: S3Connection, bucket: str) -> dict[str, str]:
    """Return options of Rust's object_store, with which other libraries reach DIL's objects.

    They are endpoint, region and credentials, which are secret and valid for some minutes. Source:
    object_store, ``AmazonS3ConfigKey``.

    Raises:
        WriteError: the bucket cannot be reached.
    """
    client = connection.client
    with translated_errors(f"s3://{bucket}", client):
        answer = client.head_bucket(Bucket=bucket)
    # Unlike botocore, the library does not follow a bucket to its region.
    region = answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region", "")
    if is_of_aws(client) and region not in {"", client.meta.region_name}:
        client = connection.client_in(region)
    endpoint, is_by_host = client.meta.endpoint_url, connection.is_by_host
    if is_by_host:
        endpoint = endpoint.replace("://", f"://{bucket}.", 1)
    credentials = connection.session.get_credentials().get_frozen_credentials()
    options = {
        # Both are set, because the variable AWS_ENDPOINT_URL_S3 overrides the first.
        "aws_endpoint_url": endpoint,
        "aws_endpoint_url_s3": endpoint,
        "aws_allow_http": str(endpoint.startswith("http://")).lower(),
        "aws_virtual_hosted_style_request": str(is_by_host).lower(),
        "aws_region": region or client.meta.region_name or "us-east-1",
        "aws_access_key_id": credentials.access_key,
        "aws_secret_access_key": credentials.secret_key,
        "aws_conditional_put": "etag",
    }
    if credentials.token:
        options["aws_session_token"] = credentials.token
    return options


def _require(answer: Mapping[str, Any], path: str, *names: str) -> None:
    """Raise if an answer lacks a member without which a broken or changed object is not noticed."""
    if not all(name in answer for name in names):
        raise WriteError(
            f"{path}: the service sends the object without its length or its eTag",
            "A proxy may have changed the answer. S3 always sends both: inform the owner of the"
            " service or the proxy.",
        )
