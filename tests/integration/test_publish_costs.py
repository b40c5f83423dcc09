"""What a publish to a database asks and reads, counted: it does not grow where it need not."""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa
import pytest

from dil.model.destination import MergeSpec
from dil.model.job import PublishMode
from dil.publishing.warehouse import WarehouseDestination, sqlite
from dil.storage import LocalFilesystem
from tests.timeseries import DAYS, Series, table
from tests.warehouses import Loads, new_warehouse


class CountingFilesystem(LocalFilesystem):
    """Counts how often a file is opened for reading."""

    def __init__(self) -> None:
        self.opened = 0

    def open_input(self, path: str) -> BinaryIO:
        self.opened += 1
        return super().open_input(path)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what SQLite is asked, as it is asked."""
    asked: list[str] = []
    real = sqlite._Connection.rows

    def rows(self, statement, *values):
        asked.append(statement)
        return real(self, statement, *values)

    monkeypatch.setattr(sqlite._Connection, "rows", rows)
    return asked


@pytest.mark.parametrize("labels", [1, 7])
def test_the_list_of_loaded_files_is_read_once_for_all_labels(
    tmp_path, request, statements, labels
):
    with new_warehouse("sqlite", tmp_path, request) as warehouse:
        series = Series(warehouse, tmp_path)
        series.publish(*((day, unit, table(1)) for day in DAYS[:7] for unit in "ab"))
        intent = series.decide(*((day, "a", table(2)) for day in DAYS[:labels]))
        statements.clear()

        series.destination.carry_out(intent)

        lists = [each for each in statements if 'FROM "dil_part"' in each]
        assert len(lists) == 1
        expected = [(day, n) for day in DAYS[:labels] for n in (1, 2)]
        assert series.rows()[: 2 * labels] == expected


def test_signatures_of_many_labels_are_asked_for_in_parts(tmp_path, request):
    with new_warehouse("sqlite", tmp_path, request) as warehouse:
        series = Series(warehouse, tmp_path)
        labels = [f"202001{1 + n // 24:02}{n % 24:02}0000" for n in range(210)]
        series.publish(*((label, unit, table(1)) for label in labels for unit in "ab"))
        series.publish(*((label, "a", table(2)) for label in labels))
        assert series.rows() == [(label, n) for label in labels for n in (1, 2)]


@pytest.mark.parametrize("mode", [PublishMode.APPEND, PublishMode.MERGE])
def test_each_staged_file_is_opened_twice_to_be_checked_and_twice_to_be_loaded(
    tmp_path, request, mode
):
    with new_warehouse("sqlite", tmp_path, request) as warehouse:
        merge = MergeSpec(("id",)) if mode is PublishMode.MERGE else None
        loads = Loads(warehouse, tmp_path, mode, merge)
        intent = loads.intent("run-1", pa.table({"id": [1]}), pa.table({"id": [2]}))
        files = CountingFilesystem()
        destination = WarehouseDestination(loads.destination._spec, files)

        destination.require_fit(intent.commit)
        assert files.opened == 4
        destination.carry_out(intent)

        assert files.opened == 6  # what columns they have is known by then
        assert loads.rows("id") == [(1,), (2,)]


def test_rows_of_one_work_unit_are_found_by_an_index_that_takes_many_equal_values(
    tmp_path, request
):
    with new_warehouse("postgresql", tmp_path, request) as warehouse:
        loads = Loads(warehouse, tmp_path, PublishMode.WINDOW_REPLACE)
        loads.load("run-1", pa.table({"id": [1]}), units=["a"])
        ((kind,),) = warehouse.rows(
            "SELECT m.amname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
            "JOIN pg_am m ON m.oid = c.relam WHERE i.indrelid = 'shop.orders'::regclass"
        )
        assert kind == "btree"
        where = (
            "hashtextextended(_dil_signature, 0) IN (hashtextextended('a', 0)) "
            "AND _dil_signature IN ('a')"
        )
        with warehouse.reader() as connection:
            connection.execute("SET enable_seqscan = off")
            plan = connection.execute(f"EXPLAIN DELETE FROM shop.orders WHERE {where}").fetchall()
        assert "Index" in str(plan)

        long = "x" * 100_000  # longer than an index of texts takes
        loads.load("run-2", pa.table({"id": [2]}), units=[long])
        loads.load("run-3", pa.table({"id": [3]}), units=[long])
        assert loads.rows("id") == [(1,), (3,)]
