"""Compares a dataset's wanted registration in a catalog with the present one.

The partitions of a dataset are the folders of its live files.

``_dil/catalog-<hash>.json`` in the dataset's folder records the registration in one table of a
catalog. The file is written last. So if a crash or a refusal kept entries from the catalog, the
next run registers them. The file is deleted before the table is created or changed, because then
all partitions have to be registered again.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from urllib.parse import unquote

import msgspec

from dil.catalog.metastore import CatalogTable, Metastore, Partition, TableChange
from dil.model.dataset import PublishedFile
from dil.model.destination import Layout
from dil.model.job import Job, PublishingSpec
from dil.model.timelabels import LABEL_FIELDS
from dil.observe.progress import counted
from dil.publishing.documents import read_known
from dil.publishing.layout import META, dataset_dir
from dil.storage import Filesystem, LocalFilesystem

log = logging.getLogger(__name__)

FORMAT = 1
_HASH_DIGITS = 16


class Registration(msgspec.Struct, frozen=True):
    """A dataset's entries in a catalog: ``folders`` are the partitions' folders, sorted.

    ``place`` identifies the table of the catalog, ``schema`` is the dataset's schema in the chain.
    ``strange`` counts files in folders that are not partitions: no reader of the catalog sees these
    files.
    """

    format: int
    place: str
    location: str
    schema: str
    apart: tuple[str, ...]
    folders: tuple[str, ...]
    strange: int = 0


def is_due(
    job: Job, filesystem: Filesystem, live: Callable[[], Sequence[PublishedFile]], schema: str
) -> tuple[Registration, Registration | None] | None:
    """Return the wanted and the present registration; None if both are equal.

    Args:
        job: The job; it has a catalog.
        filesystem: The filesystem of the dataset.
        live: Returns the dataset's live files. It is called after the present registration was
            read. So if two jobs append to one dataset, neither removes the other's entries.
        schema: The dataset's schema, empty text if nothing was published.
    """
    spec = job.publishing
    if spec.catalog is None:
        return None
    known = read_known(filesystem, _path(job, spec.catalog.place), Registration, FORMAT)
    base, apart = dataset_dir(spec), columns_apart(spec)
    folders = folders_of(filesystem, base, live())

    def is_seen(folder: str) -> bool:
        if not apart:
            return not folder
        return partition_of(folder, apart, base, filesystem) is not None

    whole = {each for each in folders if is_seen(each)}
    wanted = Registration(
        format=FORMAT,
        place=spec.catalog.place,
        location=location_of(filesystem, base),
        schema=schema,
        apart=apart,
        folders=tuple(sorted(whole)) if apart else (),
        strange=sum(number for folder, number in folders.items() if folder not in whole),
    )
    return None if known == wanted or not schema else (wanted, known)


def register(
    job: Job,
    due: tuple[Registration, Registration | None],
    metastore: Callable[[], AbstractContextManager[Metastore]],
    filesystem: Filesystem,
) -> tuple[str, ...]:
    """Register the missing entries; return notes for people.

    Raises:
        ConversionError: the catalog has no type for a column.
        WriteError: the catalog refused or cannot be reached; entries made before that stay.
        DilError: see the errors of opening the catalog.
    """
    # Imported here, so that a run that registers nothing does not import Arrow.
    from dil.types.hive import hive_columns
    from dil.types.schema_text import parse_schema

    wanted, known = due
    catalog = job.publishing.catalog
    if catalog is None:
        raise AssertionError("only a job with a catalog has something to register")
    table = CatalogTable(
        database=catalog.database,
        name=catalog.table,
        columns=hive_columns(parse_schema(wanted.schema), wanted.apart, job.writing.format),
        apart=wanted.apart,
        location=wanted.location,
        format=job.writing.format,
        job=job.name,
    )
    base = dataset_dir(job.publishing)

    def partitions(folders: Sequence[str]) -> list[Partition]:
        found = (partition_of(each, wanted.apart, base, filesystem) for each in folders)
        return [each for each in found if each is not None]

    path = _path(job, wanted.place)
    with metastore() as opened:
        change = opened.put_table(table, lambda: filesystem.delete_file(path))
        before = frozenset(() if known is None else known.folders)
        is_anew = known is None or known.location != wanted.location
        is_anew = is_anew or change is not TableChange.NONE
        added = [each for each in wanted.folders if is_anew or each not in before]
        gone = sorted(before.difference(wanted.folders))
        if added:
            opened.put_partitions(table, partitions(added))
        if gone and change is not TableChange.CREATED:
            opened.drop_partitions(table, partitions(gone))
    filesystem.put(path, msgspec.json.encode(wanted))
    log.info(
        "registered %s: %s added, %d dropped",
        table.full_name,
        counted(len(added), "partition"),
        len(gone),
    )
    if not wanted.strange:
        return ()
    return (
        f"no folder of a partition ({', '.join(wanted.apart) or 'the dataset has none'}) has"
        f" {counted(wanted.strange, 'file')} of the dataset: readers of the catalog do not see such"
        " files. They were published under another layout; read everything again with"
        " ms.publish.mode=replace",
    )


def _path(job: Job, place: str) -> str:
    """Return the path of the record of a catalog's table."""
    name = hashlib.sha256(place.encode()).hexdigest()[:_HASH_DIGITS]
    return f"{dataset_dir(job.publishing)}/{META}/catalog-{name}.json"


def columns_apart(spec: PublishingSpec) -> tuple[str, ...]:
    """Return the columns in the folder names, in their order."""
    is_by_label = spec.layout is Layout.TIMELABEL
    return (*(LABEL_FIELDS if is_by_label else ()), *spec.table.partition_fields)


def location_of(filesystem: Filesystem, path: str) -> str:
    """Return a path as Hadoop writes locations: a URI without escapes."""
    return f"file://{path}" if isinstance(filesystem, LocalFilesystem) else path


def folders_of(filesystem: Filesystem, base: str, live: Iterable[PublishedFile]) -> dict[str, int]:
    """Return the folders of live files in the dataset, with the number of files in each."""
    found: dict[str, int] = {}
    for file in live:
        folder = filesystem.path_of(file.uri).rpartition("/")[0]
        inside = folder.removeprefix(base).strip("/")
        found[inside] = found.get(inside, 0) + 1
    return found


def partition_of(
    folder: str, apart: tuple[str, ...], base: str, filesystem: Filesystem
) -> Partition | None:
    """Return the partition of a folder, None if its name lacks a column."""
    parts = [part.partition("=")[::2] for part in folder.split("/")]
    if tuple(unquote(name) for name, _ in parts) != apart:
        return None
    values = tuple(unquote(text) for _, text in parts)
    return Partition(values, location_of(filesystem, f"{base}/{folder}"))
