"""Uploads a file in one request, or in parts if it is large (docs/object-stores.md)."""

from __future__ import annotations

import base64
import hashlib
import logging
from typing import Any

from connectors.files.payload import OpenPayload, PayloadFile
from connectors.s3.failures import translated_errors
from dil.errors import SourceContractError, SourceError
from dil.model.json import JsonObject

log = logging.getLogger(__name__)
_PART = 8 * 1024 * 1024
_MOST_PARTS = 10_000
_MD5_LENGTH = 32
_FIX = (
    "Either the object was damaged on the way, or the service's eTag is no MD5; compare the"
    " object with the file."
)


class S3Upload:
    """Uploads files into one bucket."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def put(self, payload: PayloadFile, key: str) -> JsonObject:
        """Upload one file; return the service's answer with ``md5Valid``, bucket and key.

        Every request carries the MD5 of its bytes, and the service compares it. A file of less than
        8 MiB is one request, and the object's eTag is usually the file's MD5; ``md5Valid`` is null
        if the eTag is no MD5.

        Raises:
            SourceError: the file does not exist, or the service refuses it.
            SourceContractError: the file changed meanwhile, or the eTag shows that other bytes
                arrived.
        """
        shown = f"s3://{self._bucket}/{key}"
        with payload.opened() as opened:
            if opened.size < _PART:
                data = b"".join(opened.blocks(_PART))
                with translated_errors(shown, self._client):
                    answer = self._client.put_object(
                        Bucket=self._bucket, Key=key, Body=data, ContentMD5=_md5(data)
                    )
                is_valid = _is_valid(answer, opened.digest.hexdigest())
            else:
                answer, is_valid = self._put_parts(opened, key, shown), None
        if is_valid is False:
            raise SourceContractError(
                f"{shown}: the service's eTag is {answer.get('ETag')}, but the file's MD5 is"
                f" {opened.digest.hexdigest()}",
                _FIX,
            )
        return {**_members(answer), "md5Valid": is_valid, "bucket": self._bucket, "key": key}

    def _put_parts(self, opened: OpenPayload, key: str, shown: str) -> dict[str, Any]:
        place = {"Bucket": self._bucket, "Key": key}
        size = max(_PART, -(-opened.size // _MOST_PARTS))
        with translated_errors(shown, self._client):
            place["UploadId"] = self._client.create_multipart_upload(**place)["UploadId"]
        try:
            parts = []
            for number, data in enumerate(opened.blocks(size), 1):
                with translated_errors(shown, self._client):
                    answer = self._client.upload_part(
                        **place, PartNumber=number, Body=data, ContentMD5=_md5(data)
                    )
                parts.append({"PartNumber": number, "ETag": answer["ETag"]})
            with translated_errors(shown, self._client):
                done: dict[str, Any] = self._client.complete_multipart_upload(
                    **place, MultipartUpload={"Parts": parts}
                )
        except BaseException:
            self._abort(place, shown)
            raise
        return done

    def _abort(self, place: dict[str, str], shown: str) -> None:
        """Delete the uploaded parts; log parts that remain, because they cost money."""
        try:
            with translated_errors(shown, self._client):
                self._client.abort_multipart_upload(**place)
        except SourceError as error:
            log.warning("the parts of an unfinished upload remain: %s", error.message)


def _md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _is_valid(answer: dict[str, Any], digest: str) -> bool | None:
    """Return whether the eTag is the digest; None if the eTag is no MD5, as with encryption."""
    etag = str(answer.get("ETag", "")).strip('"')
    if etag == digest:
        return True
    if answer.get("ServerSideEncryption", "AES256") != "AES256":
        return None
    return None if answer.get("SSECustomerAlgorithm") or len(etag) != _MD5_LENGTH else False


def _members(answer: dict[str, Any]) -> JsonObject:
    """Return the members of an answer under the names of AWS's SDK for Java, such as ``eTag``."""
    return {
        f"{name[0].lower()}{name[1:]}": value
        for name, value in answer.items()
        if isinstance(value, str | int | bool) and name not in {"Bucket", "Key"}
    } | {"eTag": str(answer.get("ETag", ""))}
