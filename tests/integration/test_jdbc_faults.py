"""What goes wrong with a database server, and that no row is lost or doubled by it."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from connectors.jdbc.engines.postgresql import PostgresqlConnection
from connectors.jdbc.session import JdbcSession
from connectors.jdbc.settings import JdbcSettings
from dil.errors import (
    AuthenticationError,
    SourceContractError,
    SourceError,
    TransientSourceError,
)
from dil.model.secret import Secret
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.spi.connector import RequestValues
from tests.integration.jdbc_jobs import DatabaseJob, jdbc, read
from tests.integration.local_jobs import NOW
from tests.servers.mariadb import PASSWORD as MARIADB_PASSWORD
from tests.servers.mariadb import MariadbServer
from tests.servers.meddling_proxy import MeddlingProxy
from tests.servers.postgresql import PASSWORD as POSTGRESQL_PASSWORD
from tests.servers.postgresql import PostgresqlServer
from tests.stories import executor

Server = PostgresqlServer | MariadbServer
BIG = {
    "postgresql": "select i as id, repeat('x', 90) as pad from generate_series(1, 300000) i",
    "mysql": "with recursive few as (select 0 as n union all select n + 1 from few where n < 599)"
    " select a.n * 500 + b.n + 1 as id, repeat('x', 90) as pad"
    " from few a join few b where b.n < 500",
}


@pytest.fixture(params=["postgresql", "mysql"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(f"{request.param}_server")
    return found


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    name = f"t{uuid.uuid4().hex[:12]}"
    yield jdbc(server.add_database(name))
    server.drop_database(name)


def kind_of(server: Server) -> str:
    return "postgresql" if isinstance(server, PostgresqlServer) else "mysql"


def password(server: Server) -> str:
    return POSTGRESQL_PASSWORD if isinstance(server, PostgresqlServer) else MARIADB_PASSWORD


def own_query(server: Server) -> str:
    return "pg_backend_pid()" if isinstance(server, PostgresqlServer) else "connection_id()"


def kill_connection(server: Server, number: int) -> None:
    if isinstance(server, PostgresqlServer):
        server.execute(f"select pg_terminate_backend({number})")
    else:
        server.execute(f"kill connection {number}")


def test_a_connection_that_is_cut_while_rows_come_is_an_error(server: Server, url: str) -> None:
    sql = f"select big.*, {own_query(server)} as me from ({BIG[kind_of(server)]}) big"
    settings = JdbcSettings(url, sql, user="admin", password=Secret(password(server)))
    rows = 0
    with JdbcSession(settings) as session:
        batches = session.read(RequestValues({}, {}))
        first = next(batches)
        kill_connection(server, first.column("me")[0].as_py())
        with pytest.raises(TransientSourceError, match=r"the connection to jdbc:.* broke"):
            rows = sum(batch.num_rows for batch in batches)
    assert rows == 0


def test_a_job_whose_connection_is_cut_publishes_nothing_and_then_each_row_once(
    server: Server, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = f"select big.*, {own_query(server)} as me from ({BIG[kind_of(server)]}) big"
    job = DatabaseJob(
        tmp_path, url, sql, source__conn__username="admin",
        source__conn__password=password(server),
    )  # fmt: skip
    whole = JdbcSession.read

    def cut(session: JdbcSession, values: RequestValues) -> Iterator[pa.RecordBatch]:
        batches = whole(session, values)
        first = next(batches)
        kill_connection(server, first.column("me")[0].as_py())
        yield first
        yield from batches

    with monkeypatch.context() as cutting:
        cutting.setattr(JdbcSession, "read", cut)
        report = job.run()
    assert [failure.code for failure in report.failures] == ["DIL-SRC-TRANSIENT"]
    assert report.rows == 0
    assert job.run().rows == 300_000
    ids = job.table().column("id")
    assert len(ids) == len(ids.unique()) == 300_000


def test_what_is_refused_is_told_with_the_servers_own_words(server: Server, url: str) -> None:
    cases = (
        ("select * from nothing_there", SourceError, "nothing_there"),
        ("select not_there from (select 1 as a) t", SourceError, "not_there"),
        ("selec 1", SourceError, "syntax"),
    )
    for sql, kind, words in cases:
        with pytest.raises(kind, match=words) as caught:
            read(url, sql)
        assert "ms.jdbc.statement" in caught.value.fix
        assert not isinstance(caught.value, TransientSourceError)


def test_a_wrong_password_is_no_reason_to_try_again(server: Server, url: str) -> None:
    with pytest.raises(AuthenticationError) as caught:
        read(url, "select 1 as a", password=Secret("s3cret-but-wrong"))
    assert "s3cret" not in str(caught.value)
    assert "source.conn.password" in caught.value.fix


def test_a_server_that_is_not_there_may_come(server: Server, url: str) -> None:
    for place in ("127.0.0.1:1", "no-such-host.invalid:5432"):
        away = url.replace(f"127.0.0.1:{server.port}", place)
        with pytest.raises(TransientSourceError, match="cannot be reached"):
            read(away, "select 1 as a")


def test_a_database_that_does_not_exist_is_named(server: Server, url: str) -> None:
    with pytest.raises(SourceError, match="not_there"):
        read(url.rpartition("/")[0] + "/not_there", "select 1 as a")


def test_a_query_that_writes_is_refused_unless_the_job_says_so(
    postgresql_server: PostgresqlServer,
) -> None:
    url = jdbc(postgresql_server.add_database("writes"))
    read(url, "create sequence numbers")
    with pytest.raises(SourceError, match="read-only") as caught:
        read(url, "select nextval('numbers') as n")
    assert "ms.jdbc.read.only=false" in caught.value.fix
    found = read(url, "select nextval('numbers') as n", is_read_only=False)
    assert found.column("n").to_pylist() == [1]


def test_a_statement_time_out_may_pass(postgresql_server: PostgresqlServer) -> None:
    url = jdbc(f"postgresql://127.0.0.1:{postgresql_server.port}/postgres")
    slow = f"{url}?options=-c%20statement_timeout%3D200"
    with pytest.raises(TransientSourceError, match="statement timeout"):
        read(slow, "select pg_sleep(30)::text as s")


def test_a_value_that_mysql_leaves_out_or_cuts_is_an_error(
    mysql_server: MariadbServer, request: pytest.FixtureRequest
) -> None:
    """The server returns null, or a part of the text, and only a warning says so."""
    url = jdbc(mysql_server.add_database("cut"))
    request.addfinalizer(lambda: mysql_server.drop_database("cut"))
    read(url, "create table word (t longtext)")
    read(url, "insert into word values ('12x'), (repeat('x', 1000000))")
    for name in ("max_allowed_packet", "group_concat_max_len"):
        ((value,),) = mysql_server.execute(f"select @@global.{name}")
        before = f"set global {name} = {value}"
        request.addfinalizer(lambda before=before: mysql_server.execute(before))
    mysql_server.execute("set global max_allowed_packet = 1048576")
    for sql, setting in (
        ("select concat(t, t) as t from word", "max_allowed_packet"),
        ("select group_concat(t, t, t, t) as t from word", "group_concat_max_len"),
    ):
        with pytest.raises(SourceContractError) as caught:
            read(url, sql)
        assert setting in caught.value.fix
    # A query that takes only the beginning of a long text, and other warnings, are no errors.
    mysql_server.execute("set global group_concat_max_len = 1024")
    first = read(url, "select substring_index(group_concat(t order by t), ',', 1) as t from word")
    assert first["t"].to_pylist() == ["12x"]
    assert read(url, "select t + 0 as n from word where t like '12%'").num_rows == 1


@pytest.mark.parametrize("place", ["{{low}}", "'{{low}}'"])
def test_the_offset_of_a_time_is_not_ignored_by_mysql(
    mysql_server: MariadbServer, request: pytest.FixtureRequest, place: str
) -> None:
    """MariaDB would read other rows than those of the window, and only a warning says so."""
    url = jdbc(mysql_server.add_database("offsets"))
    request.addfinalizer(lambda: mysql_server.drop_database("offsets"))
    read(url, "create table event (updated timestamp, told varchar(40))")
    read(url, "insert into event values ('2024-01-01 12:00', '2024-01-01 00:00:00+0530')")
    # The offset in the row is no value of the job.
    asked = f"select told + interval 1 day as t from event where updated > {place}"
    assert read(url, asked, {"low": "2024-01-01 10:00:00+00:00"}).num_rows == 1
    for offset in ("+0530", "-0800", " -0800"):
        with pytest.raises(SourceError) as caught:
            read(url, asked, {"low": f"2024-01-01 10:00:00{offset}"})
        assert caught.value.fix


@pytest.mark.parametrize(
    ("condition", "zone", "days", "is_read"),
    [
        ("instant < {{high}}", "Pacific/Kiritimati", 0, False),
        ("instant < '{{high}}'::timestamptz", "Pacific/Kiritimati", 0, False),
        ("local < {{high}}", "Pacific/Kiritimati", 0, True),
        ("local < {{high}} and instant < {{high}}", "Pacific/Kiritimati", 0, False),
        ("local < timestamp '{{high}}'", "Pacific/Kiritimati", 0, True),
        ("local < {{high}} and $$'{{high}}'$$ <> ''", "Pacific/Kiritimati", 0, True),
        ("instant < timestamptz '{{high}}' and local < '{{high}}'", "Etc/UTC", 0, True),
        ("instant < {{high}}", "America/Los_Angeles", 0, True),
        ("instant < {{high}}", "Pacific/Kiritimati", 2, True),
    ],
)
def test_a_local_time_that_postgresql_reads_as_one_of_the_future_is_an_error(
    postgresql_server: PostgresqlServer,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    condition: str,
    zone: str,
    days: int,
    is_read: bool,
) -> None:
    """Rows that come between now and then would be in no window."""
    name = f"t{uuid.uuid4().hex[:12]}"
    url = jdbc(postgresql_server.add_database(name))
    request.addfinalizer(lambda: postgresql_server.drop_database(name))
    read(url, "create table event (instant timestamptz, local timestamp)")
    read(url, "insert into event values ('2024-01-01', '2024-01-01')")
    job = DatabaseJob(
        tmp_path, url, f"select * from event where {condition}", ms__timezone=zone,
        ms__watermark=json.dumps([{"name": "s", "type": "datetime", "range": {
            "from": "2024-01-01", "to": f"P{days}DT0H"}}]),
        ms__parameters=json.dumps([{"name": "high", "value": "high", "type": "watermark",
            "watermark": "s", "format": "datetime", "pattern": "yyyy-MM-dd HH:mm:ss"}]),
        source__conn__username="admin", source__conn__password=POSTGRESQL_PASSWORD,
    )  # fmt: skip
    job.now_ms = time.time_ns() // 1_000_000
    report = job.run()
    assert [each.code for each in report.failures] == ([] if is_read else ["DIL-SRC-CONTRACT"])
    assert report.rows == is_read


@pytest.mark.parametrize("is_begun", [False, True], ids=["statement", "rows"])
def test_a_server_that_falls_silent_is_given_up_after_the_socket_timeout(
    postgresql_server: PostgresqlServer, is_begun: bool
) -> None:
    with MeddlingProxy(postgresql_server.port) as proxy:
        url = f"jdbc:postgresql://127.0.0.1:{proxy.port}/postgres?socketTimeout=1"
        sql = BIG["postgresql"] if is_begun else "select pg_sleep(600)::text as s"
        settings = JdbcSettings(url, sql, user="admin", password=Secret(POSTGRESQL_PASSWORD))
        with JdbcSession(settings) as session:
            batches = session.read(RequestValues({}, {}))
            if is_begun:
                next(batches)
                proxy.hang()
            with pytest.raises(TransientSourceError) as caught:
                list(batches)
    assert "socketTimeout" in caught.value.fix


def test_a_silent_server_is_given_up_after_the_socket_timeout_also_behind_the_login(
    postgresql_server: PostgresqlServer,
) -> None:
    with MeddlingProxy(postgresql_server.port) as proxy:
        proxy.act_before(b"pg_catalog", proxy.hang)
        url = f"jdbc:postgresql://127.0.0.1:{proxy.port}/postgres?socketTimeout=1&connectTimeout=1"
        with pytest.raises(TransientSourceError) as caught:
            read(url, "select 1 as a")
    assert "socketTimeout" in caught.value.fix


def test_an_interrupted_call_of_the_driver_ends_before_its_connection_is_closed(
    postgresql_server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, closed = threading.Event(), threading.Event()
    seen: list[bool] = []

    def close(connection: PostgresqlConnection) -> None:
        seen.append(running.is_set())
        real_close(connection)
        closed.set()

    real_close = PostgresqlConnection._close
    monkeypatch.setattr(PostgresqlConnection, "_close", close)
    with MeddlingProxy(postgresql_server.port) as proxy:

        def interrupt() -> None:
            os.kill(os.getpid(), signal.SIGINT)
            running.wait(60)

        proxy.act_before(b"asked", interrupt)
        url = f"jdbc:postgresql://127.0.0.1:{proxy.port}/postgres?socketTimeout=60"
        with pytest.raises(KeyboardInterrupt):
            read(url, "select 1 as asked")
        assert not closed.is_set()
        running.set()
        assert closed.wait(60)
    assert seen == [True]


def test_a_statement_that_changes_rows_is_committed(server: Server, url: str) -> None:
    assert read(url, "create table changed (id int)").num_rows == 0
    assert read(url, "insert into changed values ({{a}}), (2)", {"a": 1}).num_rows == 0
    assert read(url, "select id from changed order by id").to_pylist() == [{"id": 1}, {"id": 2}]


def test_all_pages_see_one_state_of_the_data(server: Server, url: str) -> None:
    read(url, "create table moving (id int primary key)")
    read(url, "insert into moving values (1), (2), (3)")
    sql = "select id from moving where id > {{cursor}} order by id limit 2"
    settings = JdbcSettings(
        url, sql, user="admin", password=Secret(password(server)), cursors=("cursor",),
        key_columns=("id",),
    )  # fmt: skip
    with JdbcSession(settings) as session:
        first = list(session.read(RequestValues({"cursor": "0"}, {})))
        read(url, "delete from moving where id = 3")
        second = list(session.read(RequestValues({"cursor": "2"}, {}, page=1)))
    assert [row["id"] for batch in (*first, *second) for row in batch.to_pylist()] == [1, 2, 3]


def test_waiting_for_a_condition_sees_what_others_change(server: Server, url: str) -> None:
    read(url, "create table task (status varchar(9))")
    read(url, "insert into task values ('RUN')")
    settings = JdbcSettings(
        url, "select status from task", user="admin", password=Secret(password(server)),
        is_polling=True,
    )  # fmt: skip
    with JdbcSession(settings) as session:
        first = list(session.read(RequestValues({}, {})))
        read(url, "update task set status = 'DONE'")
        second = list(session.read(RequestValues({}, {}, page=1)))
    seen = [row["status"] for batch in (*first, *second) for row in batch.to_pylist()]
    assert seen == ["RUN", "DONE"]


def test_an_attempt_that_goes_on_does_not_guess_what_a_key_is(server: Server, url: str) -> None:
    """Compared as another kind it would lose rows: MySQL takes a text for a fraction."""
    settings = JdbcSettings(
        url, "select 5 as id where 5 > {{cursor}}", user="admin",
        password=Secret(password(server)), cursors=("cursor",), key_columns=("id",),
    )  # fmt: skip
    with JdbcSession(settings) as session:
        rows = session.read(RequestValues({"cursor": "4"}, {}, page=3))
        if kind_of(server) == "postgresql":
            assert [row for batch in rows for row in batch.to_pylist()] == [{"id": 5}]
        else:
            with pytest.raises(SourceError, match="kind of the session key is not known"):
                next(rows)


def test_pages_by_key_bring_each_row_once(server: Server, url: str, tmp_path: Path) -> None:
    read(url, "create table seen (at timestamp(6) null, id bigint)")
    values = ", ".join(
        f"('2020-01-01 00:00:00.{at:06d}', {9007199254740990 + at})" for at in range(2500)
    )
    read(url, f"insert into seen values {values}")
    for key, initial in (("id", "0"), ("at", "1980-01-01")):
        job = DatabaseJob(
            tmp_path / key, url,
            f"select id, at from seen where {key} > {{{{cursor}}}} order by {key} limit 700",
            ms__session__key__field=json.dumps({"name": key, "initValue": initial}),
            ms__parameters=json.dumps([{"name": "cursor", "type": "session"}]),
            source__conn__username="admin", source__conn__password=password(server),
        )  # fmt: skip
        report = job.run()
        assert report.failures == ()
        assert sorted(job.table().column("id").to_pylist()) == [
            9007199254740990 + at for at in range(2500)
        ]


def test_keys_that_the_server_holds_to_be_equal_are_an_error_where_a_page_ends(
    server: Server, url: str, tmp_path: Path
) -> None:
    read(url, "create table t (k char(9), at timestamp(6) null, id bigint)")
    read(url, "insert into t values ('a', '2020-01-01 00:00:00.000001', 1)")
    read(url, "insert into t values ('b', '2020-01-02 00:00:00.000001', 2)")
    read(url, "insert into t values ('b  ', '2020-01-02 00:00:00.000001', 3)")
    for key, cursor, by, initial in (
        ("k", "{{cursor}}", "k", ""),
        ("at", "{{cursor}}", "at", "1980-01-01"),
        ("k, at", "({{cursor.k}}, {{cursor.at}})", "(k, at)", '["", "1980-01-01"]'),
        ("k, id", "({{cursor.k}}, {{cursor.id}})", "(k, id)", '["", 0]'),
    ):
        job = DatabaseJob(
            tmp_path / key, url,
            f"select k, at, id from t where {by} > {cursor} order by {key} limit 2",
            # A backslash of a property file is doubled.
            ms__session__key__field=json.dumps({"name": key, "initValue": initial}).replace(
                "\\", "\\\\"
            ),
            ms__parameters=json.dumps([{"name": "cursor", "type": "session"}]),
            source__conn__username="admin", source__conn__password=password(server),
        )  # fmt: skip
        report = job.run()
        if "id" in key:
            assert report.failures == ()
            assert sorted(job.table().column("id").to_pylist()) == [1, 2, 3]
        else:
            assert f"have the same {key}: others" in report.failures[0].error


def test_a_row_that_is_committed_late_is_read_once_behind_the_delay(
    postgresql_server: PostgresqlServer, tmp_path: Path
) -> None:
    name = f"t{uuid.uuid4().hex[:12]}"
    url = jdbc(postgresql_server.add_database(name))
    stamp = {"type": "watermark", "watermark": "s", "format": "datetime",
             "pattern": "yyyy-MM-dd HH:mm:ssZZ"}  # fmt: skip
    job = DatabaseJob(
        tmp_path, url, "select id from t where at >= {{low}} and at < {{high}}",
        ms__watermark=json.dumps(
            [{"name": "s", "type": "datetime", "range": {"from": "2025-01-01", "to": "-"}}]
        ),
        ms__parameters=json.dumps([{"name": at, "value": at, **stamp} for at in ("low", "high")]),
        ms__jdbc__cursor__delay="PT10M", extract__table__type="APPEND_ONLY",
        source__conn__username="admin", source__conn__password=POSTGRESQL_PASSWORD,
    )  # fmt: skip

    def run(minute: int) -> None:
        now = NOW + minute * 60_000
        options = RunOptions(
            now_ms=now, clock=lambda: now, executor=executor(), run_id=f"run-{minute}"
        )
        assert run_job(job.job(), options).failures == ()

    read(url, "create table t (id int, at timestamptz)")
    read(url, "insert into t values (1, '2025-01-01 00:01Z'), (3, '2025-01-01 00:05Z')")
    conninfo = url.removeprefix("jdbc:")
    with psycopg.connect(conninfo, user="admin", password=POSTGRESQL_PASSWORD) as late:
        late.execute("insert into t values (2, '2025-01-01 00:03Z')")
        run(12)
        assert [row["id"] for row in job.rows()] == [1]
    for minute in (14, 16, 30):
        run(minute)
    assert sorted(row["id"] for row in job.rows()) == [1, 2, 3]
    postgresql_server.drop_database(name)


def test_a_killed_server_process_is_an_error_and_no_end(
    postgresql_server: PostgresqlServer,
) -> None:
    """A backend that is killed outright takes the server down; this one is the test's own."""
    with PostgresqlServer() as own:
        url = jdbc(f"postgresql://127.0.0.1:{own.port}/postgres")
        sql = f"select big.*, pg_backend_pid() as me from ({BIG['postgresql']}) big"
        settings = JdbcSettings(url, sql, user="admin", password=Secret(POSTGRESQL_PASSWORD))
        with JdbcSession(settings) as session:
            batches = session.read(RequestValues({}, {}))
            os.kill(next(batches).column("me")[0].as_py(), signal.SIGKILL)
            with pytest.raises(TransientSourceError, match="broke"):
                for _ in batches:
                    pass
