"""The properties of timelabels: what is read, what contradicts, what is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from dil.config import load, planning_spec
from dil.errors import ConfigError, Problem
from dil.model.interval import Interval
from dil.model.timelabels import AfterClose, LabelClosing, LabelUnit, TimelabelSpec
from dil.planning.timelabels import timelabels
from tests.jobs import write_job

EXAMPLE = Path(__file__).parents[3] / "conf/examples/timelabels.conf"

DATED = '[{"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "P0D"}}]'
BASE = {"ms.timezone": "UTC", "ms.watermark": DATED, "ms.work.unit.partition": "daily"}


def named(**properties: str) -> dict[str, str]:
    return {f"ms.timelabel.{name.replace('_', '.')}": text for name, text in properties.items()}


def spec(**properties: str) -> TimelabelSpec | None:
    return planning_spec({**BASE, **named(**properties)})[0].timelabel


def problems(properties: dict[str, str]) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        planning_spec({**BASE, **properties})
    return list(caught.value.problems)


def notices(properties: dict[str, str]) -> list[Problem]:
    return list(planning_spec({**BASE, **properties})[1])


def test_without_a_schedule_there_are_no_labels() -> None:
    assert spec() is None
    assert spec(schedule=" ") is None


def test_a_schedule_an_interval_and_a_unit_are_read() -> None:
    assert spec(schedule="10 0 * * *") == TimelabelSpec(schedule="10 0 * * *")
    assert spec(schedule="@hourly", timezone="PST") == TimelabelSpec(
        schedule="@hourly", zone="America/Los_Angeles"
    )
    assert spec(unit="Day") == TimelabelSpec(unit=LabelUnit.DAY)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90m", 90), ("PT90M", 90), ("PT1H30M", 90), ("6h", 360), ("1d", 1440), ("P1W", 10_080)],
)
def test_an_interval_is_an_iso_duration_or_a_number_with_a_letter(text: str, minutes: int) -> None:
    assert spec(every=text) == TimelabelSpec(every_ms=minutes * 60_000)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("PT90S", "whole minutes"),
        ("0m", "whole minutes"),
        ("PT0M", "whole minutes"),
        ("P1M", "length varies"),
        ("90", "not an ISO duration"),
        ("90 min", "not an ISO duration"),
        ("-PT5M", "negative"),
    ],
)
def test_an_interval_that_is_not_whole_minutes_is_refused(text: str, told: str) -> None:
    (found,) = problems(named(every=text))

    assert found.key == "ms.timelabel.every"
    assert f'"{text}"' in found.what
    assert told in found.what
    assert "90m" in found.fix


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("10 0 * *", "4 fields"),
        ("0 10 0 * * ?", "6 fields"),
        ("0 24 * * *", 'the hour "24"'),
        ("0 0 30 2 *", "never fires"),
        ("@reboot", "unknown word"),
    ],
)
def test_a_schedule_that_cannot_be_read_is_refused_with_the_reason(text: str, told: str) -> None:
    (found,) = problems(named(schedule=text))

    assert found.key == "ms.timelabel.schedule"
    assert f'"{text}"' in found.what
    assert told in found.what
    assert "minute, hour, day of month" in found.fix


def test_a_zone_or_unit_that_is_unknown_is_refused() -> None:
    found = problems(named(schedule="@daily", timezone="Mars/Base"))
    assert [problem.key for problem in found] == ["ms.timelabel.timezone"]
    found = problems(named(unit="week"))
    assert [problem.key for problem in found] == ["ms.timelabel.unit"]


def test_only_one_of_schedule_interval_and_unit_is_taken() -> None:
    found = problems(named(schedule="@daily", every="90m", unit="day"))

    assert [problem.key for problem in found] == ["ms.timelabel.every", "ms.timelabel.unit"]
    assert all("ms.timelabel.schedule" in problem.what for problem in found)


def test_a_zone_that_has_no_effect_gives_a_notice() -> None:
    (without,) = notices(named(timezone="UTC"))
    (interval,) = notices(named(timezone="Asia/Kolkata", every="90m"))

    assert without.key == interval.key == "ms.timelabel.timezone"
    assert "no schedule" in without.what
    assert "counts from 1970-01-01 UTC" in interval.what


def test_days_that_are_cut_in_another_zone_than_partitions_give_a_notice() -> None:
    la = {"ms.timezone": "America/Los_Angeles"}
    (found,) = notices({**la, **named(schedule="10 0 * * *")})

    assert found.key == "ms.timelabel.schedule"
    assert "each work unit lies in two periods" in found.what
    assert "ms.timelabel.timezone=America/Los_Angeles" in found.fix
    assert [each.key for each in notices({**la, **named(unit="month")})] == ["ms.timelabel.unit"]


@pytest.mark.parametrize(
    "properties",
    [
        named(schedule="10 0 * * *", timezone="America/Los_Angeles"),
        named(schedule="10 0 * * *", timezone="UTC"),
        named(schedule="10 * * * *"),
        named(unit="hour"),
        named(every="1d"),
        {**named(schedule="10 0 * * *"), "ms.work.unit.partition": "hourly"},
        {**named(schedule="10 0 * * *"), "ms.work.unit.partition": "none"},
        {
            **named(schedule="10 0 * * *"),
            "ms.watermark": DATED.replace("2020-01-01", "2020-01-01 00:00:00UTC"),
        },
    ],
)
def test_other_schedules_give_none(properties: dict[str, str]) -> None:
    found = planning_spec({**BASE, "ms.timezone": "America/Los_Angeles", **properties})[1]

    assert [notice.key for notice in found if "timelabel" in notice.key] == []


def test_composite_partitions_are_partitions_of_time() -> None:
    composite = '{"monthly":["2020-01-01","2020-03-01"],"daily":["2020-03-01","-"]}'
    properties = {**named(schedule="@daily"), "ms.work.unit.partition": composite}
    assert planning_spec({**BASE, **properties})[0].timelabel == TimelabelSpec(schedule="@daily")


@pytest.mark.parametrize(
    ("watermark", "partition", "is_dated"),
    [
        ('[{"name": "id", "type": "unit", "units": "a,b"}]', "none", False),
        ('[{"name": "id", "type": "unit", "units": "a,b"}]', "daily", True),
        (DATED, "none", True),
        ("", "none", False),
    ],
)
def test_work_units_have_a_time_where_a_range_or_partitions_are_declared(
    watermark: str, partition: str, is_dated: bool
) -> None:
    properties = {"ms.watermark": watermark, "ms.work.unit.partition": partition}
    found = planning_spec({**BASE, **properties, **named(schedule="@daily")})[0].timelabel

    assert found == TimelabelSpec(schedule="@daily", is_dated=is_dated)


def test_a_column_may_label_rows_and_needs_a_schedule_for_that() -> None:
    assert spec(schedule="@daily", column="created_at") == TimelabelSpec(
        schedule="@daily", column="created_at"
    )
    (found,) = problems(named(column="created_at"))
    assert found.key == "ms.timelabel.column"
    assert found.what.startswith('is "created_at", and there is no schedule')


def test_which_periods_are_read_and_how_they_are_split_is_read() -> None:
    assert spec(schedule="@daily", split="units") == TimelabelSpec(schedule="@daily", splits=True)
    found = spec(schedule="@daily", catchup="false", first_run="period")
    assert found == TimelabelSpec(schedule="@daily", catches_up=False, first_period=True)
    assert spec(schedule="@daily", split="none", catchup="true", first_run="history") == (
        TimelabelSpec(schedule="@daily")
    )


@pytest.mark.parametrize(
    ("name", "text"), [("split", "units"), ("catchup", "false"), ("first_run", "period")]
)
def test_a_choice_of_periods_needs_a_schedule(name: str, text: str) -> None:
    (found,) = problems(named(**{name: text}))

    assert found.key == f"ms.timelabel.{name.replace('_', '.')}"
    assert f'is "{text}", and there is no schedule' in found.what


@pytest.mark.parametrize(("name", "text"), [("catchup", "false"), ("first_run", "period")])
def test_periods_are_left_out_only_where_work_units_know_them(name: str, text: str) -> None:
    key, chosen = f"ms.timelabel.{name.replace('_', '.')}", named(schedule="@daily", **{name: text})
    whole = {**chosen, "ms.work.unit.partition": "none"}
    (found,) = problems(whole)

    assert (found.key, "one work unit of all periods" in found.what) == (key, True)
    assert "ms.timelabel.split=units" in found.fix
    assert planning_spec({**BASE, **whole, **named(split="units")})[0].timelabel is not None
    untimed = {"ms.watermark": "", "ms.work.unit.partition": "none"}
    told = notices({**chosen, **untimed})
    assert [each.what for each in told if each.key == key] == [
        "has no effect: work units have no time"
    ]
    (replaced,) = notices({**chosen, "ms.publish.mode": "replace"})
    assert (replaced.key, "reads everything again" in replaced.what) == (key, True)


@pytest.mark.parametrize("text", ["dayly", '{"dayly": ["2020-01-01", "-"]}'])
def test_a_wrong_partition_is_not_taken_for_none(text: str) -> None:
    (found,) = problems(
        {**BASE, **named(schedule="@daily", catchup="false"), "ms.work.unit.partition": text}
    )
    assert found.key == "ms.work.unit.partition"


def test_units_that_are_read_whole_are_not_split() -> None:
    files = {
        **named(schedule="@daily", split="units"),
        "ms.source.files.once": "path",
        "ms.work.unit.partition": "none",
    }
    (found,) = problems(files)
    assert (found.key, "is read whole" in found.what) == ("ms.timelabel.split", True)
    untimed = {"ms.watermark": "", "ms.work.unit.partition": "none"}
    told = notices({**named(schedule="@daily", split="units"), **untimed})
    assert [each.what for each in told if each.key == "ms.timelabel.split"] == [
        "has no effect: work units have no time"
    ]


SERIES = {
    **named(schedule="@daily"),
    "ms.warehouse.url": "sqlite:///w.db",
    "ms.warehouse.table.kind": "timeseries",
    "source.class": "http",
    "ms.work.unit.partition": "weekly",
}


@pytest.mark.parametrize(
    ("changes", "splits"),
    [
        ({}, True),
        ({"source.class": "jdbc"}, False),
        ({"source.class": "com.linkedin.cdi.source.HttpSource"}, True),
        ({"source.class": ""}, False),
        (named(column="created"), False),
        (named(split="none"), False),
        ({"source.class": "jdbc", **named(split="units")}, True),
        ({"ms.warehouse.table.kind": "regular"}, False),
        ({"ms.warehouse.url": ""}, False),
        ({"ms.watermark": "", "ms.work.unit.partition": "none"}, False),
    ],
)
def test_work_units_of_an_api_are_split_for_a_timeseries(
    changes: dict[str, str], splits: bool
) -> None:
    found = planning_spec({**BASE, **SERIES, **changes})[0].timelabel

    assert found is not None
    assert found.splits is splits


@pytest.mark.parametrize(
    ("changes", "key", "what"),
    [
        ({"ms__timelabel__split": "none"}, "ms.timelabel.split", "the last timelabel"),
        ({"ms__parameters": '[{"name": "unit"}]'}, "ms.watermark", "is sent by no parameter"),
        ({"ms__timelabel__split": "none", "ms__timelabel__column": "updated_ms"}, "", ""),
        ({"ms__timelabel__split": "none", "ms__parameters": '[{"name": "unit"}]'}, "", ""),
        ({}, "", ""),
    ],
)
def test_an_api_is_asked_for_each_period_of_a_timeseries(
    tmp_path: Path, changes: dict[str, str], key: str, what: str
) -> None:
    given = {name.replace(".", "__"): text for name, text in SERIES.items()}
    job = write_job(tmp_path, "http://127.0.0.1:1", **{**given, **changes})
    if not key:
        load(job, environ={})
        return
    with pytest.raises(ConfigError) as caught:
        load(job, environ={})

    (found,) = caught.value.problems
    assert (found.key, what in found.what) == (key, True)


def test_wrong_watermarks_are_told_without_more_about_their_zone() -> None:
    found = problems({**named(schedule="@daily"), "ms.watermark": '[{"type": "datetime"}]'})

    assert [problem.key for problem in found] == ["ms.watermark"]


def test_the_example_labels_the_days_of_its_zone() -> None:
    environ = {"DEMO_API": "http://127.0.0.1:1", "DEMO_TOKEN": "secret"}
    loaded = load(EXAMPLE, environ=environ)
    found = loaded.job.planning.timelabel

    assert loaded.notices == ()
    assert found == TimelabelSpec(schedule="10 0 * * *", zone="America/New_York")
    label = timelabels(found, 0)(Interval(1_357_016_400_000, 1_357_102_800_000))
    assert label == "20130101050000"
    assert label in EXAMPLE.read_text(encoding="utf-8")


CLOSING = {
    "ms__timelabel__schedule": "@daily",
    "ms__timelabel__close": "auto",
    "ms__late__after__close": "reject",
}


def test_a_job_says_who_closes_labels_and_what_becomes_of_later_rows(tmp_path: Path) -> None:
    labels = load(write_job(tmp_path, "http://h", **CLOSING), environ={}).job.planning.timelabel
    assert labels is not None
    assert (labels.closing, labels.after_close) == (LabelClosing.AUTO, AfterClose.REJECT)
    path = write_job(tmp_path, "http://h", ms__timelabel__schedule="@daily")
    labels = load(path, environ={}).job.planning.timelabel
    assert labels is not None
    assert not labels.closes


def test_rows_for_closed_labels_go_beside_the_dataset_unless_a_job_says_otherwise(
    tmp_path: Path,
) -> None:
    job = load(
        write_job(tmp_path, "http://h", **{**CLOSING, "ms__late__after__close": ""}), environ={}
    ).job
    labels = job.planning.timelabel
    assert labels is not None
    assert (labels.after_close, job.publishing.has_side_table) == (AfterClose.SIDE_TABLE, True)
    path = write_job(tmp_path, "http://h", **CLOSING)
    assert not load(path, environ={}).job.publishing.has_side_table


@pytest.mark.parametrize(
    ("changes", "key", "fix"),
    [
        (
            {"ms__late__after__close": "", "ms__state__cursor__commit": "page"},
            "ms.late.after.close",
            "ms.state.cursor.commit",
        ),
        ({"state__store__enabled": "false"}, "ms.timelabel.close", "Keep the state"),
        ({"ms__publish__mode": "replace"}, "ms.timelabel.close", "window_replace"),
        ({"ms__timelabel__schedule": ""}, "ms.timelabel.close", "ms.timelabel.schedule"),
    ],
)
def test_a_job_that_cannot_close_labels_is_told_why(
    tmp_path: Path, changes: dict[str, str], key: str, fix: str
) -> None:
    path = write_job(tmp_path, "http://h", **{**CLOSING, **changes})
    with pytest.raises(ConfigError) as caught:
        load(path, environ={})
    [problem] = caught.value.problems
    assert problem.key == key
    assert fix in problem.fix


def test_a_misspelt_word_is_not_taken_for_the_default_of_later_rows(tmp_path: Path) -> None:
    changes = {**CLOSING, "ms__late__after__close": "rejct", "ms__state__cursor__commit": "page"}
    with pytest.raises(ConfigError) as caught:
        load(write_job(tmp_path, "http://h", **changes), environ={})
    [problem] = caught.value.problems
    assert 'Did you mean "reject"?' in problem.fix


def test_what_to_do_after_closing_has_no_effect_where_nothing_is_closed(tmp_path: Path) -> None:
    path = write_job(tmp_path, "http://h", ms__late__after__close="reject")
    notices = load(path, environ={}).notices
    assert "ms.late.after.close" in [each.key for each in notices]
