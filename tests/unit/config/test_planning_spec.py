"""Planning properties: watermarks, units, partitions, periods (rules P2, P3 and P13)."""

from __future__ import annotations

import json

import pytest

from dil.config import planning_spec
from dil.errors import ConfigError
from dil.model.interval import DAY_MS
from dil.model.job import PlanningSpec, TableType


def spec(**properties: str) -> PlanningSpec:
    return planning_spec(named(properties))[0]


def named(properties: dict[str, str]) -> dict[str, str]:
    return {f"ms.{name.replace('__', '.')}": value for name, value in properties.items()}


def problems(properties: dict[str, str]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        planning_spec(properties)
    return [problem.key for problem in caught.value.problems]


def watermark(start: str = "2020-01-01", end: str = "-") -> dict[str, object]:
    return {"name": "system", "type": "datetime", "range": {"from": start, "to": end}}


def units(value: object, name: str = "id") -> str:
    return json.dumps([{"name": name, "type": "unit", "units": value}])


def test_nothing_given_is_the_default_range_and_one_unit():
    assert planning_spec({})[0] == PlanningSpec()
    assert [notice.key for notice in planning_spec({})[1]] == ["ms.watermark"]
    assert planning_spec({"ms.timezone": "UTC"}) == (PlanningSpec(zone="UTC"), ())


def test_keys_of_other_rooms_and_unknown_ones_are_ignored():
    others = {"ms.bogus": "1", "ms.http.conn.max": "x", "a": "${b}"}
    assert planning_spec({"ms.timezone": "UTC", **others})[1] == ()


def test_planning_keys_are_interpolated_with_any_other_key():
    found, _ = planning_spec({"ms.work.unit.partition": "${p}", "p": "${q}", "q": "daily"})
    assert found.partition == "daily"
    assert problems({"ms.work.unit.partition": "${p}"}) == ["ms.work.unit.partition"]


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2020-01-01", "-"),
        ("2020-01-01 10:00:00", "2020-01-02T10:00:00.123456"),
        ("2020-01-01T00:00:00+01:00", "2020-01-02 00:00:00UTC"),
        ("P30D", "P0D"),
        ("P1DT2H", "P0DT0H5M"),
        ("P1DT2H.Europe/Paris", "P0DT5M.UTC"),
    ],
)
def test_every_form_of_a_range_is_kept_as_written(start, end):
    found = spec(watermark=json.dumps([watermark(start, end)]))
    assert (found.datetime_name, found.start, found.end) == ("system", start, end)


@pytest.mark.parametrize(
    "value",
    [
        [watermark("-")],
        [watermark("yesterday")],
        [watermark("2020-13-01")],
        [watermark("2021-03-14 02:30:00")],
        [watermark("P1D5M")],
        [watermark("P0DT48H")],
        [watermark("P1D.Mars/Olympus")],
        [watermark(), watermark()],
        [{"name": "s", "type": "datetime"}],
        [{"name": "s", "type": "datetime", "range": {"from": "2020-01-01"}}],
        [{"name": "s", "type": "time", "range": {}}],
        [{"type": "unit", "units": "a"}],
        [{"name": "s", "type": "unit", "unit": "a", "units": "a"}],
        ["x"],
    ],
)
def test_a_wrong_watermark_is_a_problem(value):
    assert problems({"ms.watermark": json.dumps(value)}) == ["ms.watermark"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a, b ,c", ['{"id":"a"}', '{"id":"b"}', '{"id":"c"}']),
        ("a,null,", ['{"id":"a"}', '{"id":"null"}']),
        ('[{"x": 1, "a": "é"}]', ['{"x":1,"a":"é"}']),
        (["a", "b"], ['{"id":"a"}', '{"id":"b"}']),
        ([1, True], ['{"id":"1"}', '{"id":"true"}']),
        ([{"id": 1}, {"id": "1"}], ['{"id":1}', '{"id":"1"}']),
        ("a,b,a", ['{"id":"a"}', '{"id":"b"}']),
        (" a\u00a0,\u3000b\t", ['{"id":"a\u00a0"}', '{"id":"\u3000b"}']),
    ],
)
def test_units_are_compact_objects_in_order(value, expected):
    found = spec(watermark=units(value))
    assert (found.unit_name, list(found.units)) == ("id", expected)


@pytest.mark.parametrize("value", ["", " ", [], None, "a,,b", "[1", [None], [{"a": 1}, "b"], 5])
def test_units_that_are_none_or_mixed_are_a_problem(value):
    assert problems({"ms.watermark": units(value)}) == ["ms.watermark"]


def test_activation_rows_define_the_units_and_exclude_a_list():
    source = '[{"path":"/in","category":"activation"}]'
    found = spec(secondary__input=source)
    assert (found.unit_name, found.units) == ("activation", None)
    assert problems({"ms.secondary.input": source, "ms.watermark": units("a")}) == ["ms.watermark"]


def test_a_wrong_path_in_secondary_input_is_a_problem_of_planning_as_well():
    source = '[{"path":"/in","category":"activation","fields":["$.a["]}]'
    assert problems({"ms.secondary.input": source}) == ["ms.secondary.input"]


def test_payload_alone_is_one_activation_unit():
    found = spec(secondary__input='[{"path":"/in","category":"payload"}]')
    assert (found.unit_name, found.units) == ("activation", ("{}",))


@pytest.mark.parametrize("word", ["none", "Hourly", "DAILY", "weekly", "monthly", "yearly"])
def test_partition_words_are_read_in_any_case(word):
    assert spec(work__unit__partition=word).partition == word.lower()


def test_a_composite_partition_keeps_its_order():
    found = spec(
        work__unit__partition='{"daily":["2022-01-01","-"],"Monthly":["2015-01-01","2022-01-01"]}'
    )
    assert found.composite == (
        ("daily", "2022-01-01", "-"), ("monthly", "2015-01-01", "2022-01-01"),
    )  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        "dayly",
        "{",
        '{"dayly":["2020-01-01","-"]}',
        '{"daily":["2020-01-01"]}',
        '{"daily":"2020-01-01"}',
        '{"daily":["P10D","-"]}',
        '{"daily":["-","-"]}',
        '{"daily":["2020-01-02","2020-01-01"]}',
        '{"daily":["2020-01-01","-"],"monthly":["2019-01-01","2020-02-01"]}',
        '{"daily":["2020-01-01","-"],"monthly":["2021-01-01","2021-02-01"]}',
    ],
)
def test_a_wrong_partition_is_a_problem(value):
    assert problems({"ms.work.unit.partition": value}) == ["ms.work.unit.partition"]


def test_grace_and_abstinence_are_days_or_durations():
    assert spec(grace__period__days="2").grace_ms == 2 * DAY_MS
    assert spec(grace__period="PT6H").grace_ms == DAY_MS // 4
    assert spec(abstinent__period="P1DT30M").abstinent_ms == DAY_MS + 1_800_000
    assert spec(grace__period="P1D", grace__period__days="1").grace_ms == DAY_MS
    assert problems({"ms.grace.period": "P2D", "ms.grace.period.days": "1"}) == ["ms.grace.period"]


@pytest.mark.parametrize(("text", "limit"), [("0", 500), ("-1", None), ("7", 7), ("", 500)])
def test_the_limit_of_work_units_has_two_special_values(text, limit):
    assert spec(work__unit__parallelism__max=text).limit == limit


def test_the_other_planning_properties_are_passed_on():
    found, _ = planning_spec(
        {
            "ms.backfill": "true",
            "extract.table.type": "snapshot_append",
            "extract.is.full": "true",
            "ms.enable.dynamic.full.load": "false",
            "ms.work.unit.partial.partition": "false",
            "ms.work.unit.min.units": "3",
            "ms.work.unit.pacing.seconds": "4",
            "ms.timezone": "Europe/Paris",
        }
    )
    assert found == PlanningSpec(
        backfill=True,
        table_type=TableType.SNAPSHOT_APPEND,
        is_full=True,
        dynamic_full_load=False,
        partial=False,
        min_units=3,
        pacing_s=4,
        zone="Europe/Paris",
    )


@pytest.mark.parametrize(
    ("start", "end", "is_noticed"),
    [
        ("2020-01-01", "-", True),
        ("2020-01-01 00:00:00UTC", "-", False),
        ("2020-01-01 00:00:00UTC", "P0D", True),
        ("P3D.UTC", "P0D.UTC", False),
    ],
)
def test_the_default_zone_is_noticed_where_it_is_used_without_being_named(start, end, is_noticed):
    text = json.dumps([watermark(start, end)])
    assert bool(planning_spec({"ms.watermark": text})[1]) is is_noticed
    named_zone = {"ms.watermark": text, "ms.timezone": "America/Los_Angeles"}
    assert planning_spec(named_zone)[1] == ()


def test_modes_that_replace_change_how_history_is_used():
    assert spec(publish__mode="replace").ignore_history
    assert spec(publish__mode="window_replace").read_from_partition_start
    replaced = {"data.publisher.replace.final.dir": "true"}
    assert not planning_spec(replaced)[0].ignore_history
    assert planning_spec({**replaced, "writer.file.path.type": "tablename"})[0].ignore_history


def test_all_planning_problems_come_together():
    found = problems({"ms.watermark": "[1]", "ms.backfill": "x", "ms.timezone": "y"})
    assert found == ["ms.backfill", "ms.timezone", "ms.watermark"]
