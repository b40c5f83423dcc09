"""Single values: types, bounds, words, secrets."""

from __future__ import annotations

import pickle

import pytest

from dil.errors import ConfigError
from dil.model.secret import Secret


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("task.maxretries", "x"),
        ("task.maxretries", "1.0"),
        ("task.maxretries", "-1"),
        ("task.maxretries", "2147483648"),
        ("ms.wait.timeout.seconds", "86401"),
        ("ms.http.conn.max", "501"),
        ("ms.work.unit.parallelism.max", "5001"),
        ("ms.backfill", "yes"),
        ("ms.backfill", "1"),
        ("extract.table.type", "SNAPSHOT"),
        ("job.commit.policy", "half"),
        ("writer.file.permissions", "789"),
        ("writer.file.permissions", "75"),
        ("ms.timezone", "Mars/Olympus"),
        ("ms.source.data.character.set", "utf-88"),
        ("converter.avro.date.format", "yyyy-bb"),
        ("ms.grace.period", "P1M"),
        ("ms.grace.period", "1 day"),
        ("ms.parameters", "{}"),
        ("ms.parameters", "[]"),
        ("ms.pagination", "[1]"),
        ("ms.pagination", "{"),
        ("ms.output.schema", "[]"),
        ("state.store.type", "zk"),
        ("job.name", "a/b"),
        ("extract.table.name", "a-b"),
        ("extract.namespace", "com..acme"),
        ("data.publisher.final.dir", "viewfs://lake/out"),
        ("data.publisher.final.dir", "~/out"),
        ("fs.uri", "ftp://lake"),
        ("fs.uri", "hdfs://lake/folder"),
        ("ms.source.uri", "ftp://h/x"),
        ("source.conn.use.proxy.url", "proxy.test"),
        ("ms.plugin.path", "missing"),
    ],
)
def test_a_wrong_value_is_one_problem_of_its_key(job_file, key, value):
    job_file.problem(key, value)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("ms.backfill", "TRUE", True),
        ("extract.table.type", "append_only", "APPEND_ONLY"),
        ("ms.http.conn.max", "0", 50),
        ("ms.work.unit.parallelism.max", "0", 500),
        ("writer.file.permissions", "0640", 0o640),
        ("converter.avro.date.format", "yyyy-MM-dd, yyyyMMdd", ("yyyy-MM-dd", "yyyyMMdd")),
        ("extract.primary.key.fields", "a, b,,c", ("a", "b", "c")),
        ("ms.timezone", "PST", "America/Los_Angeles"),
    ],
)
def test_a_value_is_read_by_its_type(job_file, key, value, expected):
    assert job_file.load({key: value}).job.properties[key] == expected


def test_missing_required_properties_are_all_told_together(job_file):
    found = job_file.problems(
        dict.fromkeys(
            ["job.name", "source.class", "ms.extractor.class", "ms.source.uri",
             "extract.table.name", "data.publisher.final.dir"]
        )
    )  # fmt: skip
    assert {problem.key for problem in found} == {
        "job.name", "source.class", "ms.extractor.class", "ms.source.uri", "extract.table.name",
        "data.publisher.final.dir",
    }  # fmt: skip


def test_all_problems_come_sorted_by_line(job_file):
    found = job_file.problems({"ms.bogus": "1", "task.maxretries": "x", "ms.backfill": "y"})
    assert [problem.origin.line for problem in found] == [8, 9, 10]


def test_the_line_of_a_json_error_is_the_physical_one(load_text):
    text = 'job.name=x\nms.parameters=[\n  {"name":"a"},\n  {"name" "b"}\n]\n'
    with pytest.raises(ConfigError) as caught:
        load_text("a.conf", text)
    found = [problem for problem in caught.value.problems if problem.key == "ms.parameters"]
    assert [problem.origin.line for problem in found] == [4]


KEY = "ENC(M6nV+j0lhqZ36RgvuF5TQMyNvBtXmkPl)"


def test_secrets_are_decrypted_wherever_they_may_stand(job_file):
    (job_file.folder / "master.key").write_text("testkey\n")
    (job_file.folder / "token").write_text("from file\n")
    job = job_file.load(
        {
            "encrypt.key.loc": "master.key",
            "source.conn.username": KEY,
            "source.conn.password": "env:PASSWORD",
            "ms.authentication": '{"method":"bearer","encryption":"none","token":"file:token"}',
            "ms.http.request.headers": f'{{"X-A":"{KEY}","Authorization":"plain","Accept":"json"}}',
            "ms.parameters": f'[{{"name":"a","value":"{KEY}"}},'
            f'{{"name":"b","value":["x","{KEY}"]}},'
            f'{{"name":"o","type":"object","value":[{{"name":"c","value":"{KEY}"}}]}}]',
        },
        environ={"PASSWORD": "p"},
    ).job
    assert job.source.username.reveal() == "password"
    assert job.source.password.reveal() == "p"
    assert job.properties["ms.authentication"].token.reveal() == "from file"
    headers = job.properties["ms.http.request.headers"]
    assert headers["Accept"] == "json"
    assert (headers["X-A"].reveal(), headers["Authorization"].reveal()) == ("password", "plain")
    first, second, third = job.extraction.parameters
    assert first.value.reveal() == "password"
    assert second.value == ("x", Secret("password"))
    assert third.value[0].value.reveal() == "password"
    assert "'password'" not in repr(job)
    assert "from file" not in repr(dict(job.properties))
    assert pickle.loads(pickle.dumps(job)) is not None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("source.conn.password", KEY),
        ("source.conn.password", "env:MISSING"),
        ("ms.http.request.headers", f'{{"X-A":"{KEY}"}}'),
        ("ms.parameters", f'[{{"name":"a","value":"{KEY}"}}]'),
        ("ms.parameters", f'[{{"name":"a","type":"primitive","value":"{KEY}"}}]'),
        ("ms.authentication", f'{{"method":"bearer","encryption":"none","token":"{KEY}"}}'),
    ],
)
def test_a_secret_that_cannot_be_resolved_is_a_problem_without_its_text(job_file, key, value):
    assert "M6nV" not in str(job_file.problem(key, value))


def test_a_secret_that_cannot_be_read_is_not_called_missing_as_well(job_file):
    found = job_file.problems(
        {
            "source.conn.username": "env:MISSING",
            "source.conn.password": "p",
            "ms.authentication": '{"method":"basic","encryption":"base64"}',
        }
    )
    assert [problem.key for problem in found] == ["source.conn.username"]


def test_a_master_password_file_that_does_not_exist_is_told(job_file):
    assert job_file.notices({"encrypt.key.loc": "missing.key"}) == ["encrypt.key.loc"]


def test_a_wrong_secret_value_is_never_shown(job_file):
    found = job_file.problems(
        {"ms.authentication": '["hunter2"]', "ms.ssl": '{"keyPassword": ["hunter2"]}'}
    )
    assert len(found) == 2
    assert "hunter2" not in "".join(map(str, found))


def test_a_regular_expression_that_cannot_be_used_is_shown_once_with_the_reason(job_file):
    found = job_file.problem("ms.source.files.pattern", ".*[.csv")
    assert found.what.count(".*[.csv") == 1
    assert found.what.endswith("expression that can be used: a character class is not closed")
    assert "JSON" not in found.fix


@pytest.mark.parametrize(
    "changes",
    [
        {"ms.timezone": "America/Los_Angelos"},
        {"ms.watermark": '[{"name":"s","type":"datetime","range":{"from":"2024-01-01'
         'T00:00:00America/Los_Angelos","to":"P0D"}}]'},
        {"ms.parameters": '[{"name":"p","type":"watermark","value":"low","format":"datetime",'
         '"timezone":"America/Los_Angelos"}]'},
        {"ms.derived.fields": '[{"name":"d","formula":{"type":"epoc","source":"t",'
         '"timezone":"America/Los_Angelos"}}]'},
    ],
)  # fmt: skip
def test_an_unknown_zone_is_answered_with_the_nearest_wherever_it_stands(job_file, changes):
    [found] = job_file.problems(changes)
    assert 'Did you mean "America/Los_Angeles"?' in f"{found.what} {found.fix}"
