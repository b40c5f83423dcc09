"""What is wrong with a job over S3 is told before it runs, all of it together."""

from __future__ import annotations

import pytest

from dil.errors import ConfigError
from tests.integration.local_jobs import FileJob

S3 = "ms.source.s3.parameters"


def problems(folder, **properties: str) -> dict[str, str]:
    given = {"source__class": "s3", "ms__source__uri": "s3://lake/in", **properties}
    with pytest.raises(ConfigError) as caught:
        FileJob(folder, **given).job()
    assert all(problem.fix for problem in caught.value.problems)
    return {problem.key: problem.what for problem in caught.value.problems}


def test_all_problems_are_told_together(tmp_path):
    found = problems(
        tmp_path, ms__source__uri="ftp://lake/in", source__conn__username="AKIA",
        ms__extractor__class="avro", ms__ssl='{"trustStorePath":"t.p12"}',
    )  # fmt: skip
    assert set(found) == {"ms.source.uri", "source.conn.username", "ms.extractor.class", "ms.ssl"}
    assert found["source.conn.username"] == "is one half of the credentials"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"region":"us west"}', 'region is "us west"'),
        ('{"bucket_name":"a/b"}', 'bucket_name is "a/b"'),
        ('{"endpoint":"minio:9000"}', "endpoint is no address"),
        ('{"connection_timeout":1,"connection_timeout_seconds":2}', "connection_timeout is 1"),
        ('{"connection_timeout":0}', "connection_timeout is too small"),
        ('{"conection_timeout":5}', 'has an unknown member "conection_timeout"'),
    ],
)
def test_a_member_that_cannot_be_is_told(tmp_path, text, what):
    assert problems(tmp_path, ms__source__s3__parameters=text)[S3].startswith(what)


def test_credentials_of_two_kinds_are_told(tmp_path):
    found = problems(
        tmp_path, source__conn__username="a", source__conn__password="b",
        ms__source__s3__parameters='{"credentials":"default"}',
    )  # fmt: skip
    assert "asks for the default credentials, and source.conn.username gives others" in found[S3]


def test_an_address_with_a_variable_is_looked_at_when_it_has_its_value(tmp_path):
    uri = "https://{{bucket}}.s3.amazonaws.com/in"
    job = FileJob(
        tmp_path, source__class="s3", ms__source__uri=uri,
        ms__parameters='[{"name":"bucket","value":"lake"}]',
    ).job()  # fmt: skip
    assert job.source.uri == uri


def test_the_token_of_temporary_keys_does_not_print(tmp_path):
    job = FileJob(
        tmp_path, source__class="s3", ms__source__uri="s3://lake/in",
        ms__source__s3__parameters='{"session_token":"to-ken"}',
    ).job()  # fmt: skip
    assert "to-ken" not in repr(job)
