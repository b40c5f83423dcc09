"""Chooses the destination of a job: plain files, a table of files, or a warehouse."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Protocol, cast, runtime_checkable
from urllib.parse import urlsplit

from dil.model.dataset import Move
from dil.model.destination import TableFormat, TableKind
from dil.model.job import PublishingSpec
from dil.model.secret import SecretUrl
from dil.publishing import layout
from dil.publishing.layout import folders_above
from dil.publishing.plugged import plugged_destination
from dil.spi.destination import Destination
from dil.storage import Filesystem
from dil.storage.side_by_side import call_each

# Modules by name, because a job that publishes plain files should not pay for the import of a table
# format.
_FORMATS = {
    TableFormat.FILES: ("files", "FileDestination"),
    TableFormat.DELTA: ("table_destination", "TableDestination"),
    TableFormat.ICEBERG: ("table_destination", "TableDestination"),
}
_KINDS = {
    TableKind.REGULAR: ("warehouse", "WarehouseDestination"),
    TableKind.TIMESERIES: ("timeseries", "TimeseriesDestination"),
}


@runtime_checkable
class Connecting(Protocol):
    """A destination that is reached through connections."""

    def connected(self) -> AbstractContextManager[None]:
        """Return a context within which calls may share a connection; its end closes it."""


def connected(destination: Destination) -> AbstractContextManager[None]:
    """Return a context within which a destination's calls may share a connection.

    It must not be open while anything runs that may take long, such as work units, or moves of
    files: servers close idle connections, and an open DuckDB file is closed to other processes.
    """
    return destination.connected() if isinstance(destination, Connecting) else nullcontext()


def destination_for(spec: PublishingSpec, filesystem: Filesystem) -> Destination:
    """Return the destination of the rows; ``filesystem`` holds staging and tables' files."""
    if spec.destination is not None:
        return plugged_destination(spec, spec.destination, filesystem)
    warehouse = spec.warehouse
    module, name = _FORMATS[spec.table.format] if warehouse is None else _KINDS[warehouse.kind]
    made = getattr(import_module(f"dil.publishing.{module}"), name)
    return cast("Destination", made(spec, filesystem))


def destination_text(spec: PublishingSpec, destination: Destination) -> str:
    """Return the destination and the publish mode as the job writes them, without secrets.

    An intent is finished only if this text is unchanged, because final names, transactions and the
    files that a replace removes belong to one destination.
    """
    table = spec.table
    words = {"ms.publish.mode": spec.mode.value, "ms.table.format": table.format.value}
    if table.format is not TableFormat.FILES:
        words["ms.table.partition.fields"] = ",".join(table.partition_fields)
    if table.catalog_uri is not None:
        words["ms.iceberg.catalog.uri"] = shown(table.catalog_uri)
        words["extract.namespace"] = table.namespace
        words["extract.table.name"] = table.name
    place = layout.dataset_dir(spec) if spec.keeps_files else ""
    uri = destination.uri(place).rstrip("#")
    return f"{uri} with {', '.join(f'{name}={value}' for name, value in words.items())}"


def shown(url: SecretUrl) -> str:
    """Return a service's address without user, password and options."""
    address = urlsplit(url.reveal())
    host = address.netloc.rpartition("@")[2]
    return f"{address.scheme}://{host}{address.path}"


def place_files(moves: Collection[Move], spec: PublishingSpec, filesystem: Filesystem) -> None:
    """Move staged files to their final names, in any order; they are durable when this returns."""
    targets = [(move, filesystem.path_of(move.target.uri)) for move in moves]
    folders = {path.rpartition("/")[0] for _, path in targets}
    for folder in sorted(folders):
        filesystem.make_folder(folder, mode=spec.dir_mode)
    if spec.group:
        dataset = layout.dataset_dir(spec)
        new = {above for folder in folders for above in folders_above(f"{folder}/", dataset)}
        for folder in sorted(new):
            filesystem.set_group(folder, spec.group)

    def put(target: tuple[Move, str]) -> None:
        move, path = target
        put = filesystem.replace if move.target.is_dump else filesystem.move
        put(move.source, path, mode=spec.file_mode)
        if spec.group:
            filesystem.set_group(path, spec.group)

    call_each(filesystem, put, targets)
    filesystem.sync_folders(folders)
