"""What a database refuses: told once, with what is to be done about it."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.jdbc.session import key_ranges
from connectors.jdbc.settings import JdbcSettings
from dil.cli.main import main
from dil.errors import AuthenticationError, ConfigError, SourceError, TransientSourceError
from dil.model.secret import Secret
from dil.sections.source import DatabaseSection
from tests.integration.jdbc_jobs import DatabaseJob, jdbc, read
from tests.integration.test_jdbc_files import duckdb_file, sqlite_file
from tests.servers.databases import new_database
from tests.servers.mariadb import PASSWORD as MARIADB_PASSWORD
from tests.servers.mariadb import MariadbServer
from tests.servers.postgresql import PASSWORD as POSTGRESQL_PASSWORD
from tests.servers.postgresql import PostgresqlServer
from tests.servers.waiting import wait_until

KINDS = ["postgresql", "mysql", "sqlite", "duckdb"]
TABLE = (
    "create table orders (order_id int, name varchar(9))",
    "insert into orders values (1, 'a')",
)


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database of each kind with one small table."""
    if request.param in {"sqlite", "duckdb"}:
        make = sqlite_file if request.param == "sqlite" else duckdb_file
        yield make(tmp_path / "a.db", *TABLE)
        return
    with new_database(request.getfixturevalue(f"{request.param}_server")) as found:
        for statement in TABLE:
            read(jdbc(found), statement)
        yield jdbc(found)


def login_of(url: str) -> dict[str, str]:
    passwords = {"postgresql": POSTGRESQL_PASSWORD, "mysql": MARIADB_PASSWORD}
    password = passwords.get(url.split(":")[1])
    if password is None:
        return {}
    return {"source__conn__username": "admin", "source__conn__password": password}


def settings_of(url: str, **more: Any) -> JdbcSettings:
    login = login_of(url)
    password = login.get("source__conn__password")
    return JdbcSettings(
        url, user=login.get("source__conn__username", ""),
        password=Secret(password) if password else None, **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    "sql",
    ["select from where", "select * from nothing_there", "select not_there from orders",
     "select no_function(order_id) from orders"],
)  # fmt: skip
def test_a_statement_that_is_refused_is_tried_once(url: str, sql: str, tmp_path: Path) -> None:
    job = DatabaseJob(
        tmp_path, url, sql, task__maxretries="4", task__retry__intervalinsec="0", **login_of(url)
    )
    report = job.run()
    assert report.retries == 0
    assert [failure.code for failure in report.failures] == ["DIL-SRC"]
    assert "refused the statement" in report.failures[0].error


def test_a_user_without_the_right_is_told_to_get_it(
    postgresql_server: PostgresqlServer, mysql_server: MariadbServer
) -> None:
    for server in (postgresql_server, mysql_server):
        with new_database(server) as found:
            url, user = jdbc(found), f"u{uuid.uuid4().hex[:12]}"
            for statement in TABLE:
                read(url, statement)
            if isinstance(server, PostgresqlServer):
                server.execute(f"create role {user} login password 'pass word'")
            else:
                server.execute(f"create user {user}@'%' identified by 'pass word'")
                database = found.rpartition("/")[2]
                server.execute(f"grant create on `{database}`.* to {user}@'%'")
            with pytest.raises(SourceError, match="denied") as caught:
                read(url, "select * from orders", user=user, password=Secret("pass word"))
            assert not caught.value.retryable
            assert "GRANT SELECT" in caught.value.fix
        server.execute(f"drop {'role' if server is postgresql_server else 'user'} {user}")


def test_a_database_that_does_not_exist_is_looked_for_in_the_address(
    postgresql_server: PostgresqlServer, mysql_server: MariadbServer
) -> None:
    for server in (postgresql_server, mysql_server):
        with new_database(server) as found:
            url = jdbc(found).rpartition("/")[0] + "/not_there"
        with pytest.raises(SourceError, match=r"cannot be opened: .*not_there") as caught:
            read(url, "select 1 as a")
        assert not caught.value.retryable
        assert "ms.source.uri" in caught.value.fix


@pytest.mark.parametrize(
    ("server_name", "option"), [("postgresql_server", "sslmode"), ("mysql_server", "sslMode")]
)
def test_tls_that_a_server_has_not_is_no_reason_to_try_again(
    server_name: str, option: str, request: pytest.FixtureRequest
) -> None:
    server: PostgresqlServer | MariadbServer = request.getfixturevalue(server_name)
    with new_database(server) as found, pytest.raises(SourceError, match="SSL") as caught:
        read(f"{jdbc(found)}?{option}=require{'d' if option == 'sslMode' else ''}", "select 1 as a")
    assert not isinstance(caught.value, TransientSourceError)
    assert not caught.value.retryable
    assert option in caught.value.fix


def is_refused(url: str) -> bool:
    try:
        return not read(url, "select 1 as a")
    except AuthenticationError:
        return True


def test_a_server_that_wants_tls_is_told_from_a_wrong_password() -> None:
    with PostgresqlServer() as server:
        rules = server.folder / "data/pg_hba.conf"
        rules.write_text("hostssl all all all scram-sha-256\n")
        url = jdbc(f"postgresql://127.0.0.1:{server.port}/postgres")
        server.execute("select pg_reload_conf()")
        wait_until(lambda: is_refused(url))
        with pytest.raises(AuthenticationError, match=r"no pg_hba\.conf entry") as caught:
            read(url, "select 1 as a")
    assert "sslmode=require" in caught.value.fix
    assert "source.conn.password" not in caught.value.fix


@pytest.mark.parametrize("by", ["range", "quantile"])
def test_a_partition_column_that_is_misspelt_is_told_with_the_nearest(url: str, by: str) -> None:
    settings = settings_of(
        url, statement="select order_id, name from orders", split_column="oder_id"
    )
    with pytest.raises(ConfigError) as caught:
        key_ranges(settings, 2, by_quantile=by == "quantile")
    assert re.search(
        r'ms\.jdbc\.partition\.column names the column "oder_id".*\n.*"order_id"', str(caught.value)
    )


def test_a_statement_that_cannot_be_cut_is_not_blamed_on_the_column(url: str) -> None:
    settings = settings_of(url, statement="select * from nothing_there", split_column="order_id")
    with pytest.raises(SourceError, match=r"refused the statement: .*nothing_there"):
        key_ranges(settings, 2, by_quantile=False)


@pytest.mark.parametrize(
    ("sql", "what"),
    [("SELCT 1", "Did you mean SELECT?"), ("selet 1", "Did you mean SELECT?"),
     ("-- select\n wiht a as (select 1) select * from a", "Did you mean WITH?")],
)  # fmt: skip
@pytest.mark.parametrize("act", ["validate", "check", "preview", "run"])
def test_a_misspelt_first_word_is_told_before_anything_is_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sql: str, what: str, act: str
) -> None:
    job = DatabaseJob(tmp_path, "jdbc:sqlite:a.db", "select 1")
    job.job()
    path = tmp_path / "rows.conf"
    assert main([act, str(path), "-D", f"ms.jdbc.statement={sql}"]) == 2
    told = capsys.readouterr().err
    assert what in told
    assert "--send" not in told


@pytest.mark.parametrize("sql", ["call p()", "exec p", "truncate table t", "set x = 1", "do p()"])
def test_other_statements_are_no_misspelt_queries(tmp_path: Path, sql: str) -> None:
    job = DatabaseJob(tmp_path, "jdbc:sqlite:a.db", sql).job()
    assert job.properties.section(DatabaseSection).statement == sql


def test_a_look_names_the_database_without_its_password(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "?password=not-shown" if "127.0.0.1" in url else ""
    DatabaseJob(tmp_path, url + secret, "select * from orders", **login_of(url)).job()
    path = str(tmp_path / "rows.conf")
    for act in ("check", "preview"):
        assert main([act, path]) == 0
        printed = capsys.readouterr()
        assert f"  query {url}" in printed.out
        assert "not-shown" not in printed.out + printed.err
    assert main(["check", path, "--json"]) == 0
    (request,) = json.loads(capsys.readouterr().out)["requests"]
    assert request["location"] == url
