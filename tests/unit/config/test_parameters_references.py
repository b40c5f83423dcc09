from pathlib import Path

import pytest

from dil import config
from dil.errors import ConfigError
from dil.extraction.parameters import PageValues, ParameterScope, evaluate
from tests.jobs import write_job


def load(folder, parameters):
    job = write_job(Path(folder), "http://127.0.0.1:1", ms__parameters=parameters)
    return config.load(job, environ={}).job


def test_a_parameter_that_needs_its_own_value_is_refused(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, '[{"name":"q","value":"x {{q}}"}]')
    assert [problem.key for problem in caught.value.problems] == ["ms.parameters"]


def test_a_parameter_may_repeat_the_unit_that_gives_it_its_value(tmp_path):
    job = load(tmp_path, '[{"name":"unit","value":"{{unit}}"}]')
    assert job.extraction.parameters[0].value == "{{unit}}"


INSIDE = '[{"name":"filter","type":"object","value":[{"name":"id","value":"%s"}]},%s]'
ID = '{"name":"id","value":"7"}'


def test_a_text_inside_an_object_may_not_name_the_object_that_it_is_part_of(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, INSIDE % ("{{filter}}", ID))
    assert [problem.what for problem in caught.value.problems] == ['"filter" refers to itself']


def test_a_member_of_an_object_may_name_a_parameter_that_is_called_as_it_is(tmp_path):
    parameters = load(tmp_path, INSIDE % ("{{id}}", ID)).extraction.parameters
    request = evaluate(parameters, ParameterScope(0, 1, full_extract=True), PageValues())
    assert request.parameters == {"filter": {"id": "7"}, "id": "7"}, "the run takes it as well"


DATABASE = {
    "source.class": "jdbc",
    "ms.source.uri": "jdbc:postgresql://db/shop",
    "ms.parameters": '[{"name":"low","type":"watermark","value":"low"}]',
    "ms.watermark": '[{"name":"shop","type":"unit","units":[{"id":"1","place":"x"}]}]',
    "ms.secondary.input": '[{"path":"/login.json","fields":["user"],"category":"authentication"}]',
}


@pytest.mark.parametrize(
    "statement",
    [
        "select * from t where {{x}} = id",
        "select * from t where name = '{{x}}'",
        "select * from t_{{x}}",
        "select {{x}} -- {{low}}",
        "select * from t where id = {{x.id}}",
    ],
)
@pytest.mark.parametrize("source", ["jdbc", "com.linkedin.cdi.source.JdbcSource"])
def test_a_statement_needs_a_value_for_each_variable(job_file, statement, source):
    given = {**DATABASE, "source.class": source, "ms.jdbc.statement": statement}
    (found,) = job_file.problems(given)
    assert found.key == "ms.jdbc.statement"
    assert "which nothing gives a value" in found.what


@pytest.mark.parametrize(
    "statement",
    [
        "select * from t where a > {{low}}",
        "select * from {{place}} where id = {{id}} and name = '{{user}}'",
        "select 1 /* {{x}} /* {{x}} */ {{x}} */",
        "select 1 -- {{x}}",
        "select 1 # {{x}}",
        "/* a */ select 1 -- /* b */ {{x}}",
    ],
)
def test_a_statement_takes_what_parameters_units_and_secondary_input_give(job_file, statement):
    job_file.load({**DATABASE, "ms.jdbc.statement": statement})


@pytest.mark.parametrize("key", ["{{cursor}}", "{{cursor.a}}, {{cursor.b}}"])
def test_a_statement_takes_a_session_key_and_its_members(job_file, key):
    job_file.load(
        {
            **DATABASE,
            "ms.parameters": '[{"name":"cursor","type":"session"}]',
            "ms.session.key.field": '{"name":"a,b","initValue":"[0,0]"}',
            "ms.jdbc.statement": f"select * from t where (a, b) > ({key}) order by a, b",
        }
    )


def test_a_statement_that_no_database_source_runs_needs_no_values(job_file):
    job_file.load({"ms.jdbc.statement": "select {{x}}"})


UNITS = ("ms.watermark", '[{"name":"shop","type":"unit","units":"a,b"}]')
ROWS = ("ms.secondary.input", '[{"path":"/ids.json","fields":["shop","name"]}]')
LABEL = '[{"name":"shop","formula":{"type":"string","source":"{{shop}}"}}]'
FILES = {
    "source.class": "sftp",
    "ms.source.uri": "sftp://files.test/out",
    "source.conn.username": "lake",
    "source.conn.private.key": "id_rsa",
    "ms.extractor.target.file.name": "a.json",
}


@pytest.mark.parametrize(("key", "units"), [UNITS, ROWS])
@pytest.mark.parametrize("used", [{}, {"ms.derived.fields": LABEL}])
def test_units_that_no_request_sends_are_noticed(job_file, key, units, used):
    assert key in job_file.notices({key: units, **used})


@pytest.mark.parametrize(("key", "units"), [UNITS, ROWS])
@pytest.mark.parametrize(
    "used",
    [
        {"ms.source.uri": "https://shop.test/{{shop}}"},
        {"ms.http.request.headers": '{"x-shop":"{{shop}}"}'},
        {"ms.parameters": '[{"name":"shop"}]'},
        {"ms.parameters": '[{"name":"q","value":"of {{shop}}"}]'},
        FILES,
    ],
)
def test_units_that_requests_send_and_units_of_files_are_not_noticed(job_file, key, units, used):
    assert key not in job_file.notices({key: units, **used})


@pytest.mark.parametrize(
    "used",
    [
        {"ms.derived.fields": LABEL},
        {"ms.extractor.class": "filedump", "ms.extractor.target.file.name": "{{shop}}.json"},
    ],
)
def test_an_only_unit_may_label_rows_or_name_a_file(job_file, used):
    key, units = UNITS
    assert key in job_file.notices({key: units, **used})
    assert key not in job_file.notices({key: units.replace("a,b", "a"), **used})


def test_a_unit_in_the_path_of_the_payload_is_not_noticed(job_file):
    sending = '[{"path":"/rows/{{shop}}.json","fields":["id"],"category":"payload"}]'
    key, units = UNITS
    given = {key: units, "ms.secondary.input": sending, "ms.http.request.method": "POST"}
    assert key not in job_file.notices(given)
