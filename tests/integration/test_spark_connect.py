"""``format("dil")`` by Spark Connect, and in a declarative pipeline.

The wheel is in an environment with pandas and grpc. The client has not the secrets of the server.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import ROOT, write_job
from tests.servers.http_server import HttpServer
from tests.servers.spark_connect import ConnectClient, ConnectServer
from tests.stories import Story, day, failing, ids_of, work_unit

pytestmark = pytest.mark.spark

TOKEN = "tok-4711-secret"
NOW = "2020-01-03T00:00:00Z"  # two of the source's six days have passed


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    server = ConnectServer(tmp_path_factory.mktemp("connect"), {"SHOP_TOKEN": TOKEN})
    with server.running():
        yield server


@pytest.fixture(scope="module")
def client(server: ConnectServer) -> Iterator[ConnectClient]:
    with server.client() as client:
        yield client


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source)


def ids(rows: list[list[Any]]) -> Counter[tuple[str, int]]:
    return Counter(map(tuple, rows))


def test_a_client_reads_the_source_and_the_dataset_of_a_job(
    client: ConnectClient, story: Story
) -> None:
    story.run(day(1))
    story.run(day(3))
    path = str(story.folder / "orders.conf")

    found = client.answer(f"""
def rows(**options):
    frame = spark.read.format("dil").options(**options).load()
    return frame.columns, [[row["unit"], row["id"]] for row in frame.collect()]

answer = {{
    "source": rows(conf={path!r}, now={NOW!r}),
    "dataset": rows(dataset={path!r}),
    "new": rows(dataset={path!r}, startingOffset="7", columns="unit,id"),
}}
""")

    columns = ["id", "unit", "updated_ms", "amount", "note"]
    assert [found[name][0] for name in ("source", "dataset")] == [columns, columns]
    assert ids(found["source"][1]) == ids_of("a", "b", days=range(2))
    assert ids(found["dataset"][1]) == ids_of("a", "b", days=range(3))
    assert found["new"][0] == ["unit", "id"]
    assert ids(found["new"][1]) == ids_of("a", "b", days=range(1, 3))


def test_sql_of_a_client_reads_a_source_and_a_dataset(client: ConnectClient, story: Story) -> None:
    story.run(day(2))
    path = story.folder / "orders.conf"

    found = client.answer(f"""
spark.sql("CREATE TEMPORARY VIEW published USING dil OPTIONS (dataset '{path}')")
spark.sql("CREATE TEMPORARY VIEW offered USING dil OPTIONS (conf '{path}', now '{NOW}')")
(row,) = spark.sql(
    "SELECT count(*) AS rows, sum(p.amount - o.amount) AS difference"
    " FROM published p JOIN offered o ON p.id = o.id AND p.unit = o.unit"
).collect()
answer = list(row)
""")

    assert found == [16, 0.0]


def streamed(client: ConnectClient, folder: Path, **options: str) -> list[int]:
    """Run a stream into ``copy`` until nothing is new; return how many rows each batch had."""
    found: list[int] = client.answer(f"""
query = (
    spark.readStream.format("dil").options(**{options!r}).load()
    .writeStream.format("json").option("path", "{folder}/copy")
    .option("checkpointLocation", "{folder}/checkpoint").trigger(availableNow=True).start()
)
query.awaitTermination()
sources = [each["sources"][0] for each in query.recentProgress]
answer = [source["numInputRows"] for source in sources if source["numInputRows"]]
""")
    return found


def copied(folder: Path) -> Counter[tuple[str, int]]:
    files = (folder / "copy").glob("*.json")
    lines = [line for file in files for line in file.read_text().splitlines()]
    return Counter((row["unit"], row["id"]) for row in map(json.loads, lines))


@pytest.mark.long
def test_a_client_streams_a_dataset_each_row_once(client: ConnectClient, story: Story) -> None:
    options = {"dataset": str(story.folder / "orders.conf"), "maxRowsPerTrigger": "5"}
    story.run(day(1))
    first = streamed(client, story.folder, **options)
    story.run(day(2))

    assert (first, streamed(client, story.folder, **options)) == ([5, 3], [8])
    assert copied(story.folder) == ids_of("a", "b", days=range(2))


@pytest.mark.long
def test_a_client_streams_a_source(client: ConnectClient, tmp_path: Path, source: HttpServer):
    path = write_job(tmp_path, source.url)

    batches = streamed(client, tmp_path, conf=str(path), now=NOW, maxFilesPerTrigger="2")

    assert batches == [8, 8]
    assert copied(tmp_path) == ids_of("a", "b", days=range(2))


def test_a_client_learns_why_a_query_failed_and_no_secret(
    client: ConnectClient, server: ConnectServer, tmp_path: Path, source: HttpServer
) -> None:
    """The secret is in the environment of the server, which reads the job file."""
    login = json.dumps({"method": "bearer", "encryption": "none", "token": "env:SHOP_TOKEN"})
    path = write_job(tmp_path, source.url, ms__authentication=login)
    read = f'spark.read.format("dil").option("conf", "{path}").option("now", "{NOW}")'

    counted = client.run(f"answer = {read}.load().count()")
    misspelt = client.run(f'answer = {read}.option("colums", "id").load().count()')
    source.faults.append(failing(1, "b"))
    failed = client.run(f"answer = {read}.load().collect()")

    assert counted == {"answer": 16}
    assert 'Did you mean "columns"?' in misspelt["error"]
    assert work_unit(1, "b") in failed["error"]
    assert "DIL-SRC" in failed["error"]
    sent = [request.headers.get("Authorization") for request in source.requests]
    assert f"Bearer {TOKEN}" in sent, "the secret reached the source all the same"
    logs = [server.folder / "server.log", *server.folder.glob("events/**/events_*")]
    assert len(logs) > 1
    for place in logs:
        assert TOKEN.encode() not in place.read_bytes()


def test_a_client_reads_by_the_format_that_it_registers_itself(
    client: ConnectClient, story: Story
) -> None:
    """Spark finds the format ``dil`` by itself, but not the one of another name."""
    story.run(day(1))
    program = f"""
import dil.spark
from dil.spark.source import DilDataSource

class Own(DilDataSource):
    @classmethod
    def name(cls):
        return "own"

def ids(name, **options):
    rows = spark.read.format(name).options(**options).load().collect()
    return [[row["unit"], row["id"]] for row in rows]

dil.spark.register(spark)
spark.dataSource.register(Own)
path = {str(story.folder / "orders.conf")!r}
answer = {{
    "dataset": ids("own", dataset=path),
    "source": ids("own", conf=path, now={NOW!r}),
    "dil": ids("dil", dataset=path),
}}
"""
    before = client.run('answer = spark.read.format("own").load().count()')
    found = client.answer(program)

    assert "own" in before["error"]
    assert ids(found["dataset"]) == ids(found["dil"]) == ids_of("a", "b", days=range(1))
    assert ids(found["source"]) == ids_of("a", "b", days=range(2))


@pytest.mark.long
def test_a_pipeline_reads_a_source_and_streams_a_dataset_each_row_once(
    server: ConnectServer, client: ConnectClient, tmp_path: Path, source: HttpServer
) -> None:
    story = Story(tmp_path / "job", source)
    story.run(day(1))
    for name in ("spark", "custom_connector"):
        shutil.copytree(ROOT / "conf" / "examples" / name, tmp_path / "examples" / name)
    project = tmp_path / "examples" / "spark" / "pipeline"
    spec = project / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/tmp/dil-example-pipeline", f"{tmp_path}/storage"))
    (project / "transformations" / "orders.py").write_text(f"""
from pyspark import pipelines as dp

@dp.table
def orders():
    return spark.readStream.format("dil").option("dataset", "{story.folder}/orders.conf").load()
""")

    first = server.pipeline(spec)
    story.run(day(3))
    second = server.pipeline(spec)

    assert first.returncode == 0, first.stderr
    assert second.returncode == 0, second.stderr
    found = client.answer("""
orders = spark.table("orders").select("unit", "id").collect()
warmest = spark.table("warmest").orderBy("origin").collect()
answer = {"orders": [list(row) for row in orders], "warmest": [row[0] for row in warmest]}
""")
    assert found["warmest"] == ["EWR", "JFK", "LGA"]
    assert ids(found["orders"]) == ids_of("a", "b", days=range(3))
