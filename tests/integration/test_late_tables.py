"""Late rows of a warehouse are in a table of their own, loaded in the transaction of the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import ConfigError
from dil.model.report import RunStatus
from dil.publishing.publisher import Publisher
from dil.publishing.warehouse.late import LateTable
from tests.closing_days import ClosingDays, label
from tests.event_feed import Feed
from tests.marks import some_long
from tests.servers.day_rows import DayRows
from tests.servers.rows import DAY_MS, START_MS
from tests.warehouses import ENGINES, Warehouse, new_warehouse

BESIDE = {"ms__late__after__close": ""}


@pytest.fixture
def source() -> Iterator[DayRows]:
    with DayRows() as running:
        yield running


@pytest.fixture
def warehouse(request, tmp_path: Path) -> Iterator[Warehouse]:
    (tmp_path / "job").mkdir()
    with new_warehouse(request.param, tmp_path / "job", request) as made:
        yield made


def forget(days: ClosingDays, number: int) -> None:
    start = f"2020-01-{number + 1:02}"
    words = ["--from", start, "--to", f"{start}T12:00:00Z", "--keep-files", "--yes"]
    assert main(["state", "forget", str(days.path), *words]) == 0


def ids(warehouse: Warehouse, table: str) -> list[int]:
    return [
        row[0] for row in warehouse.rows(f"SELECT id FROM {warehouse.prefix}{table} ORDER BY id")
    ]


@pytest.mark.parametrize("warehouse", some_long(ENGINES, "duckdb"), indirect=True)
@pytest.mark.parametrize("kind", ["regular", "timeseries"])
def test_rows_for_a_closed_label_are_in_a_table_beside_that_of_the_dataset(
    source, warehouse: Warehouse, tmp_path: Path, kind: str
):
    mode = "window_replace" if kind == "regular" else ""
    days = ClosingDays(
        tmp_path / "job",
        source,
        **BESIDE,
        ms__warehouse__url=warehouse.url,
        ms__warehouse__table__kind=kind,
        ms__publish__mode=mode,
    )
    main_table = "orders" if kind == "regular" else "orders_view"
    days.fill(0, 1)
    days.run(2)
    forget(days, 0)
    days.fill(0, 2, rows=4)
    days.run(3)
    assert ids(warehouse, main_table) == [0, 1, 2, 100, 101, 102, 200, 201, 202, 203]
    assert ids(warehouse, "orders_late") == [0, 1, 2, 3]
    labels = f"SELECT DISTINCT _timelabel FROM {warehouse.prefix}orders_late"
    assert [tuple(row) for row in warehouse.rows(labels)] == [(label(0),)]
    assert [row["id"] for row in days.beside()] == [0, 1, 2, 3]

    forget(days, 0)
    days.fill(0, rows=5)
    days.run(3)
    assert ids(warehouse, "orders_late") == [0, 1, 2, 3, 4]

    assert main(["timelabels", "reopen", str(days.path), label(0), "--yes"]) == 0
    forget(days, 0)
    days.run(3)
    assert ids(warehouse, main_table) == [0, 1, 2, 3, 4, 100, 101, 102, 200, 201, 202, 203]
    assert ids(warehouse, "orders_late") == []
    assert days.beside() == []
    assert main(["state", "verify", str(days.path)]) == 0


@pytest.mark.parametrize("warehouse", ["postgresql", "sqlite"], indirect=True)
@pytest.mark.parametrize("after_close", ["side_table", "reject"])
@pytest.mark.parametrize("is_told", [False, True])
def test_rows_of_a_closed_label_stay_in_a_table_where_others_of_their_work_unit_are_replaced(
    source, warehouse: Warehouse, tmp_path: Path, after_close: str, *, is_told: bool
):
    """Only a column of the table tells of which label each row is."""
    days = ClosingDays(
        tmp_path / "job",
        source,
        ms__late__after__close=after_close,
        ms__warehouse__url=warehouse.url,
        ms__timelabel__column="at",
        ms__grace__period__days="1",
        ms__output__system__columns="_timelabel" if is_told else "",
    )
    first, second = START_MS + 5, START_MS + DAY_MS + 5
    source.days[START_MS] = [{"id": 0, "at": first}]
    source.days[START_MS + DAY_MS] = [{"id": 100, "at": second}, {"id": 101, "at": first}]
    days.run(2)
    assert days.closed(4) == [0]
    source.days[START_MS + DAY_MS] = [{"id": 102, "at": second}, {"id": 103, "at": first}]
    done = days.run(3)
    if not is_told:
        assert done.status is RunStatus.FAILED
        assert "has no column _timelabel" in done.failures[0].error
        assert ids(warehouse, "orders") == [0, 100, 101]
        return
    assert done.status is RunStatus.SUCCESS
    assert ids(warehouse, "orders") == [0, 101, 102]
    if after_close == "side_table":
        assert ids(warehouse, "orders_late") == [103]


class Crash(BaseException):
    """The driver is gone."""


@pytest.mark.parametrize("warehouse", ["postgresql", "sqlite"], indirect=True)
def test_what_is_beside_is_not_loaded_where_the_other_rows_are_not(
    source, warehouse: Warehouse, tmp_path: Path, monkeypatch
):
    days = ClosingDays(
        tmp_path / "job",
        source,
        **BESIDE,
        ms__warehouse__url=warehouse.url,
    )
    days.fill(0, 1)
    days.run(2)
    forget(days, 0)
    days.fill(0, 2, rows=4)
    load = LateTable.load

    def load_and_stop(*given: object) -> None:
        load(*given)  # type: ignore[arg-type]
        raise Crash

    monkeypatch.setattr(LateTable, "load", load_and_stop)
    with pytest.raises(Crash):
        days.run(3)
    monkeypatch.undo()
    assert ids(warehouse, "orders") == [0, 1, 2, 100, 101, 102]
    found = warehouse.rows(
        "SELECT 1 FROM sqlite_master WHERE name = 'orders_late'"
        if warehouse.engine == "sqlite"
        else "SELECT 1 FROM pg_tables WHERE tablename = 'orders_late'"
    )
    assert list(found) == []
    days.run(3)
    assert ids(warehouse, "orders") == [0, 1, 2, 100, 101, 102, 200, 201, 202, 203]
    assert ids(warehouse, "orders_late") == [0, 1, 2, 3]


@pytest.mark.parametrize("warehouse", ["sqlite"], indirect=True)
def test_a_table_of_the_name_that_is_another_one_is_refused(
    source, warehouse: Warehouse, tmp_path: Path
):
    days = ClosingDays(tmp_path / "job", source, **BESIDE, ms__warehouse__url=warehouse.url)
    warehouse.execute("CREATE TABLE orders_late (id INTEGER)")
    days.fill(0)
    with pytest.raises(ConfigError, match=r"orders_late.*is another one"):
        days.run(1)
    assert warehouse.rows("SELECT COUNT(*) FROM orders_late") == [(0,)]


@pytest.mark.parametrize("warehouse", ["postgresql"], indirect=True)
def test_a_table_whose_late_rows_could_have_none_is_refused(
    source, warehouse: Warehouse, tmp_path: Path
):
    """PostgreSQL would cut the name off, and take it for another table."""
    settings = {"ms__warehouse__url": warehouse.url, "extract__table__name": "o" * 60}
    days = ClosingDays(tmp_path / "job", source, **BESIDE, **settings)
    days.fill(0)
    with pytest.raises(ConfigError, match="is too long"):
        days.run(1)


@pytest.mark.parametrize("warehouse", ["postgresql", "sqlite"], indirect=True)
def test_late_rows_alone_that_landed_are_not_read_again_when_their_publish_is_given_up(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    changes = {"ms.late.action": "side_table", "ms.warehouse.url": warehouse.url}
    feed = Feed(tmp_path / "feed", **changes, **{"extract.namespace": "shop"})
    feed.put(-10)
    feed.run()
    feed.put(-12, -13)

    def crash(*_: object) -> None:
        raise Crash

    monkeypatch.setattr(Publisher, "append_block", crash)
    with pytest.raises(Crash):
        feed.run(at=1)
    monkeypatch.undo()
    assert ids(warehouse, "feed_late") == [200, 201]

    assert main(["runs", "abandon", str(feed.folder / "feed.conf"), "--yes"]) == 0
    feed.run(at=2)
    assert ids(warehouse, "feed_late") == [200, 201]
    assert main(["state", "verify", str(feed.folder / "feed.conf")]) == 0
