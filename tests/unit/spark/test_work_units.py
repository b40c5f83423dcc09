"""The work units of a job as partitions, read in this process as a task reads them."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceReader, EqualTo, InputPartition

from dil.spark.failing import DilQueryError
from dil.spark.source import DilDataSource
from tests.jobs import write_job
from tests.servers.http_server import Fault, HttpServer
from tests.stories import Story, day, failing, work_unit

NOW = "2020-01-03T00:00:00Z"


def reader_of(path: Path, **options: str) -> DataSourceReader:
    source = DilDataSource({"conf": str(path), "now": NOW, **options})
    return source.reader(source.schema())


def rows_of(reader: DataSourceReader, partition: InputPartition) -> int:
    """Return how many rows a task reads; reader and partition come to it by pickle."""
    there, part = pickle.loads(pickle.dumps((reader, partition)))
    return sum(batch.num_rows for batch in there.read(part))


def test_each_work_unit_is_a_partition(tmp_path: Path, source: HttpServer) -> None:
    reader = reader_of(write_job(tmp_path, source.url))

    partitions = reader.partitions()

    assert [each.value[0].signature for each in partitions] == [
        work_unit(number, unit) for number in (0, 1) for unit in ("a", "b")
    ]
    assert [rows_of(reader, each) for each in partitions] == [4, 4, 4, 4]
    assert rows_of(reader, InputPartition(None)) == 0


@pytest.mark.parametrize(
    "limit", [{"ms.http.rate.limit": "1000/s"}, {"ms.http.requests.max": "4"}], ids=str
)
def test_a_job_whose_requests_are_counted_is_read_by_one_task(
    limit: Mapping[str, str], tmp_path: Path, source: HttpServer
) -> None:
    reader = reader_of(write_job(tmp_path, source.url), **limit)

    (partition,) = reader.partitions()

    assert rows_of(reader, partition) == 16


def test_a_spent_budget_fails_the_query(tmp_path: Path, source: HttpServer) -> None:
    reader = reader_of(write_job(tmp_path, source.url), **{"ms.http.requests.max": "3"})
    (partition,) = reader.partitions()

    with pytest.raises(DilQueryError, match="DIL-QUOTA"):
        rows_of(reader, partition)


def test_all_units_are_read_whatever_a_run_takes_at_most(
    tmp_path: Path, source: HttpServer
) -> None:
    path = write_job(tmp_path, source.url)

    assert len(reader_of(path, **{"ms.work.unit.parallelism.max": "2"}).partitions()) == 4


def test_a_failure_names_the_work_unit_and_has_no_cause_that_spark_would_show(
    tmp_path: Path, source: HttpServer
) -> None:
    source.faults.append(failing(0, "a"))
    reader = reader_of(write_job(tmp_path, source.url))

    with pytest.raises(DilQueryError, match="DIL-SRC") as caught:
        rows_of(reader, reader.partitions()[0])

    assert str(caught.value).startswith(work_unit(0, "a"))
    assert caught.value.__suppress_context__


def test_a_secret_that_an_answer_repeats_is_masked_before_the_answer_is_cut(
    tmp_path: Path, source: HttpServer
) -> None:
    secret = "s3cret-of-job"
    # The excerpt of an answer ends after 197 characters, here in the middle of the secret.
    answer = "<html>" + "no " * 60 + "no1 no2 " + secret
    source.faults.append(Fault("body", text=answer))
    path = write_job(tmp_path, source.url, source__conn__password=secret)
    reader = reader_of(path)

    with pytest.raises(DilQueryError) as caught:
        rows_of(reader, reader.partitions()[0])

    assert "no no no" in str(caught.value)
    assert "s3c" not in str(caught.value)


def test_a_job_that_spark_reads_by_a_job_of_its_own_is_answered_with_the_reader_to_set(
    tmp_path: Path, source: HttpServer
) -> None:
    path = write_job(
        tmp_path,
        source.url,
        source__class="jdbc",
        ms__source__uri="jdbc:postgresql://127.0.0.1/shop",
        ms__jdbc__statement="SELECT 1 AS id",
        ms__jdbc__reader="spark",
        ms__session__key__field="",
        ms__data__field="",
        ms__parameters="",
    )

    with pytest.raises(DilQueryError) as caught:
        reader_of(path)

    assert '.option("ms.jdbc.reader", "driver")' in str(caught.value)


def test_too_few_rows_fail_the_query(tmp_path: Path, source: HttpServer) -> None:
    reader = reader_of(write_job(tmp_path, source.url), **{"ms.work.unit.min.records": "5"})

    with pytest.raises(DilQueryError, match="DIL-SRC-CONTRACT"):
        rows_of(reader, reader.partitions()[0])


def test_a_job_that_sends_is_refused(tmp_path: Path, source: HttpServer) -> None:
    path = write_job(tmp_path, source.url)

    with pytest.raises(DilQueryError, match="sends"):
        reader_of(path, **{"ms.http.request.method": "POST"})


def test_a_range_is_refused_where_there_is_none(tmp_path: Path, source: HttpServer) -> None:
    path = write_job(
        tmp_path,
        source.url,
        ms__watermark='[{"name": "unit", "type": "unit", "units": "a"}]',
        ms__parameters='[{"name": "unit"}]',
        ms__work__unit__partition="none",
    )

    with pytest.raises(DilQueryError, match="no datetime watermark"):
        reader_of(path, **{"from": "2020-01-02"})


def test_a_source_without_rows_tells_no_columns(tmp_path: Path, source: HttpServer) -> None:
    path = write_job(tmp_path, source.url, ms__output__schema="")
    options: dict[str, Any] = {"to": "2019-12-02", "from": "2019-12-01"}

    with pytest.raises(DilQueryError, match="cannot be inferred"):
        reader_of(path, **options)


def test_a_task_that_reads_a_dataset_gets_no_login_of_the_state_store(
    tmp_path: Path, source: HttpServer
) -> None:
    story = Story(tmp_path, source)
    story.run(day(2))
    data = DilDataSource({"dataset": str(tmp_path / "orders.conf")})
    reader = data.reader(data.schema())
    (partition,) = reader.partitions()

    there = pickle.loads(pickle.dumps(reader))

    assert set(there.__dict__) == {"_reading"}
    assert rows_of(reader, partition) == 16


def test_filters_are_taken_also_where_spark_does_not_push_them(
    tmp_path: Path, source: HttpServer
) -> None:
    """Spark refuses a reader with the method of its own while pushing is switched off."""
    Story(tmp_path, source).run(day(1))
    data = DilDataSource({"dataset": str(tmp_path / "orders.conf")})
    reader = data.reader(data.schema())
    nothing = EqualTo(("id",), 99)

    assert getattr(reader.pushFilters, "__func__", None) is DataSourceReader.pushFilters
    assert list(reader.pushFilters([nothing])) == [nothing], "Spark is to apply it"
    (partition,) = reader.partitions()
    assert rows_of(reader, partition) == 0, "no row group can have it"


def test_a_dataset_in_a_database_is_refused(tmp_path: Path, source: HttpServer) -> None:
    path = write_job(tmp_path, source.url)
    warehouse = {"ms.warehouse.url": f"sqlite:///{tmp_path}/lake.db"}

    with pytest.raises(DilQueryError, match="goes into a database"):
        DilDataSource({"dataset": str(path), **warehouse}).schema()
