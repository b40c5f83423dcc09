"""Tables and partitions in a Hive metastore: the embedded one, told and read through Spark."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from dil import config
from dil.catalog.metastore import CatalogTable, Partition, TableChange
from dil.errors import ConfigError, WriteError
from dil.execution.hive import open_hive
from dil.execution.session import SparkSettings, spark_context
from dil.execution.stages import Executors
from dil.model.destination import CatalogSpec, CatalogType
from dil.model.job import OutputFormat
from dil.run.catalog_sync import sync_catalog
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.state import open_store
from tests.jobs import ROOT, dataset
from tests.servers.programs import free_port
from tests.stories import Story, day, executor

EXAMPLE = ROOT / "conf" / "examples" / "catalog" / "hive.conf"
NOW_MS = 1_357_387_200_000  # 2013-01-05T12:00:00Z
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def nothing():
    """Stand for what is to be done before a table changes."""


@pytest.fixture(scope="module")
def metastore(tmp_path_factory):
    """One metastore for all: a process can open one alone."""
    return tmp_path_factory.mktemp("hive")


@pytest.fixture(scope="module")
def context():
    cache = Path.home() / ".cache" / "dil"
    with spark_context(SparkSettings("hive", 1, dict(os.environ), cache)) as running:
        yield running


@pytest.fixture
def hive(context, metastore):
    spec = CatalogSpec(CatalogType.HIVE, "lake", "t", str(metastore))
    with open_hive(spec, SparkSettings("hive", 1, dict(os.environ))) as opened:
        yield opened


def rows(hive, statement):
    return [tuple(row) for row in hive._session.sql(statement).collect()]


def test_without_any_metastore_none_is_made_in_this_folder(context, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = CatalogSpec(CatalogType.HIVE, "d", "t")
    with (
        pytest.raises(ConfigError, match=r"ms\.catalog\.hive\.metastore"),
        open_hive(spec, SparkSettings("hive", 1)),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_without_any_metastore_no_row_is_read(context, tmp_path, source):
    story = Story(tmp_path, source, ms__catalog__type="hive", taskexecutor__threadpool__size="1")
    options = RunOptions(now_ms=day(1), clock=lambda: day(1), environ=dict(os.environ))

    report = run_job(story.job(), options)

    (failure,) = report.failures
    assert (report.exit_code, failure.code) == (1, "DIL-CONFIG")
    assert "ms.catalog.hive.metastore is not set" in failure.error
    assert source.requests == []
    assert not list(dataset(tmp_path).glob("**/*.parquet"))


def test_a_session_forgets_the_metastore_when_it_is_closed(context, metastore):
    hadoop = context._jsc.hadoopConfiguration()
    names = ("javax.jdo.option.ConnectionURL", "datanucleus.schema.autoCreateAll")
    before = [hadoop.get(name) for name in names]
    spec = CatalogSpec(CatalogType.HIVE, "lake", "t", str(metastore))

    with open_hive(spec, SparkSettings("hive", 1)):
        assert str(metastore) in hadoop.get(names[0])

    assert [hadoop.get(name) for name in names] == before


def test_a_run_is_found_by_its_labels_and_so_is_the_next(tmp_path, source, hive, metastore):
    story = Story(
        tmp_path,
        source,
        ms__catalog__type="hive",
        ms__catalog__hive__metastore=str(metastore),
        ms__publish__layout="timelabel",
        ms__timelabel__schedule="@daily",
        ms__table__partition__fields="unit",
    )

    def run(now):
        report = story.run(now)
        with story.store() as store:
            executors = Executors(story.job(), dict(os.environ))
            return sync_catalog(story.job(), store, report, executors)

    assert run(day(2)).status.value == "success"
    counted = "SELECT y, m, d, unit, count(*) FROM shop.orders GROUP BY ALL ORDER BY ALL"
    two = [("2020", "01", f"{d:02}", unit, 4) for d in (1, 2) for unit in ("a", "b")]
    assert rows(hive, counted) == two
    assert run(day(2)).status.value == "nothing_due"
    assert run(day(3)).status.value == "success"
    hive._session.sql("REFRESH TABLE shop.orders")
    assert len(rows(hive, counted)) == 6
    assert rows(hive, "SELECT min(id), max(id) FROM shop.orders WHERE d = '03'") == [(8, 11)]
    described = rows(hive, "DESCRIBE FORMATTED shop.orders")
    assert ("Type", "EXTERNAL", "") in described
    assert ("Location", f"file:{dataset(tmp_path)}", "") in described


def test_the_example_is_found_by_its_days(tmp_path, hive, metastore):
    places = {
        "data.publisher.final.dir": tmp_path / "lake",
        "state.store.dir": tmp_path / "state",
        "ms.catalog.hive.metastore": metastore,
    }
    overrides = {name: str(place) for name, place in places.items()}
    job = config.load(EXAMPLE, overrides=overrides, environ={}).job
    options = RunOptions(now_ms=NOW_MS, clock=lambda: NOW_MS, executor=executor(), run_id="r1")
    report = run_job(job, options)
    with open_store(job.state, job.name, clock=lambda: NOW_MS) as store:
        executors = Executors(job, dict(os.environ))
        assert sync_catalog(job, store, report, executors).exit_code == 0
    hive._session.sql("REFRESH TABLE weather.by_day")
    found = rows(
        hive, "SELECT d, min(to_date(time_hour)) FROM weather.by_day GROUP BY d ORDER BY d"
    )
    assert found == [(f"{number:02}", date(2013, 1, number)) for number in (2, 3, 4)]


VALUES = {
    "Id": pa.array([1, 2], pa.int64()),
    "small": pa.array([1, None], pa.int16()),
    "price": pa.array([Decimal("1.25"), None], pa.decimal128(12, 2)),
    "at": pa.array([datetime(2020, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
    "on": pa.array([date(2020, 2, 29), None], pa.date32()),
    "blob": pa.array([b"\x00\xff", None], pa.binary()),
    "ok": pa.array([True, None], pa.bool_()),
    "rate": pa.array([0.1, None], pa.float64()),
    "tags": pa.array([["a", None], None], pa.list_(pa.string())),
    "who": pa.array([{"firstName": "x", "n": 1}, None]),
}
COLUMNS = (
    ("Id", "bigint"), ("small", "smallint"), ("price", "decimal(12,2)"), ("at", "timestamp"),
    ("on", "date"), ("blob", "binary"), ("ok", "boolean"), ("rate", "double"),
    ("tags", "array<string>"), ("who", "struct<firstName:string,n:bigint>"),
)  # fmt: skip


@pytest.mark.parametrize("form", [OutputFormat.PARQUET, OutputFormat.ORC])
def test_every_type_is_read_back_as_it_was_written(form, tmp_path, hive):
    folder = tmp_path / "t"
    folder.mkdir()
    write = pq.write_table if form is OutputFormat.PARQUET else orc.write_table
    write(pa.table(VALUES), folder / f"part-0.{form}")
    table = CatalogTable("lake", f"types_{form}", COLUMNS, (), f"file://{folder}", form, "j")
    assert hive.put_table(table, nothing) is TableChange.CREATED
    assert hive.put_table(table, nothing) is TableChange.NONE
    hive._session.conf.set("spark.sql.session.timeZone", "UTC")
    first, second = hive._session.sql(
        f"SELECT *, date_format(at, 'yyyy-MM-dd HH:mm:ss') AS moment FROM {table.full_name}"
        " ORDER BY id"
    ).collect()
    assert (first["Id"], first["small"], first["price"]) == (1, 1, Decimal("1.25"))
    assert (first["moment"], first["on"]) == ("2020-01-01 00:00:00", date(2020, 2, 29))
    assert (bytes(first["blob"]), first["ok"], first["rate"]) == (b"\x00\xff", True, 0.1)
    assert (first["tags"], first["who"].asDict()) == (["a", None], {"firstName": "x", "n": 1})
    assert set(second.asDict().values()) == {2, None}


def lake_table(folder, *columns, apart=("unit",)):
    return CatalogTable(
        "lake", folder.name.lower(), columns, apart, f"file://{folder}", OutputFormat.PARQUET, "j"
    )


def partition(folder, value, quoted):
    place = folder / f"unit={quoted}"
    place.mkdir(parents=True, exist_ok=True)
    return Partition((value,), f"file://{place}")


def test_values_that_folders_quote_and_null_are_found(tmp_path, hive):
    null = "__HIVE_DEFAULT_PARTITION__"
    texts = {"a/b c": "a%2Fb c", "it's=x": "it%27s%3Dx", "ü": "ü", "\\n": "%5Cn", null: null}
    found = [partition(tmp_path, value, quoted) for value, quoted in texts.items()]
    for number, each in enumerate(found):
        pq.write_table(pa.table({"id": [number]}), f"{each.location[7:]}/part-0.parquet")
    table = lake_table(tmp_path, ("id", "bigint"))
    hive.put_table(table, nothing)
    hive.put_partitions(table, found)
    hive.put_partitions(table, found)
    known = dict(rows(hive, f"SELECT unit, id FROM {table.full_name}"))
    assert known == {**{value: n for n, value in enumerate(texts) if value != null}, None: 4}
    hive.drop_partitions(table, found[:2])
    hive.drop_partitions(table, found[:2])
    assert len(rows(hive, f"SHOW PARTITIONS {table.full_name}")) == 3
    assert (tmp_path / "unit=a%2Fb c" / "part-0.parquet").exists()


def test_columns_grow_in_the_table_and_its_partitions_and_places_move(tmp_path, hive):
    first = lake_table(tmp_path, ("id", "int"), ("who", "struct<a:int>"))
    hive.put_table(first, nothing)
    hive.put_partitions(first, [partition(tmp_path, "a", "a")])
    wide = lake_table(
        tmp_path, ("id", "bigint"), ("who", "struct<a:int,b:string>"), ("new", "string")
    )
    assert hive.put_table(wide, nothing) is TableChange.CHANGED
    moved = Partition(("a",), f"file://{tmp_path}/elsewhere")
    hive.put_partitions(wide, [moved])
    assert hive.put_table(wide, nothing) is TableChange.NONE
    described = rows(hive, f"DESCRIBE FORMATTED {wide.full_name} PARTITION (unit='a')")
    assert ("new", "string", None) in described
    assert ("Location", f"file:{tmp_path}/elsewhere", "") in described


def test_a_table_of_someone_else_is_left_alone(tmp_path, hive):
    name = tmp_path.name.lower()
    hive._session.sql("CREATE DATABASE IF NOT EXISTS lake")
    hive._session.sql(f"CREATE TABLE lake.{name} (id INT) STORED AS PARQUET")
    with pytest.raises(WriteError, match="managed table"):
        hive.put_table(lake_table(tmp_path, ("id", "bigint")), nothing)
    mine = lake_table(tmp_path / "own", ("id", "bigint"))
    hive.put_table(mine, nothing)
    with pytest.raises(WriteError, match='partitioned by "unit"'):
        hive.put_table(lake_table(tmp_path / "own", ("id", "bigint"), apart=()), nothing)


def test_a_metastore_that_does_not_answer_is_named(context):
    address = f"thrift://127.0.0.1:{free_port()}"
    spec = CatalogSpec(CatalogType.HIVE, "d", "t", address)
    try:
        with (
            pytest.raises(WriteError, match=f"in the Hive metastore {address}: "),
            open_hive(spec, SparkSettings("hive", 1)),
        ):
            pass
    finally:
        context._jsc.hadoopConfiguration().unset("hive.metastore.uris")
