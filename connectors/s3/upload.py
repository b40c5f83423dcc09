"""Putting a file: one request, or parts where it is large (docs/object-stores.md)."""

from __future__ import annotations

import base64
import hashlib
import logging
from typing import Any

from connectors.files.payload import OpenPayload, PayloadFile
from connectors.s3.failures import translated_errors
from dil.errors import SourceContractError, SourceError
from dil.model.json import JsonObject

_LOG = logging.getLogger(__name__)
_PART = 8 * 1024 * 1024
_MOST_PARTS = 10_000
_MD5_LENGTH = 32
_FIX = "The object was damaged on the way, or the service's eTag is no MD5; look at it."


class S3Upload:
    """Puts files into one bucket."""

    def __init__(self, client: Any, bucket: str) -> None:  # noqa: ANN401
        self._client = client
        self._bucket = bucket

    def put(self, payload: PayloadFile, key: str) -> JsonObject:
        """Send one file; return what the service answers, with ``md5Valid``, bucket and key.

        Every request carries the MD5 of its bytes, which the service compares. Below 8 MiB a file
        is one request, and its eTag is its MD5; ``md5Valid`` is null where it is not comparable.

        Raises:
            SourceError: the file is not there, or the service refuses.
            SourceContractError: it changed meanwhile, or its eTag says that other bytes came.
        """
        shown = f"s3://{self._bucket}/{key}"
        with payload.opened() as opened:
            if opened.size < _PART:
                answer, is_valid = self._put_whole(opened, key, shown)
            else:
                answer, is_valid = self._put_parts(opened, key, shown), None
        if is_valid is False:
            raise SourceContractError(
                f"{shown}: the service's eTag is {answer.get('ETag')}, and the file's MD5 is"
                f" {opened.digest.hexdigest()}",
                _FIX,
            )
        return {**_members(answer), "md5Valid": is_valid, "bucket": self._bucket, "key": key}

    def _put_whole(
        self, opened: OpenPayload, key: str, shown: str
    ) -> tuple[dict[str, Any], bool | None]:
        data = b"".join(opened.blocks(_PART))
        with translated_errors(shown, self._client):
            answer = self._client.put_object(
                Bucket=self._bucket, Key=key, Body=data, ContentMD5=_md5(data)
            )
        return answer, _is_valid(answer, opened.digest.hexdigest())

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
        """Drop the parts that were sent; what cannot be dropped is logged, it costs money."""
        try:
            with translated_errors(shown, self._client):
                self._client.abort_multipart_upload(**place)
        except SourceError as error:
            _LOG.warning("the parts of an unfinished upload stay: %s", error.message)


def _md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _is_valid(answer: dict[str, Any], digest: str) -> bool | None:
    """Compare the eTag, None where it is no MD5: encrypted with a key of its own, or odd."""
    etag = str(answer.get("ETag", "")).strip('"')
    if etag == digest:
        return True
    if answer.get("ServerSideEncryption", "AES256") != "AES256":
        return None
    return None if answer.get("SSECustomerAlgorithm") or len(etag) != _MD5_LENGTH else False


def _members(answer: dict[str, Any]) -> JsonObject:
    """Return the members of an answer as AWS's SDK for Java names them: ``eTag``, ``versionId``."""
    return {
        f"{name[0].lower()}{name[1:]}": value
        for name, value in answer.items()
        if isinstance(value, str | int | bool) and name not in {"Bucket", "Key"}
    } | {"eTag": str(answer.get("ETag", ""))}
