"""Streams one object of S3."""

from __future__ import annotations

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
            raise WriteError(
                f"{self._path}: the object was replaced while it was read",
                "Another program writes there; run again.",
            ) from None
        if self._total < 0:
            self._etag, self._total = answer.get("ETag", ""), int(answer["ContentLength"])
        return answer["Body"]

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
