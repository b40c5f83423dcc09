"""What readers see of a job of ``write_job``: in a folder of this machine, or in a bucket."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Protocol

from tests.integration import places
from tests.integration.s3_places import Bucket
from tests.jobs import dataset, manifest_files, published_ids, visible_files


class Lake(Protocol):
    """The place of a dataset; rows are counted by their unit and id."""

    def newest(self) -> tuple[str, bytes] | None:
        """Return the name and the content of the newest manifest."""

    def rows_of(self, manifest: bytes) -> Counter[tuple[str, int]]:
        """Return the rows of the files that a manifest lists.

        Raises:
            FileNotFoundError: one of these files is gone.
        """

    def listed(self) -> list[str]:
        """Return the files of the newest manifest."""

    def visible(self) -> list[str]:
        """Return the files that a reader of the folder sees, in the form of ``listed``."""

    def staged(self) -> list[str]:
        """Return the files that wait to be published."""


class LocalLake:
    """The folder of a job on this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def newest(self) -> tuple[str, bytes] | None:
        meta = dataset(self._folder) / "_dil"
        try:
            name = json.loads((meta / "current.json").read_bytes())["manifest"]
            return name, (meta / name).read_bytes()
        except FileNotFoundError:
            return None

    def rows_of(self, manifest: bytes) -> Counter[tuple[str, int]]:
        listed = json.loads(manifest)["files"]
        return published_ids([Path(file["uri"].removeprefix("file://")) for file in listed])

    def listed(self) -> list[str]:
        return [str(path) for path in manifest_files(self._folder)]

    def visible(self) -> list[str]:
        return [str(path) for path in visible_files(self._folder)]

    def staged(self) -> list[str]:
        staging = self._folder / "lake" / "_staging"
        return [str(path) for path in staging.rglob("*") if path.is_file()]


class BucketLake:
    """A bucket to which a job publishes with ``on_place``."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def newest(self) -> tuple[str, bytes] | None:
        meta = "lake/shop/orders/_dil"
        try:
            name = json.loads(self._read(f"{meta}/current.json"))["manifest"]
            return name, self._read(f"{meta}/{name}")
        except FileNotFoundError:
            return None

    def rows_of(self, manifest: bytes) -> Counter[tuple[str, int]]:
        rows: Counter[tuple[str, int]] = Counter()
        for file in json.loads(manifest)["files"]:
            content = self._read(file["uri"].removeprefix(f"{self._bucket.uri}/"))
            rows.update(places.ids_of(content))
        return rows

    def listed(self) -> list[str]:
        return [] if self.newest() is None else places.listed(self._bucket)

    def visible(self) -> list[str]:
        return places.visible(self._bucket)

    def staged(self) -> list[str]:
        return self._bucket.keys("lake/_staging/")

    def _read(self, key: str) -> bytes:
        client = self._bucket.client
        try:
            return client.get_object(Bucket=self._bucket.name, Key=key)["Body"].read()
        except client.exceptions.NoSuchKey as error:
            raise FileNotFoundError(key) from error
