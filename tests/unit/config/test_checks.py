"""Checks over several properties: watermark parameters, variables, columns, publishing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dil.config import load
from dil.errors import ConfigError
from dil.model.secret import Secret

SCHEMA = (
    '[{"columnName":"id","dataType":{"type":"string"}},'
    '{"columnName":"o","dataType":{"type":"record","values":['
    '{"columnName":"x","dataType":{"type":"int"}}]}},'
    '{"columnName":"l","dataType":{"type":"array","items":"int"}},'
    '{"columnName":"m","dataType":{"type":"map","values":"string"}}]'
)


def watermark(start: str = "2020-01-01", end: str = "P0D", units: str = "") -> str:
    listed: list[dict[str, object]] = [
        {"name": "system", "type": "datetime", "range": {"from": start, "to": end}}
    ]
    if units:
        listed.append({"name": "region", "type": "unit", "units": units})
    return json.dumps(listed)


def parameter(**members: str) -> str:
    return json.dumps([{"name": "since", "type": "watermark", "value": "low", **members}])


def test_a_watermark_parameter_names_the_datetime_watermark_or_none(job_file):
    job = {"ms.watermark": watermark()}
    assert job_file.notices({**job, "ms.parameters": parameter(watermark="system")}) == []
    assert job_file.notices({**job, "ms.parameters": parameter()}) == []


def test_a_name_of_no_watermark_selects_nothing_as_in_dil_and_a_notice_says_what_is_taken(job_file):
    written = {"ms.watermark": watermark(), "ms.parameters": parameter(watermark="dateRange")}
    (notice,) = job_file.load(written).notices
    assert (notice.key, notice.fix) == ("ms.parameters", 'Write "watermark":"system".')
    assert '"dateRange"' in notice.what


def test_a_watermark_parameter_that_names_the_unit_watermark_is_told_to_use_the_variable(job_file):
    text = parameter(watermark="region")
    (found,) = job_file.problems({"ms.watermark": watermark(units="eu"), "ms.parameters": text})
    assert "{{region}}" in found.fix
    members = [{"name": "region", "type": "unit", "units": [{"code": "eu"}]}]
    (found,) = job_file.problems({"ms.watermark": json.dumps(members), "ms.parameters": text})
    assert "{{code}}" in found.fix


def test_a_parameter_whose_place_a_unit_takes_is_not_looked_at(job_file):
    text = '[{"name":"region","type":"watermark","watermark":"region","format":"x"}]'
    job = {
        "ms.watermark": watermark(units="eu,us"),
        "ms.output.schema": SCHEMA,
        "ms.parameters": text,
    }
    assert job_file.notices(job) == []


def test_without_a_datetime_watermark_its_name_is_a_notice(job_file):
    assert job_file.notices({"ms.parameters": parameter(watermark="x")}) == ["ms.parameters"]


@pytest.mark.parametrize(
    ("members", "fix"),
    [
        ({"value": "hgih"}, "high"),
        ({"value": "start"}, "low"),
        ({"format": "epoch-seconds"}, "epoch-second"),
        ({"format": "DateTime"}, "datetime"),
        ({"format": "iso"}, "epoch-milli"),
        ({"pattern": "yyyy"}, "datetime"),
    ],
)
def test_a_word_of_a_watermark_parameter_that_is_not_known_is_noticed(job_file, members, fix):
    nested = [{"name": "o", "type": "object", "value": json.loads(parameter(**members))}]
    for text in (parameter(**members), json.dumps(nested)):
        (notice,) = job_file.load({"ms.parameters": text}).notices
        assert notice.key == "ms.parameters"
        assert fix in notice.fix


@pytest.mark.parametrize("word", ["", "epoc-second", "epoch-second", "epoch-milli"])
def test_the_known_formats_are_taken_in_silence(job_file, word):
    assert job_file.notices({"ms.parameters": parameter(format=word)}) == []


@pytest.mark.parametrize(("word", "is_known"), [("", True), ("json", True), ("JSON", False)])
def test_a_format_of_a_session_parameter_that_is_not_known_is_noticed(job_file, word, is_known):
    text = json.dumps([{"name": "c", "type": "session", "format": word}])
    job = {"ms.parameters": text, "ms.session.key.field": '{"name": "next"}'}
    assert job_file.notices(job) == ([] if is_known else ["ms.parameters"])


def test_a_variable_without_a_value_is_a_problem_where_nothing_works_without_it(job_file):
    used = '[{"name":"q","value":"{{nope}}"}]'
    notices = job_file.notices({"ms.source.uri": "https://h/?x={{id}}", "ms.parameters": used})
    assert notices == ["ms.source.uri", "ms.parameters"]
    assert "{{id}}" in job_file.problem("ms.source.uri", "https://h/{{id}}?x={{y}}").what
    for source in ("{{id}}", "{{ id }}", "a{{id}}"):
        formula = f'[{{"name":"d","formula":{{"type":"string","source":"{source}"}}}}]'
        job_file.problem("ms.derived.fields", formula)
    units = '[{"name":"id","type":"unit","units":"a"}]'
    job = {"ms.source.uri": "https://h/{{id}}", "ms.watermark": units, "ms.output.schema": SCHEMA}
    assert job_file.notices(job) == []


def test_broken_parameters_are_not_called_missing_as_well(job_file):
    found = job_file.problems({"ms.source.uri": "https://h/{{id}}", "ms.parameters": "[{]"})
    assert [problem.key for problem in found] == ["ms.parameters"]


def derived(source: str) -> str:
    return json.dumps([{"name": "d", "formula": {"type": "string", "source": source}}])


@pytest.mark.parametrize("source", ["id", "o.x", "l.0", "m.any", "", "o"])
def test_a_derived_field_may_take_what_the_schema_has(job_file, source):
    job = {"ms.output.schema": SCHEMA, "ms.derived.fields": derived(source)}
    assert job_file.notices(job) == []


@pytest.mark.parametrize("source", ["ID", "ids", "o.y", "id.x", "l.x", "d", "pre-{{i}}"])
def test_a_derived_field_of_a_column_that_the_schema_lacks_is_noticed(job_file, source):
    job = {
        "ms.output.schema": SCHEMA,
        "ms.derived.fields": derived(source),
        "ms.parameters": '[{"name":"i","value":"1"}]',
    }
    assert job_file.notices(job) == ["ms.derived.fields"]
    (notice,) = job_file.load({**job, "ms.data.field": "rows"}).notices
    assert "root of the response" in notice.what


def test_clocks_and_variables_of_derived_fields_are_no_columns(job_file):
    clock = '[{"name":"d","formula":{"type":"epoc","source":"%s"}}]'
    for source in ("CURRENTDATE", "P3D"):
        job = {"ms.output.schema": SCHEMA, "ms.derived.fields": clock % source}
        assert job_file.notices(job) == []


@pytest.mark.parametrize(
    ("changes", "is_noticed"),
    [
        ({}, False),
        ({"ms.watermark": watermark(units="a")}, False),
        ({"ms.watermark": watermark(units="a,b")}, True),
        ({"ms.work.unit.partition": "daily"}, True),
        ({"ms.work.unit.partition": "daily", "writer.output.format": "JSON"}, False),
        ({"ms.work.unit.partition": "daily", "ms.output.schema": SCHEMA}, False),
    ],
)
def test_inferred_types_of_several_work_units_are_noticed(job_file, changes, is_noticed):
    assert ("ms.output.schema" in job_file.notices(changes)) is is_noticed


def test_appending_without_state_is_noticed(job_file):
    assert job_file.notices({"state.store.enabled": "false"}) == ["state.store.enabled"]
    assert job_file.notices({"state.store.type": "noop"}) == ["state.store.type"]
    replaced = {"state.store.enabled": "false", "ms.publish.mode": "replace"}
    assert job_file.notices(replaced) == []


MOVING = [
    ("P30D", "none", True),
    ("P30D", "monthly", True),
    ("P30D", "weekly", True),
    ("P30D.UTC", "yearly", True),
    ("P1DT2H", "daily", True),
    ("P1DT2H5M", "hourly", True),
    ("P30D", "daily", False),
    ("P30D", "hourly", False),
    ("P1DT2H", "hourly", False),
    ("2020-01-01", "none", False),
    ("P90D", '{"monthly":["2020-01-01","2024-01-01"],"daily":["2024-01-01","-"]}', True),
    ("P90D", '{"daily":["2020-01-01","-"]}', False),
]


@pytest.mark.parametrize(("start", "partition", "moves"), MOVING)
def test_partitions_that_start_elsewhere_in_every_run_cannot_be_replaced(
    job_file, start, partition, moves
):
    job = {
        "ms.watermark": watermark(start),
        "ms.work.unit.partition": partition,
        "ms.output.schema": SCHEMA,
    }
    assert job_file.notices(job) == (["ms.watermark"] if moves else [])
    assert job_file.notices({**job, "ms.publish.mode": "replace"}) == []
    window = {**job, "ms.publish.mode": "window_replace"}
    if moves:
        assert [found.key for found in job_file.problems(window)] == ["ms.watermark"]
    else:
        assert job_file.notices(window) == []


@pytest.mark.parametrize(
    ("start", "partition", "mode", "is_noticed"),
    [
        ("P30D", "hourly", "append", True),
        ("P1DT2H", "hourly", "window_replace", True),
        ("P30D", "hourly", "replace", False),
        ("P30D", "daily", "append", False),
        ("P30D.UTC", "hourly", "append", False),
        ("P30D.America/St_Johns", "hourly", "append", False),
        ("2020-01-01", "hourly", "append", False),
    ],
)
def test_hours_that_move_when_clocks_change_by_half_an_hour_are_noticed(
    job_file, start, partition, mode, is_noticed
):
    job = {
        "ms.watermark": watermark(start),
        "ms.work.unit.partition": partition,
        "ms.timezone": "Australia/Lord_Howe",
        "ms.publish.mode": mode,
        "ms.output.schema": SCHEMA,
    }
    assert job_file.notices(job) == (["ms.watermark"] if is_noticed else [])


ABSTINENT = {
    "ms.watermark": watermark(),
    "ms.abstinent.period.days": "1",
    "ms.parameters": parameter(),
}


@pytest.mark.parametrize(
    ("changes", "is_noticed"),
    [
        ({}, True),
        ({"ms.work.unit.partition": "monthly"}, True),
        ({"ms.work.unit.partition": "monthly", "ms.work.unit.partial.partition": "false"}, False),
        ({"ms.work.unit.partition": "daily"}, False),
        ({"ms.work.unit.partition": "daily", "ms.watermark": watermark(end="-")}, True),
        ({"ms.watermark": watermark(end="2024-01-01")}, False),
        ({"ms.grace.period.days": "1"}, False),
        ({"ms.publish.mode": "window_replace"}, False),
        ({"ms.publish.mode": "replace"}, False),
        ({"ms.parameters": parameter(value="high")}, False),
        ({"ms.parameters": parameter(name="tmpSince")}, False),
        (
            {
                "ms.parameters": parameter(name="tmpSince"),
                "ms.source.uri": "https://h/?s={{tmpSince}}",
            },
            True,
        ),
    ],
)
def test_time_that_abstinence_leaves_out_is_noticed(job_file, changes, is_noticed):
    """The gap of rule P19: after [01-01, 01-15) comes [01-16, 01-17)."""
    found = job_file.notices({**ABSTINENT, "ms.output.schema": SCHEMA, **changes})
    assert ("ms.abstinent.period.days" in found) is is_noticed


LOCAL = {"format": "datetime", "pattern": "yyyy-MM-dd HH:mm:ss", "timezone": "Europe/Berlin"}
NAMED = {"pattern": "yyyy-MM-dd HH:mm z", "timezone": "America/New_York"}


@pytest.mark.parametrize(
    ("changes", "is_noticed"),
    [
        ({}, True),
        ({"ms.work.unit.partition": "hourly"}, True),
        ({"ms.work.unit.partition": "daily"}, True),
        ({"ms.work.unit.partition": "hourly", "ms.work.unit.partial.partition": "false"}, False),
        ({"ms.watermark": watermark(end="P0DT0H5M")}, True),
        ({"ms.watermark": watermark(end="P0DT1H")}, False),
        ({"ms.watermark": watermark(end="P0D")}, False),
        ({"ms.watermark": watermark(end="2024-01-01")}, False),
        ({"ms.publish.mode": "window_replace"}, False),
        ({"ms.publish.mode": "replace"}, False),
        ({"ms.parameters": parameter(**{**LOCAL, "name": "tmpSince"})}, False),
        ({"ms.parameters": parameter(**{**LOCAL, "timezone": "UTC"})}, False),
        ({"ms.parameters": parameter(**{**LOCAL, "timezone": "+01:00"})}, False),
        ({"ms.parameters": parameter(**{**LOCAL, "timezone": "Asia/Tokyo"})}, False),
        ({"ms.parameters": parameter(**{**LOCAL, "pattern": "yyyy-MM-dd"})}, False),
        ({"ms.parameters": parameter(**{**LOCAL, "pattern": "yyyy-MM-dd HH:mm:ssZZ"})}, False),
        ({"ms.parameters": parameter(**{**LOCAL, "timezone": "America/New_York"})}, True),
        ({"ms.parameters": parameter(**{**LOCAL, **NAMED})}, False),
        ({"ms.parameters": parameter(**{**LOCAL, "pattern": "yyyy-MM-dd HH:mm ZZZ"})}, True),
        ({"ms.parameters": parameter(**{**LOCAL, "pattern": "yyyy-MM-dd'T'HH'Z'"})}, True),
        ({"ms.parameters": parameter(format="epoch-second")}, False),
    ],
)
def test_windows_of_local_time_that_end_in_the_hour_that_comes_twice_are_noticed(
    job_file, changes, is_noticed
):
    job = {"ms.watermark": watermark(end="-"), "ms.parameters": parameter(**LOCAL), **changes}
    notices = [each for each in job_file.load(job).notices if each.key == "ms.parameters"]
    assert [("comes twice" in each.what, "ZZ" in each.fix) for each in notices] == (
        [(True, True)] if is_noticed else []
    )


def test_a_range_that_is_not_given_names_no_zone_either(job_file):
    assert job_file.notices({"ms.timezone": None}) == ["ms.watermark"]
    units = '[{"name":"id","type":"unit","units":"a"}]'
    given = {"ms.watermark": units, "ms.source.uri": "https://shop.test/{{id}}"}
    assert job_file.notices({"ms.timezone": None, **given}) == ["ms.watermark"]


SECRETS = {
    "source.conn.username": "env:NOBODY",
    "source.conn.password": "ENC(abcd)",
    "ms.authentication": '{"method":"bearer","encryption":"none","token":"file:missing"}',
    "ms.http.request.headers": '{"x-api-key":"env:NOBODY"}',
    "ms.parameters": '[{"name":"k","value":"env:NOBODY"}]',
}


def test_where_secrets_are_not_needed_one_that_cannot_be_read_is_empty_with_a_notice(job_file):
    assert len(job_file.problems(SECRETS)) == len(SECRETS)
    path = job_file.folder / "job.conf"
    loaded = load(path, environ={}, secrets=False)
    assert sorted(notice.key for notice in loaded.notices) == sorted(SECRETS)
    assert all(notice.fix for notice in loaded.notices)
    assert loaded.job.source.username == Secret("")
    assert loaded.job.extraction.parameters[0].value == Secret("")
    known = load(path, environ={"NOBODY": "me"}, secrets=False)
    assert known.job.source.username == Secret("me")
    assert known.job.digest == loaded.job.digest


@pytest.mark.parametrize("text", ["https://", "a/b", "*"])
def test_what_is_no_host_is_told(job_file, text):
    job_file.problem("ms.source.uri.hosts", text)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("ms.source.uri", "http://h/\\u0000x"),
        ("ms.source.uri", "http://h/\\u0007x"),
        ("data.publisher.final.dir", "la\\u0000ke"),
        ("data.publisher.final.dir", "la\\u001bke"),
        ("state.store.dir", "st\\u0000ate"),
        ("source.conn.host", "a\\u0000b"),
        ("source.conn.username", "a\\u0000b"),
        ("ms.plugin.path", "a\\u0000b"),
        ("encrypt.key.loc", "a\\u0000b"),
        ("job.name", "or\\u0000ders"),
        ("extract.primary.key.fields", "a\\u0000b"),
        ("ms.extractor.target.file.name", "a\\u0000b"),
        ("ms.secondary.input", '[{"path": "a\\\\u0000b", "category": "activation"}]'),
    ],
)
def test_control_characters_are_refused_with_their_line(
    tmp_path: Path, key: str, text: str
) -> None:
    facts = {"job.name": "orders", "ms.source.uri": "http://h/x", key: text}
    path = tmp_path / "orders.conf"
    path.write_text("".join(f"{name}={value}\n" for name, value in facts.items()))

    with pytest.raises(ConfigError) as refused:
        load(path, environ={})

    line = list(facts).index(key) + 1
    assert f"orders.conf:{line}: {key} holds " in str(refused.value)


def test_a_separator_may_be_a_control_character(tmp_path: Path) -> None:
    text = 'ms.csv={"fieldSeparator": "u0001"}\nms.source.uri=http://h/\\\\u0000\n'
    path = tmp_path / "orders.conf"
    path.write_text(f"job.name=orders\n{text}")
    with pytest.raises(ConfigError) as refused:
        load(path, environ={})
    assert "holds" not in str(refused.value)
