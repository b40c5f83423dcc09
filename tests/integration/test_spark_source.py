"""``spark.read.format("dil")`` in a real session, which finds it without being told."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dil import config
from dil.operator.compaction import CompactionRequest, compact
from tests.integration.spark_sessions import spark_session
from tests.jobs import dataset, write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import Story, day, failing, ids_of, work_unit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

TOKEN = "tok-4711-secret"
OPTION = "opt-0815-secret"
NOW = "2020-01-03T00:00:00Z"  # two of the source's six days have passed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("session")


@pytest.fixture(scope="module")
def spark(folder: Path) -> Iterator[SparkSession]:
    with spark_session(folder, {"SHOP_TOKEN": TOKEN}) as session:
        yield session


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source)


def source_of(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    reader = spark.read.format("dil").option("conf", str(path)).option("now", NOW)
    return reader.options(**options).load()


def dataset_of(spark: SparkSession, story: Story, **options: str) -> DataFrame:
    path = str(story.folder / "orders.conf")
    return spark.read.format("dil").option("dataset", path).options(**options).load()


def ids(frame: DataFrame) -> Counter[tuple[str, int]]:
    return Counter((row["unit"], row["id"]) for row in frame.select("unit", "id").collect())


def test_the_source_of_a_job_is_a_frame_of_its_work_units(
    spark: SparkSession, tmp_path: Path, source: HttpServer
) -> None:
    path = write_job(tmp_path, source.url)

    frame = source_of(spark, path)

    assert frame.dtypes == [
        ("id", "bigint"), ("unit", "string"), ("updated_ms", "bigint"), ("amount", "double"),
        ("note", "string"),
    ]  # fmt: skip
    assert source.count("/records") == 0, "ms.output.schema says the columns"
    assert frame.rdd.getNumPartitions() == 4
    assert ids(frame) == ids_of("a", "b", days=range(2))
    assert not (tmp_path / "lake").exists()
    assert not (tmp_path / "state").exists()


def test_options_narrow_the_range_and_change_properties(
    spark: SparkSession, tmp_path: Path, source: HttpServer
) -> None:
    path = write_job(tmp_path, source.url)
    units = json.dumps(
        [
            {"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "-"}},
            {"name": "unit", "type": "unit", "units": "b"},
        ]
    )

    frame = source_of(
        spark, path, **{"from": "2020-01-02", "to": "2020-01-03", "ms.Watermark": units}
    )

    assert ids(frame) == ids_of("b", days=range(1, 2))


def test_columns_that_no_property_names_are_inferred_from_the_first_rows(
    spark: SparkSession, tmp_path: Path, source: HttpServer
) -> None:
    path = write_job(tmp_path, source.url, ms__output__schema="")

    frame = source_of(spark, path)

    assert dict(frame.dtypes)["customer"].startswith("struct<")
    assert ids(frame) == ids_of("a", "b", days=range(2))


def test_with_history_only_what_the_next_run_would_read_is_read(
    spark: SparkSession, story: Story
) -> None:
    story.run(day(1))

    frame = source_of(spark, story.folder / "orders.conf", history="true")

    assert ids(frame) == ids_of("a", "b", days=range(1, 2))


def test_sparks_own_reader_reads_the_folder_of_a_dataset(spark: SparkSession, story: Story) -> None:
    story.run(day(2))
    (dataset(story.folder) / "_metadata.json").write_text("{}")  # as earlier releases left it
    story.run(day(3))

    frame = spark.read.parquet(str(dataset(story.folder)))

    assert ids(frame) == ids_of("a", "b", days=range(3))


def test_a_failed_work_unit_fails_the_query_and_says_why_without_secrets(
    spark: SparkSession, tmp_path: Path, source: HttpServer
) -> None:
    login = json.dumps({"method": "bearer", "encryption": "none", "token": "env:SHOP_TOKEN"})
    path = write_job(tmp_path, source.url, ms__authentication=login)
    source.faults.append(failing(1, "b"))

    with pytest.raises(Exception, match="DIL-SRC") as caught:
        source_of(spark, path).collect()

    assert work_unit(1, "b") in str(caught.value)
    assert TOKEN not in str(caught.value)
    sent = [request.headers.get("Authorization") for request in source.requests]
    assert f"Bearer {TOKEN}" in sent, "the secret reached the source all the same"


def test_a_wrong_option_is_answered_with_the_right_one(
    spark: SparkSession, tmp_path: Path, source: HttpServer
) -> None:
    path = write_job(tmp_path, source.url)

    with pytest.raises(Exception, match=r'Did you mean "asOf"\?'):
        spark.read.format("dil").option("dataset", str(path)).option("asOff", "3").load()
    with pytest.raises(Exception, match="DIL-STATE"):
        spark.read.format("dil").option("dataset", str(path)).load()


def test_a_dataset_is_read_by_its_chain(spark: SparkSession, story: Story) -> None:
    assert story.run(day(1)).rows == 8
    first = str(story.head()["sequenceNumber"])
    assert story.run(day(3)).rows == 16

    assert ids(dataset_of(spark, story)) == ids_of("a", "b", days=range(3))
    assert ids(dataset_of(spark, story, asOf=first)) == ids_of("a", "b", days=range(1))
    assert dataset_of(spark, story, startingOffset="7").count() == 16
    cut = dataset_of(spark, story, startingOffset="1", endingOffset="9", columns="note,id")
    assert (cut.columns, cut.count()) == (["note", "id"], 8)
    typed = spark.read.schema("id string, missing int").format("dil")
    rows = typed.option("dataset", str(story.folder / "orders.conf")).load()
    assert sorted(row["id"] for row in rows.where("missing is null").collect())[:3] == ["0"] * 2 + [
        "1"
    ]
    assert dataset_of(spark, story).where("id > 9 and unit = 'a'").count() == 2


def test_a_frame_keeps_its_rows_while_the_dataset_goes_on(
    spark: SparkSession, story: Story
) -> None:
    story.run(day(1))
    frame = dataset_of(spark, story)
    story.run(day(2))

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")  # as it is by default
    try:
        assert frame.where("id < 2").count() == 4
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    assert frame.count() == 8
    assert dataset_of(spark, story).count() == 16


def test_sql_reads_a_source_and_a_dataset(spark: SparkSession, story: Story) -> None:
    story.run(day(2))
    path = story.folder / "orders.conf"
    spark.sql(f"CREATE TEMPORARY VIEW published USING dil OPTIONS (dataset '{path}')")
    spark.sql(f"CREATE TEMPORARY VIEW offered USING dil OPTIONS (conf '{path}', now '{NOW}')")

    (row,) = spark.sql(
        "SELECT count(*) AS rows, sum(p.amount - o.amount) AS difference"
        " FROM published p JOIN offered o ON p.id = o.id AND p.unit = o.unit"
    ).collect()

    assert (row["rows"], row["difference"]) == (16, 0.0)


def stream(spark: SparkSession, story: Story, **options: str) -> list[dict[str, Any]]:
    """Run a stream until nothing is new; return the progress of its micro-batches."""
    what = {} if "conf" in options else {"dataset": str(story.folder / "orders.conf")}
    frame = spark.readStream.format("dil").options(**options, **what).load()
    query = (
        frame.writeStream.format("json")
        .option("path", str(story.folder / "copy"))
        .option("checkpointLocation", str(story.folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [each for each in query.recentProgress if each["numInputRows"]]


def test_a_dataset_is_streamed_each_row_once_also_over_a_compaction(
    spark: SparkSession, story: Story
) -> None:
    story.run(day(1))
    assert [each["numInputRows"] for each in stream(spark, story, maxRowsPerTrigger="5")] == [5, 3]
    assert stream(spark, story) == []
    clock = story.clock
    compact(story.job(), CompactionRequest(clock=lambda: clock))
    story.run(day(2))
    story.run(day(3))

    batches = stream(spark, story, maxRowsPerTrigger="5")

    assert [each["numInputRows"] for each in batches] == [8, 8]
    copied = spark.read.json(str(story.folder / "copy"))
    assert ids(copied) == ids_of("a", "b", days=range(3))


def test_the_source_of_a_job_is_streamed_along_its_watermark(
    spark: SparkSession, story: Story
) -> None:
    path = write_job(story.folder, story.source.url)
    options = {"conf": str(path), "maxFilesPerTrigger": "2"}

    first = stream(spark, story, now="2020-01-03T12:00:00Z", **options)
    nothing = stream(spark, story, now="2020-01-03T12:00:00Z", **options)
    second = stream(spark, story, now="2020-01-05T06:00:00Z", **options)

    # P0D ends with yesterday: two whole days, each with the units a and b, then two more.
    assert [each["numInputRows"] for each in first] == [8, 8]
    assert nothing == []
    assert [each["numInputRows"] for each in second] == [8, 8]
    assert ids(spark.read.json(str(story.folder / "copy"))) == ids_of("a", "b", days=range(4))
    assert not (story.folder / "state").exists()


def test_secrets_are_in_no_plan_and_in_no_event_log(
    spark: SparkSession, folder: Path, tmp_path: Path, source: HttpServer, capsys: Any
) -> None:
    login = json.dumps({"method": "bearer", "encryption": "none", "token": "env:SHOP_TOKEN"})
    path = write_job(tmp_path, source.url, ms__authentication=login)

    frame = source_of(spark, path, **{"ms.http.request.headers": json.dumps({"X-Key": OPTION})})
    frame.explain("formatted")
    frame.explain(extended=True)
    frame.createOrReplaceTempView("guarded")
    assert spark.sql("SELECT * FROM guarded").count() == 16

    shown = capsys.readouterr().out
    logged = b"".join(each.read_bytes() for each in folder.rglob("events_*"))
    assert "BatchScan dil" in shown
    assert b"BatchScan dil" in logged
    for secret in (TOKEN, OPTION):
        assert secret not in shown
        assert secret.encode() not in logged
    headers = [request.headers for request in source.requests]
    assert any(each.get("X-Key") == OPTION for each in headers)


def test_a_session_that_does_not_look_for_it_is_told(spark: SparkSession) -> None:
    import dil.spark

    dil.spark.register(spark)

    with pytest.raises(Exception, match="DIL-CONFIG"):
        spark.read.format("dil").load()


def test_the_example_runs(spark: SparkSession, tmp_path: Path) -> None:
    """It starts no session of its own where there is one."""
    example = Path(__file__).parents[2] / "conf" / "examples" / "spark" / "weather.py"
    names: dict[str, Any] = {"__name__": "example", "__file__": str(example)}
    exec(compile(example.read_text(), example, "exec"), names)

    warmest = names["warmest"](spark)

    assert [row["origin"] for row in warmest.collect()] == ["EWR", "JFK", "LGA"]


def test_a_dataset_that_loses_rows_is_refused_as_a_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = Dataset.generate(8, units=("a", "b"), step_ms=86_400_000 // 4)
    with HttpServer(rows) as server:
        story = Story(
            tmp_path, server, ms__publish__mode="window_replace", ms__grace__period__days="1"
        )
        story.run(day(1))
        assert len(stream(spark, story)) == 1
        story.run(day(2))

        with pytest.raises(Exception, match="takes rows away"):
            stream(spark, story)
        assert config.load(tmp_path / "orders.conf", environ={}).job.name == "orders"
        assert dataset_of(spark, story).count() == 16
