"""Rows of a database whose key a full reading did not have: they go, as long as they are few."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dil import config
from dil.errors import SourceContractError
from dil.model.report import RunReport, RunStatus
from dil.state import open_store
from dil.state.blocks.verification import verify_chain
from tests.integration.merge_jobs import SNAPSHOT, STRICT, Shop
from tests.marks import some_long
from tests.servers.day_rows import DayRows
from tests.warehouses import ENGINES, Warehouse, new_warehouse

OPS = {"ms.merge.op.field": "op"}
ALL = {"ms.merge.delete.limit.percent": "100"}


def row(key: int, name: str = "x", at: int = 1, **more: object) -> dict[str, object]:
    return {"id": key, "name": name, "at": at, **more}


TWENTY = [row(number) for number in range(20)]


@pytest.fixture
def source() -> Iterator[DayRows]:
    with DayRows({0: TWENTY}) as server:
        yield server


@pytest.fixture(params=some_long(ENGINES, "duckdb"))
def warehouse(request, tmp_path):
    with new_warehouse(request.param, tmp_path, request) as made:
        yield made


class Stock(Shop):
    """A job that reads all of its source each time and merges it into a database."""

    def __init__(self, folder: Path, source: DayRows, warehouse: Warehouse) -> None:
        super().__init__(folder, source, **{**SNAPSHOT, "ms.warehouse.url": warehouse.url})
        self.warehouse = warehouse

    def names_by_id(self, where: str = "1 = 1") -> dict[int, str]:
        table = f"{self.warehouse.prefix}orders"
        return dict(self.warehouse.rows(f"SELECT id, name FROM {table} WHERE {where} ORDER BY id"))


def test_what_the_source_has_no_more_is_deleted(
    warehouse: Warehouse, source: DayRows, tmp_path: Path
) -> None:
    stock = Stock(tmp_path / "job", source, warehouse)
    stock.run(1)
    source.days[0] = [row(2, "late", 0), *TWENTY[3:], row(30, "new")]

    report = stock.run(2)

    assert report.status is RunStatus.SUCCESS
    expected = dict.fromkeys(range(2, 20), "x") | {30: "new"}
    assert stock.names_by_id() == expected  # a row that came with an older version is not missing
    loaded = config.load(stock.conf(), environ={}).job
    with open_store(loaded.state, loaded.name, clock=lambda: 0) as store:
        assert verify_chain(store).problems == ()


def test_a_first_reading_without_rows_deletes_nothing_and_the_next_one_merges(
    warehouse: Warehouse, source: DayRows, tmp_path: Path
) -> None:
    stock = Stock(tmp_path / "job", source, warehouse)
    source.days[0] = []
    assert stock.run(1).status is RunStatus.SUCCESS

    source.days[0] = TWENTY
    assert stock.run(2).status is RunStatus.SUCCESS

    assert len(stock.names_by_id()) == 20


def test_nothing_is_missing_where_rows_were_put_aside(
    warehouse: Warehouse, source: DayRows, tmp_path: Path
) -> None:
    """The key of a row that broke the contract may be that of any row."""
    stock = Stock(tmp_path / "job", source, warehouse)
    stock.run(1, **STRICT)
    source.days[0] = [{**row(0), "at": "no number"}, *TWENTY[2:]]

    report = stock.run(2, **STRICT)

    assert (report.status, report.aside.rows) == (RunStatus.SUCCESS, 1)
    assert stock.names_by_id() == dict.fromkeys(range(20), "x")


def refusal(report: RunReport) -> str:
    """Return why a run failed, which was for what the source lacks."""
    assert report.status is RunStatus.FAILED
    assert report.failures[0].code == SourceContractError.code
    return report.failures[0].error


@pytest.mark.parametrize("left", [0, 17])
def test_too_many_missing_rows_fail_the_run_before_anything_is_decided(
    warehouse: Warehouse, source: DayRows, tmp_path: Path, left: int
) -> None:
    stock = Stock(tmp_path / "job", source, warehouse)
    stock.run(1)
    source.days[0] = [row(number, "new", 2) for number in range(left)]

    assert f"{20 - left} of 20 rows" in refusal(stock.run(2))
    assert stock.names_by_id() == dict.fromkeys(range(20), "x")

    done = stock.run(3, **ALL)
    assert (done.status, done.recovered) == (RunStatus.SUCCESS, ())
    assert stock.names_by_id() == dict.fromkeys(range(left), "new")


def test_missing_rows_are_marked_once_where_deleted_rows_stay(
    warehouse: Warehouse, source: DayRows, tmp_path: Path
) -> None:
    stock = Stock(tmp_path / "job", source, warehouse)
    soft = {**OPS, "ms.merge.deletes": "soft"}
    source.days[0] = [{**each, "op": "u"} for each in TWENTY]
    stock.run(1, **soft)
    source.days[0] = TWENTY[1:]
    stock.run(2, **soft)
    marked = f"SELECT id, _dil_deleted_at FROM {warehouse.prefix}orders WHERE id < 2 ORDER BY id"
    ((_, first), (_, other)) = warehouse.rows(marked)
    assert (first is None, other is None) == (False, True)

    source.days[0] = TWENTY[2:]
    stock.run(3, **soft)
    assert len(stock.names_by_id("_dil_deleted_at IS NULL")) == 18
    assert len(stock.names_by_id()) == 20

    source.days[0] = TWENTY
    stock.run(4, **soft)
    assert len(stock.names_by_id("_dil_deleted_at IS NULL")) == 20


def test_all_rows_are_marked_where_the_source_has_none(
    warehouse: Warehouse, source: DayRows, tmp_path: Path
) -> None:
    stock = Stock(tmp_path / "job", source, warehouse)
    stock.run(1)
    source.days[0] = []

    assert stock.run(2, **ALL, **{"ms.merge.deletes": "soft"}).status is RunStatus.SUCCESS

    assert stock.names_by_id("_dil_deleted_at IS NULL") == {}
    assert len(stock.names_by_id()) == 20
