"""State on a database server, as a job file says it."""

import pytest

from dil.config import load
from dil.errors import ConfigError

POSTGRESQL = {"state.store.type": "postgresql", "state.store.db.url": "postgresql://db/dil"}


def test_a_server_keeps_the_state_and_has_no_folder(job_file):
    state = job_file.load(POSTGRESQL).job.state
    assert (state.kind, state.directory, state.is_default_place) == ("postgresql", "", False)
    assert state.place == "postgresql://db:5432/dil"
    assert state.enabled
    assert not job_file.load({**POSTGRESQL, "state.store.enabled": "false"}).job.state.enabled


def test_a_job_file_of_dil_keeps_its_url_user_and_password(job_file):
    loaded = job_file.load(
        {
            "state.store.type": "mysql",
            "state.store.db.url": "jdbc:mysql://db:3306/gobblin?useSSL=false&useUnicode=true",
            "state.store.db.user": "env:DB_USER",
            "state.store.db.password": "env:DB_PASSWORD",
            "state.store.db.table": "my_state",
            "state.store.db.jdbc.driver": "com.mysql.cj.jdbc.Driver",
        },
        environ={"DB_USER": "ann", "DB_PASSWORD": "hunter2"},
    )
    server = loaded.job.state.server
    assert str(server) == "mysql://db:3306/gobblin"
    assert (server.user, server.password.reveal()) == ("ann", "hunter2")
    told = {notice.key: notice for notice in loaded.notices if notice.key}
    assert set(told) == {"state.store.db.url", "state.store.db.table"}
    assert "useUnicode" in told["state.store.db.url"].what
    assert "hunter2" not in repr(loaded.job)


def test_user_and_password_win_over_those_of_the_url(job_file):
    url = "postgresql://ann:one@db/dil"
    server = job_file.load({**POSTGRESQL, "state.store.db.url": url}).job.state.server
    assert (server.user, server.password.reveal()) == ("ann", "one")
    own = {"state.store.db.user": "bob", "state.store.db.password": "two"}
    server = job_file.load({**POSTGRESQL, "state.store.db.url": url, **own}).job.state.server
    assert (server.user, server.password.reveal()) == ("bob", "two")


def test_the_store_of_the_dataset_wins(job_file):
    state = job_file.load({**POSTGRESQL, "dataset.state.store.type": "sqlite"}).job.state
    assert state.kind == "sqlite"


def test_a_server_that_is_not_used_is_told(job_file):
    assert job_file.notices({"state.store.db.url": "mysql://db/dil"}) == ["state.store.db.url"]


@pytest.mark.parametrize(
    "properties",
    [
        {"state.store.db.url": None},
        {"state.store.db.url": "mysql://db/dil"},
        {"state.store.db.url": "postgresql://db"},
        {"state.store.db.url": "ann:hunter2@db/dil"},
        {"state.store.db.url": "jdbc:postgresql://ann:hunter2@db/dil?sslfactory=x"},
    ],
)
def test_a_url_that_cannot_be_used_is_one_problem_that_does_not_show_it(job_file, properties):
    (found,) = job_file.problems({**POSTGRESQL, **properties})
    assert found.key == "state.store.db.url"
    assert "hunter2" not in str(found)


def test_a_secret_that_cannot_be_read_is_told_once(job_file):
    found = job_file.problems({**POSTGRESQL, "state.store.db.url": "env:MISSING"})
    assert [problem.key for problem in found] == ["state.store.db.url"]


PASSWORD_IN_ENVIRONMENT = {**POSTGRESQL, "state.store.db.password": "env:DIL_DB_PASSWORD"}


@pytest.mark.parametrize("key", ["state.store.db.password", "state.store.db.user"])
def test_a_command_that_needs_no_source_needs_the_secrets_of_the_state_server(job_file, key):
    job_file.load({**POSTGRESQL, key: "env:DIL_DB"}, environ={"DIL_DB": "x"})
    with pytest.raises(ConfigError) as caught:
        load(job_file.folder / "job.conf", environ={}, secrets=False)
    (problem,) = caught.value.problems
    assert problem.key == key
    assert "the environment variable DIL_DB, which is not set" in problem.what
    assert "export DIL_DB=" in problem.fix
    assert problem.origin.line


def test_an_empty_password_in_the_environment_is_no_missing_one(job_file):
    server = job_file.load(
        PASSWORD_IN_ENVIRONMENT, environ={"DIL_DB_PASSWORD": ""}
    ).job.state.server
    assert server.password is None


def test_secrets_of_a_server_that_keeps_no_state_are_a_notice_where_none_is_needed(job_file):
    job_file.load(PASSWORD_IN_ENVIRONMENT, environ={"DIL_DB_PASSWORD": "x"})
    loaded = load(
        job_file.folder / "job.conf",
        environ={},
        secrets=False,
        overrides={"state.store.type": "sqlite"},
    )
    assert "state.store.db.password" in [notice.key for notice in loaded.notices]


def test_a_master_key_file_that_is_not_there_is_named(job_file):
    found = job_file.problems(
        {
            **POSTGRESQL,
            "state.store.db.password": "ENC(AQWoQ2Ybe8KXDXwPOA1Ziw==)",
            "encrypt.key.loc": "keys/master.key",
        }
    )
    (problem,) = found
    key = job_file.folder / "keys" / "master.key"
    assert f"{key} and {key}.1 do not exist" in problem.what
