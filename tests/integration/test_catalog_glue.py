"""Tables and partitions in AWS Glue, which is moto's server here."""

from __future__ import annotations

import io
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dil.catalog.glue import ask, open_glue
from dil.catalog.metastore import CatalogTable, Partition, TableChange
from dil.errors import ConfigError, WriteError
from dil.execution.stages import Executors
from dil.model.destination import CatalogSpec, CatalogType
from dil.model.job import OutputFormat
from dil.operator.compaction import CompactionRequest, compact
from dil.run.catalog_sync import sync_catalog
from tests.integration.s3_places import Bucket, use
from tests.jobs import dataset, published_ids, visible_files
from tests.marks import some_long
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.servers.s3 import MotoServer
from tests.stories import STEP_MS, Story, day, ids_of
from tests.torture.kills import KillServer, spread, steps

KILL_SERVER = Path(__file__).parents[1] / "torture" / "compact_kill_server.py"
# The short form kills at this many steps; the long form (make torture) at all.
KILLS = int(os.environ.get("DIL_KILLS", "4"))
REGION = "eu-central-1"  # moto has a catalog for each region that AWS has


def nothing():
    """Stand for what is to be done before a table changes."""


@pytest.fixture(scope="module")
def server():
    with MotoServer() as running:
        yield running


class GlueStory(Story):
    """A story whose dataset is registered in a database of its own."""

    def __init__(self, folder, source, server, **changes):
        self.database = f"db_{folder.name}"[:100].lower()
        super().__init__(
            folder,
            source,
            ms__catalog__type="glue",
            ms__catalog__database=self.database,
            ms__catalog__glue__region=REGION,
            ms__catalog__glue__endpoint=server.url,
            **changes,
        )
        self.client = _client(server)

    def register(self, report, job=None):
        job = job or self.job()
        with self.store() as store:
            return sync_catalog(job, store, report, Executors(job, {}))

    def run_and_register(self, now, job=None):
        return self.register(self.run(now, job), job)

    def table(self):
        return self.client.get_table(DatabaseName=self.database, Name="orders")["Table"]

    def partitions(self):
        pages = self.client.get_paginator("get_partitions").paginate(
            DatabaseName=self.database, TableName="orders"
        )
        found = [each for page in pages for each in page["Partitions"]]
        return {tuple(each["Values"]): each["StorageDescriptor"] for each in found}


def _client(server):
    import botocore.session

    return botocore.session.Session().create_client(
        "glue", region_name=REGION, endpoint_url=server.url
    )


@pytest.fixture
def story(tmp_path, source, server, monkeypatch):
    use(server.url, monkeypatch)

    def made(**changes):
        return GlueStory(tmp_path, source, server, **changes)

    return made


def watermark(units):
    return (
        '[{"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "P0D"}},'
        f' {{"name": "unit", "type": "unit", "units": "{units}"}}]'
    )


def kept(folder):
    """Return the files that say what is registered."""
    return list((dataset(folder) / "_dil").glob("catalog-*.json"))


def forget(folder):
    for file in kept(folder):
        file.unlink()


LABELS = {"ms__publish__layout": "timelabel", "ms__timelabel__schedule": "@daily"}


def test_partitions_of_timelabels_are_registered_after_each_run(story, tmp_path):
    told = story(**LABELS)
    assert told.run_and_register(day(2)).status.value == "success"
    base = dataset(tmp_path)
    table = told.table()
    assert [(key["Name"], key["Type"]) for key in table["PartitionKeys"]] == [
        (name, "string") for name in "ymdhn"
    ]
    assert table["StorageDescriptor"]["Location"] == f"file://{base}"
    assert table["TableType"] == "EXTERNAL_TABLE"
    assert {each["Name"]: each["Type"] for each in table["StorageDescriptor"]["Columns"]} == {
        "id": "bigint", "unit": "string", "updated_ms": "bigint", "amount": "double",
        "note": "string",
    }  # fmt: skip
    assert {key: each["Location"] for key, each in told.partitions().items()} == {
        ("2020", "01", "01", "00", "00"): f"file://{base}/y=2020/m=01/d=01/h=00/n=00",
        ("2020", "01", "02", "00", "00"): f"file://{base}/y=2020/m=01/d=02/h=00/n=00",
    }
    told.run_and_register(day(5))
    assert len(told.partitions()) == 5


def test_values_that_folders_quote_are_registered_as_they_are(tmp_path, server, monkeypatch):
    use(server.url, monkeypatch)
    with HttpServer(Dataset.generate(8, units=("a/b c", "x=y"), step_ms=STEP_MS)) as source:
        told = GlueStory(tmp_path, source, server, ms__table__partition__fields="unit")
        told.changes["ms__watermark"] = watermark("a/b c,x=y")
        told.run_and_register(day(1))
    found = told.partitions()
    assert set(found) == {("a/b c",), ("x=y",)}
    assert found[("x=y",)]["Location"].endswith("/unit=x%3Dy")
    assert "unit" not in [each["Name"] for each in told.table()["StorageDescriptor"]["Columns"]]


def test_a_dataset_that_is_one_folder_is_a_table_without_partitions(story, tmp_path):
    told = story()
    told.run_and_register(day(1))
    assert told.table()["PartitionKeys"] == []
    assert told.table()["StorageDescriptor"]["Location"] == f"file://{dataset(tmp_path)}"


def test_a_run_with_nothing_new_asks_the_catalog_nothing(story, server):
    told = story(**LABELS)
    told.run_and_register(day(1))
    dead = told.job(ms__catalog__glue__endpoint=server.url)
    told.client.delete_table(DatabaseName=told.database, Name="orders")
    report = told.run_and_register(day(1), dead)
    assert report.status.value == "nothing_due"
    with pytest.raises(told.client.exceptions.EntityNotFoundException):
        told.table()
    # What was dropped by hand comes back as a whole with the next rows.
    told.run_and_register(day(3))
    assert len(told.partitions()) == 3


def test_a_catalog_that_refuses_is_told_loudly_and_healed_by_the_next_run(story, tmp_path):
    told = story(**LABELS)
    away = told.changes | {"ms__catalog__glue__endpoint": "http://127.0.0.1:1"}
    told.changes, right = away, told.changes
    report = told.run_and_register(day(2))
    assert report.exit_code == 1
    assert "the rows are published" in report.failures[-1].error
    assert published_ids(visible_files(tmp_path)) == ids_of("a", "b", days=range(2))
    assert kept(tmp_path) == []

    told.changes = right
    healed = told.run_and_register(day(2))
    assert (healed.status.value, healed.exit_code) == ("nothing_due", 0)
    assert len(told.partitions()) == 2


def test_registering_again_from_nothing_changes_nothing(story, tmp_path):
    told = story(**LABELS)
    told.run_and_register(day(3))
    before = told.partitions()
    forget(tmp_path)
    told.run_and_register(day(3))
    assert told.partitions() == before


def test_a_partition_whose_files_are_gone_is_dropped(story):
    told = story(ms__publish__mode="replace", ms__table__partition__fields="unit")
    told.run_and_register(day(1))
    assert set(told.partitions()) == {("a",), ("b",)}
    only_a = told.changes.copy()
    only_a["ms__watermark"] = watermark("a")
    told.changes = only_a
    told.run_and_register(day(2))
    assert set(told.partitions()) == {("a",)}


def test_a_dataset_that_moved_is_registered_at_its_new_place(story, tmp_path):
    told = story(**LABELS)
    told.run_and_register(day(2))
    lake = tmp_path / "other"
    shutil.copytree(tmp_path / "lake", lake)
    for file in (lake / "shop" / "orders" / "_dil").glob("manifest-*.json"):
        file.write_text(file.read_text().replace(f"{tmp_path}/lake", str(lake)))
    told.changes["data__publisher__final__dir"] = str(lake)
    told.run_and_register(day(2))
    assert told.table()["StorageDescriptor"]["Location"] == f"file://{lake}/shop/orders"
    assert all(str(lake) in each["Location"] for each in told.partitions().values())
    assert len(told.partitions()) == 2


def test_a_table_of_someone_else_is_left_alone(story):
    told = story(**LABELS)
    told.client.create_database(DatabaseInput={"Name": told.database})
    told.client.create_table(
        DatabaseName=told.database, TableInput={"Name": "orders", "TableType": "EXTERNAL_TABLE"}
    )
    report = told.run_and_register(day(1))
    assert "not made by a job of dil" in report.failures[-1].error
    assert told.table().get("PartitionKeys") in (None, [])


TABLE = CatalogTable(
    "big", "t", (("id", "bigint"),), ("d",), "s3://b/t", OutputFormat.PARQUET, "orders"
)


def test_more_partitions_than_one_call_takes_and_columns_that_grow(server, monkeypatch):
    use(server.url, monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    many = [Partition((f"{number:04}",), f"s3://b/t/d={number:04}") for number in range(250)]
    with open_glue(CatalogSpec(CatalogType.GLUE, "big", "t", region=REGION)) as glue:
        assert glue.put_table(TABLE, nothing) is TableChange.CREATED
        glue.put_partitions(TABLE, many)
        assert glue.put_table(TABLE, nothing) is TableChange.NONE
        wide = CatalogTable(
            "big", "t", (("id", "bigint"), ("New", "struct<aB:int>")), ("d",), "s3://b/t",
            OutputFormat.PARQUET, "orders",
        )  # fmt: skip
        assert glue.put_table(wide, nothing) is TableChange.CHANGED
        glue.put_partitions(wide, many)
        assert glue.put_table(wide, nothing) is TableChange.NONE
        glue.drop_partitions(wide, [*many[:60], *many[:2]])
        glue.drop_partitions(wide, many[:1])
    pages = (
        _client(server).get_paginator("get_partitions").paginate(DatabaseName="big", TableName="t")
    )
    found = [each for page in pages for each in page["Partitions"]]
    assert len(found) == 190
    assert {len(each["StorageDescriptor"]["Columns"]) for each in found} == {2}


def test_without_a_region_the_property_is_named(monkeypatch):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with (
        pytest.raises(ConfigError, match="region") as caught,
        open_glue(CatalogSpec(CatalogType.GLUE, "d", "t")),
    ):
        pass
    assert [problem.key for problem in caught.value.problems] == ["ms.catalog.glue.region"]


def test_a_table_of_files_of_another_format_is_left_alone(server, monkeypatch):
    use(server.url, monkeypatch)
    table = CatalogTable(
        "formats", "t", (("id", "bigint"),), (), "s3://b/t", OutputFormat.PARQUET, "j"
    )
    with open_glue(CatalogSpec(CatalogType.GLUE, "formats", "t", "", REGION, server.url)) as glue:
        assert glue.put_table(table, nothing) is TableChange.CREATED
        with pytest.raises(WriteError, match=r"reads files by .*Parquet") as caught:
            glue.put_table(replace(table, format=OutputFormat.ORC), nothing)
    assert "drop the table" in caught.value.fix


def test_check_asks_for_the_database_and_tells_the_region(server, monkeypatch):
    use(server.url, monkeypatch)
    spec = CatalogSpec(CatalogType.GLUE, "no_such", "t", "", REGION, server.url)
    assert ask(spec) == REGION
    with pytest.raises(WriteError, match="AWS Glue"):
        ask(replace(spec, endpoint="http://127.0.0.1:1"))


@pytest.mark.parametrize("knows", some_long([False, True], True), ids=["first", "dropped by hand"])
def test_a_registration_killed_at_any_step_is_finished_by_the_next(knows, story, tmp_path):
    told = story(**LABELS, ms__table__partition__fields="unit")
    told.run_and_register(day(1))
    before = {file: file.read_bytes() for file in kept(tmp_path)}
    told.run(day(2))
    order = {"job": str(tmp_path / "orders.conf"), "now": day(2), "register": True}

    def fresh():
        forget(tmp_path)
        for file, text in before.items() if knows else ():
            file.write_bytes(text)
        told.client.delete_database(Name=told.database)

    with KillServer(KILL_SERVER) as kills:
        fresh()
        whole = kills.order(**order, at=-1)
        assert whole["exit"] == 0
        expected = told.partitions()
        assert len(expected) == 4
        chosen = sorted(set(steps(whole["events"]).values()))
        assert len(chosen) > 30
        # Right before and after each call of the catalog, and some of the others.
        calls = [at for at in chosen if "GlueCatalog" in whole["events"][at]]
        for at in sorted({*spread(calls, KILLS), *chosen[:: len(chosen) // 4]}):
            fresh()
            assert kills.order(**order, at=at)["killed"], f"step {at} was never reached"
            assert kills.order(**order, at=-1)["exit"] == 0
            assert told.partitions() == expected, whole["events"][at]


def test_a_dataset_on_s3_is_registered_and_compacted_where_it_is(story, server):
    bucket = Bucket(server)
    told = story(**LABELS, ms__table__partition__fields="unit")
    told.changes["data__publisher__final__dir"] = f"{bucket.uri}/lake"
    told.run_and_register(day(2))
    base = f"{bucket.uri}/lake/shop/orders"
    assert told.table()["StorageDescriptor"]["Location"] == base
    place = told.partitions()[("2020", "01", "01", "00", "00", "a")]["Location"]
    assert place == f"{base}/y=2020/m=01/d=01/h=00/n=00/unit=a"

    told.changes["ms__publish__layout"] = "default"
    del told.changes["ms__catalog__type"], told.changes["ms__timelabel__schedule"]
    told.run(day(4))
    told.run(day(5))
    outcome = compact(told.job(), CompactionRequest(clock=lambda: told.clock))
    assert (outcome.removed, len(outcome.added)) == (6, 2)
    keys = [key for key in bucket.keys("lake/shop/orders/unit=") if key.endswith(".parquet")]
    assert sorted(f"{bucket.uri}/{key}" for key in keys) == sorted(
        file.uri for file in outcome.added
    )
    table = pq.read_table(io.BytesIO(bucket.objects(keys[0])[keys[0]]))
    assert table["id"].to_pylist() == list(range(8, 20))
