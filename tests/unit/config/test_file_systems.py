"""Paths without a scheme: which file system they are of."""

from __future__ import annotations

import pytest

from dil.sections.secondary import SecondarySection

FINAL, STATE = "data.publisher.final.dir", "state.store.dir"
LAKE = {"fs.uri": "hdfs://lake", FINAL: "/data/lake", STATE: "/data/state"}


@pytest.mark.parametrize(
    ("system", "place"),
    [
        ("hdfs://lake", "hdfs://lake/data/lake"),
        ("hdfs://nn:8020/", "hdfs://nn/data/lake"),
        ("webhdfs://nn:50070", "webhdfs://nn:50070/data/lake"),
        ("s3a://bucket", "s3://bucket/data/lake"),
        ("gs://bucket/", "gs://bucket/data/lake"),
        ("abfs://lake@dil.dfs.core.windows.net", "abfss://lake@dil.dfs.core.windows.net/data/lake"),
        ("file:///", "/data/lake"),
        ("file://localhost/", "/data/lake"),
    ],
)
def test_what_is_published_and_state_are_on_the_file_system_of_the_job(job_file, system, place):
    job = job_file.load({**LAKE, "fs.uri": system}).job
    assert job.publishing.final_dir == place
    assert job.state.directory == place.replace("/data/lake", "/data/state")


@pytest.mark.parametrize(
    ("given", "final", "state"),
    [
        ({}, "hdfs://lake", "hdfs://lake"),
        ({"writer.fs.uri": "hdfs://fast"}, "hdfs://fast", "hdfs://lake"),
        ({"writer.fs.uri": "hdfs://fast", "data.publisher.fs.uri": "file:///"}, "", "hdfs://lake"),
        ({"state.store.fs.uri": "file:///"}, "hdfs://lake", ""),
        ({"fs.uri": "file:///", "data.publisher.fs.uri": "s3://b"}, "s3://b", ""),
    ],
)
def test_a_more_specific_file_system_wins(job_file, given, final, state):
    job = job_file.load({**LAKE, **given}).job
    assert job.publishing.final_dir == f"{final}/data/lake"
    assert job.state.directory == f"{state}/data/state"


def test_a_path_with_a_scheme_is_where_it_says(job_file):
    job = job_file.load({**LAKE, FINAL: "s3://bucket/x", STATE: "file:///data/state"}).job
    assert (job.publishing.final_dir, job.state.directory) == ("s3://bucket/x", "/data/state")


@pytest.mark.parametrize("key", [FINAL, STATE])
def test_a_relative_path_is_of_this_machine_alone(job_file, key):
    (found,) = job_file.problems({**LAKE, key: "out"})
    assert found.key == key
    assert "hdfs://lake" in found.what


@pytest.mark.parametrize("system", ["viewfs://lake", "hdfs://lake/folder", "lake", "file:///data"])
def test_what_is_no_file_system_is_refused(job_file, system):
    assert job_file.problem("fs.uri", system)


@pytest.mark.parametrize(
    ("kind", "system", "expected"),
    [
        (None, "hdfs://lake", ("filelog", True)),
        ("fs", "hdfs://lake", ("filelog", True)),
        ("noop", "hdfs://lake", ("filelog", False)),
        (None, "file:///", ("sqlite", True)),
    ],
)
def test_state_is_a_file_log_where_its_folder_is_elsewhere(job_file, kind, system, expected):
    state = job_file.load({**LAKE, "fs.uri": system, "state.store.type": kind}).job.state
    assert (state.kind, state.enabled) == expected


def test_state_without_a_folder_stays_beside_the_job_file(job_file):
    state = job_file.load({**LAKE, STATE: None}).job.state
    assert state.directory == str(job_file.folder / ".dil")


def test_secondary_input_is_on_the_file_system_of_the_job(job_file):
    inputs = '[{"path": "%s", "fields": ["id"], "category": "activation"}]'
    for path, place in (("/data/ids", "hdfs://lake/data/ids"), ("file:///ids", "/ids")):
        job = job_file.load({**LAKE, "ms.secondary.input": inputs % path}).job
        (source,) = job.properties.section(SecondarySection).inputs
        assert source.path == place


@pytest.mark.slow
def test_master_passwords_are_on_the_file_system_of_the_job_or_on_one_of_their_own(
    job_file, tmp_path
):
    key = tmp_path / "master.key"
    key.write_text("testkey\n")
    secret = {"source.conn.password": "ENC(M6nV+j0lhqZ36RgvuF5TQMyNvBtXmkPl)"}
    here = {**LAKE, **secret, "encrypt.key.loc": str(key), "encrypt.key.fs.uri": "file:///"}
    password = job_file.load(here).job.source.password
    assert password is not None
    assert password.reveal() == "password"
    nowhere = {**here, "fs.uri": "webhdfs://127.0.0.1:1", "encrypt.key.fs.uri": None}
    nowhere["ms.encryption.fields"] = '["token"]'
    found = {each.key: each.what for each in job_file.problems(nowhere)}
    # What follows from it is no finding: no password, and nothing to encrypt fields with.
    assert found.keys() == {"encrypt.key.loc"}
    assert "webhdfs://127.0.0.1:1" in found["encrypt.key.loc"]


def test_the_file_system_of_this_machine_is_no_other_configuration(job_file):
    plain = job_file.load({FINAL: "/lake"}).job
    written = {"fs.uri": "file:///", "writer.fs.uri": "file:///", FINAL: "/lake"}
    assert job_file.load(written).job.digest == plain.digest
