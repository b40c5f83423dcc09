"""The log of an Iceberg table: one snapshot for each publish.

One transaction of the catalog adds new columns, the snapshot, and the job's last sequence as a
property of the table. If this property has reached an intent's sequence, the table has the publish
of the intent. Snapshots expire some day, but the property stays (rule U13).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, compress

import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.snapshots import Snapshot, ancestors_of
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform

from dil.errors import CommitUnknownError, DilError, StateError, WriteError
from dil.model.dataset import Commit, Intent, is_compaction
from dil.model.interval import HOUR_MS
from dil.model.job import PublishingSpec
from dil.publishing import layout
from dil.publishing.iceberg_catalog import metadata_location, open_catalog
from dil.publishing.iceberg_io import location_of, path_of, uri_of
from dil.publishing.iceberg_vacuum import IcebergVacuum, marked_files, marks_deleted_rows
from dil.publishing.manifest import given_up_name
from dil.publishing.table_files import (
    ATTEMPTS,
    TableFile,
    gave_up,
    make_durable,
    refuse_doubling,
    refuse_marked_since,
    replaces_everything,
    taken_apart,
    uris,
    words,
)
from dil.storage import Filesystem
from dil.storage.side_by_side import call_each
from dil.types.iceberg import (
    iceberg_schema,
    partition_spec,
    refuse_retyped,
    undated_column,
)
from dil.types.schema_text import parse_schema
from dil.types.table_formats import unfit

log = logging.getLogger(__name__)

_METADATA = "_iceberg"
_SEQUENCE = "dil.sequence."
_MERGED_MANIFESTS = 8
_MOST_MANIFESTS = 16


class IcebergLog:
    """The catalog's entry of a table, its metadata and its manifests."""

    def __init__(self, spec: PublishingSpec, filesystem: Filesystem) -> None:
        self._spec = spec
        self._filesystem = filesystem
        self._folder = layout.dataset_dir(spec)
        self._name = (*spec.table.namespace.split("."), spec.table.name)
        self._held: Table | None = None
        self._listed: Mapping[str, tuple[TableFile, ...]] = {}

    def partition_fields(self) -> Sequence[str] | None:
        """Return the columns by which new files are partitioned, None if there is no table."""
        table = self._table()
        if table is None:
            return None
        found = []
        for field in table.spec().fields:
            name = table.schema().find_column_name(field.source_id) or field.name
            is_plain = isinstance(field.transform, IdentityTransform)
            found.append(name if is_plain else f"{field.transform}({name})")
        return found

    def files(self) -> Sequence[TableFile]:
        """Return the data files of the current snapshot."""
        table = self._table()
        return () if table is None else self._files(table)

    def next_sequence(self) -> int:
        """Return the largest number of any job's commit to the table, plus one."""
        table = self._table()
        known = {} if table is None else table.properties
        numbers = [int(value) for name, value in known.items() if name.startswith(_SEQUENCE)]
        return max(numbers, default=-1) + 1

    def has(self, intent: Intent) -> bool:
        """Return whether the table has the commit of an intent."""
        table = self._table()
        return table is not None and _has(table, intent) and not _is_given_up(table, intent)

    def fence(self, intent: Intent) -> None:
        """Take the number of an intent, and record that the intent was given up.

        The record is in an empty snapshot. A driver that read the table earlier would not notice a
        change of only the properties, because commits to a table compare only its snapshots.
        """
        commit, sequence = intent.commit, str(intent.sequence)
        source = commit.source_name
        for _ in range(ATTEMPTS):
            table = self._table()
            if table is None or _has(table, intent):
                return
            transaction = _never_repeated(table).transaction()
            transaction.set_properties(
                {f"{_SEQUENCE}{source}": sequence, _given_up_property(source): sequence}
            )
            words_of_us = {"dil.run": commit.run_id, "dil.source": source}
            try:
                with transaction.update_snapshot(words_of_us).merge_append():
                    pass
                transaction.commit_transaction()
            except CommitFailedException as error:
                log.info("another writer changed the Iceberg table: %s", error)
            except Exception as error:  # Catalogs raise errors of their libraries.
                raise WriteError(
                    f"the Iceberg table {'.'.join(self._name)} refused a commit:"
                    f" {type(error).__name__}: {words(error)}",
                    "The publish was not given up. Try again.",
                ) from error
        raise gave_up(self._spec)

    def is_given_up(self, intent: Intent) -> bool:
        """Return whether the table records that an intent was given up."""
        table = self._table()
        return table is not None and _is_given_up(table, intent)

    def is_set_back(self, source: str, landed: int) -> bool:
        """Return whether a source's last snapshot of rows was undone, or the catalog is older."""
        table = self._table()
        if table is None:
            return False
        if _is_older_copy(table, source, landed):
            return True
        ours = [each for each in _snapshots_of(table, source) if not is_compaction(_run(each))]
        return bool(ours) and max(ours, key=_number) in _rolled_back(table, ours)

    def runs_set_back(self, source: str, landed: int, runs: frozenset[str]) -> frozenset[str]:
        """Return the runs whose snapshots were rolled back, or that an older catalog lacks."""
        table = self._table()
        if table is None or _is_older_copy(table, source, landed):
            return runs
        return runs.intersection(map(_run, _rolled_back(table, _snapshots_of(table, source))))

    def require_fit(self, commit: Commit, live: frozenset[str]) -> None:
        """Raise if the table cannot read the columns of staged files."""
        del live
        table = self._table()
        if table is None:
            metadata = self._planned_metadata(commit)
            io = load_file_io(self._catalog.properties, self._spec.table.catalog_warehouse)
        else:
            transaction = table.transaction()
            self._evolve(transaction, commit)
            metadata, io = transaction.table_metadata, table.io
        for move in commit.moves:
            with self._filesystem.open_input(move.source) as stream:
                columns = iceberg_schema(pq.read_schema(stream))
            refuse_retyped(metadata.schema(), columns)
            self._data_file(io, metadata, self._filesystem.uri(move.source))

    def commit(self, intent: Intent) -> None:
        """Commit to the table; if another writer commits first, commit on top of its snapshot."""
        for _ in range(ATTEMPTS):
            try:
                if self._step(intent):
                    return
            except (CommitFailedException, TableAlreadyExistsError) as error:
                log.info("another writer changed the Iceberg table: %s", error)
            except CommitUnknownError:
                raise
            except Exception as error:  # noqa: BLE001 - catalogs raise errors of their libraries
                self._explain(intent, error)
                return
        raise gave_up(self._spec)

    def make_durable(self, intent: Intent) -> None:
        """Sync the folder of the metadata; its files were synced when they were written."""
        del intent
        table = self._table()
        if table is not None:
            make_durable(self._filesystem, [path_of(table.metadata_location)])

    def marks_deleted_rows(self) -> bool:
        """Return whether the table has delete files."""
        table = self._table()
        return table is not None and marks_deleted_rows(table)

    def marked_files(self) -> frozenset[str]:
        """Return the URIs of data files with rows that are marked as deleted."""
        table = self._table()
        return frozenset() if table is None else self._marked(table)

    def unremovable(self, files: Collection[str]) -> frozenset[str]:
        """Return an empty set: a delete file has no effect after the file that it names is gone."""
        del files
        return frozenset()

    def vacuum(self, hours: int, now_ms: int, *, is_look: bool) -> tuple[str, ...]:
        """Expire old snapshots, delete files that only they need, and return the files' paths."""
        table = self._table()
        if table is None:
            return ()
        act = IcebergVacuum(table, self._folder, self._filesystem)
        return act.carry_out(now_ms - hours * HOUR_MS, is_look=is_look)

    def close(self) -> None:
        """Close the connections to the catalog; the next call opens new connections."""
        catalog = vars(self).pop("_catalog", None)
        if catalog is not None:
            catalog.close()

    def _step(self, intent: Intent) -> bool:
        """Do one step of a commit; return whether the table now has the commit.

        Raises:
            CommitFailedException: another writer committed first.
        """
        commit, table = intent.commit, self._table()
        if table is None:
            self._create(commit)
            return False
        if _has(table, intent):
            return True
        everything = replaces_everything(self._spec, commit)
        removed = uris(commit.removes)
        if removed or everything:
            known = frozenset(file.uri for file in self._files(table))
            if everything:
                removed = known
            elif gone := removed - known:
                snapshot = table.current_snapshot()
                refuse_doubling(self._spec, gone, f"snapshot {snapshot and snapshot.snapshot_id}")
            elif apart := taken_apart(self._spec, commit):
                snapshot = table.current_snapshot()
                version = f"snapshot {snapshot and snapshot.snapshot_id}"
                refuse_marked_since(self._spec, apart & self._marked(table), version)
        self._write(table, intent, self._data_files(table, removed))
        return True

    def _write(self, table: Table, intent: Intent, removed: Sequence[DataFile]) -> None:
        commit = intent.commit
        sequence = str(intent.sequence)
        transaction = _never_repeated(table).transaction()
        self._evolve(transaction, commit)
        transaction.set_properties({f"{_SEQUENCE}{commit.source_name}": sequence})
        update = transaction.update_snapshot(
            {"dil.run": commit.run_id, "dil.source": commit.source_name, "dil.sequence": sequence}
        )
        metadata = transaction.table_metadata
        with update.overwrite() if removed else update.merge_append() as snapshot:
            for move in commit.moves:
                snapshot.append_data_file(self._data_file(table.io, metadata, move.target.uri))
            for file in removed:
                snapshot.delete_data_file(file)
        self._tidy(transaction.commit_transaction(), commit)

    def _tidy(self, table: Table, commit: Commit) -> None:
        """Merge manifests, and drop manifests that list no live file.

        The library keeps such manifests in a snapshot that replaces files. Without this step each
        publish would read the manifests of all earlier publishes.
        """
        snapshot = table.current_snapshot()
        if snapshot is None or len(snapshot.manifests(table.io)) < _MOST_MANIFESTS:
            return
        try:
            transaction = _never_repeated(table).transaction()
            properties = {"dil.run": commit.run_id, "dil.source": commit.source_name}
            with transaction.update_snapshot(properties).merge_append():
                pass
            transaction.commit_transaction()
        except CommitFailedException as error:
            log.info("manifests are not merged: %s", error)

    def _evolve(self, transaction: Transaction, commit: Commit) -> None:
        """Change the table's columns to the columns of a commit, and let readers find them by name.

        Raises:
            WriteError: a column's type would change in a way that the format forbids.
        """
        known = transaction.table_metadata
        if commit.schema:
            wanted = iceberg_schema(parse_schema(commit.schema), known.schema())
            refuse_retyped(known.schema(), wanted)
            try:
                with transaction.update_schema() as update:
                    update.union_by_name(wanted)
            except (ValidationError, ValueError) as error:
                raise self._unfit(error) from error
        if known.name_mapping() is None:
            names = transaction.table_metadata.schema().name_mapping
            transaction.set_properties(
                {TableProperties.DEFAULT_NAME_MAPPING: names.model_dump_json()}
            )

    def _create(self, commit: Commit) -> None:
        planned = self._planned_metadata(commit)
        self._catalog.create_namespace_if_not_exists(self._name[:-1])
        self._catalog.create_table(
            self._name,
            planned.schema(),
            location=planned.location,
            partition_spec=planned.spec(),
            properties=planned.properties,
        )

    def _planned_metadata(self, commit: Commit) -> TableMetadata:
        """Return the first metadata of a new table; the table's own folder has no data."""
        schema = iceberg_schema(parse_schema(commit.schema))
        location = location_of(self._filesystem, self._filesystem.uri(self._folder))
        return new_table_metadata(
            location=location,
            schema=schema,
            partition_spec=partition_spec(schema, self._spec.table.partition_fields),
            sort_order=UNSORTED_SORT_ORDER,
            properties={
                TableProperties.WRITE_METADATA_PATH: f"{location}/{_METADATA}",
                TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
                TableProperties.MANIFEST_MERGE_ENABLED: "true",
                TableProperties.MANIFEST_MIN_MERGE_COUNT: str(_MERGED_MANIFESTS),
            },
        )

    def _data_file(self, io: FileIO, metadata: TableMetadata, uri: str) -> DataFile:
        try:
            return parquet_file_to_data_file(io, metadata, location_of(self._filesystem, uri))
        except OverflowError as error:
            # The library has no bounds for some dates.
            with self._filesystem.open_input(self._filesystem.path_of(uri)) as stream:
                found = undated_column(pq.read_metadata(stream))
            if found is None:
                raise self._unfit(error) from error
            raise unfit(*found, "because a value is not in the years 1 to 9999") from error
        except ValueError as error:
            raise self._unfit(error) from error

    def _unfit(self, error: Exception) -> WriteError:
        return WriteError(
            f"the rows do not fit the Iceberg table {'.'.join(self._name)}: {error}",
            "Nothing was published. Give the columns the table's types with ms.output.schema or"
            " at the source, or publish to another extract.table.name.",
        )

    def _explain(self, intent: Intent, error: Exception) -> None:
        """Log or raise why a commit failed; the reason is not another writer's commit.

        Raises:
            WriteError: the table does not have the commit.
            CommitUnknownError: the catalog does not answer.
        """
        name = ".".join(self._name)
        try:
            is_there = self.has(intent)
        except (StateError, WriteError) as unread:
            raise CommitUnknownError(
                f"a commit to the Iceberg table {name} failed, and its catalog does not answer:"
                f" {type(error).__name__}",
                "Nothing was deleted. Run the job again when the catalog answers: the next run"
                " checks whether the table has the commit.",
            ) from unread
        if not is_there and isinstance(error, DilError):
            raise error
        if not is_there:
            raise WriteError(
                f"the Iceberg table {name} refused a commit: {type(error).__name__}:"
                f" {words(error)}",
                "Run the job again: it finishes the publish first.",
            ) from error
        log.warning("the Iceberg table has the commit; a step after it failed")

    @cached_property
    def _catalog(self) -> Catalog:
        return open_catalog(self._spec.table, self._filesystem)

    def _table(self) -> Table | None:
        """Return the catalog's table, None if the catalog has none.

        Raises:
            StateError: the table exists but cannot be read.
        """
        try:
            location = metadata_location(self._catalog, self._name)
            if self._held is None or self._held.metadata_location != location:
                self._held = self._catalog.load_table(self._name)
        except NoSuchTableError:
            self._held = None
            return None
        except DilError:
            raise
        except Exception as error:  # Catalogs raise errors of their libraries.
            raise StateError(
                f"the Iceberg table {'.'.join(self._name)} cannot be read:"
                f" {type(error).__name__}: {words(error)}",
                "Check its catalog and its metadata; nothing was changed.",
            ) from error
        held = self._held
        return Table(held.name(), held.metadata, held.metadata_location, held.io, self._catalog)

    def _files(self, table: Table) -> Sequence[TableFile]:
        """Return the data files of the current snapshot; each manifest is read only once."""
        manifests = list(_manifests(table))
        missing = [one for one in manifests if one.manifest_path not in self._listed]
        read = call_each(self._filesystem, lambda manifest: _table_files(manifest, table), missing)
        paths = (manifest.manifest_path for manifest in missing)
        listed = {**self._listed, **dict(zip(paths, read, strict=True))}
        self._listed = {one.manifest_path: listed[one.manifest_path] for one in manifests}
        return tuple(chain.from_iterable(self._listed.values()))

    def _marked(self, table: Table) -> frozenset[str]:
        marked = marked_files(table)
        if marked is None:
            return frozenset(file.uri for file in self._files(table))
        return frozenset(map(uri_of, marked))

    def _data_files(self, table: Table, wanted: frozenset[str]) -> list[DataFile]:
        """Return the table's full records of some of its files; call ``_files`` first."""
        found: list[DataFile] = []
        for manifest in _manifests(table) if wanted else ():
            are_wanted = [file.uri in wanted for file in self._listed[manifest.manifest_path]]
            if any(are_wanted):
                found += compress(_entries(manifest, table), are_wanted)
        return found


def _manifests(table: Table) -> Iterator[ManifestFile]:
    """Yield the manifests of the current snapshot that list files of rows."""
    snapshot = table.current_snapshot()
    for manifest in () if snapshot is None else snapshot.manifests(table.io):
        is_live = manifest.has_added_files() or manifest.has_existing_files()
        if is_live and manifest.content == ManifestContent.DATA:
            yield manifest


def _entries(manifest: ManifestFile, table: Table) -> list[DataFile]:
    entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    return [entry.data_file for entry in entries]


def _table_files(manifest: ManifestFile, table: Table) -> tuple[TableFile, ...]:
    return tuple(
        TableFile(uri_of(file.file_path), file.record_count, file.file_size_in_bytes)
        for file in _entries(manifest, table)
    )


def _has(table: Table, intent: Intent) -> bool:
    landed = table.properties.get(f"{_SEQUENCE}{intent.commit.source_name}")
    return landed is not None and int(landed) >= intent.sequence


def _is_older_copy(table: Table, source: str, landed: int) -> bool:
    """Return whether a catalog lacks a source's last commit, because an older copy replaced it."""
    return int(table.properties.get(f"{_SEQUENCE}{source}", -1)) < landed


def _number(snapshot: Snapshot) -> int:
    return snapshot.sequence_number or 0


def _run(snapshot: Snapshot) -> str:
    return (snapshot.summary and snapshot.summary["dil.run"]) or ""


def _snapshots_of(table: Table, source: str) -> list[Snapshot]:
    return [
        each
        for each in table.metadata.snapshots
        if each.summary is not None and each.summary.get("dil.source") == source
    ]


def _rolled_back(table: Table, snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    """Return those snapshots that are no ancestors of the current one."""
    live = [*map(_number, ancestors_of(table.current_snapshot(), table.metadata))]
    # A tag may keep a snapshot from before the ancestors that did not expire.
    first = min(live, default=-1)
    return [each for each in snapshots if _number(each) not in live and _number(each) > first]


def _is_given_up(table: Table, intent: Intent) -> bool:
    known = table.properties.get(_given_up_property(intent.commit.source_name))
    return known == str(intent.sequence)


def _given_up_property(source: str) -> str:
    return f"dil.{given_up_name(source)}"


def _never_repeated(table: Table) -> Table:
    """Return a table whose commits the library does not retry.

    Another driver may have finished the same intent meanwhile, so DIL reads the table again first.
    """
    properties = {**table.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
    metadata = table.metadata.model_copy(update={"properties": properties})
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)
