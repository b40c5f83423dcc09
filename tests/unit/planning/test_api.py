"""The public Python face of planning (docs/running.md)."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest

from dil.api import parse_instant, plan
from dil.errors import ConfigError, PlanningError
from dil.model.work_unit import Reason

NOW = datetime(2020, 2, 22, 18, 30, tzinfo=UTC)
JOB = {
    "ms.watermark": '[{"name":"system","type":"datetime","range":{"from":"2020-02-01","to":"P0D"}},'
    '{"name":"id","type":"unit","units":"a, b"}]',
    "ms.work.unit.partition": "weekly",
    "ms.grace.period.days": "3",
}
ACTIVATION = {"ms.secondary.input": '[{"path":"/data/ids","fields":["id"]}]'}


def test_plan_gives_the_documented_fields() -> None:
    made = plan(JOB, now=NOW)

    unit = made.work_units[1]
    assert unit.signature == '[watermark.system.1580544000000, watermark.id.{"id":"b"}]'
    assert (unit.low, unit.high) == (1580544000000, 1581148800000)
    assert (unit.partition.low, unit.partition.high) == (unit.low, unit.high)
    assert (unit.unit, unit.reason) == ({"id": "b"}, Reason.NEW)
    assert len(made.work_units) == 6


def test_history_prunes_the_windows() -> None:
    made = plan(JOB, now=NOW)
    history = {unit.signature: unit.high for unit in made.work_units}

    later = plan(JOB, now=NOW + timedelta(days=1), history=history)

    assert [(unit.unit["id"], unit.reason) for unit in later.work_units] == [
        ("a", "incremental"), ("b", "incremental"), ("a", "new"), ("b", "new"),
    ]  # fmt: skip
    assert later.work_units[0].low == later.cutoff == made.work_units[-1].high - 3 * 86_400_000


def test_a_job_without_properties_is_planned_with_the_defaults() -> None:
    made = plan({}, now=NOW)

    assert [unit.signature for unit in made.work_units] == [
        "[watermark.datetime.1546329600000, watermark.unit.{}]"
    ]
    assert made.full_extract


def test_unit_numbers_stay_as_they_are_written() -> None:
    units = '[{"id":1e5},{"id":1.0,"t":"<é>/\\""},{"id":12345678901234567890123}]'
    watermark = f'[{{"name":"u","type":"unit","units":{units}}}]'

    made = plan({"ms.watermark": watermark}, now=NOW)

    assert [unit.unit_json for unit in made.work_units] == [
        '{"id":1e5}',
        '{"id":1.0,"t":"<é>/\\""}',
        '{"id":12345678901234567890123}',
    ]
    assert made.work_units[0].signature.endswith('{"id":1e5}]')
    assert str(made.work_units[0].unit["id"]) == "1e5"
    assert made.work_units[0].unit_key == 'u.{"id":1e5}'


def test_activation_rows_become_units() -> None:
    rows = [{"id": 1, "name": "é"}, {"id": 2, "name": None}, {"id": "\u2028", "f": 1.0}]

    made = plan(ACTIVATION, now=NOW, activation=rows)

    assert [unit.unit_json for unit in made.work_units] == [
        '{"id":1,"name":"é"}',
        '{"id":2,"name":null}',
        '{"id":"\\u2028","f":1.0}',
    ]
    assert made.work_units[0].signature.startswith("[watermark.datetime.1546329600000, watermark.a")


def test_activation_that_is_declared_must_be_given() -> None:
    with pytest.raises(PlanningError):
        plan(ACTIVATION, now=NOW)


@pytest.mark.parametrize(
    "properties",
    [
        {"ms.watermark": '[{"name":"d","type":"datetime","range":{"from":"-","to":"-"}}]'},
        {"ms.work.unit.partition": "dayly"},
        {"ms.grace.period.days": "-1"},
        {"ms.watermark": "nonsense"},
    ],
)
def test_wrong_properties_are_configuration_errors(properties: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        plan(properties, now=NOW)


def test_a_naive_now_is_a_configuration_error() -> None:
    naive = datetime(2020, 1, 1)  # noqa: DTZ001

    with pytest.raises(ConfigError):
        plan({}, now=naive)
    with pytest.raises(ConfigError):
        parse_instant("P0D", now=naive)


def test_parse_instant_takes_what_to_takes() -> None:
    now = datetime(2021, 3, 15, 10, 42, 33, tzinfo=timezone(timedelta(hours=-7)))

    assert parse_instant("-", now=now) == 1615830120000
    assert parse_instant("P1D", now=now) == 1615708800000
    assert parse_instant("2017-01-01", now=now) == 1483257600000


@pytest.mark.parametrize("text", ["", "2021-03-14 02:30:00", "P1D5M", "tomorrow"])
def test_parse_instant_refuses_other_texts(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_instant(text, now=NOW)


def test_planning_imports_neither_arrow_nor_spark() -> None:
    code = (
        "import sys, json, datetime, dil.api, dil.planning.explanation\n"
        "dil.api.plan({}, now=datetime.datetime.now(datetime.UTC))\n"
        "print(json.dumps([n for n in ('pyarrow', 'pyspark', 'pandas') if n in sys.modules]))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert json.loads(done.stdout) == []
