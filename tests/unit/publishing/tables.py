"""A table of Parquet files that a test publishes to, step by step, and that others write to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake
from deltalake.transaction import RemoveAction

from dil.model.dataset import Commit, Intent, Move, PublishedFile
from dil.model.destination import TableFormat, TableSpec
from dil.model.job import PublishingSpec, PublishMode
from dil.model.secret import SecretUrl
from dil.publishing.destination import destination_for
from dil.spi.destination import Destination
from dil.storage import LocalFilesystem
from dil.text.file_names import hive_folder
from dil.types.schema_text import schema_text
from tests.table_readers import delta_table, files_of, iceberg_table, rows_of

files = LocalFilesystem()
ORDERS = pa.schema([("id", pa.int64()), ("unit", pa.string())])
NOW = 1_600_000_000_000


def orders(*ids: int, unit: str = "a") -> pa.Table:
    return pa.table({"id": list(ids), "unit": [unit] * len(ids)}, schema=ORDERS)


@dataclass
class Shop:
    """The table ``shop.orders`` in a folder, of one format."""

    folder: Path
    kind: str
    mode: PublishMode = PublishMode.APPEND
    fields: tuple[str, ...] = ()
    catalog: str = ""
    staged: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        (self.folder / "state").mkdir(parents=True, exist_ok=True)

    @property
    def spec(self) -> PublishingSpec:
        lake = self.folder / "lake"
        own = f"sqlite:///{self.folder}/state/iceberg-catalog.db"
        return PublishingSpec(
            final_dir=str(lake),
            dataset_path="shop/orders",
            mode=self.mode,
            table=TableSpec(
                format=TableFormat(self.kind),
                namespace="shop",
                name="orders",
                partition_fields=self.fields,
                catalog_uri=SecretUrl(self.catalog or own),
                catalog_warehouse=f"file://{lake}",
            ),
        )

    @property
    def dataset(self) -> Path:
        return self.folder / "lake" / "shop" / "orders"

    def destination(self) -> Destination:
        return destination_for(self.spec, files)

    def move(self, run: str, rows: pa.Table, signature: str = "s", values: Sequence = ()) -> Move:
        """Stage rows, without the partition columns where the format wants that."""
        self.staged += 1
        path = self.folder / "lake" / "_staging" / run / f"{self.staged}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows.drop(list(self.fields)) if self.kind == "delta" else rows, path)
        below = self.dataset / hive_folder(self.fields, values) if self.fields else self.dataset
        target = PublishedFile(
            uri=files.uri(str(below / f"part-{run}-{self.staged}.parquet")),
            signature=signature,
            rows=rows.num_rows,
            bytes=path.stat().st_size,
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
            run_id=run,
        )
        return Move(str(path), target)

    def intent(
        self,
        run: str,
        *moves: Move,
        removes: Sequence[PublishedFile] = (),
        schema: pa.Schema | None = ORDERS,
        job: str = "orders",
    ) -> Intent:
        commit = Commit(
            run_id=run,
            config_digest="d",
            source_name=f"dil/{job}",
            moves=moves,
            removes=tuple(removes),
            schema="" if schema is None else schema_text(schema),
            system_time=NOW,
            horizon=NOW,
        )
        return Intent(commit, 1, str(self.dataset), self.destination().next_sequence())

    def publish(
        self,
        run: str,
        *tables: pa.Table,
        removes: Sequence[PublishedFile] = (),
        schema: pa.Schema | None = None,
        signature: str = "s",
    ) -> Intent:
        """Publish tables of rows, a file each, as a run does."""
        moves = [self.move(run, rows, signature) for rows in tables]
        wanted = schema or (tables[0].schema if tables else None)
        intent = self.intent(run, *moves, removes=removes, schema=wanted)
        self.require_fit(intent)
        self.destination().carry_out(intent)
        return intent

    def require_fit(self, intent: Intent) -> None:
        self.destination().require_fit(intent.commit)

    def live(self) -> Mapping[str, PublishedFile]:
        """Return the live files by run."""
        return {file.run_id: file for file in self.destination().live()}

    def ids(self) -> list[int]:
        return sorted(rows_of(self.kind, self.folder)["id"].to_pylist())

    def rows(self) -> list[dict[str, Any]]:
        rows = rows_of(self.kind, self.folder).to_pylist()
        return sorted(rows, key=lambda row: row["id"])

    def files(self) -> list[Path]:
        return files_of(self.kind, self.folder)

    def versions(self) -> int:
        """Return how often the table was changed."""
        if self.kind == "delta":
            return delta_table(self.folder).version()
        return len(iceberg_table(self.folder).metadata.snapshots)

    # Another program

    def append_elsewhere(self, rows: pa.Table) -> None:
        if self.kind == "delta":
            write_deltalake(str(self.dataset), rows, mode="append")
        else:
            iceberg_table(self.folder).append(rows)

    def remove_elsewhere(self, file: PublishedFile) -> None:
        path = files.path_of(file.uri)
        if self.kind == "delta":
            action = RemoveAction(path.rpartition("/")[2], data_change=True, deletion_timestamp=NOW)
            table = delta_table(self.folder)
            table.create_write_transaction([action], "append", table.schema())
            return
        table = iceberg_table(self.folder)
        gone = next(
            task.file for task in table.scan().plan_files() if task.file.file_path.endswith(path)
        )
        transaction = table.transaction()
        with transaction.update_snapshot().overwrite() as snapshot:
            snapshot.delete_data_file(gone)
        transaction.commit_transaction()

    def roll_back(self) -> None:
        """Go back to the version before the newest."""
        if self.kind == "delta":
            table = delta_table(self.folder)
            table.restore(table.version() - 1)
            return
        table = iceberg_table(self.folder)
        newest = table.current_snapshot()
        assert newest is not None
        assert newest.parent_snapshot_id is not None
        table.manage_snapshots().rollback_to_snapshot(newest.parent_snapshot_id).commit()
