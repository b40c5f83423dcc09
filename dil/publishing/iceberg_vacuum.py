"""Vacuums an Iceberg table: deletes replaced snapshots, and files that no other snapshot needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from dil.errors import WriteError
from dil.publishing.iceberg_io import path_of
from dil.publishing.layout import META
from dil.publishing.own_folders import is_inside
from dil.publishing.table_files import words
from dil.storage import Filesystem

_LIST = "vacuum.json"


def marks_deleted_rows(table: Table) -> bool:
    """Return whether the table has delete files, which mark rows as deleted."""
    snapshot = table.current_snapshot()
    return snapshot is not None and any(
        each.content == ManifestContent.DELETES
        and (each.has_added_files() or each.has_existing_files())
        for each in snapshot.manifests(table.io)
    )


def marked_files(table: Table) -> frozenset[str] | None:
    """Return the paths of files with rows that are marked as deleted; None if unknown."""
    if not marks_deleted_rows(table):
        return frozenset()
    try:
        tasks = list(table.scan().plan_files())
    except (ValueError, NotImplementedError):  # PyIceberg cannot plan equality deletes
        return None
    return frozenset(task.file.file_path for task in tasks if task.delete_files)


class IcebergVacuum:
    """One vacuum of an Iceberg table.

    Before the vacuum expires snapshots, it writes a list of their files in the dataset's folder,
    because after a crash no other record would name these files.
    """

    def __init__(self, table: Table, folder: str, filesystem: Filesystem) -> None:
        self._table = table
        self._folder = folder
        self._filesystem = filesystem
        self._list = f"{folder}/{META}/{_LIST}"

    def carry_out(self, before_ms: int, *, is_look: bool) -> tuple[str, ...]:
        """List the files, expire the snapshots, delete the files; return the files.

        Args:
            before_ms: Snapshots that were replaced up to this time are expired, epoch ms UTC.
            is_look: Whether the files are only listed and not deleted.

        Returns:
            The absolute paths of the files.

        Raises:
            WriteError: the catalog or the store refused the change.
        """
        table = self._table
        old = list(self._replaced(before_ms))
        kept = [each for each in table.metadata.snapshots if each not in old]
        needed = set(self._files(kept))
        candidates = {*self._files(old), *self._left()} if old else set(self._left())
        strange = candidates - needed
        gone = sorted(path for path in strange if is_inside(path, self._folder, self._filesystem))
        if is_look:
            return tuple(gone)
        if gone:
            self._filesystem.put(self._list, msgspec.json.encode(gone))
        if old:
            self._expire(old)
        for path in gone:
            self._filesystem.delete_file(path)
        self._filesystem.delete_file(self._list)
        return tuple(gone)

    def _replaced(self, before_ms: int) -> Iterator[Snapshot]:
        """Yield the snapshots that another snapshot replaced before the given time."""
        metadata = self._table.metadata
        named = {ref.snapshot_id for ref in metadata.refs.values()}
        known = sorted(metadata.snapshots, key=lambda each: each.sequence_number or 0)
        for snapshot, successor in pairwise(known):
            is_old = successor.timestamp_ms <= before_ms
            if is_old and snapshot.snapshot_id not in named:
                yield snapshot

    def _expire(self, old: Iterable[Snapshot]) -> None:
        try:
            expiring = self._table.maintenance.expire_snapshots()
            expiring.by_ids([each.snapshot_id for each in old]).commit()
        except Exception as error:  # Catalogs raise errors of their libraries.
            raise WriteError(
                f"the snapshots of {'.'.join(self._table.name())} cannot be expired:"
                f" {type(error).__name__}: {words(error)}",
                "Nothing was deleted. Run the command again.",
            ) from error

    def _files(self, snapshots: Iterable[Snapshot]) -> Iterator[str]:
        """Yield the paths of all files that snapshots name: manifest lists, manifests, data."""
        io, seen = self._table.io, set()
        for snapshot in snapshots:
            yield path_of(snapshot.manifest_list)
            for manifest in snapshot.manifests(io):
                if manifest.manifest_path in seen:
                    continue
                seen.add(manifest.manifest_path)
                yield path_of(manifest.manifest_path)
                # A file that a snapshot removed is not counted as its file.
                for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
                    yield path_of(entry.data_file.file_path)

    def _left(self) -> list[str]:
        """Return the paths of the files that an earlier vacuum listed but did not delete."""
        data = self._filesystem.content(self._list)
        return [] if data is None else msgspec.json.decode(data, type=list[str])
