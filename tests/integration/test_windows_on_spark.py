"""Windows of a derived dataset on Spark: each once, equal to Spark's own over the same rows."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import dil.api
from dil.operator.replaying import ReplayOutcome, replay
from dil.state import open_store
from tests.derived import MINUTE, NOW, Readings
from tests.integration.spark_sessions import spark_session

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    with spark_session(tmp_path_factory.mktemp("windows"), {}) as session:
        yield session


def of_spark(session, lake: Readings, until: int, slide: str, *keys: str) -> list[tuple]:
    """Return what plain Spark makes of all rows, of windows that end by a minute."""
    from pyspark.sql import functions as f

    frame = session.createDataFrame(lake.rows, "at long, id long, site string")
    window = f.window(f.timestamp_millis("at"), "30 minutes", slide)
    grouped = frame.groupBy(window.alias("w"), *keys).agg(
        f.count("*").alias("rows"), f.sum("id").alias("total"), f.min("at").alias("first")
    )
    limit = NOW - 600 * MINUTE + until * MINUTE
    found = grouped.where(f.unix_millis("w.end") <= limit)
    rows = found.select("w.start", "w.end", *keys, "rows", "total", "first").collect()
    return sorted((row[0].astimezone(UTC), row[1].astimezone(UTC), *row[2:]) for row in rows)


def test_windows_equal_those_of_spark_and_come_once_whenever_runs_are(context, tmp_path) -> None:
    lake = Readings(tmp_path / "lake")
    plain, sliding = (
        lake.windows("plain"),
        lake.windows("sliding", ms__window__slide="PT10M", ms__window__keys="site"),
    )
    seen: list[int] = []
    for minutes in ([0, 5, 29, 31], [22, 33, 44], [45], [61, 58, 90, 95], [150, 149]):
        lake.put(*minutes)
        reports = [
            lake.run(job, executor=None, spark=context.sparkContext) for job in (plain, sliding)
        ]
        assert [each.exit_code for each in reports] == [0, 0], [each.failures for each in reports]
        seen.append(len(lake.published("plain")))

    assert seen == [0, 1, 1, 2, 4], "windows without rows are none"
    assert lake.published("plain") == of_spark(context, lake, 140, "30 minutes")
    assert lake.published("sliding") == of_spark(context, lake, 140, "10 minutes", "site")
    job = lake.job(plain)
    with open_store(job.state, job.name, clock=lambda: lake.now) as store:
        options = lake.options(executor=None, spark=context.sparkContext)
        outcomes = [each.outcome for each in replay(job, job.query, store, options)]
    assert set(outcomes) == {ReplayOutcome.SAME}
    again = lake.run(plain, executor=None, spark=context.sparkContext)
    assert again.status.value == "nothing_due"


def test_a_row_that_comes_after_its_window_was_emitted_changes_nothing(context, tmp_path) -> None:
    lake = Readings(tmp_path / "lake")
    job = lake.windows("plain")
    lake.put(1, 50)
    assert lake.run(job, executor=None, spark=context.sparkContext).rows == 1
    before = lake.published("plain")
    lake.put(2, 80)
    assert lake.run(job, executor=None, spark=context.sparkContext).rows == 1

    assert lake.published("plain")[:1] == before
    assert [row[2] for row in lake.published("plain")] == [1, 1]


def test_the_example_has_each_day_that_is_over(context, tmp_path) -> None:
    for name in ("stream", "files/incoming"):
        place = tmp_path / "conf" / "examples" / name
        shutil.copytree(ROOT / "conf" / "examples" / name, place)
    folder = tmp_path / "conf" / "examples" / "stream"
    once = {"ms.stream.trigger": "available_now"}
    read = dil.api.run(folder / "weather.conf", properties=once, spark=context)
    days = dil.api.run(folder / "days.conf", spark=context)
    assert (read.exit_code, days.exit_code) == (0, 0), (read.failures, days.failures)

    rows = [
        row
        for path in (tmp_path / ".demo" / "lake" / "weather_stream").glob("part-*")
        for row in pq.read_table(path).to_pylist()
    ]
    watermark = max(row["time_hour"] for row in rows) - timedelta(hours=1)
    temps: dict[tuple[object, object], list[float]] = {}
    for row in rows:
        day = row["time_hour"].replace(hour=0)
        if day + timedelta(days=1) <= watermark:
            temps.setdefault((day, row["origin"]), []).append(row["temp"])
    found = [
        row
        for path in (tmp_path / ".demo" / "lake" / "weather_days").glob("part-*")
        for row in pq.read_table(path).to_pylist()
    ]
    assert len(found) == days.rows > 0
    assert {
        (row["window_start"], row["origin"]): (row["coldest"], row["warmest"], row["hours"])
        for row in found
    } == {key: (min(some), max(some), len(some)) for key, some in temps.items()}


def test_a_column_that_holds_no_times_is_refused(context, tmp_path) -> None:
    lake = Readings(tmp_path / "lake")
    lake.put(1, 50)
    report = lake.run(
        lake.windows("wrong", ms__window__column="site"),
        executor=None,
        spark=context.sparkContext,
    )
    assert report.exit_code == 1
    assert "site is string, and holds no times" in report.failures[0].error


def test_a_late_row_beside_the_input_counts_in_a_window_that_is_still_open(
    context, tmp_path
) -> None:
    lake = Readings(tmp_path / "lake")
    lake.orders.write_text(lake.orders.read_text() + "ms.late.action=side_table\n")
    read = [{"job": "orders.conf", "as": "orders", "late": True}]
    jobs = [lake.windows("with_late", ms__query__inputs=json.dumps(read)), lake.windows("without")]
    for minutes in ([1, 50], [2, 32, 80]):
        lake.put(*minutes)
        for job in jobs:
            report = lake.run(job, executor=None, spark=context.sparkContext)
            assert report.exit_code == 0, report.failures

    # Rows 2 and 32 are late; the window of row 2 was emitted before they came.
    assert [row[2] for row in lake.published("with_late")] == [1, 2]
    assert [row[2] for row in lake.published("without")] == [1, 1]
