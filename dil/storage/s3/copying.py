"""Lets the service copy objects, each copy with a note of its source."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from dil.errors import WriteError
from dil.storage.objects.bucket import ObjectState
from dil.storage.objects.place import ObjectPath
from dil.storage.s3.failures import translated_errors

COPY_BYTES = 512 << 20
_FROM = "dil-moved-from"


def noted(metadata: dict[str, str]) -> str:
    """Return an object's note, empty if the object is not a copy by DIL."""
    return metadata.get(_FROM, "")


def copy(
    client: Any,  # botocore has no types
    source: ObjectPath,
    state: ObjectState,
    target: ObjectPath,
    note: str,
    most_bytes: int,
) -> None:
    """Copy an object, replacing any existing one; the target appears as a whole.

    Args:
        client: The client of botocore.
        source: The place of the object.
        state: The object's state; if the object was replaced since, it is not copied.
        target: The place of the copy.
        note: The note of the source in the copy.
        most_bytes: The most bytes that the service copies in one request.

    Raises:
        FileNotFoundError: the source does not exist.
        ObjectExistsError: the source has changed.
        WriteError: the service refuses the copy.
    """
    if state.size > most_bytes:
        _copy_parts(client, source, state, target, note, most_bytes)
        return
    with translated_errors(_path(source), client):
        client.copy_object(
            **names(target), **_source(source, state), MetadataDirective="REPLACE",
            Metadata={_FROM: note},
        )  # fmt: skip


def names(place: ObjectPath) -> dict[str, Any]:
    """Return the arguments that name an object in a request."""
    return {"Bucket": place.bucket, "Key": place.key}


def _copy_parts(
    client: Any,
    source: ObjectPath,
    state: ObjectState,
    target: ObjectPath,
    note: str,
    most_bytes: int,
) -> None:
    with translated_errors(_path(target), client):
        upload = client.create_multipart_upload(**names(target), Metadata={_FROM: note})
    begun = {**names(target), "UploadId": upload["UploadId"]}
    try:
        parts = []
        for number, start in enumerate(range(0, state.size, most_bytes), 1):
            end = min(start + most_bytes, state.size) - 1
            with translated_errors(_path(source), client):
                answer = client.upload_part_copy(
                    **begun, **_source(source, state), PartNumber=number,
                    CopySourceRange=f"bytes={start}-{end}",
                )  # fmt: skip
            parts.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})
        with translated_errors(_path(target), client):
            client.complete_multipart_upload(**begun, MultipartUpload={"Parts": parts})
    except BaseException:
        with suppress(WriteError, OSError), translated_errors(_path(target), client):
            client.abort_multipart_upload(**begun)
        raise


def _source(place: ObjectPath, state: ObjectState) -> dict[str, Any]:
    return {"CopySource": names(place), "CopySourceIfMatch": state.version}


def _path(place: ObjectPath) -> str:
    return place.path(place.key)
