"""``ms.source.uri`` of file sources (docs/files.md)."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.hdfs.connector import HdfsConnector
from connectors.hdfs.place import place_of
from dil import config
from dil.errors import ConfigError
from tests.jobs import write_job

FOLDER = Path("/jobs")


def place(template, base="", **variables):
    return place_of(template, variables, FOLDER, base)


@pytest.mark.parametrize(
    ("text", "scheme", "authority", "path", "prefix"),
    [
        ("/data/in", "file", "", "/data/in", ""),
        ("/data//in/", "file", "", "/data/in", ""),
        ("//data", "file", "", "/data", ""),
        ("in/x.csv", "file", "", "/jobs/in/x.csv", ""),
        ("../in", "file", "", "/in", ""),
        ("a:b/c d?.csv", "file", "", "/jobs/a:b/c d?.csv", ""),
        ("file:///a%20b", "file", "", "/a b", ""),
        ("file:/a", "file", "", "/a", ""),
        ("file://localhost/a", "file", "", "/a", ""),
        ("hdfs://nn:8020/a%20b", "hdfs", "nn:8020", "/a%20b", "hdfs://nn:8020"),
        ("hdfs:///a", "hdfs", "", "/a", "hdfs://"),
        ("HDFS://nn", "hdfs", "nn", "/", "hdfs://nn"),
        ("viewfs://lake/a", "viewfs", "lake", "/a", "viewfs://lake"),
        ("webhdfs://nn:9870/a/", "webhdfs", "nn:9870", "/a", "webhdfs://nn:9870"),
        ("gs://bucket/a", "gs", "bucket", "/a", "gs://bucket"),
    ],
)
def test_an_address_names_a_system_and_a_path(text, scheme, authority, path, prefix):
    found = place(text)
    assert (found.scheme, found.authority, found.path, found.prefix) == (
        scheme, authority, path, prefix,
    )  # fmt: skip
    assert found.pattern is None


def test_a_path_without_a_system_is_of_the_one_that_the_job_names():
    found = place("data/in", base="hdfs://nn:8020/")
    assert (found.scheme, found.authority, found.path, found.prefix) == (
        "hdfs", "nn:8020", "/data/in", "",
    )  # fmt: skip
    assert place("data", base="file:///").path == "/jobs/data"
    assert place("file:///x", base="hdfs://nn").scheme == "file"


def test_values_are_put_in_as_they_are_and_may_be_the_whole_address():
    assert place("/in/{{day}}/x", day="2024-01-01").path == "/in/2024-01-01/x"
    assert place("/in/{{name}}", name="a b%20c?.csv").path == "/in/a b%20c?.csv"
    whole = place("{{file}}", base="hdfs://nn:8020", file="hdfs://nn:8020/in/a.csv")
    assert (whole.scheme, whole.path) == ("hdfs", "/in/a.csv")


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ("file:///in%20b/{{name}}", "/in b/a%41.csv"),
        ("file:/{{name}}", "/a%41.csv"),
        ("file://{{root}}/x%20y", "/da%20ta/x y"),
        ("{{whole}}", "/a%20b"),
        ("file:///in?RE=/in%20b/{{name}}", "/in"),
    ],
)
def test_escapes_of_a_file_address_are_decoded_and_those_of_values_are_not(template, path):
    values = {"name": "a%41.csv", "root": "/da%20ta", "whole": "file:///a%20b"}
    assert place(template, **values).path == path


def test_a_value_that_is_missing_or_leads_out_of_its_folder_is_refused():
    with pytest.raises(ConfigError, match=r"uses \{\{day\}\}, which nothing gives a value"):
        place("/in/{{day}}")
    for value in ("..", "../etc", "a/../../b"):
        with pytest.raises(ConfigError, match=r"leads out of its folder"):
            place("/in/{{name}}", name=value)
    assert place("/in/{{name}}", name="a..b").path == "/in/a..b"


def test_what_follows_re_is_a_java_pattern_whose_percent_escapes_are_decoded():
    found = place(r"/in?RE=.*/s_[0-9]{8}\.csv%5C.gz")
    assert found.path == "/in"
    assert found.pattern.fullmatch("/in/s_20240101.csv.gz")
    assert not found.pattern.fullmatch("/in/s_20240101xcsv.gz")
    assert place("/in?RE=.*?RE=x").pattern.fullmatch("aRE=x")


@pytest.mark.parametrize(
    ("uri", "base"),
    [
        ("/in?RE=/in/.*", ""),
        ("/in?RE=file:/in/.*", ""),
        ("hdfs://nn:8020/in?RE=/in/.*", ""),
        ("hdfs://nn:8020/in?RE=hdfs://nn:8020/in/.*", ""),
        ("/in?RE=hdfs://nn:8020/in/.*", "hdfs://nn:8020"),
    ],
)
def test_an_expression_matches_a_path_with_and_without_scheme_and_host(uri, base):
    assert place(uri, base=base).matches("/in/a.csv")
    assert not place(uri, base=base).matches("/out/in/a.csv")


@given(st.text(min_size=1))
def test_a_value_in_a_pattern_matches_itself_and_nothing_else(value):
    pattern = place("/in?RE=a{{v}}z", v=value).pattern
    assert pattern.fullmatch(f"a{value}z")
    assert not pattern.fullmatch(f"a{value}{value}z")


def problems(folder, **changes):
    path = write_job(folder, "http://h", **{"source.class": "hdfs", **changes})
    try:
        config.load(path, environ={})
    except ConfigError as error:
        return [f"{each.key} {each.what}" for each in error.problems]
    return []


CSV = {"ms.extractor.class": "csv"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ms.source.uri": "/in/{{unit}}"}, []),
        ({"ms.source.uri": "{{unit}}"}, []),
        ({"ms.source.uri": "webhdfs://{{unit}}/in"}, []),
        ({"ms.source.uri": "s3://bucket/x"}, ["ms.source.uri is on S3"]),
        ({"ms.source.uri": "ftp://h/x"}, ["ms.source.uri is on ftp:, which is not known"]),
        ({"ms.source.uri": "file://other/x"}, ["ms.source.uri names the host other"]),
        ({"ms.source.uri": "webhdfs:///x"}, ["ms.source.uri names no host"]),
        ({"ms.source.uri": "~/x"}, ["ms.source.uri begins with ~, which is not expanded"]),
        (
            {"ms.source.uri": "/x", "source.filebased.fs.uri": "ftp://h"},
            ["source.filebased.fs.uri is on ftp:, which is not known"],
        ),
        ({"ms.source.uri": "/in?RE=.*", **CSV}, []),
        (
            {"ms.source.uri": "/in?RE=.*", "ms.extractor.class": "parquet"},
            ['ms.extractor.class is "parquet", which reads no list of names'],
        ),
    ],
)
def test_what_is_wrong_with_an_address_is_told_before_the_run(tmp_path, changes, expected):
    assert problems(tmp_path, **changes) == expected


def test_all_problems_of_a_job_come_at_once(tmp_path):
    found = problems(tmp_path, **{"ms.source.uri": "/x?RE=(", "ms.extractor.class": "avro"})
    assert len(found) == 2
    assert any("has a regular expression that cannot be used" in each for each in found)


def test_rows_to_send_are_refused(tmp_path):
    rows = '[{"path":"/p","category":"payload","fields":["a"]}]'
    changes = {"ms.source.uri": "/in", "ms.secondary.input": rows}
    assert "ms.secondary.input has payload rows, but files are only read" in problems(
        tmp_path, **changes
    )


@pytest.mark.parametrize("name", ["hdfs", "file", "local", "com.linkedin.cdi.source.HdfsSource"])
def test_the_connector_has_names_for_each_kind_of_file(tmp_path, name):
    path = write_job(tmp_path, "", **{"source.class": name, "ms.source.uri": "/in"})
    assert config.load(path, environ={}).job.source.connector.qualname == HdfsConnector.__name__
