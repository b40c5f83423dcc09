"""Streams one object of S3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dil.errors import WriteError
from dil.storage.objects.bucket import ObjectExistsError
from dil.storage.objects.place import ObjectPath
from dil.storage.s3.failures import BROKEN, translated_errors
from dil.storage.streams import RemoteReader, ResumedAnswers


class ObjectReader(RemoteReader):
    """Reads one version of an object.

    Raises:
        FileNotFoundError: the object does not exist.
    """

    def __init__(self, client: Any, place: ObjectPath) -> None:  # botocore has no types
        super().__init__()
        self._answers = ResumedAnswers(BROKEN, self._open_body, lambda body, size: body.read(size))
        self._client = client
        self._place = place
        self._path = place.path(place.key)
        self._etag = ""
        self._total = -1
        self._answers.open()

    @property
    def _size(self) -> int:
        return self._total

    def _open_body(self) -> Any:
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
        require_members(answer, self._path, "ContentLength")
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


def require_members(answer: Mapping[str, Any], path: str, *names: str) -> None:
    """Raise if an answer lacks a member without which a broken or changed object is not noticed."""
    if not all(name in answer for name in names):
        raise WriteError(
            f"{path}: the service sends the object without its length or its eTag",
            "A proxy may have changed the answer. S3 always sends both: inform the owner of the"
            " service or the proxy.",
        )
