"""Lists a bucket and reads one object of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from connectors.files.body import FileStream, RemoteFile, changed
from connectors.files.names import Listed
from connectors.s3.address import S3Address
from connectors.s3.failures import ObjectChangedError, ObjectGoneError, translated_errors
from dil.errors import SourceContractError, TransientSourceError

_NO_LIST = (
    "Nothing was published. The service does not implement list-type=2 as S3 does; inform its"
    " owner."
)
_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
# Kinds of encryption for which the eTag is no MD5 of the content.
_NO_MD5 = frozenset({"aws:kms", "aws:kms:dsse"})


def listed_objects(
    client: Any,  # botocore has no types
    address: S3Address,
    most: int,
    *,
    leaves_markers: bool = False,
) -> Iterator[Listed]:
    """Yield all objects whose keys begin with the prefix, in the service's order.

    If ``leaves_markers`` is true, the empty objects that represent folders are left out.

    Raises:
        SourceError: the service refuses the listing.
        SourceContractError: the service says that more keys follow, but not where they begin, or
            lists a key of this or the last page again, whose rows would come twice.
    """
    token = ""
    before: set[str] = set()
    while True:
        options = {"ContinuationToken": token} if token else {}
        with translated_errors(address.shown, client):
            page = client.list_objects_v2(
                Bucket=address.bucket, Prefix=address.prefix, MaxKeys=min(most, 1000), **options
            )
        entries = page.get("Contents", ())
        keys = {entry["Key"] for entry in entries}
        if len(keys) < len(entries) or not keys.isdisjoint(before):
            raise SourceContractError(f"{address.shown}: the list repeats keys", _NO_LIST)
        before = keys
        for entry in entries:
            if leaves_markers and entry["Key"].endswith("/") and not entry["Size"]:
                continue
            etag = entry.get("ETag", "").strip('"')
            written: datetime | None = entry.get("LastModified")
            modified_ms = None if written is None else int(written.timestamp() * 1000)
            yield Listed(entry["Key"], modified_ms, etag)
        if not page.get("IsTruncated"):
            return
        following = page.get("NextContinuationToken", "")
        if not following or following == token:
            raise SourceContractError(
                f"{address.shown}: the list continues, but the service does not say where", _NO_LIST
            )
        token = following


class S3Object(RemoteFile):
    """One version of one object; later reads return the version of the first read, or raise.

    ``first`` is the open stream from the object's beginning.
    """

    def __init__(
        self,
        client: Any,  # botocore has no types
        bucket: str,
        key: str,
        *,
        verifies_md5: bool = True,
    ) -> None:
        self._client = client
        self._bucket = bucket
        self._key = key
        self.etag = ""
        self._version = ""
        self.size = -1
        self.content_type = ""
        self.shown = f"s3://{bucket}/{key}"
        self.first = self.open_at(0)
        self._digest = hashlib.md5(usedforsecurity=False) if self._md5 and verifies_md5 else None

    def open_at(self, position: int) -> FileStream:
        """Return a stream over the rest of the same version of the object; raise if it is gone."""
        options: dict[str, str] = {"Range": f"bytes={position}-"} if position else {}
        if self.etag:
            options["IfMatch"] = self.etag
        if self._version:
            options["VersionId"] = self._version
        try:
            with translated_errors(self.shown, self._client):
                answer = self._client.get_object(Bucket=self._bucket, Key=self._key, **options)
        except ObjectGoneError as error:
            when = "while it was read" if self.size >= 0 else "after it was listed"
            raise SourceContractError(
                f"{self.shown}: the object vanished {when}",
                "Another program deletes objects there. The next attempt lists again.",
            ) from error
        except ObjectChangedError as error:
            raise changed(self.shown, "another object took its place") from error
        part = _S3Stream(answer["Body"], self._client, self.shown)
        if self.size < 0:
            self._begin(answer)
        else:
            self._check_part(answer, part, position)
        return part

    def taken(self, data: bytes) -> None:
        """Add received bytes to the digest."""
        if self._digest is not None:
            self._digest.update(data)

    def check_end(self) -> None:
        """Compare the digest of the bytes with the eTag, if the eTag is an MD5."""
        if self._digest is not None and self._digest.hexdigest() != self._md5:
            raise SourceContractError(
                f"{self.shown}: the bytes do not have the MD5 {self._md5} of the object's eTag",
                "The bytes were damaged on the way. If the service's eTag is never an MD5, write"
                ' "verify_md5":false into ms.source.s3.parameters.',
            )

    def _begin(self, answer: dict[str, Any]) -> None:
        """Keep the properties that identify this version of the object."""
        self.etag = answer.get("ETag", "")
        self._version = answer.get("VersionId", "") or ""
        if self._version == "null":
            self._version = ""  # Without versions only the eTag identifies the content.
        length = answer.get("ContentLength")
        if length is None:
            answer["Body"].close()
            raise SourceContractError(
                f"{self.shown}: the service does not say how long the object is",
                "DIL could not notice a body that breaks off. The service does not implement S3's"
                " protocol; inform its owner.",
            )
        self.size = int(length)
        self.content_type = str(answer.get("ContentType") or "")
        if answer.get("ContentEncoding", "") == "gzip":
            self.content_type = "application/gzip"
        match = _MD5.fullmatch(self.etag)
        is_plain = answer.get("ServerSideEncryption") not in _NO_MD5
        is_plain = is_plain and not answer.get("SSECustomerAlgorithm")
        self._md5 = match[1] if match and is_plain else ""

    def _check_part(self, answer: dict[str, Any], part: _S3Stream, position: int) -> None:
        """Check that an answer is the rest of the same object: not every service obeys If-Match."""
        found = _RANGE.fullmatch(answer.get("ContentRange", ""))
        asked = (position, self.size - 1, self.size)
        is_same = not self.etag or answer.get("ETag", self.etag) == self.etag
        if is_same and found is not None and tuple(map(int, found.groups())) == asked:
            return
        part.close()
        if is_same and found is None:
            raise SourceContractError(
                f"{self.shown}: the service does not send the rest of an object after a connection"
                " broke",
                "You need not do anything: the service ignores Range, so the next attempt reads"
                " from the beginning.",
            )
        raise changed(self.shown, "another object took its place")


class _S3Stream(FileStream):
    """The body of one answer."""

    def __init__(self, body: Any, client: Any, shown: str) -> None:
        self._body = body
        self._client = client
        self._shown = shown

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes, empty at the end."""
        with translated_errors(self._shown, self._client):
            data: bytes = self._body.read(size)
        return data

    def close(self) -> None:
        """Close the answer, and its connection too if the body was not read to its end."""
        try:
            self._body.close()
        except OSError as error:
            raise TransientSourceError(f"{self._shown}: closing failed") from error
