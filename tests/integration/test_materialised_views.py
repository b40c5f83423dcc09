"""Timeseries materialised views: a statement over a warehouse whose result is kept by timelabel."""

from __future__ import annotations

import json
import runpy
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import pytest

from dil import config
from dil.model.report import RunReport, RunStatus
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from tests.jobs import ROOT, write_job
from tests.marks import some_long
from tests.servers import mariadb, postgresql
from tests.servers.rows import DAY_MS, START_MS
from tests.stories import executor
from tests.timeseries import tables
from tests.warehouses import ENGINES, Warehouse, new_warehouse

DAYS = [f"202001{day:02}000000" for day in range(1, 6)]
VIEW = "mv_sales"
EXAMPLES = ROOT / "conf/examples"
STATEMENT = (
    "select shop, count(*) as orders, sum(amount) as amount from {table} "
    "where sold_at >= {{{{low}}}} and sold_at < {{{{high}}}} group by shop order by shop"
)


@pytest.fixture(params=some_long(ENGINES, "duckdb"))
def warehouse(request, tmp_path):
    with new_warehouse(request.param, tmp_path, request) as made:
        if made.prefix:
            made.execute(f"CREATE SCHEMA {made.schema}")
        columns = "sold_at BIGINT, shop VARCHAR(10), amount BIGINT"
        made.execute(f"CREATE TABLE {made.prefix}sales ({columns})")
        yield made


def source_of(warehouse: Warehouse) -> dict[str, str]:
    """Return where the statement is run: in the warehouse itself."""
    if warehouse.engine in {"duckdb", "sqlite"}:
        return {"ms__source__uri": f"jdbc:{warehouse.engine}:{warehouse.path}"}
    place = urlsplit(warehouse.url)
    server = postgresql if warehouse.engine == "postgresql" else mariadb
    return {
        "ms__source__uri": f"jdbc:{warehouse.engine}://127.0.0.1:{place.port}{place.path}",
        "source__conn__username": "admin",
        "source__conn__password": server.PASSWORD,
    }


def view_job(folder: Path, warehouse: Warehouse, **changes: str) -> Path:
    facts = {
        "source__class": "jdbc",
        "ms__jdbc__statement": STATEMENT.format(table=f"{warehouse.prefix}sales"),
        "ms__watermark": '[{"name": "system", "type": "datetime", '
        '"range": {"from": "2020-01-01", "to": "P0D"}}]',
        "ms__parameters": '[{"name": "low", "type": "watermark", "value": "low"}, '
        '{"name": "high", "type": "watermark", "value": "high"}]',
        "ms__session__key__field": "",
        "ms__data__field": "",
        "ms__output__schema": json.dumps(
            [
                {"columnName": name, "isNullable": True, "dataType": {"type": kind}}
                for name, kind in (("shop", "string"), ("orders", "long"), ("amount", "long"))
            ]
        ),
        "ms__warehouse__url": warehouse.url,
        "ms__warehouse__table__kind": "timeseries",
        "ms__timelabel__schedule": "@daily",
        "ms__grace__period__days": "1",
        "extract__table__name": VIEW,
        **source_of(warehouse),
    }
    return write_job(folder, "http://unused", **{**facts, **changes})


def run(job: Path, day: float) -> RunReport:
    """Run a job some days after the first one of the sales began."""
    now = START_MS + int(day * DAY_MS)
    options = RunOptions(now_ms=now, clock=lambda: now, executor=executor())
    return run_job(config.load(job, environ={}).job, options)


def sell(warehouse: Warehouse, day: int, shop: str, amount: int) -> None:
    at = START_MS + day * DAY_MS
    warehouse.execute(f"INSERT INTO {warehouse.prefix}sales VALUES ({at}, '{shop}', {amount})")


def shown(warehouse: Warehouse) -> list[tuple]:
    return warehouse.rows(
        f"SELECT _timelabel, shop, orders, amount FROM {warehouse.prefix}{VIEW}_view ORDER BY 1, 2"
    )


def test_a_view_is_kept_by_label_and_refreshed_label_by_label(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    job = view_job(tmp_path / "job", warehouse)
    sell(warehouse, 0, "a", 10)
    sell(warehouse, 0, "a", 5)
    sell(warehouse, 0, "b", 1)
    sell(warehouse, 1, "a", 7)

    assert run(job, 2).status is RunStatus.SUCCESS
    assert shown(warehouse) == [(DAYS[0], "a", 2, 15), (DAYS[0], "b", 1, 1), (DAYS[1], "a", 1, 7)]

    sell(warehouse, 1, "a", 3)  # within the grace period
    sell(warehouse, 0, "a", 100)  # long after
    sell(warehouse, 2, "b", 4)
    assert run(job, 3).status is RunStatus.SUCCESS
    assert shown(warehouse) == [
        (DAYS[0], "a", 2, 15), (DAYS[0], "b", 1, 1), (DAYS[1], "a", 2, 10), (DAYS[2], "b", 1, 4),
    ]  # fmt: skip

    assert warehouse.rows(f"SELECT COUNT(*) FROM {warehouse.prefix}{VIEW}") == [(0,)]
    named = {name for name in tables(warehouse) if VIEW in name}
    assert named == {VIEW, *(f"_{VIEW}_{day}" for day in DAYS[:3])}


def test_a_view_of_all_there_is_has_a_reading_of_each_label(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    statement = (
        "select shop, count(*) as orders, sum(amount) as amount "
        f"from {warehouse.prefix}sales group by shop"
    )
    timeless = {"ms__watermark": "", "ms__parameters": "", "ms__work__unit__partition": "none",
                "ms__grace__period__days": "0"}  # fmt: skip
    job = view_job(tmp_path / "job", warehouse, ms__jdbc__statement=statement, **timeless)
    sell(warehouse, 0, "a", 10)
    run(job, 1)
    sell(warehouse, 1, "a", 20)
    run(job, 2)
    sell(warehouse, 1, "a", 30)
    run(job, 2.5)

    assert shown(warehouse) == [(DAYS[0], "a", 1, 10), (DAYS[1], "a", 3, 60)]


def test_the_longest_name_of_a_view_keeps_labels_apart(tmp_path: Path, request) -> None:
    view = "v" * 44
    with new_warehouse("postgresql", tmp_path, request) as warehouse:
        warehouse.execute("CREATE SCHEMA shop", "CREATE TABLE shop.sales "
                          "(sold_at BIGINT, shop VARCHAR(10), amount BIGINT)")  # fmt: skip
        job = view_job(tmp_path / "job", warehouse, extract__table__name=f"mv_{view}")
        sell(warehouse, 0, "a", 1)
        sell(warehouse, 1, "a", 2)
        run(job, 2)
        assert {f"_mv_{view}_{day}" for day in DAYS[:2]} < tables(warehouse)
        text = f'SELECT _timelabel, amount FROM shop."mv_{view}_view" ORDER BY 1'
        assert warehouse.rows(text) == [(DAYS[0], 1), (DAYS[1], 2)]


def test_the_example_sums_the_days_that_another_example_loads(tmp_path: Path) -> None:
    runpy.run_path(str(EXAMPLES / "database/make_database.py"))["make"](tmp_path / "orders.duckdb")
    file = tmp_path / "timeseries.duckdb"
    moved = {
        "ms.warehouse.url": f"duckdb:///{file}",
        "data.publisher.final.dir": str(tmp_path / "lake"),
        "state.store.dir": str(tmp_path / "state"),
    }
    now = int(datetime(2024, 5, 4, 0, 30, tzinfo=UTC).timestamp() * 1000)
    sources = {"timeseries": tmp_path / "orders.duckdb", "materialised_view": file}
    reports = {}
    for name in ("timeseries", "materialised_view", "materialised_view"):
        changes = {**moved, "ms.source.uri": f"jdbc:duckdb:{sources[name]}"}
        loaded = config.load(EXAMPLES / f"warehouse/{name}.conf", environ={}, overrides=changes)
        assert loaded.notices == ()
        options = RunOptions(now_ms=now, clock=lambda at=now: at, executor=executor())
        reports[name] = run_job(loaded.job, options)
        assert reports[name].status is RunStatus.SUCCESS
        now += DAY_MS // 24

    assert "2 timelabels, the newest 20240503000000" in "".join(reports["materialised_view"].notes)
    with duckdb.connect(str(file)) as connection:
        summed = "SELECT _timelabel, sum(orders), sum(amount) FROM demo.mv_sales_view GROUP BY 1"
        held = "SELECT _timelabel, count(*), sum(amount) FROM demo.orders_by_day_view GROUP BY 1"
        found = sorted(connection.execute(summed).fetchall())
        assert found == sorted(connection.execute(held).fetchall())
        assert [label for label, _, _ in found] == [f"2024050{day}000000" for day in (1, 2, 3)]
