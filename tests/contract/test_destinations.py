"""Our own destinations under the contract of destinations, as those of others."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from deltalake.exceptions import TableNotFoundError
from pyiceberg.exceptions import NoSuchTableError

from dil.model.job import PublishMode
from dil.publishing.files import FileDestination
from dil.publishing.manifest import live_paths
from dil.publishing.table_destination import TableDestination
from dil.publishing.warehouse import WarehouseDestination
from dil.storage import LocalFilesystem
from dil.testing.destination_contract import DestinationContract, DestinationHarness
from tests.table_readers import rows_of

PUBLISHING = str(Path(__file__).parents[2] / "dil" / "publishing")
# Under window_replace rows carry their work unit in a column, which the writers of a run add.
LOADED = (PublishMode.APPEND, PublishMode.REPLACE)


class FilesHarness(DestinationHarness):
    kind = FileDestination
    code = PUBLISHING
    every = 17

    def properties(self) -> Mapping[str, str]:
        return {"writer.output.format": "PARQUET"}

    def ids(self) -> Sequence[int]:
        dataset = str(self.folder / "lake" / "trial" / "rows")
        paths = live_paths(LocalFilesystem(), dataset) or ()
        return [row["id"] for path in paths for row in pq.read_table(path).to_pylist()]


class TableHarness(DestinationHarness):
    kind = TableDestination
    code = PUBLISHING
    every = 41
    format: str

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "state").mkdir()  # as the state store of a run does

    def properties(self) -> Mapping[str, str]:
        return {"ms.table.format": self.format}

    def ids(self) -> Sequence[int]:
        with suppress(NoSuchTableError, TableNotFoundError):
            return rows_of(self.format, self.folder, "trial.rows")["id"].to_pylist()
        return []


class DeltaHarness(TableHarness):
    can_fork = False  # tests/integration/test_table_kills.py kills whole runs
    format = "delta"


class IcebergHarness(TableHarness):
    format = "iceberg"


class SqliteHarness(DestinationHarness):
    kind = WarehouseDestination
    modes = LOADED
    code = PUBLISHING
    every = 37

    def properties(self) -> Mapping[str, str]:
        return {"ms.warehouse.url": f"sqlite:///{self.folder}/rows.db"}

    def ids(self) -> Sequence[int]:
        with closing(sqlite3.connect(self.folder / "rows.db")) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'rows'").fetchone():
                return []
            return [row[0] for row in database.execute("SELECT id FROM rows")]


class DuckdbHarness(DestinationHarness):
    kind = WarehouseDestination
    modes = LOADED
    code = PUBLISHING
    every = 97

    def properties(self) -> Mapping[str, str]:
        return {"ms.warehouse.url": f"duckdb:///{self.folder}/rows.duckdb"}

    def ids(self) -> Sequence[int]:
        path = self.folder / "rows.duckdb"
        if not path.exists():
            return []
        with duckdb.connect(str(path)) as database:
            found = database.sql("FROM duckdb_tables() WHERE table_name = 'rows'").fetchall()
            rows = database.sql("SELECT id FROM trial.rows").fetchall() if found else []
            return [row[0] for row in rows]


HARNESSES = (FilesHarness, DeltaHarness, IcebergHarness, SqliteHarness, DuckdbHarness)


@pytest.mark.parametrize("store", HARNESSES, indirect=True)
class TestDestinations(DestinationContract):
    @pytest.fixture
    def store(self, request: pytest.FixtureRequest, tmp_path: Path) -> DestinationHarness:
        return request.param(tmp_path)

    @pytest.mark.long_where(store=[DuckdbHarness])
    @pytest.mark.parametrize(
        "mode", [PublishMode.APPEND, PublishMode.REPLACE, PublishMode.WINDOW_REPLACE]
    )
    def test_a_kill_at_any_line_loses_and_doubles_nothing(
        self, store: DestinationHarness, mode: PublishMode
    ) -> None:
        super().test_a_kill_at_any_line_loses_and_doubles_nothing(store, mode)
