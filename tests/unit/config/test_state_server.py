"""State on a database server, as a job file says it."""

import pytest

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
    assert [notice.key for notice in loaded.notices] == ["state.store.db.url"]
    assert "useUnicode" in loaded.notices[0].what
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
