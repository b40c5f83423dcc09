"""JSONPath in properties: refused with file, line and position where it cannot stand."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import ConfigError
from tests.unit.config.conftest import SMALLEST

BAD = "$.a["


def source(text: str) -> str:
    return json.dumps([{"name": "x", "formula": {"type": "string", "source": text}}])


def secondary(**members: object) -> str:
    return json.dumps([{"path": "/x", "category": "activation", **members}])


PLACES = [
    ("ms.data.field", "{}", ""),
    ("ms.total.count.field", "{}", ""),
    ("ms.session.key.field", '{{"name":"{}"}}', "name"),
    ("ms.pagination", '{{"fields":["a","{}"],"initialvalues":[0,1]}}', "fields[1]"),
    ("ms.pagination", '{{"next":"{}"}}', "next"),
    ("ms.pagination", '{{"more":"{}"}}', "more"),
    (
        "ms.derived.fields",
        '[{{"name":"x","formula":{{"type":"string","source":"{}"}}}}]',
        "[0].formula.source",
    ),
    (
        "ms.secondary.input",
        '[{{"path":"/x","category":"activation","fields":["a","{}"]}}]',
        "[0].fields[1]",
    ),
    (
        "ms.secondary.input",
        '[{{"path":"/x","category":"activation","fields":["a"],"filters":{{"{}":"x"}}}}]',
        "[0].filters",
    ),
    ("ms.validation.attributes", '{{"errorColumn":"{}"}}', "errorColumn"),
]


@pytest.mark.parametrize(("key", "form", "where"), PLACES)
def test_every_place_refuses_what_is_no_jsonpath_and_takes_what_is(job_file, key, form, where):
    found = [each for each in job_file.problems({key: form.format(BAD)}) if each.key == key]
    assert len(found) == 1
    assert where in found[0].what
    assert '"$.a[", which is no JSONPath: it ends too early at character 4' in found[0].what

    sends = {"ms.parameters": '[{"name":"cursor","type":"session"}]'}
    job_file.load({key: form.format("$.a['b'].c"), **sends})


@pytest.fixture
def advice(job_file):
    """Return a function that gives the fixes of the notices about one path at a place."""

    def found(key, form, path, word):
        job = {"ms.parameters": '[{"name":"cursor","type":"session"}]', key: form.format(path)}
        notices = job_file.load(job).notices
        return [each.fix for each in notices if each.key == key and word in each.what]

    return found


@pytest.mark.parametrize(("key", "form", "where"), PLACES[:7])
def test_an_index_in_brackets_is_warned_of_in_a_dot_path_and_no_other_name_is(
    advice, key, form, where
):
    noticed = partial(advice, key, form, word="brackets")

    assert noticed("data[-1].rows[0]") == ["To pick an element, write data.-1.rows.0."]
    assert [noticed(path) for path in ("data.-1.id", "$.data[0]['id']", "created[gte]")] == [[]] * 3


@pytest.mark.parametrize(("key", "form", "where"), PLACES[:7])
def test_an_annotation_of_odata_is_warned_of_in_a_dot_path_and_no_other_name_is(
    advice, key, form, where
):
    noticed = partial(advice, key, form, word="each dot")

    assert noticed("@odata.nextLink") == ["Write $['@odata.nextLink']."]
    assert noticed("d.@odata.count") == ["Write $.d['@odata.count']."]
    assert noticed("d.0.@odata.count") == ["Write $.d[0]['@odata.count']."]
    healthy = ("$['@odata.nextLink']", "@graph.0.id", "feed.link.@href", "@odata")
    assert [noticed(path) for path in healthy] == [[]] * 4


def test_encrypted_fields_are_checked_too(job_file):
    found = job_file.problem("ms.encryption.fields", '["a","$.b["]')
    assert '[1] is "$.b[", which is no JSONPath' in found.what
    found = job_file.problem("ms.encryption.fields", '["a","$.b[0]"]')
    assert "does not consist of names alone" in found.what
    found = job_file.problem("ms.encryption.fields", """["a","$['a'].b"]""")
    assert "is inside" in found.what


@pytest.mark.parametrize(
    ("key", "text", "what"),
    [
        ("ms.secondary.input", secondary(fields=["$[0].a"]), "name of a column"),
        ("ms.secondary.input", secondary(fields=["$.a[*].b"]), "end with a name"),
        ("ms.secondary.input", secondary(fields=["$.a[0]"]), "end with a name"),
        ("ms.secondary.input", secondary(fields=["$.a.t", "$.b.t"]), 'named "t"'),
        ("ms.secondary.input", secondary(fields=["t", "$.b.t"]), 'named "t"'),
        ("ms.secondary.input", secondary(fields=["t"], filters={"$..a": "x"}), "name of a column"),
        ("ms.validation.attributes", '{"errorColumn":"$..e"}', "several places"),
    ],
)
def test_what_finds_too_much_or_has_no_name_is_refused(job_file, key, text, what):
    assert what in job_file.problem(key, text).what


@pytest.mark.parametrize("format_", ["xml", "avro", "parquet", "orc"])
def test_formats_that_are_not_searched_take_one_place_for_the_rows(job_file, format_):
    job = {"ms.extractor.class": format_}
    job_file.load({**job, "ms.data.field": "$.a['b']"})
    (found,) = job_file.problems({**job, "ms.data.field": "$.a[*]"})
    assert found.key == "ms.data.field"
    assert format_ in found.what


def test_a_number_leads_into_an_array_of_avro_and_not_of_columns(job_file):
    job_file.load({"ms.extractor.class": "avro", "ms.data.field": "$.a[0]"})
    (found,) = job_file.problems({"ms.extractor.class": "parquet", "ms.data.field": "$.a[0]"})
    assert found.key == "ms.data.field"


@pytest.mark.parametrize("source_", ["$.o.x", "$.l[0]", "$.m['any']", "$.l[?@>1]", "$"])
def test_a_source_in_jsonpath_is_looked_for_in_the_schema(job_file, source_):
    from tests.unit.config.test_checks import SCHEMA

    job = {"ms.output.schema": SCHEMA, "ms.derived.fields": source(source_)}
    assert job_file.notices(job) == []
    job["ms.derived.fields"] = source("$.p.x")
    assert job_file.notices(job) == ["ms.derived.fields"]


@pytest.mark.parametrize(
    ("key", "text"),
    [("ms.session.key.field", '{"name":"$.id"}'), ("ms.total.count.field", "$.count")],
)
def test_a_statement_has_columns_and_no_jsonpath(job_file, key, text):
    job = {
        "source.class": "jdbc",
        "ms.source.uri": "jdbc:sqlite:/x.db",
        "ms.jdbc.statement": "select id from t",
    }
    found = [each for each in job_file.problems({**job, key: text}) if "columns" in each.what]
    assert [each.key for each in found] == [key]


def test_names_that_begin_with_a_dollar_are_names_as_ever(job_file):
    job_file.load({"ms.data.field": "$id.rows", "ms.derived.fields": source("$type")})


def test_the_variable_of_a_secondary_field_has_its_last_name(job_file):
    job = {
        "ms.secondary.input": secondary(fields=["$.auth.token"]),
        "ms.source.uri": "https://shop.test/{{token}}",
    }
    assert "ms.source.uri" not in job_file.notices(job)


def test_validate_prints_file_line_and_position(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "job.conf"
    lines = [f"{key}={value}\n" for key, value in SMALLEST.items()]
    lines += [
        "ms.derived.fields=[\\\n",
        '  {"name": "a", "formula": {"type": "string", "source": "$.a"}},\\\n',
        '  {"name": "b", "formula": {"type": "string", "source": "$.b c"}}]\n',
    ]
    conf.write_text("".join(lines))

    assert main(["validate", str(conf), "--json"]) == 2

    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert (problem["line"], problem["property"]) == (len(lines), "ms.derived.fields")
    assert '"$.b c", which is no JSONPath: c is not expected at character 5' in problem["message"]


def test_a_job_loads_jsonpath_ng_where_a_path_asks_for_it_and_only_there(tmp_path: Path) -> None:
    conf = tmp_path / "job.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in SMALLEST.items()))
    script = (
        "import sys\n"
        "from dil.cli.main import main\n"
        "assert main(['plan', sys.argv[1], '-D', 'ms.data.field=' + sys.argv[2]]) == 0\n"
        "assert ('jsonpath_ng' in sys.modules) == (sys.argv[3] == 'loaded')\n"
    )
    for field, expected in (("$rows.0", "not"), ("$.rows[0]", "loaded")):
        command = [sys.executable, "-c", script, str(conf), field, expected]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_all_paths_of_a_job_are_reported_together(job_file):
    with pytest.raises(ConfigError) as caught:
        job_file.load({"ms.data.field": BAD, "ms.total.count.field": BAD})
    assert [each.key for each in caught.value.problems] == ["ms.data.field", "ms.total.count.field"]
