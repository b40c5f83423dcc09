"""Rows of a table marked as deleted beside their files, as other engines do it."""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, TableFeatures
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from pyroaring import BitMap

from tests.table_readers import iceberg_table, ids

_ROARING = 1681511377
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def mark_deleted(kind: str, dataset: Path, file: Path, positions: Sequence[int]) -> None:
    """Mark rows of a live file as deleted: by a deletion vector, or by a file of positions."""
    if kind == "delta":
        _by_deletion_vector(dataset, file, positions)
    else:
        _by_positions(iceberg_table(dataset.parents[2]), file, positions)


def left_of(kind: str, dataset: Path) -> Counter[tuple[str, int]]:
    """Return the rows that a reader finds who honours such marks."""
    if kind == "iceberg":
        return ids(iceberg_table(dataset.parents[2]).scan().to_arrow())
    query = QueryBuilder().register("t", DeltaTable(dataset)).execute("SELECT unit, id FROM t")
    return ids(pa.table(query.read_all()))


# Delta, see "Deletion Vector Format" and "Add File" in its protocol


def _by_deletion_vector(dataset: Path, file: Path, positions: Iterable[int]) -> None:
    table = DeltaTable(dataset)
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        feature = TableFeatures.DeletionVectors
        table.alter.add_feature(feature, allow_protocol_versions_increase=True)
    added = _add_of(dataset, str(file.relative_to(dataset)))
    bitmap = BitMap(positions).serialize()
    data = struct.pack("<iqi", _ROARING, 1, 0) + bitmap
    name = uuid.uuid4()
    framed = b"\x01" + struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    (dataset / f"deletion_vector_{name}.bin").write_bytes(framed)
    vector = {
        "storageType": "u",
        "pathOrInlineDv": _z85(name.bytes),
        "offset": 1,
        "sizeInBytes": len(data),
        "cardinality": len(list(positions)),
    }
    removed = {"path": added["path"], "deletionTimestamp": 1, "dataChange": True}
    actions = [
        {"commitInfo": {"timestamp": 1, "operation": "DELETE"}},
        {"remove": removed},
        {"add": {**added, "deletionVector": vector}},
    ]
    log = dataset / "_delta_log" / f"{DeltaTable(dataset).version() + 1:020}.json"
    log.write_text("\n".join(map(json.dumps, actions)))


def _add_of(dataset: Path, path: str) -> dict[str, Any]:
    """Return the newest action of the log that added a file."""
    found: dict[str, Any] = {}
    for log in sorted((dataset / "_delta_log").glob("*.json")):
        for line in log.read_text().splitlines():
            action = json.loads(line).get("add")
            if action and unquote(action["path"]) == path:
                found = action
    return found


def _z85(data: bytes) -> str:
    text = ""
    for (number,) in struct.iter_unpack(">I", data):
        digits = (_Z85[number // 85**place % 85] for place in (4, 3, 2, 1, 0))
        text += "".join(digits)
    return text


# Iceberg, see "Position Delete Files" in its specification

_PATH_ID, _PLACE_ID = 2147483546, 2147483545
_POSITIONS = pa.schema(
    [
        pa.field(name, kind, nullable=False, metadata={"PARQUET:field_id": str(number)})
        for name, kind, number in (
            ("file_path", pa.string(), _PATH_ID),
            ("pos", pa.int64(), _PLACE_ID),
        )
    ]
)


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _AddDeletes(_FastAppendFiles):
    """A snapshot that adds one file of deletes."""

    deletes: DataFile

    def _manifests(self) -> list[ManifestFile]:
        metadata = self._transaction.table_metadata
        writer = _DeletesWriter(
            metadata.spec(),
            metadata.schema(),
            self.new_manifest_output(),
            self._snapshot_id,
            self._compression,
        )
        with writer:
            entry = ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=self._snapshot_id,
                sequence_number=None,
                file_sequence_number=None,
                data_file=self.deletes,
            )
            writer.add(entry)
        return [writer.to_manifest_file(), *self._existing_manifests()]


def _by_positions(table: Table, file: Path, positions: Sequence[int]) -> None:
    (task,) = [
        each for each in table.scan().plan_files() if each.file.file_path.endswith(str(file))
    ]
    where = task.file.file_path
    path = file.with_name(f"deletes-{uuid.uuid4()}.parquet")
    rows = {"file_path": [where] * len(positions), "pos": sorted(positions)}
    pq.write_table(pa.table(rows, schema=_POSITIONS), path)
    deletes = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=where.replace(file.name, path.name),
        file_format=FileFormat.PARQUET,
        partition=task.file.partition if task.file.partition is not None else Record(),
        record_count=len(positions),
        file_size_in_bytes=path.stat().st_size,
        lower_bounds={_PATH_ID: where.encode()},
        upper_bounds={_PATH_ID: where.encode()},
    )
    deletes.spec_id = task.file.spec_id
    _add(table, deletes)


def delete_by_value(dataset: Path, unit: str) -> None:
    """Delete the rows of a unit from an Iceberg table by a file of values, as Flink does."""
    table = iceberg_table(dataset.parents[2])
    field = table.schema().find_field("unit")
    path = dataset / f"deletes-{uuid.uuid4()}.parquet"
    metadata = {"PARQUET:field_id": str(field.field_id)}
    schema = pa.schema([pa.field("unit", pa.string(), metadata=metadata)])
    pq.write_table(pa.table({"unit": [unit]}, schema=schema), path)
    deletes = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=path.stat().st_size,
        equality_ids=[field.field_id],
    )
    deletes.spec_id = table.spec().spec_id
    _add(table, deletes)


def _add(table: Table, deletes: DataFile) -> None:
    transaction = table.transaction()
    snapshot = _AddDeletes(Operation.DELETE, transaction, table.io)
    snapshot.deletes = deletes
    snapshot.commit()
    transaction.commit_transaction()
