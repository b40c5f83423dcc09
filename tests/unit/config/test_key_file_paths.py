"""Paths of key files: where relative ones start, and what is said of those that are not there."""

import json

import pytest

SFTP = {"source.class": "sftp", "ms.source.uri": "sftp://me@host/x.json"}
KEY, HOSTS = "source.conn.private.key", "source.conn.known.hosts"
GPG, PARAMETERS = "ms.extract.preprocessors", "ms.extract.preprocessor.parameters"
BODY = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW"


def decrypting(path):
    return {GPG: "gpg-decrypt", PARAMETERS: json.dumps({"gpg-decrypt": {"keystore_path": path}})}


def told(loaded):
    return [each for each in loaded.notices if "not on this machine" in each.what]


@pytest.fixture
def folder(job_file, tmp_path, monkeypatch):
    """Return the folder of the job file, with a key file in it; the process works elsewhere."""
    (job_file.folder / "keys").mkdir()
    (job_file.folder / "keys" / "key").write_text("x")
    monkeypatch.chdir(tmp_path)
    return job_file.folder


def test_a_relative_path_of_an_sftp_key_starts_at_the_folder_of_the_job_file(job_file, folder):
    loaded = job_file.load({**SFTP, KEY: "keys/key", HOSTS: "keys/key"})
    properties = loaded.job.properties
    assert properties.secret(KEY).reveal() == str(folder / "keys" / "key")
    assert properties.text(HOSTS) == str(folder / "keys" / "key")
    assert told(loaded) == []


def test_a_relative_path_of_a_key_store_starts_at_the_folder_of_the_job_file(job_file, folder):
    for written in ("keys/key", f"file://{folder}/keys/key"):
        loaded = job_file.load(decrypting(written))
        (spec,) = loaded.job.extraction.preprocessors
        assert spec.parameters["keystore_path"] == str(folder / "keys" / "key")
        assert told(loaded) == []


def test_a_path_from_the_environment_is_one_too(job_file, folder):
    environ = {"KEY": "keys/key"}
    (spec,) = job_file.load(decrypting("env:KEY"), environ=environ).job.extraction.preprocessors
    assert spec.parameters["keystore_path"].reveal() == str(folder / "keys" / "key")
    loaded = job_file.load({**SFTP, KEY: "env:KEY"}, environ=environ)
    assert loaded.job.properties.secret(KEY).reveal() == str(folder / "keys" / "key")


@pytest.mark.parametrize(
    ("given", "key", "shown"),
    [
        ({**SFTP, KEY: "keys/key", HOSTS: "hosts"}, HOSTS, "names {}/hosts,"),
        ({**SFTP, KEY: "keys"}, KEY, "names {}/keys,"),
        (decrypting("gone.gpg"), PARAMETERS, '"gpg-decrypt": keystore_path names {}/gone.gpg,'),
        ({"ms.ssl": '{"keyStorePath":"gone.p12"}'}, "ms.ssl", "keyStorePath names {}/gone.p12,"),
        ({"ms.ssl": '{"trustStorePath":"gone"}'}, "ms.ssl", "trustStorePath names {}/gone,"),
    ],
)
def test_a_key_file_that_is_not_there_is_noticed_at_its_line(job_file, folder, given, key, shown):
    (notice,) = told(job_file.load(given))
    assert notice.key == key
    assert notice.what == f"{shown.format(folder)} which is not on this machine"
    assert notice.origin.line is not None
    assert "folder of the job file" in notice.fix


def test_the_home_of_the_user_that_runs_the_task_is_left_to_the_task(job_file, folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    loaded = job_file.load({**SFTP, KEY: "~/keys/key", HOSTS: "~/hosts"})
    assert loaded.job.properties.secret(KEY).reveal() == "~/keys/key"
    assert [each.key for each in told(loaded)] == [HOSTS]


@pytest.mark.parametrize(
    "key",
    [
        BODY,
        f"-----BEGIN X-----\n{BODY}",
        f"PuTTY-User-Key-File-3: {BODY}",
        f"{BODY}-----END X-----",
    ],
)
def test_a_key_itself_is_no_path_and_never_shown(job_file, key):
    loaded = job_file.load({**SFTP, KEY: "env:KEY"}, environ={"KEY": key})
    assert loaded.job.properties.secret(KEY).reveal() == key
    assert told(loaded) == []


@pytest.mark.parametrize("path", ["s3://bucket/key", "~/key"])
def test_a_key_store_that_no_task_can_open_is_a_problem(job_file, path):
    (problem,) = job_file.problems(decrypting(path))
    assert problem.key == PARAMETERS
    assert "keystore_path" in problem.what
