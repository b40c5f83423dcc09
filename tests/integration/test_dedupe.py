"""Repeats are left out of derived datasets, whatever runs there are; without Spark."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dil import config
from dil.errors import ConfigError
from dil.operator.compaction import CompactionRequest, compact
from dil.operator.replaying import ReplayOutcome
from dil.run.job_run import run_job
from tests.derived import NOW, Lake

MINUTE = 60_000
SCHEMA = [
    {"columnName": "id", "dataType": {"type": "long"}},
    {"columnName": "sensor", "isNullable": True, "dataType": {"type": "string"}},
    {"columnName": "seen", "isNullable": True, "dataType": {"type": "timestamp"}},
]
ONCE = {
    "ms__dedupe__keys": "sensor",
    "ms__dedupe__column": "seen",
    "ms__dedupe__within": "PT10M",
}


def instant_text(minute: int) -> str:
    instant = datetime.fromtimestamp((NOW + minute * MINUTE) / 1000, UTC)
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


class Events(Lake):
    """A root of events: sensors, and minutes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SCHEMA)
        self._ids = 0

    def events(self, *events: tuple[str | None, int | None]) -> None:
        """Let these events arrive, and run the root; ids count all of them."""
        rows = []
        for sensor, minute in events:
            at = None if minute is None else instant_text(minute)
            rows.append({"id": self._ids, "sensor": sensor, "seen": at})
            self._ids += 1
        self.put_rows(rows)
        report = self.run(self.orders)
        assert report.exit_code == 0, report.failures


@pytest.fixture
def lake(tmp_path: Path) -> Events:
    return Events(tmp_path)


def once(lake: Lake, name: str = "once", sql: str = "SELECT * FROM orders", **more: str) -> Path:
    return lake.derive(name, sql, **{**ONCE, **more})


def test_a_row_near_one_of_its_key_that_is_published_is_left_out(lake: Events) -> None:
    path = once(lake)
    lake.events(("a", 0), ("b", 1), ("a", 10), ("a", 11))
    assert lake.run(path).rows == 3
    lake.events(("a", 21), ("a", 22), ("b", -9), ("b", -10), ("c", 5))
    lake.run(path)

    # Ten minutes from a0 is near, eleven are not; a21 is ten from a11; b-9 is ten from b1.
    assert lake.ids("once") == Counter([0, 1, 3, 5, 7, 8])
    assert lake.verify(path).problems == ()


def test_rows_without_a_key_or_a_time_all_stay(lake: Events) -> None:
    path = once(lake)
    lake.events((None, 0), (None, 0), ("a", None), ("a", 0), ("a", None))
    lake.run(path)
    lake.events((None, 0), ("a", None), ("a", 1))
    lake.run(path)

    assert lake.ids("once") == Counter([0, 1, 2, 3, 4, 5, 6])


def test_runs_and_streams_of_any_size_publish_the_same_rows(lake: Events) -> None:
    daily = once(lake, "daily")
    paths = [
        once(lake, f"by_{size}", ms__stream__mode="stateful", ms__query__input__max__blocks=size)
        for size in ("1", "2", "7")
    ]
    for number in range(8):
        minutes = [(7 * number * step) % 60 for step in (1, 3, 5)]
        lake.events(*(("ab"[minute % 2], minute) for minute in minutes))
        lake.run(daily)
    for path in paths:
        assert lake.stream(path).exit_code == 0

    assert 2 < lake.ids("daily").total() < 24
    for size in ("1", "2", "7"):
        assert lake.ids(f"by_{size}") == lake.ids("daily")


def test_times_of_another_column_are_not_taken_for_those_of_before(lake: Events) -> None:
    sql = "SELECT *, seen + INTERVAL 2 DAY AS due FROM orders"
    path = once(lake, sql=sql)
    lake.events(("a", 0))
    lake.run(path)
    lake.events(("b", 1))
    lake.run(path)
    once(lake, sql=sql, ms__dedupe__column="due")
    lake.events(("a", 2), ("c", 2))
    lake.run(path)
    lake.events(("c", 3), ("b", 9))
    lake.run(path)

    assert lake.ids("once") == Counter([0, 1, 3])
    assert lake.verify(path).problems == ()


def test_replay_gives_each_block_again(lake: Events) -> None:
    path = once(lake)
    for number in range(4):
        lake.events(("a", number * 4), ("b", number * 11))
        lake.run(path)
    outcomes = [each.outcome for each in lake.replayed(path)]

    assert outcomes == [ReplayOutcome.SAME] * 4
    assert lake.ids("once") == Counter([0, 1, 3, 5, 6, 7])


def test_old_files_are_not_read(lake: Events) -> None:
    """They are taken away, and a run that needs none of them does not miss them."""
    path = once(lake)
    for number in range(3):
        lake.events(("a", number * 60))
        lake.run(path)
    old = sorted((lake.folder / "lake" / "shop" / "once").rglob("part-*.parquet"))[:2]
    lake.events(("a", 121), ("b", 119))
    for file in old:
        file.rename(file.with_suffix(".away"))

    assert lake.run(path).exit_code == 0
    for file in old:
        file.with_suffix(".away").rename(file)
    assert lake.ids("once") == Counter([0, 1, 2, 4])
    assert [event["lastEventMs"] for event in lake.data(path)] == [
        NOW + minute * MINUTE for minute in (0, 60, 120, 121)
    ]


def test_to_make_it_anew_gives_the_same_rows(lake: Events) -> None:
    path = once(lake, ms__stream__mode="stateful", ms__query__input__max__blocks="1")
    for number in range(3):
        lake.events(("a", number * 6), ("b", number * 9), (None, 0))
        lake.stream(path)
    before = lake.ids("once")
    anew = {"ms.query.mode": "full", "ms.publish.mode": "replace"}
    with pytest.raises(ConfigError, match=r"add -D ms\.stream\.mode=none"):
        config.load(path, overrides=anew, environ={})
    job = config.load(path, overrides={**anew, "ms.stream.mode": "none"}, environ={}).job
    assert run_job(job, lake.options()).exit_code == 0

    assert lake.ids("once") == before == Counter([0, 1, 2, 5, 6, 7, 8])
    lake.events(("a", 22), ("a", 23))
    lake.stream(path)
    assert lake.ids("once") == before + Counter([10])
    assert lake.data(path)[-1]["lastEventMs"] == NOW + 23 * MINUTE


def test_a_compaction_of_the_dataset_forgets_no_row(lake: Events) -> None:
    path = once(lake)
    for number in range(4):
        lake.events(("a", number * 11), ("b", number))
        lake.run(path)
    lake.now += MINUTE
    compact(lake.job(path), CompactionRequest(clock=lambda: lake.now))
    lake.events(("a", 12), ("a", 30), ("b", 9), ("b", 11))
    lake.run(path)

    assert lake.ids("once") == Counter([0, 1, 2, 4, 6, 11])
    assert lake.verify(path).problems == ()


def test_rows_of_a_time_long_past_are_compared_with_those_of_that_time(lake: Events) -> None:
    path = once(lake)
    for minute in (0, 600, 1200):
        lake.events(("a", minute))
        lake.run(path)
    lake.events(("a", 5), ("a", 30))
    lake.run(path)

    assert lake.ids("once") == Counter([0, 1, 2, 4])


def test_keys_of_several_columns_and_times_as_dates_and_numbers(lake: Events) -> None:
    days = once(
        lake,
        "days",
        "SELECT id, sensor, id % 2 AS side, CAST(seen AS DATE) AS seen FROM orders",
        ms__dedupe__keys="sensor,side",
        ms__dedupe__within="P1D",
    )
    numbers = once(lake, "numbers", "SELECT id, sensor, epoch_ms(seen) AS seen FROM orders")
    lake.events(("a", 0), ("a", 1), ("a", 1440), ("a", 1441), ("a", 2880))
    for path in (days, numbers):
        lake.run(path)
        lake.run(path)

    assert lake.ids("days") == Counter([0, 1, 4])
    assert lake.ids("numbers") == Counter([0, 2, 4])


@pytest.mark.parametrize("first", ["AVRO", "PARQUET"])
@pytest.mark.parametrize("unit", ["milliseconds", "seconds"])
def test_rows_are_compared_with_the_times_that_files_keep(
    lake: Events, unit: str, first: str
) -> None:
    """Avro keeps whole units; a fraction of a unit must not bring a row again."""
    seen = "seen + INTERVAL (999999 - 200 * id) MICROSECOND AS seen"
    reports = []
    for form in (first, "AVRO", "AVRO"):
        path = once(
            lake,
            "kept",
            f"SELECT id, sensor, {seen} FROM orders",
            writer__output__format=form,
            converter__is__epoch__time__in__seconds=str(unit == "seconds").lower(),
            ms__dedupe__within="PT0S",
        )
        lake.events(("a", -1))
        reports.append(lake.run(path))

    assert [each.exit_code for each in reports] == [0, 0, 0], [each.failures for each in reports]
    assert [each.rows for each in reports] == [1, 0, 0]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT id, seen FROM orders", "no column sensor, which ms.dedupe.keys names"),
        ("SELECT id, [sensor] AS sensor, seen FROM orders", "needs single values"),
        ("SELECT id, sensor, sensor AS seen FROM orders", "holds no times"),
        ("SELECT id, sensor FROM orders", "no column seen, which ms.dedupe.column names"),
    ],
)
def test_a_result_that_cannot_be_compared_is_refused(lake: Events, sql: str, said: str) -> None:
    path = once(lake, sql=sql)
    lake.events(("a", 0))
    report = lake.run(path)

    assert report.exit_code == 1
    assert said in report.failures[0].error
    assert "__dil" not in report.failures[0].fix


def test_a_key_of_another_kind_than_the_published_one_is_refused(lake: Events) -> None:
    path = once(lake, sql="SELECT id, id AS sensor, seen FROM orders")
    lake.events(("a", 0))
    lake.run(path)
    once(lake, sql="SELECT id, '0' || id AS sensor, seen FROM orders")
    lake.events(("a", 1))
    (failure,) = lake.run(path).failures

    assert "sensor, which is string in the query's result and bigint in the published rows" in (
        failure.error
    )
    assert "CAST(`sensor` AS bigint)" in failure.fix
    once(lake, sql="SELECT id, CAST(id AS DOUBLE) AS sensor, seen FROM orders")
    (failure,) = lake.run(path).failures
    assert "which is double in the query's result and bigint" in failure.error
    assert lake.ids("once") == Counter([0])


def test_the_printed_command_makes_the_dataset_anew_by_a_key_that_it_lacks(lake: Events) -> None:
    path = once(lake)
    lake.events(("a", 0), ("a", 1))
    lake.run(path)
    sides = {"ms__dedupe__keys": "sensor,side"}
    once(lake, sql="SELECT *, id % 2 AS side FROM orders", **sides)
    lake.events(("a", 2), ("b", 2))
    (failure,) = lake.run(path).failures

    assert "the dataset has no column side, by which repeats are found" in failure.error
    assert lake.run_as_printed(path, failure.fix).exit_code == 0
    lake.events(("a", 3), ("c", 3))
    lake.run(path)
    assert lake.ids("once") == Counter([0, 1, 3, 5])
    assert lake.verify(path).problems == ()


def test_what_does_not_go_with_it_is_said_at_once(lake: Events) -> None:
    path = lake.derive(
        "once",
        "SELECT * FROM orders",
        ms__dedupe__keys="sensor",
        ms__publish__mode="merge",
        extract__primary__key__fields="id",
    )
    with pytest.raises(ConfigError) as caught:
        lake.job(path)
    said = [each.what for each in caught.value.problems if each.key == "ms.dedupe.keys"]
    assert len(said) == 3
    assert any("ms.publish.mode=merge" in each for each in said)
    assert any("ms.dedupe.within is not" in each for each in said)
    malformed = once(lake, ms__dedupe__within="1 hour")
    with pytest.raises(ConfigError) as caught:
        lake.job(malformed)
    assert [each.key for each in caught.value.problems] == ["ms.dedupe.within"]
    windowed = once(lake, "w", ms__query__mode="windowed", ms__query__sql="")
    with pytest.raises(ConfigError, match="Let a job of its own leave repeats out"):
        lake.job(windowed)
    alone = lake.derive("alone", "SELECT * FROM orders", ms__dedupe__within="PT1M")
    with pytest.raises(ConfigError, match=r"has no effect without ms\.dedupe\.keys"):
        lake.job(alone)


def test_the_chain_says_by_what_repeats_were_found(lake: Events) -> None:
    path = once(lake)
    lake.events(("a", 0))
    lake.run(path)
    (transform,) = [
        block["event"] for block in lake.blocks(path) if block["event"]["kind"] == "SetTransform"
    ]
    assert transform["dedupe"] == {"keys": ["sensor"], "column": "seen", "withinMs": 10 * MINUTE}
    assert json.loads(json.dumps(transform)) == transform
    (file,) = (lake.folder / "lake" / "shop" / "once").rglob("part-*.parquet")
    assert pq.read_schema(file).names == ["id", "sensor", "seen"]
