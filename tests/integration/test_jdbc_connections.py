"""The work units of a task share a connection, and see nothing of each other through it."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from connectors.jdbc import connections
from connectors.jdbc.session import JdbcSession
from connectors.jdbc.settings import JdbcSettings
from dil.errors import SourceError
from dil.model.secret import Secret
from dil.spi.connector import RequestValues
from dil.spi.shared import Shared
from tests.integration.jdbc_jobs import jdbc
from tests.integration.test_jdbc_faults import kill_connection, own_query
from tests.integration.test_jdbc_files import duckdb_file, sqlite_file
from tests.servers.mariadb import PASSWORD as MARIADB_PASSWORD
from tests.servers.mariadb import MariadbServer
from tests.servers.postgresql import PASSWORD as POSTGRESQL_PASSWORD
from tests.servers.postgresql import PostgresqlServer

Server = PostgresqlServer | MariadbServer


class Task:
    """The sessions of one task on one database."""

    def __init__(self, url: str, server: Server | None = None) -> None:
        self.server = server
        self._url = url
        self._shared = Shared()
        self.me = "1" if server is None else own_query(server)

    def read(self, sql: str, **settings: bool) -> list[dict[str, object]]:
        with self.session(sql, **settings) as session:
            return [
                row for batch in session.read(RequestValues({}, {})) for row in batch.to_pylist()
            ]

    def break_off(self, sql: str) -> None:
        with self.session(sql) as session:
            next(session.read(RequestValues({}, {})))

    def connection(self, more: str = "", **settings: bool) -> object:
        return self.read(f"select {self.me} as me{more}", **settings)[0]["me"]

    def session(self, sql: str, **settings: bool) -> JdbcSession:
        if self.server is None:
            return JdbcSession(JdbcSettings(self._url, sql), self._shared)
        is_first = isinstance(self.server, PostgresqlServer)
        password = Secret(POSTGRESQL_PASSWORD if is_first else MARIADB_PASSWORD)
        asked = JdbcSettings(self._url, sql, user="admin", password=password, **settings)
        return JdbcSession(asked, self._shared)

    def close(self) -> None:
        self._shared.close()


@pytest.fixture(params=["postgresql", "mysql"])
def task(request: pytest.FixtureRequest) -> Iterator[Task]:
    server: Server = request.getfixturevalue(f"{request.param}_server")
    name = f"t{uuid.uuid4().hex[:12]}"
    found = Task(jdbc(server.add_database(name)), server)
    yield found
    found.close()
    server.drop_database(name)


def test_the_work_units_of_a_task_share_one_connection(task: Task) -> None:
    assert len({task.connection() for _ in range(5)}) == 1


def test_each_work_unit_sees_what_others_changed_before_it(task: Task) -> None:
    url = "select count(*) as n from orders"
    task.read("create table orders (id int)", is_read_only=False)
    assert task.read(url) == [{"n": 0}]
    task.read("insert into orders values (1)", is_read_only=False)
    assert task.read(url) == [{"n": 1}]


def test_an_attempt_that_fails_closes_the_connection(task: Task) -> None:
    first = task.connection()
    with pytest.raises(SourceError):
        task.read("select * from nothing_of_this_name")
    assert task.connection() != first


def test_rows_that_nobody_read_are_not_those_of_the_next_work_unit(task: Task) -> None:
    first = task.connection()
    many = " union all ".join(f"select {number} as n" for number in range(300))
    task.break_off(f"select a.n from ({many}) a cross join ({many}) b")
    assert task.connection() != first


def test_a_second_session_of_a_thread_does_not_take_the_connection_of_the_first(task: Task) -> None:
    many = " union all ".join(f"select {number} as n" for number in range(300))
    with task.session(f"select a.n from ({many}) a cross join ({many}) b") as session:
        batches = session.read(RequestValues({}, {}))
        rows = next(batches).num_rows
        task.connection()
        assert rows + sum(batch.num_rows for batch in batches) == 300 * 300


def test_a_connection_that_was_cut_between_work_units_is_given_up(task: Task) -> None:
    first = task.connection()
    assert task.server is not None
    kill_connection(task.server, int(str(first)))
    with pytest.raises(SourceError):
        task.connection()
    assert task.connection() != first


def test_a_connection_that_was_idle_is_not_relied_on(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = task.connection()
    monkeypatch.setattr(connections, "_IDLE_S", 0.0)
    assert task.connection() != first


def test_what_may_write_has_a_connection_of_its_own(task: Task) -> None:
    assert task.connection() != task.connection(is_read_only=False)


def test_variables_of_a_session_are_not_seen_by_the_next_work_unit(
    mysql_server: MariadbServer,
) -> None:
    task = Task(jdbc(mysql_server.add_database(f"t{uuid.uuid4().hex[:12]}")), mysql_server)
    counted = "select @n := coalesce(@n, 0) + 1 as n"
    assert [task.read(counted) for _ in range(2)] == [[{"n": 1}]] * 2
    task.close()


def test_a_lock_by_name_ends_with_its_work_unit(postgresql_server: PostgresqlServer) -> None:
    name = f"t{uuid.uuid4().hex[:12]}"
    task = Task(jdbc(postgresql_server.add_database(name)), postgresql_server)
    first = task.connection(", pg_try_advisory_lock(7)::text as locked")
    assert task.connection() != first
    task.close()
    postgresql_server.drop_database(name)


def test_files_share_a_connection_and_see_what_changes(tmp_path: Path) -> None:
    task = Task(sqlite_file(tmp_path / "a.db", "create table t (id int)"))
    assert task.read("select id from t") == []
    sqlite_file(tmp_path / "a.db", "insert into t values (1)")
    assert task.read("select id from t") == [{"id": 1}]
    task.close()
    other = Task(duckdb_file(tmp_path / "b.db", "create table t as select 1 as id"))
    assert [other.read("select id from t") for _ in range(2)] == [[{"id": 1}]] * 2
    other.close()
    duckdb_file(tmp_path / "b.db", "insert into t values (2)")


def test_a_file_that_took_the_place_of_another_is_opened(tmp_path: Path) -> None:
    first, second = tmp_path / "a.db", tmp_path / "b.db"
    for path, rows in ((first, 1), (second, 5)):
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("create table orders (id int)")
            database.executemany("insert into orders values (?)", [(row,) for row in range(rows)])
    task = Task(f"jdbc:sqlite:{first}")
    assert len(task.read("select id from orders")) == 1
    second.replace(first)
    assert len(task.read("select id from orders")) == 5
    task.close()
