"""The partitions of a dataset: the folders of its live files."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from dil.catalog.metastore import Partition
from dil.model.catalog import LABEL_FIELDS
from dil.model.dataset import PublishedFile
from dil.model.destination import Layout
from dil.model.job import PublishingSpec
from dil.storage import Filesystem, LocalFilesystem


def columns_apart(spec: PublishingSpec) -> tuple[str, ...]:
    """Return the columns in the folder names, in their order."""
    is_by_label = spec.layout is Layout.TIMELABEL
    return (*(LABEL_FIELDS if is_by_label else ()), *spec.table.partition_fields)


def location_of(filesystem: Filesystem, path: str) -> str:
    """Return a path as Hadoop writes locations: a URI without escapes."""
    return f"file://{path}" if isinstance(filesystem, LocalFilesystem) else path


def folders_of(
    filesystem: Filesystem, dataset_dir: str, live: Iterable[PublishedFile]
) -> dict[str, int]:
    """Return the folders of live files in the dataset, with the number of files in each."""
    found: dict[str, int] = {}
    for file in live:
        folder = filesystem.path_of(file.uri).rpartition("/")[0]
        inside = folder.removeprefix(dataset_dir).strip("/")
        found[inside] = found.get(inside, 0) + 1
    return found


def partition_of(
    folder: str, apart: tuple[str, ...], dataset_dir: str, filesystem: Filesystem
) -> Partition | None:
    """Return the partition of a folder, None if its name lacks a column."""
    parts = [part.partition("=")[::2] for part in folder.split("/")]
    if tuple(unquote(name) for name, _ in parts) != apart:
        return None
    values = tuple(unquote(text) for _, text in parts)
    return Partition(values, location_of(filesystem, f"{dataset_dir}/{folder}"))
