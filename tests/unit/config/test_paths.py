"""Where files may be: this machine, object stores, HDFS."""

from __future__ import annotations

import grp
import os
from pathlib import Path

import pytest

from dil.storage import locations
from dil.storage.locations import PathError, any_path
from tests.unit.config.conftest import JobFile

FINAL, STATE = "data.publisher.final.dir", "state.store.dir"
GROUP = "data.publisher.final.dir.group"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("s3://lake", "s3://lake"),
        ("s3://lake/", "s3://lake"),
        ("s3://lake//a/./b/", "s3://lake/a/b"),
        ("s3a://lake/a b%20+", "s3://lake/a b%20+"),
        ("S3N://lake/a", "s3://lake/a"),
        ("gs://lake/", "gs://lake"),
        ("GS://lake//a/./b", "gs://lake/a/b"),
        (
            "abfss://lake@dil.dfs.core.windows.net/a b%20+",
            "abfss://lake@dil.dfs.core.windows.net/a b%20+",
        ),
        (
            "abfss://lake@dil.dfs.core.windows.net/orig_sig=1",
            "abfss://lake@dil.dfs.core.windows.net/orig_sig=1",
        ),
        ("abfs://lake@dil.dfs.core.windows.net", "abfss://lake@dil.dfs.core.windows.net"),
        ("wasbs://Lake@dil.blob.core.windows.net/A/", "abfss://lake@dil.dfs.core.windows.net/A"),
        ("HDFS://NN:8020/a/", "hdfs://nn/a"),
        ("webhdfs://nn:9870//a/./b%20 c", "webhdfs://nn/a/b%20 c"),
        ("webhdfs://nn:50070", "webhdfs://nn:50070"),
        ("swebhdfs://[::1]:9871/a", "swebhdfs://[::1]/a"),
        ("file:///a/../b%20c", "/b c"),
        ("a/b", "/job/a/b"),
    ],
)
def test_a_text_names_a_path_of_this_machine_or_of_s3(text: str, path: str) -> None:
    assert any_path(text, Path("/job")) == path


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("s3:///a", "names no bucket"),
        ("s3://key:secret@lake/a", "has credentials in it, which would be logged"),
        ("s3://lake/../a", "has .. in it, which S3 does not know"),
        ("ftp://host/a", "is on ftp:, which is not a file system known here"),
        ("gs:///a", "names no bucket"),
        ("gs://key@lake/a", "names no bucket"),
        ("gs://lake/../a", "has .. in it, which Google Cloud Storage does not know"),
        ("abfss://c@lake/a", "names no container of an account"),
        ("abfss://dil.dfs.core.windows.net/a", "names no container of an account"),
        ("abfss://c@dil.dfs.core.windows.net/a/..", "has .. in it, which Azure does not know"),
        ("wasb://c@dil.blob.core.windows.net/a?sv=1&sig=x", "has a signature or a token in it"),
        ("abfss://c@dil.dfs.core.windows.net/a?sv=1&SIG=x", "has a signature or a token in it"),
        ("gs://lake/a?X-Goog-Signature=x", "has a signature or a token in it"),
        ("s3://lake/a?X-Amz-Expires=9&X-Amz-Signature=x", "has a signature or a token in it"),
        ("webhdfs://nn/a?delegation=x", "has a signature or a token in it"),
        ("adl://dil.azuredatalakestore.net/a", "is on adl:, which is not a file system known here"),
        ("hdfs:///a", "names no host"),
        ("webhdfs:/a", "names no host"),
        ("webhdfs://etl:secret@nn/a", "names a user"),
        ("webhdfs://nn/a/../b", "has .. or a colon in it"),
        ("webhdfs://nn/a:b", "has .. or a colon in it"),
        ("viewfs://cluster/a", "is on viewfs:, which only Hadoop's own client knows"),
        ("~/a", "begins with ~, which is not expanded"),
    ],
)
def test_what_names_neither_is_refused_with_the_reason(text: str, what: str) -> None:
    with pytest.raises(PathError) as caught:
        any_path(text, Path("/job"))
    assert str(caught.value).startswith(what)
    assert caught.value.fix


def test_data_and_state_may_be_on_s3(job_file: JobFile) -> None:
    place = {FINAL: "s3a://lake/data/", STATE: "s3://lake/state"}
    for kind in ("fs", "filelog"):
        job = job_file.load({**place, "state.store.type": kind}).job
        assert job.publishing.final_dir == "s3://lake/data"
        assert (job.state.kind, job.state.directory) == ("filelog", "s3://lake/state")


@pytest.mark.parametrize(
    ("place", "module", "extra"),
    [
        ("s3://lake/data", "botocore", "s3"),
        ("gs://lake/data", "google.auth", "gcs"),
        ("abfss://lake@dil.dfs.core.windows.net/data", "azure.storage.blob", "azure"),
        ("abfss://lake@dil.dfs.core.windows.net/data", "azure.identity", "azure"),
    ],
)
def test_a_place_whose_package_is_missing_is_refused_with_the_command(
    place: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = locations.find_spec
    monkeypatch.setattr(
        locations, "find_spec", lambda name: None if name == module else found(name)
    )
    with pytest.raises(PathError, match="is not installed") as caught:
        any_path(place, Path("/job"))
    assert caught.value.fix == f"Install it: pip install 'dil-spark[{extra}]'"


@pytest.mark.parametrize("kind", ["sqlite", "noop"])
def test_state_in_one_file_is_refused_on_s3(kind: str, job_file: JobFile) -> None:
    (found,) = job_file.problems({STATE: "s3://lake/state", "state.store.type": kind})
    assert found.key == STATE
    assert f"state.store.type={kind} needs a folder of this machine" in found.what
    assert "state.store.type=fs" in found.fix


def test_what_the_machine_itself_must_read_stays_on_it(job_file: JobFile) -> None:
    for key in ("ms.audit.dir", "ms.plugin.path"):
        (found,) = [each for each in job_file.problems({key: "s3://lake/x"}) if each.key == key]
        assert "must be on this machine" in found.what


@pytest.mark.parametrize("table", ["delta", "iceberg"])
def test_tables_are_refused_where_their_libraries_do_not_reach(
    table: str, job_file: JobFile
) -> None:
    found = job_file.problems({FINAL: "webhdfs://nn/lake", "ms.table.format": table})
    assert any(
        each.key == "ms.table.format" and "reaches no table at webhdfs://nn/lake" in each.what
        for each in found
    )


def test_files_elsewhere_are_given_to_nobody(job_file: JobFile) -> None:
    for place in ("webhdfs://nn/lake", "s3://lake/data"):
        (found,) = job_file.problems({FINAL: place, "writer.file.owner": "root"})
        assert "only files of this machine can get another owner" in found.what


def test_a_catalog_names_no_folder_that_spark_cannot_read(job_file: JobFile) -> None:
    catalog = {"ms.catalog.type": "glue", "writer.file.path.type": "namespace_table"}
    found = job_file.problems({**catalog, FINAL: "webhdfs://nn/lake"})
    assert any(each.key == FINAL and "hdfs://host:8020/folder" in each.fix for each in found)


@pytest.mark.parametrize(
    ("place", "keys"),
    [("out", []), ("hdfs://lake:8020/out", []), ("s3://bucket/out", [GROUP])],
)
def test_a_group_of_published_data_is_for_files_that_have_one(job_file, place, keys):
    own = grp.getgrgid(os.getegid()).gr_name
    loaded = job_file.load({FINAL: place, GROUP: own})
    assert [notice.key for notice in loaded.notices if notice.key == GROUP] == keys
    assert loaded.job.publishing.group == ("" if keys else own)


def test_a_group_that_is_none_on_this_machine_is_a_problem(job_file):
    assert "no group of this machine" in job_file.problem(GROUP, "no-such-group").what
