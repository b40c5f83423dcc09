"""Databases that are away, that refuse, or that somebody else holds: what is said, what is kept."""

from __future__ import annotations

import gc
import os
import signal
import sqlite3
import threading
import weakref
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import psycopg
import pyarrow as pa
import pytest

from dil.cli.signals import Interruption, interruptible
from dil.databases.faults import Diagnosis, Fault
from dil.errors import CommitUnknownError, ConfigError, DilError, WriteError
from dil.model.destination import MergeSpec
from dil.model.job import PublishMode
from dil.publishing.warehouse import attempts, mysql, sqlite
from dil.publishing.warehouse.postgresql import PostgresqlDialect
from dil.publishing.warehouse.rows import WarehouseRows
from tests.servers import mariadb, postgresql
from tests.servers.meddling_proxy import MeddlingProxy
from tests.servers.postgresql import PostgresqlServer
from tests.servers.programs import free_port
from tests.warehouses import ENGINES, Loads, Warehouse, new_warehouse

SERVERS = ("postgresql", "mysql")
PASSWORDS = {"postgresql": postgresql.PASSWORD, "mysql": mariadb.PASSWORD}


@pytest.fixture(params=SERVERS)
def loads(request, tmp_path):
    with new_warehouse(request.param, tmp_path, request) as warehouse:
        yield Loads(warehouse, tmp_path)


def numbers(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def refusal(loads: Loads, old: str, new: str) -> DilError:
    """Return what a check says when a part of the URL is another one."""
    changed = replace(loads.warehouse, url=loads.warehouse.url.replace(old, new))
    with pytest.raises(DilError) as caught:
        Loads(changed, loads.folder).destination.check()
    assert quote(PASSWORDS[loads.warehouse.engine], safe="") not in str(caught.value)
    assert PASSWORDS[loads.warehouse.engine] not in str(caught.value)
    return caught.value


def test_a_server_that_is_away_is_named(loads: Loads) -> None:
    port = loads.warehouse.url.rpartition(":")[2].partition("/")[0]
    error = refusal(loads, f":{port}/", f":{free_port()}/")
    assert isinstance(error, WriteError)
    assert "127.0.0.1" in error.message
    assert (
        error.fix == "Check that the server runs and that ms.warehouse.url names its host and port."
    )


def test_a_wrong_password_and_a_missing_database_are_told(loads: Loads) -> None:
    wrong = refusal(loads, quote(PASSWORDS[loads.warehouse.engine], safe=""), "wrong")
    assert "ms.warehouse.user and ms.warehouse.password" in wrong.fix
    database = loads.warehouse.url.rpartition("/")[2]
    missing = refusal(loads, f"/{database}", "/nowhere")
    assert missing.fix.startswith("Create it: CREATE DATABASE")


@contextmanager
def poor_user(loads: Loads, request: pytest.FixtureRequest):
    """Yield loads of a user who may log in and nothing else."""
    engine = loads.warehouse.engine
    server = request.getfixturevalue(f"{engine}_server")
    words = ("WITH PASSWORD", "") if engine == "postgresql" else ("IDENTIFIED BY", "@'%'")
    server.execute(f"CREATE USER poor{words[1]} {words[0]} 'pw'")
    if engine == "mysql":
        database = loads.warehouse.url.rpartition("/")[2]
        server.execute(f"GRANT SELECT ON `{database}`.* TO poor@'%'")
    login = f"admin:{quote(PASSWORDS[engine], safe='')}@"
    poor = replace(loads.warehouse, url=loads.warehouse.url.replace(login, "poor:pw@"))
    try:
        yield Loads(poor, loads.folder)
    finally:
        if engine == "postgresql":
            loads.warehouse.execute("DROP OWNED BY poor")
        server.execute(f"DROP USER poor{words[1]}")


def test_a_right_that_lacks_is_told_before_anything_is_decided(loads: Loads, request) -> None:
    with poor_user(loads, request) as poor:
        is_asked = loads.warehouse.engine == "postgresql"  # MySQL says so when it is tried only
        with pytest.raises(ConfigError if is_asked else WriteError) as caught:
            poor.destination.check() if is_asked else poor.intent("run-1", numbers(1))
        assert "GRANT" in str(caught.value)
        if is_asked:
            loads.load("run-0", numbers(1))
            loads.warehouse.execute("GRANT USAGE, CREATE ON SCHEMA shop TO poor")
            with pytest.raises(ConfigError, match="GRANT INSERT ON"):
                poor.destination.check()


@pytest.mark.parametrize("was_sent", [True, False])
def test_rows_may_be_there_after_a_commit_was_sent_and_else_not(
    tmp_path: Path, request, monkeypatch, *, was_sent: bool
) -> None:
    """Even if later attempts did not come as far as the commit."""

    def away(*_: object) -> None:
        raise sqlite3.OperationalError("gone")

    with new_warehouse("sqlite", tmp_path, request) as warehouse:
        loads = Loads(warehouse, tmp_path)
        intent = loads.intent("r1", numbers(1))
        gone = Diagnosis(Fault.LOST, "gone", "Look.")
        monkeypatch.setattr(sqlite.SqliteDialect, "diagnose", lambda *_: gone)
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            monkeypatch.setattr(sqlite._Connection, "begin", away)

        monkeypatch.setattr(attempts, "sleep", pause)
        monkeypatch.setattr(sqlite._Connection, "commit" if was_sent else "begin", away)
        with pytest.raises(CommitUnknownError if was_sent else WriteError):
            loads.destination.carry_out(intent)
        assert len(pauses) == 2


def test_a_writer_who_holds_the_table_is_waited_for(loads: Loads, monkeypatch) -> None:
    """The lock is given back while the second attempt waits: a lock is waited for a second only."""
    monkeypatch.setattr("dil.publishing.warehouse.postgresql.LOCK_S", 1)
    monkeypatch.setattr(mysql, "LOCK_S", 1)
    loads.mode, loads.merge = PublishMode.MERGE, MergeSpec(("id",))
    loads.load("run-1", pa.table({"id": [1], "text": ["old"]}))
    intent = loads.intent("run-2", pa.table({"id": [1, 2], "text": ["new", "two"]}))
    was_refused = threading.Event()
    monkeypatch.setattr(attempts, "sleep", lambda _seconds: was_refused.set())
    with loads.warehouse.reader() as holder:
        cursor = holder.cursor()
        cursor.execute("BEGIN")
        cursor.execute(f"SELECT id FROM {loads.warehouse.prefix}orders FOR UPDATE")
        cursor.fetchall()
        publish = threading.Thread(target=loads.destination.carry_out, args=(intent,))
        publish.start()
        assert was_refused.wait(30)
        cursor.execute("ROLLBACK")
        publish.join()
    assert loads.rows() == [(1, "new"), (2, "two")]
    assert [run for _, run in loads.runs()] == ["run-1", "run-2"]


def test_without_local_files_mysql_gets_rows_by_insert(tmp_path, request) -> None:
    server = request.getfixturevalue("mysql_server")
    table = pa.table(
        {
            "id": [1, 2],
            "bytes": [b"\0'\\\xff", None],
            "text": ["%s 'é'", None],
            "flag": [True, None],
        }
    )
    server.execute("SET GLOBAL local_infile = 0")
    try:
        with new_warehouse("mysql", tmp_path, request) as warehouse:
            loads = Loads(warehouse, tmp_path)
            loads.load("run-1", table)
            assert loads.rows() == [(1, b"\0'\\\xff", "%s 'é'", 1), (2, None, None, None)]
    finally:
        server.execute("SET GLOBAL local_infile = 1")


def test_a_connection_that_breaks_while_mysql_gets_a_file_is_opened_again(
    tmp_path: Path, request
) -> None:
    """The file is larger than the buffers of sockets, so the client is still sending it."""
    server = request.getfixturevalue("mysql_server")
    with (
        new_warehouse("mysql", tmp_path, request) as warehouse,
        MeddlingProxy(server.port) as proxy,
    ):
        url = warehouse.url.replace(f":{server.port}/", f":{proxy.port}/")
        loads = Loads(replace(warehouse, url=url), tmp_path)
        intent = loads.intent("run-1", pa.table({"text": [letter * 2**20 for letter in "ab" * 8]}))
        proxy.cut_before(b"aaa")
        loads.destination.carry_out(intent)
        assert proxy.cuts == 1
        assert warehouse.rows("SELECT COUNT(*), SUM(LENGTH(text)) FROM orders") == [(16, 2**24)]
        assert [run for _, run in Loads(warehouse, tmp_path).runs()] == ["run-1"]


def test_what_mysql_would_only_warn_of_is_an_error(tmp_path, request) -> None:
    with new_warehouse("mysql", tmp_path, request) as warehouse:
        loads = Loads(warehouse, tmp_path)
        warehouse.execute(
            "CREATE TABLE orders (id BIGINT PRIMARY KEY)", "INSERT INTO orders VALUES (1)"
        )
        with pytest.raises(WriteError, match="does not take rows as they are"):
            loads.load("run-1", numbers(1, 2))
        assert loads.rows() == [(1,)]


def test_a_table_without_transactions_is_refused(tmp_path, request) -> None:
    with new_warehouse("mysql", tmp_path, request) as warehouse:
        warehouse.execute("CREATE TABLE orders (id BIGINT) ENGINE=MyISAM")
        with pytest.raises(ConfigError, match="has the engine MyISAM"):
            Loads(warehouse, tmp_path).destination.check()


class Cut:
    """Ends the server's side of a connection behind its commit, so that no answer comes."""

    def __init__(self, monkeypatch, server: PostgresqlServer, *, is_done: bool) -> None:
        real = PostgresqlDialect.connect
        self.cuts = 0

        def connect(dialect):
            connection = real(dialect)
            commit = connection.commit

            def cut() -> None:
                if self.cuts:
                    commit()
                    return
                self.cuts += 1
                ((pid,),) = connection.rows("SELECT pg_backend_pid()")
                if is_done:
                    commit()
                server.execute(f"SELECT pg_terminate_backend({pid})")
                connection.rows("SELECT 1")

            connection.commit = cut
            return connection

        monkeypatch.setattr(PostgresqlDialect, "connect", connect)


@pytest.mark.parametrize("is_done", [True, False])
def test_the_table_tells_whether_a_commit_without_an_answer_was_done(
    is_done: bool, tmp_path: Path, request, monkeypatch
) -> None:
    server = request.getfixturevalue("postgresql_server")
    with new_warehouse("postgresql", tmp_path, request) as warehouse:
        loads = Loads(warehouse, tmp_path)
        cut = Cut(monkeypatch, server, is_done=is_done)
        loads.load("run-1", numbers(1, 2))
        assert cut.cuts == 1
        assert loads.rows() == [(1,), (2,)]
        assert loads.runs() == [(1, "run-1")]


def test_a_shared_connection_that_the_server_closes_between_calls_is_no_attempt(
    loads: Loads, monkeypatch
) -> None:
    intent, destination = loads.intent("run-1", numbers(1, 2)), loads.destination
    monkeypatch.setattr(attempts, "_MOST_AWAY", 1)
    with destination.connected():
        destination.next_sequence()
        assert end_connections(loads.warehouse)
        destination.require_fit(intent.commit)
        assert end_connections(loads.warehouse)
        destination.carry_out(intent)
    assert loads.rows() == [(1,), (2,)]
    assert loads.runs() == [(1, "run-1")]


def end_connections(warehouse: Warehouse) -> int:
    """Let the server end DIL's connections to a database; return their number."""
    if warehouse.engine == "postgresql":
        ended = warehouse.rows(
            "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'dil'"
        )
        return len(ended)
    others = "FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
    found = warehouse.rows(f"SELECT id {others}")
    warehouse.execute(*(f"KILL {number}" for (number,) in found))
    return len(found)


@pytest.mark.parametrize("is_done", [True, False])
def test_the_table_tells_so_behind_tls(is_done: bool, tmp_path: Path, monkeypatch) -> None:
    """TLS has words of its own for a connection that broke."""
    with PostgresqlServer() as server:
        server.turn_on_tls()
        login = f"admin:{quote(postgresql.PASSWORD, safe='')}@"
        url = server.add_database("encrypted").replace("://", f"://{login}")
        loads = Loads(_warehouse(f"{url}?sslmode=require"), tmp_path)
        cut = Cut(monkeypatch, server, is_done=is_done)
        loads.load("run-1", numbers(1, 2))
        assert cut.cuts == 1
        assert loads.rows() == [(1,), (2,)]
        assert loads.runs() == [(1, "run-1")]


def test_a_server_that_dies_leaves_nothing_or_everything(tmp_path: Path, monkeypatch) -> None:
    """The server is killed inside the transaction, and is back for the next attempt."""
    with PostgresqlServer(durable=True) as server:
        login = f"admin:{quote(postgresql.PASSWORD, safe='')}@"
        url = server.add_database("crashing").replace("://", f"://{login}")
        loads = Loads(_warehouse(url), tmp_path)
        loads.load("run-1", numbers(1))
        intent = loads.intent("run-2", numbers(2))
        monkeypatch.setattr(attempts, "sleep", lambda _seconds: server.start())
        real = PostgresqlDialect.table
        kills = []

        def table(dialect, connection, name):
            if name.name == "orders" and not kills:
                kills.append(name)
                server.kill()
            return real(dialect, connection, name)

        monkeypatch.setattr(PostgresqlDialect, "table", table)
        loads.destination.carry_out(intent)
        assert kills
        assert loads.rows() == [(1,), (2,)]
        assert loads.runs() == [(1, "run-1"), (2, "run-2")]


def _warehouse(url: str):
    from tests.warehouses import Warehouse

    return Warehouse("postgresql", url, "shop")


def test_rows_that_a_constraint_refuses_wait_until_it_is_gone(tmp_path: Path, request) -> None:
    with new_warehouse("postgresql", tmp_path, request) as warehouse:
        loads = Loads(warehouse, tmp_path)
        loads.load("run-1", numbers(1))
        warehouse.execute("ALTER TABLE shop.orders ADD CONSTRAINT small CHECK (id < 10)")
        intent = loads.intent("run-2", numbers(2, 20))
        with pytest.raises(WriteError, match='violates check constraint "small"'):
            loads.destination.carry_out(intent)
        assert loads.rows() == [(1,)]
        with warehouse.reader() as connection:
            assert isinstance(connection, psycopg.Connection)
            connection.execute("ALTER TABLE shop.orders DROP CONSTRAINT small")
        loads.destination.carry_out(intent)
        assert loads.rows() == [(1,), (2,), (20,)]


def test_text_that_the_encoding_lacks_is_an_error_that_says_how_to_give_up(
    tmp_path: Path, postgresql_server: PostgresqlServer, request
) -> None:
    postgresql_server.execute(
        "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
    )
    try:
        with new_warehouse("postgresql", tmp_path, request) as warehouse:
            url = f"{warehouse.url.rpartition('/')[0]}/latin"
            loads = Loads(replace(warehouse, url=url), tmp_path)
            loads.load("run-1", pa.table({"name": ["Köln"]}))
            with pytest.raises(WriteError) as caught:
                loads.load("run-2", pa.table({"name": ["Łódź"]}))
            assert loads.rows() == [("Köln",)]
    finally:
        postgresql_server.execute("DROP DATABASE latin")
    assert "dil runs abandon" in caught.value.fix


def test_a_failure_keeps_nothing_of_its_callers_once_it_is_handled(tmp_path: Path, request) -> None:
    held: list[weakref.ref[set[int]]] = []

    def check(loads: Loads) -> None:
        snapshot: set[int] = set()
        held.append(weakref.ref(snapshot))
        loads.destination.check()

    with new_warehouse("sqlite", tmp_path, request) as warehouse:
        away = Loads(replace(warehouse, url=f"sqlite:///{tmp_path}/none/none.db"), tmp_path)
    gc.disable()
    try:
        with suppress(WriteError):
            check(away)
        assert held[0]() is None
    finally:
        gc.enable()


def test_a_server_that_quotes_all_names_is_refused(tmp_path: Path, request) -> None:
    with new_warehouse("postgresql", tmp_path, request) as warehouse:
        quoting = replace(warehouse, url=f"{warehouse.url}?options=-c%20quote_all_identifiers%3Don")
        with pytest.raises(WriteError) as caught:
            Loads(quoting, tmp_path).destination.check()
    assert "quote_all_identifiers = off" in caught.value.fix


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", [Interruption, PermissionError])
def test_what_stops_the_reading_of_staged_rows_is_raised_as_itself(
    engine: str, kind: type[BaseException], tmp_path: Path, request, monkeypatch
) -> None:
    """A driver that iterates the rows would make an error of its own of it."""
    with new_warehouse(engine, tmp_path, request) as warehouse:
        loads = Loads(warehouse, tmp_path)
        intent = loads.intent("run-1", numbers(1, 2))
        fitted = WarehouseRows._fitted

        def stopped(*given):
            if kind is Interruption:
                os.kill(os.getpid(), signal.SIGTERM)
            else:
                raise PermissionError("staged.parquet")
            return fitted(*given)

        with monkeypatch.context() as stopping:
            stopping.setattr(WarehouseRows, "_fitted", stopped)
            with pytest.raises(kind), interruptible():
                loads.destination.carry_out(intent)
        loads.destination.carry_out(intent)
        assert loads.rows() == [(1,), (2,)]
