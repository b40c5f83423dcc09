"""Windows of a derived dataset on Spark: each once, equal to Spark's own over the same rows."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, timedelta
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import dil.api
from dil import config
from dil.cli.main import main
from dil.operator.replaying import ReplayOutcome
from dil.run.job_run import run_job
from dil.run.queries.slices import plan_slices
from tests.derived import MINUTE, NOW, TIMED, Lake, Readings
from tests.event_traces import TRACE_A
from tests.integration.spark_sessions import spark_session
from tests.jobs import write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import START_MS, Dataset
from tests.stories import STEP_MS, day
from tests.unit.state.derived_store import counted_bodies

pytestmark = pytest.mark.spark

# make torture: DIL_COMMITS=500.
COMMITS = int(os.environ.get("DIL_COMMITS", "24"))
EVERY = COMMITS // 12 or 1
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
    found = lake.replayed(plain, executor=None, spark=context.sparkContext)
    outcomes = [each.outcome for each in found]
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


def test_rows_are_in_windows_of_other_lengths_from_the_last_emitted_window_on(
    context, tmp_path
) -> None:
    """The rows of windows that are open at a change are in no window yet."""
    lake = Readings(tmp_path / "lake")
    begin = NOW - 600 * MINUTE
    for size, minutes in (
        ("PT2H", (0, 30, 70, 119, 130, 170, 200)),
        ("PT30M", (205,)),
        ("PT1H", (206,)),
        ("PT30M", (310,)),
    ):
        lake.put(*minutes)
        job = lake.windows("changing", ms__window__size=size)
        report = lake.run(job, executor=None, spark=context.sparkContext)
        assert report.exit_code == 0, report.failures

    found = [
        (*((time.timestamp() * 1000 - begin) // MINUTE for time in row[:2]), row[2])
        for row in lake.published("changing")
    ]
    # PT1H emits nothing: the hour that has ended was emitted as two half hours.
    halves = [(120, 150, 1), (150, 180, 1), (180, 210, 3)]
    assert found == [(0, 120, 4), *halves]
    outcomes = [
        each.outcome for each in lake.replayed(job, executor=None, spark=context.sparkContext)
    ]
    assert outcomes.count(ReplayOutcome.SAME) == 2
    assert ReplayOutcome.DIFFERS not in outcomes


def test_windows_go_on_if_files_that_were_read_before_are_removed(context, tmp_path) -> None:
    """A slice ends before a new query of the input, whose first run removed the earlier files."""
    lake = Readings(tmp_path / "lake")
    copied = lake.derive("copied", "SELECT * FROM orders WHERE site = 'a'")
    job = lake.windows("over", ms__query__inputs='[{"job": "copied.conf", "as": "copied"}]')
    for minute in (0, 75):  # the row of 75 is not copied, but moves the watermark
        lake.put(minute)
        assert lake.run(copied).rows == (minute == 0)
        if not minute:
            assert lake.run(job, executor=None, spark=context.sparkContext).exit_code == 0
    anew = {"ms.query.mode": "full", "ms.publish.mode": "replace"}
    assert run_job(config.load(copied, overrides=anew, environ={}).job, lake.options()).rows == 1

    report = lake.run(job, executor=None, spark=context.sparkContext)

    assert (report.exit_code, report.rows) == (0, 1), report.failures
    assert lake.run(job, executor=None, spark=context.sparkContext).status == "nothing_due"


def test_a_stream_emits_the_windows_that_runs_emit(context, tmp_path) -> None:
    """Its micro-batches take one block each; the runs came after each block."""
    lake = Readings(tmp_path / "lake")
    plain = lake.windows("plain")
    stream = {"ms__stream__mode": "stateful", "ms__query__input__max__blocks": "1"}
    streamed = lake.windows("streamed", **stream)
    for minutes in ([0, 5, 29, 31], [22, 33, 44], [], [61, 3, 95], [150, 70]):
        lake.put(*minutes)
        lake.run(plain, executor=None, spark=context.sparkContext)

    report = lake.stream(streamed, executor=None, spark=context.sparkContext)

    assert report.exit_code == 0, report.failures
    assert lake.published("streamed") == lake.published("plain") != []
    assert len(lake.data(streamed)) == len(lake.blocks(lake.orders))
    assert lake.verify(streamed).problems == ()


def test_trace_a_has_the_windows_of_spark_without_its_lag(context, tmp_path) -> None:
    """Spark since 3.5 has g of the batch after the watermark in [10, 20), too."""
    lake = Readings(tmp_path / "lake")
    text = lake.orders.read_text().replace("PT10M", "PT5S")
    lake.orders.write_text(f"{text}ms.stream.mode=ingest\nms.stream.max.files=1\n")
    days = lake.windows(
        "traced",
        ms__window__size="PT10S",
        ms__window__aggs=json.dumps({"ids": "sort_array(collect_list(id))"}),
        ms__stream__mode="stateful",
    )
    for number, batch in enumerate(TRACE_A.batches):
        rows = [{"id": ident, "at": NOW + at, "site": "a"} for ident, at in batch[0]]
        (lake.folder / "in" / f"{number}.json").write_text(json.dumps(rows))
        assert lake.stream(lake.orders).exit_code == 0
        report = lake.stream(days, executor=None, spark=context.sparkContext)
        assert report.exit_code == 0, report.failures

    found = [(start.timestamp() - NOW / 1000, ids) for start, _, ids in lake.published("traced")]
    assert found == [(0, [1]), (10, [5]), (20, [2, 3, 6, 9])]


@pytest.fixture(scope="module")
def chain(context, tmp_path_factory) -> tuple[Lake, Path, Path]:
    """Three datasets, from an HTTP source, through many commits of which twelve close a window."""
    lake = Readings(tmp_path_factory.mktemp("chain") / "lake")
    stream = {"ms__stream__mode": "stateful"}
    rare = lake.derive(
        "rare", f"SELECT * FROM orders WHERE unit = 'a' AND id % {4 * EVERY} = 0", **stream
    )
    days = lake.windows(
        "days",
        ms__query__inputs=json.dumps([{"job": "rare.conf", "as": "rare"}]),
        ms__window__column="updated_ms",
        ms__window__size=f"P{EVERY}D",
        ms__window__aggs=json.dumps({"rows": "count(*)", "total": "sum(amount)"}),
        **stream,
    )
    rows = Dataset.generate(COMMITS * 4, units=("a", "b"), step_ms=STEP_MS)
    with HttpServer(rows) as source:
        lake.orders = write_job(
            lake.folder, source.url, state__store__dir=str(lake.folder / "state")
        )
        for number in range(1, COMMITS + 1):
            lake.now = day(number)
            lake.run(lake.orders)
            lake.stream(rare)
            lake.stream(days, executor=None, spark=context.sparkContext)
    return lake, rare, days


def windows_of_chain(lake: Lake, days: Path) -> list[dict[str, object]]:
    return [
        row
        for event in lake.data(days)
        if event["newData"] is not None
        for part in event["newData"]["parts"]
        for row in pq.read_table(part["path"].removeprefix("file://")).to_pylist()
    ]


def test_a_chain_of_three_datasets_has_each_window_once(chain) -> None:
    lake, rare, days = chain
    found = windows_of_chain(lake, days)
    last = max(row["window_end"] for row in found)
    ids = [
        n
        for n in range(0, COMMITS * 4, 4 * EVERY)
        if START_MS + n * STEP_MS < last.timestamp() * 1000
    ]

    assert sum(row["rows"] for row in found) == len(ids) >= 10
    assert sum(row["total"] for row in found) == pytest.approx(
        sum(n * 37 % 100_000 / 100 for n in ids)
    )
    assert len({row["window_start"] for row in found}) == len(found)
    assert len(lake.data(days)) == COMMITS
    assert sum(event["newData"] is not None for event in lake.data(days)) <= 12 + 1
    assert lake.verify(rare).problems == lake.verify(days).problems == ()


def test_planning_the_third_dataset_reads_one_block_of_its_own(chain) -> None:
    lake, _, days = chain
    job = lake.job(days)
    with counted_bodies() as bodies:
        assert plan_slices(job, job.query, lambda: lake.now).step is None
    assert bodies == {"days": 1, "rare": 1}


@contextmanager
def changed_row(lake: Lake, path: Path, column: str) -> Iterator[None]:
    """Change a value in the third file of a dataset meanwhile."""
    events = [event for event in lake.data(path) if event["newData"] is not None]
    file = Path(events[2]["newData"]["parts"][0]["path"].removeprefix("file://"))
    before, table = file.read_bytes(), pq.read_table(file)
    place = table.schema.get_field_index(column)
    values = pc.add(table[column], 1)
    pq.write_table(table.set_column(place, table.schema.field(column), values), file)
    try:
        yield
    finally:
        file.write_bytes(before)


def replayed(context, lake: Lake, path: Path, first: int = 0) -> Counter[ReplayOutcome]:
    found = lake.replayed(path, first, executor=None, spark=context.sparkContext)
    return Counter(each.outcome for each in found)


def test_replay_finds_a_changed_row_of_an_input_and_verify_one_of_the_output(
    context, chain, capsys
) -> None:
    lake, rare, days = chain
    assert replayed(context, lake, days) == {ReplayOutcome.SAME: COMMITS}
    second = [
        block["sequenceNumber"]
        for block in lake.blocks(days)
        if block["event"].get("newData") is not None
    ][1]
    with changed_row(lake, rare, "amount"):
        assert replayed(context, lake, days, second)[ReplayOutcome.DIFFERS] == 1
    with changed_row(lake, days, "total"):
        assert main(["state", "verify", "--full", str(days)]) == 1
        assert "V20" in capsys.readouterr().out


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

    hours = {(row["origin"], row["time_hour"]) for row in rows if row["temp"] is not None}
    first = dil.api.run(folder / "hours.conf", spark=context)
    assert (first.exit_code, first.rows) == (0, len(hours)), first.failures
    incoming = folder.parent / "files" / "incoming"
    file = next(iter(sorted(incoming.rglob("*.csv.gz"))))
    shutil.copy(file, file.with_name(f"again-{file.name}"))
    assert dil.api.run(folder / "weather.conf", properties=once, spark=context).rows > 0
    again = dil.api.run(folder / "hours.conf", spark=context)
    assert (again.exit_code, again.rows) == (0, 0), again.failures


def test_a_column_that_holds_no_times_is_refused(context, tmp_path) -> None:
    lake = Readings(tmp_path / "lake")
    lake.put(1, 50)
    report = lake.run(
        lake.windows("wrong", ms__window__column="site"),
        executor=None,
        spark=context.sparkContext,
    )
    assert report.exit_code == 1
    assert "site is string, which holds no times" in report.failures[0].error


REPEATING = [*TIMED[:2], {**TIMED[2], "isNullable": True}]


def without_repeats(lake: Readings, name: str, **changes: str) -> Path:
    once = {
        "ms__dedupe__keys": "site",
        "ms__dedupe__column": "at",
        "ms__dedupe__within": "PT5M",
    }
    return lake.derive(name, "SELECT * FROM orders", **{**once, **changes})


def test_repeats_are_left_out_on_spark_as_without_it_and_before_windows(context, tmp_path) -> None:
    """Readings of two sites, many of them near others; then windows over what is left."""
    lake = Readings(tmp_path / "lake")
    plain = without_repeats(lake, "plain")
    spark = without_repeats(
        lake, "spark", ms__stream__mode="stateful", ms__query__input__max__blocks="4"
    )
    windows = lake.windows(
        "windows",
        ms__query__inputs=json.dumps([{"job": "spark.conf", "as": "spark"}]),
        ms__window__keys="site",
        ms__stream__mode="stateful",
    )
    chance = random.Random(7)
    for begin in (0, 20, 45, 60):
        lake.put(*(begin + chance.randint(-8, 25) for _ in range(9)))
        lake.run(plain)
    lake.put(200)
    lake.run(plain)
    for path in (spark, windows):
        report = lake.stream(path, executor=None, spark=context.sparkContext)
        assert report.exit_code == 0, report.failures

    kept = lake.ids("plain")
    assert 5 < kept.total() < len(lake.rows) - 5
    assert lake.ids("spark") == kept
    closed = NOW - 600 * MINUTE + 190 * MINUTE
    counted = Counter(
        (row["site"], (row["at"] - row["at"] % (30 * MINUTE)) / 1000)
        for row in lake.rows
        if row["id"] in kept and row["at"] < closed - closed % (30 * MINUTE)
    )
    assert {(row[2], row[0].timestamp()): row[3] for row in lake.published("windows")} == counted
    assert set(replayed(context, lake, spark)) == {ReplayOutcome.SAME}
    assert lake.verify(spark).problems == ()


def test_rows_keep_the_order_of_the_input_and_those_without_a_time_or_a_key_stay(
    context, tmp_path
) -> None:
    lake = Readings(tmp_path / "lake")
    text = lake.orders.read_text()
    lake.orders.write_text(text.replace(json.dumps(TIMED), json.dumps(REPEATING)))
    rows = [(0, "a"), (1, None), (2, "b"), (3, "a"), (1, None), (9, "a"), (8, "b")]
    lake.put_rows(
        [{"id": n, "at": NOW + at * MINUTE, "site": site} for n, (at, site) in enumerate(rows)]
    )
    lake.run(lake.orders)
    path = without_repeats(lake, "once")
    assert lake.run(path, executor=None, spark=context.sparkContext).exit_code == 0

    (data,) = lake.data(path)
    ids = [
        number
        for part in data["newData"]["parts"]
        for number in pq.read_table(part["path"].removeprefix("file://"))["id"].to_pylist()
    ]
    assert ids == [0, 1, 2, 4, 5, 6]


def test_repeats_are_found_by_the_milliseconds_that_avro_keeps(context, tmp_path) -> None:
    lake = Readings(tmp_path / "lake")
    path = without_repeats(
        lake,
        "avro",
        ms__query__sql="SELECT *, CAST(at AS TIMESTAMP_NTZ) AS local FROM"
        " (SELECT id, site, timestamp_micros(at * 1000 + 999 - id) AS at FROM orders)",
        ms__dedupe__keys="site,at,local",
        ms__dedupe__within="PT0S",
        writer__output__format="AVRO",
    )
    reports = []
    for minute in (1, 1, 3):
        lake.put(minute)
        reports.append(lake.run(path, executor=None, spark=context.sparkContext))

    assert [each.exit_code for each in reports] == [0, 0, 0], [each.failures for each in reports]
    assert [each.rows for each in reports] == [1, 0, 1]


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


def test_a_text_is_not_taken_for_a_published_number_that_it_spells(context, tmp_path) -> None:
    lake = Readings(tmp_path / "lake")
    sql = "SELECT *, id AS code FROM orders"
    once = {"ms__dedupe__keys": "code", "ms__dedupe__column": "at", "ms__dedupe__within": "P1D"}
    path = lake.derive("once", sql, **once)
    lake.put(0, 1)
    lake.run(path)
    lake.derive("once", "SELECT *, concat('00', id - 2) AS code FROM orders", **once)
    lake.put(2, 3)

    report = lake.run(path, executor=None, spark=context.sparkContext)

    (failure,) = report.failures
    assert "code, which is string in the query's result and bigint in the published rows" in (
        failure.error
    )
    assert lake.ids("once") == Counter([0, 1])


def test_keys_that_are_not_a_number_are_one_key_on_spark(context, tmp_path) -> None:
    lake = Readings(tmp_path / "lake")
    code = "CAST(IF(id % 2 = 0, 'NaN', CAST(id AS STRING)) AS DOUBLE)"
    path = lake.derive(
        "once",
        f"SELECT *, {code} AS code FROM orders",
        ms__dedupe__keys="code",
        ms__dedupe__column="at",
        ms__dedupe__within="P1D",
    )
    for minutes in ((0, 1, 2), (3, 4)):
        lake.put(*minutes)
        report = lake.run(path, executor=None, spark=context.sparkContext)
        assert report.exit_code == 0, report.failures

    assert lake.ids("once") == Counter([0, 1, 3])
