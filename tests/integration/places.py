"""Places of files, for tests: how they are opened, and what jobs leave in any of them."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow.parquet as pq
import pytest

from dil.errors import WriteError
from dil.storage import Filesystem
from tests.integration import azure_places, gcs_places, hdfs_places, s3_places

# The fixture that starts a store's server, and what makes a place of it.
PLACES: dict[str, tuple[str, Callable[..., Any]]] = {
    "S3": ("moto", s3_places.opened),
    "Azure": ("azurite", azure_places.opened),
    "Google": ("gcs", gcs_places.opened),
    "HDFS": ("hdfs", hdfs_places.opened),
}
MODES = {
    "append": {"ms__publish__mode": "append"},
    "append, a folder for each run": {
        "ms__publish__mode": "append", "writer__file__path__type": "default",
    },
    "replace": {"ms__publish__mode": "replace"},
    "window replace": {"ms__publish__mode": "window_replace", "ms__grace__period__days": "2"},
}  # fmt: skip


def open_place(store: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a new place of a store, which this process, and what it starts, reaches."""
    server, opened = PLACES[store]
    return opened(request.getfixturevalue(server), monkeypatch)


def write(files: Filesystem, path: str, data: bytes) -> None:
    with files.open_output(path) as stream:
        stream.write(data)


def read(files: Filesystem, path: str) -> bytes:
    with files.open_input(path) as stream:
        return stream.read()


def refused(act: Callable[[], object], match: str | None = None) -> WriteError:
    """Return the error with which an act is refused."""
    with pytest.raises(WriteError, match=match) as caught:
        act()
    return caught.value


def on_place(place: Any, **changes: str) -> dict[str, str]:
    """Return the settings of a job that publishes to a place and keeps its state there."""
    return {
        "data__publisher__final__dir": f"{place.uri}/lake",
        "state__store__type": "fs",
        "state__store__dir": f"{place.uri}/state",
        **changes,
    }


def visible(place: Any) -> list[str]:
    """Return the keys that a reader of the folder sees."""
    return [
        key
        for key in place.keys("lake/")
        if not any(part.startswith(("_", ".")) for part in key.split("/"))
    ]


def listed(place: Any) -> list[str]:
    """Return the keys that a reader of the newest manifest sees."""
    meta = "lake/shop/orders/_dil"
    objects = place.objects(f"{meta}/")
    manifest = json.loads(objects[f"{meta}/current.json"])["manifest"]
    files = json.loads(objects[f"{meta}/{manifest}"])["files"]
    return sorted(file["uri"].removeprefix(f"{place.uri}/") for file in files)


def ids(place: Any, keys: Iterable[str]) -> Counter[tuple[str, int]]:
    """Return how often each row, by its unit and number, is in these files."""
    rows: Counter[tuple[str, int]] = Counter()
    objects = place.objects("lake/shop/")
    for key in keys:
        rows.update(ids_of(objects[key]))
    return rows


def ids_of(content: bytes) -> list[tuple[str, int]]:
    """Return unit and number of each row of a Parquet file."""
    table = pq.read_table(io.BytesIO(content), columns=["unit", "id"])
    return list(zip(table["unit"].to_pylist(), table["id"].to_pylist(), strict=True))
