"""A bucket of S3, or of a service that speaks its protocol.

The module also has the options with which other libraries reach the bucket.
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
from dil.storage.s3.failures import RacingError, UnknownConditionError, translated_errors
from dil.storage.s3.reading import ObjectReader, require_members

_FROM = "dil-moved-from"
_COPY_BYTES = 512 << 20
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
        self._copy_bytes = copy_bytes or _COPY_BYTES
        self._at = self._client.meta.endpoint_url

    def state(self, key: str) -> ObjectState | None:
        """Return an object's state, None if it does not exist."""
        try:
            with self._translated_errors(key):
                answer = self._client.head_object(**self._names(key))
        except FileNotFoundError:
            return None
        require_members(answer, self._place.path(key), "ContentLength", "ETag")
        note = answer.get("Metadata", {}).get(_FROM, "")
        return ObjectState(answer["ContentLength"], answer["ETag"], note)

    def reader(self, key: str) -> ObjectReader:
        """Return a stream over one answer that continues to the end of the object."""
        return ObjectReader(self._client, replace(self._place, key=key))

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
        origin, noted = source.path(source.key), {"Metadata": {_FROM: note}}
        copied = {
            "CopySource": {"Bucket": source.bucket, "Key": source.key},
            "CopySourceIfMatch": state.version,
        }
        if state.size <= self._copy_bytes:
            with translated_errors(origin, self._client):
                self._client.copy_object(
                    **self._names(target), **copied, MetadataDirective="REPLACE", **noted
                )
            return
        with self._translated_errors(target):
            upload = self._client.create_multipart_upload(**self._names(target), **noted)
        begun = {**self._names(target), "UploadId": upload["UploadId"]}
        try:
            parts = []
            for number, start in enumerate(range(0, state.size, self._copy_bytes), 1):
                end = min(start + self._copy_bytes, state.size) - 1
                with translated_errors(origin, self._client):
                    answer = self._client.upload_part_copy(
                        **begun, **copied, PartNumber=number,
                        CopySourceRange=f"bytes={start}-{end}",
                    )  # fmt: skip
                parts.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})
            with self._translated_errors(target):
                self._client.complete_multipart_upload(**begun, MultipartUpload={"Parts": parts})
        except BaseException:
            with suppress(WriteError, OSError), self._translated_errors(target):
                self._client.abort_multipart_upload(**begun)
            raise

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
        before: list[str] = []
        while True:
            page = self._page(prefix, **token, **options)
            keys = [each["Key"] for each in page.get("Contents", ())]
            names = keys or [each["Prefix"] for each in page.get("CommonPrefixes", ())]
            # Some services name a folder again on each page that its objects reach into.
            goes_on = not keys and len(before) == 1
            if names and names[:1] == before[:1] and not goes_on:
                raise self._no_list(prefix, "begins again")
            before = names or before
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

    def _names(self, key: str) -> dict[str, Any]:
        return {"Bucket": self._place.bucket, "Key": key}

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
