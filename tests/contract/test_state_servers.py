"""What is particular to PostgreSQL and MySQL: connections that break, servers that refuse or hang.

The cases run on both servers; a proxy in between cuts the connection where a test wants it.
"""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
from pymysql.connections import MySQLResult

from dil.errors import (
    CommitConflictError,
    CommitUnknownError,
    DilError,
    LeaseHeldError,
    StateError,
)
from dil.model.database_address import DatabaseAddress
from dil.model.job import StateSpec
from dil.model.secret import Secret
from dil.state.blocks.verification import verify_chain
from dil.state.databases import outage
from dil.state.databases.mysql_database import MysqlDriver
from dil.state.databases.server_database import ServerDatabase
from dil.state.databases.server_driver import ServerConnection, ServerDriver
from tests.contract.state_servers import mysql_place, postgresql_place, server_address
from tests.contract.state_stores import (
    Place,
    commit_of,
    outcome,
)
from tests.servers.databases import new_database
from tests.servers.mariadb import MariadbServer
from tests.servers.meddling_proxy import MeddlingProxy
from tests.servers.postgresql import PASSWORD, PostgresqlServer

ADD = "INSERT INTO committed_run (dataset_id, run_id, seq) VALUES (?, ?, ?)"
RUNS = "SELECT run_id FROM committed_run ORDER BY run_id"


@dataclass
class Backend:
    server: PostgresqlServer | MariadbServer
    place: Place

    @property
    def address(self) -> DatabaseAddress:
        assert self.place.spec.server is not None
        return self.place.spec.server

    def database(self, address: DatabaseAddress | None = None, job: str = "orders"):
        if isinstance(self.server, PostgresqlServer):
            from dil.state.databases.postgresql_database import PostgresqlDriver

            return ServerDatabase(PostgresqlDriver(address or self.address), job)
        return ServerDatabase(MysqlDriver(address or self.address), job)

    def at(self, port: int) -> DatabaseAddress:
        return replace(self.address, hosts=(("127.0.0.1", port),))

    def open(self, address: DatabaseAddress):
        return replace(self.place, spec=replace(self.place.spec, server=address)).open()

    def end_connections(self) -> None:
        """End every connection to the store, as an administrator or a firewall does."""
        if isinstance(self.server, PostgresqlServer):
            self.server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'dil'"
            )
            return
        for (number,) in self.server.execute(
            "SELECT id FROM information_schema.processlist"
            f" WHERE user = 'admin' AND db = '{self.address.database}'"
        ):
            self.server.execute(f"KILL {number}")


def add(database: ServerDatabase, *runs: str, between: Callable[[], None] = lambda: None) -> None:
    """Add rows in one transaction; do something after the first one."""
    with database.write() as tx:
        for number, run in enumerate(runs):
            tx.change(ADD, "orders", run, 1)
            if number == 0:
                between()


@pytest.fixture(params=["postgresql", "mysql"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    server = request.getfixturevalue(f"{request.param}_server")
    make = postgresql_place if request.param == "postgresql" else mysql_place
    with make(server, f"t{uuid.uuid4().hex[:12]}") as place:
        yield Backend(server, place)


# Refusals


def refusal(backend: Backend, address: DatabaseAddress) -> DilError:
    """Return the error of writing to the store at an address, after that of reading it.

    Neither holds the password, and reading never speaks of a change.
    """
    started = time.monotonic()
    errors = []
    for act in (lambda store: store.head(), lambda store: store.acquire_lease("r1", lease_s=60)):
        with backend.open(address) as store, pytest.raises(StateError) as caught:
            act(store)
        assert "very-secret" not in str(caught.value)
        assert PASSWORD not in str(caught.value)
        assert caught.value.fix
        errors.append(caught.value)
    assert time.monotonic() - started < 30
    reading, writing = errors
    assert "this change" not in reading.fix
    assert reading.message == writing.message
    return writing


def test_a_wrong_password_names_the_properties(backend: Backend) -> None:
    error = refusal(backend, replace(backend.address, password=Secret("very-secret")))
    assert "state.store.db.password" in error.fix


def test_an_unknown_user_names_the_properties(backend: Backend) -> None:
    error = refusal(backend, replace(backend.address, user="nobody"))
    assert "state.store.db.user" in error.fix


def test_an_unknown_database_says_how_to_make_it(backend: Backend) -> None:
    error = refusal(backend, replace(backend.address, database="absent"))
    assert "CREATE DATABASE" in error.fix


def test_a_server_that_is_not_there_is_told_at_once(backend: Backend) -> None:
    error = refusal(backend, backend.at(1))
    assert "127.0.0.1:1/" in error.message
    assert "cannot be reached" in error.message
    assert "state.store.db.url" in error.fix


def test_a_database_of_another_program_is_refused_and_left_alone(backend: Backend) -> None:
    name = backend.address.schema or backend.address.database
    backend.server.execute(f"CREATE TABLE {name}.run (theirs INTEGER)")
    error = refusal(backend, backend.address)
    assert "table run" in error.message
    assert backend.place.traces() == ["run"]


@pytest.mark.parametrize(("number", "hint"), [(9, "Upgrade"), (0, "another database")])
def test_a_store_of_another_format_is_refused(backend: Backend, number: int, hint: str) -> None:
    with backend.place.open() as store:
        store.acquire_lease("r1", lease_s=60)
    name = backend.address.schema or backend.address.database
    backend.server.execute(f"UPDATE {name}.state_format SET format = {number}")
    with backend.place.open() as store:
        for act in (store.head, store.history, lambda: store.acquire_lease("r2", lease_s=1)):
            with pytest.raises(StateError, match=f"format {number}, this dil") as caught:
                act()
            assert hint in caught.value.fix


def test_a_schema_that_does_not_exist_says_how_to_make_it(
    postgresql_server: PostgresqlServer,
) -> None:
    with postgresql_place(postgresql_server, f"t{uuid.uuid4().hex[:12]}") as place:
        backend = Backend(postgresql_server, place)
        error = refusal(backend, replace(backend.address, schema="absent"))
        assert "CREATE SCHEMA" in error.fix
        assert "no schema absent" in error.message


def test_a_database_that_cannot_keep_every_text_is_refused(
    postgresql_server: PostgresqlServer,
) -> None:
    with postgresql_place(postgresql_server, f"t{uuid.uuid4().hex[:12]}") as place:
        backend = Backend(postgresql_server, place)
        postgresql_server.execute(
            "CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'"
        )
        error = refusal(backend, replace(backend.address, database="ascii"))
        assert "has the encoding SQL_ASCII, not UTF8" in error.message
        assert error.fix == "Create the database with ENCODING 'UTF8'."
        postgresql_server.drop_database("ascii")


def test_a_database_that_is_kept_from_writes_is_read_and_not_written(
    postgresql_server: PostgresqlServer,
) -> None:
    """So are writes kept from a server that was replaced by another one."""
    with new_database(postgresql_server) as url:
        place = Place(StateSpec("postgresql", server=server_address(url)))
        with place.open() as store:
            lease = store.acquire_lease("r1", lease_s=60)
        name = url.rpartition("/")[2]
        postgresql_server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        with place.open() as store:
            assert store.lease_holder() is not None
            with pytest.raises(StateError) as caught:
                store.heartbeat(lease)
        assert "state.store.db.url" in caught.value.fix


def test_a_server_whose_transactions_only_read_is_read_and_not_written(
    mysql_server: MariadbServer,
) -> None:
    with mysql_place(mysql_server, f"t{uuid.uuid4().hex[:12]}") as place:
        with place.open() as store:
            lease = store.acquire_lease("r1", lease_s=60)
        mysql_server.execute("SET GLOBAL TRANSACTION READ ONLY")
        try:
            with place.open() as store:
                assert store.lease_holder() is not None
                with pytest.raises(StateError) as caught:
                    store.heartbeat(lease)
        finally:
            mysql_server.execute("SET GLOBAL TRANSACTION READ WRITE")
        assert "state.store.db.url" in caught.value.fix


def test_tables_that_another_process_is_creating_are_waited_for(
    mysql_server: MariadbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MySQL creates tables one by one, outside of transactions."""
    monkeypatch.setattr("dil.state.databases.server_driver.LOCK_S", 1)
    with mysql_place(mysql_server, f"t{uuid.uuid4().hex[:12]}") as place:
        name = place.spec.server.database
        lock = f"dil.{hashlib.sha256(name.encode()).hexdigest()[:32]}"
        other = MysqlDriver(place.spec.server).connect(may_idle=True)
        assert other.rows("SELECT GET_LOCK(?, 0)", lock) == [(1,)]
        with place.open() as store:
            with pytest.raises(StateError, match="another process is creating") as caught:
                store.acquire_lease("r1", lease_s=60)
            assert "run the job again" in caught.value.fix
            assert place.traces() == []
            other.close()
            assert store.acquire_lease("r1", lease_s=60).token == 1


def test_an_empty_schema_reads_as_an_empty_store(backend: Backend) -> None:
    with backend.place.open() as store:
        assert store.head() is None
        assert list(store.blocks()) == []


@pytest.mark.parametrize("is_long", [False, True])
def test_a_reader_beside_the_first_writer_finds_an_empty_store(
    backend: Backend, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with backend.place.open() as store, backend.place.open() as other:
        kind = type(store._database._connected())
        look = kind.existing

        def look_when_they_are_created(self, names):
            monkeypatch.setattr(kind, "existing", look)
            other.acquire_lease("r1", lease_s=60)
            return look(self, names)

        monkeypatch.setattr(kind, "existing", look_when_they_are_created)
        assert not (list(store.blocks()) if is_long else store.head())


def test_tables_whose_making_was_interrupted_are_completed(mysql_server: MariadbServer) -> None:
    with mysql_place(mysql_server, f"t{uuid.uuid4().hex[:12]}") as place:
        with place.open() as store:
            store.release_lease(store.acquire_lease("r1", lease_s=60))
        name = place.spec.server.database
        for statement in ("DELETE FROM {}.state_format", "DROP TABLE {}.writer",
                          "DROP INDEX mc_block_kind ON {}.mc_block"):  # fmt: skip
            mysql_server.execute(statement.format(name))
        with place.open() as store:
            assert store.head() is None
            store.commit(store.acquire_lease("r2", lease_s=60), commit_of("r1", outcome(0)))
            assert verify_chain(store).problems == ()


# Connections that break


def test_a_connection_that_went_away_between_heartbeats_is_opened_again(backend: Backend) -> None:
    with backend.place.open() as store:
        lease = store.acquire_lease("r1", lease_s=60)
        backend.end_connections()
        store.heartbeat(lease)
        backend.end_connections()
        assert store.head() is None
        backend.end_connections()
        assert store.commit(lease, commit_of("r1", outcome(0))) is not None


@contextmanager
def read_only_until_waited_for(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], None]]:
    """Yield what makes the server accept no writes, until the store waits for it."""
    only, write = (
        ("SET GLOBAL TRANSACTION READ ONLY", "SET GLOBAL TRANSACTION READ WRITE")
        if isinstance(backend.server, MariadbServer)
        else ("ALTER ROLE admin SET default_transaction_read_only = on",
              "BEGIN READ WRITE; ALTER ROLE admin RESET default_transaction_read_only; COMMIT")
    )  # fmt: skip
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: backend.server.execute(write))
    monkeypatch.setattr(outage, "time", clock)
    try:
        yield lambda: backend.server.execute(only)
    finally:
        backend.server.execute(write)


def test_a_server_that_becomes_the_primary_after_a_failover_is_waited_for(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    with backend.place.open() as store:
        lease = store.acquire_lease("r1", lease_s=60)
        with read_only_until_waited_for(backend, monkeypatch) as demote:
            demote()
            backend.end_connections()
            store.heartbeat(lease)
        assert store.commit(lease, commit_of("r1", outcome(0))) is not None


def test_a_connection_that_breaks_inside_a_transaction_leaves_nothing(backend: Backend) -> None:
    database = backend.database()
    with pytest.raises(StateError) as caught:
        add(database, "r1", "r2", between=backend.end_connections)
    assert "run the job again" in caught.value.fix
    with database.write() as tx:
        assert tx.rows(RUNS) == []
        tx.change(ADD, "orders", "r3", 3)
    with database.read() as tx:
        assert tx.rows(RUNS) == [("r3",)]
    database.close()


def test_an_answer_that_a_signal_left_unread_answers_no_later_request(
    mysql_server: MariadbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = MySQLResult.read

    def stopped(_: MySQLResult) -> None:
        monkeypatch.setattr(MySQLResult, "read", read)
        raise KeyboardInterrupt

    with mysql_place(mysql_server, f"t{uuid.uuid4().hex[:12]}") as place:
        database = Backend(mysql_server, place).database()
        add(database, "r1", "r2")

        def write() -> None:
            add(database, "r3", between=lambda: monkeypatch.setattr(MySQLResult, "read", stopped))

        def look() -> None:
            with database.read() as tx:
                monkeypatch.setattr(MySQLResult, "read", stopped)
                tx.rows(RUNS)

        for act in (look, write):
            with pytest.raises(KeyboardInterrupt):
                act()
            with database.read() as tx:
                assert tx.rows(RUNS)[:2] == [("r1",), ("r2",)]
        database.close()


def test_a_run_that_waits_for_the_lease_keeps_its_connection_and_the_mark_of_the_last_commit(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = type(backend.database()._driver)
    opened, connect = [], driver.connect

    def counted(self: ServerDriver, *, may_idle: bool) -> ServerConnection:
        opened.append(may_idle)
        return connect(self, may_idle=may_idle)

    with backend.open(backend.address) as holder, backend.open(backend.address) as waiting:
        holder.acquire_lease("r1", lease_s=60)
        database = backend.database()
        with closing(database), database.read() as tx:
            before = tx.rows("SELECT mark FROM writer")
        monkeypatch.setattr(driver, "connect", counted)
        for _ in range(3):
            with pytest.raises(LeaseHeldError):
                waiting.acquire_lease("r2", lease_s=60, upgrade=True)
        assert opened == [False]
        with closing(database), database.read() as tx:
            assert tx.rows("SELECT mark FROM writer") == before


def test_a_commit_whose_answer_is_lost_is_looked_up_and_counts(backend: Backend) -> None:
    with MeddlingProxy(backend.server.port) as proxy:
        database = backend.database(backend.at(proxy.port))
        add(database, "r1", between=lambda: proxy.cut_answer_after(b"COMMIT"))
        assert proxy.cuts == 1
        with database.read() as tx:
            assert tx.rows(RUNS) == [("r1",)]
        database.close()


def test_a_commit_whose_answer_is_lost_behind_tls_is_looked_up_and_counts() -> None:
    """TLS has words of its own for a connection that broke."""
    with (
        PostgresqlServer() as server,
        postgresql_place(server, "encrypted") as place,
        MeddlingProxy(server.port) as proxy,
    ):
        server.turn_on_tls()
        backend = Backend(server, place)
        encrypted = replace(backend.at(proxy.port), options=(("sslmode", "require"),))
        database = backend.database(encrypted)
        # The next request is the COMMIT, which nobody can read on its way.
        add(database, "r1", between=lambda: proxy.cut_answer_after(b""))
        assert proxy.cuts == 1
        with database.read() as tx:
            assert tx.rows(RUNS) == [("r1",)]
        database.close()


def test_a_commit_that_never_arrived_is_looked_up_and_is_an_error(backend: Backend) -> None:
    with MeddlingProxy(backend.server.port) as proxy:
        database = backend.database(backend.at(proxy.port))
        with pytest.raises(StateError):
            add(database, "r1", between=lambda: proxy.cut_before(b"COMMIT"))
        assert proxy.cuts == 1
        with database.read() as tx:
            assert tx.rows(RUNS) == []
        database.close()


def test_a_commit_is_looked_up_once_a_replica_is_the_primary(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MeddlingProxy(backend.server.port) as proxy:
        database = backend.database(backend.at(proxy.port))
        with read_only_until_waited_for(backend, monkeypatch) as demote:

            def fail_over() -> None:
                demote()
                proxy.cut_answer_after(b"COMMIT")

            add(database, "r1", between=fail_over)
        assert proxy.cuts == 1
        with database.read() as tx:
            assert tx.rows(RUNS) == [("r1",)]
        database.close()


def test_a_commit_that_cannot_be_looked_up_may_have_landed(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dil.state.databases.outage.RESTART_S", 0.5)
    with MeddlingProxy(backend.server.port) as proxy:
        database = backend.database(backend.at(proxy.port))
        with pytest.raises(CommitUnknownError) as caught:
            add(
                database,
                "r1",
                between=lambda: proxy.cut_answer_after(b"COMMIT", for_good=True),
            )
        database.close()
    assert "Delete nothing" in caught.value.fix


def test_a_server_that_hangs_becomes_an_error_and_then_works_again(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dil.state.databases.server_driver.ANSWER_S", 1)
    monkeypatch.setattr("dil.state.databases.server_driver.CONNECT_S", 2)
    monkeypatch.setattr("dil.state.databases.outage.RESTART_S", 0)
    with MeddlingProxy(backend.server.port) as proxy, backend.open(backend.at(proxy.port)) as store:
        lease = store.acquire_lease("r1", lease_s=60)
        proxy.hang()
        with pytest.raises(StateError) as caught:
            store.heartbeat(lease)
        assert caught.value.fix
        proxy.go_on()
        store.heartbeat(lease)


# Locks


def test_a_writer_that_waits_too_long_for_another_one_is_told(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dil.state.databases.server_driver.LOCK_S", 1)
    first, second = backend.database(), backend.database()
    with first.write() as tx:
        tx.change(ADD, "orders", "r1", 1)
        with pytest.raises(StateError, match=r"(?i)lock") as caught, second.write():
            pass
    assert "run the job again" in caught.value.fix
    with second.write() as tx:
        assert tx.rows(RUNS) == [("r1",)]
    first.close()
    second.close()


def test_writers_of_different_jobs_do_not_wait_for_each_other(backend: Backend) -> None:
    one, other = backend.database(job="a"), backend.database(job="b")
    with one.write() as tx:
        tx.change(ADD, "a", "r1", 1)
        with other.write() as second:
            second.change(ADD, "b", "r1", 1)
        tx.change(ADD, "a", "r2", 1)
    with one.read() as tx:
        assert len(tx.rows(RUNS)) == 3
    one.close()
    other.close()


def test_a_key_that_is_there_is_a_conflict_and_the_whole_transaction_is_undone(
    backend: Backend,
) -> None:
    database = backend.database()
    with database.write() as tx:
        tx.change(ADD, "orders", "r1", 1)
    with pytest.raises(CommitConflictError):
        add(database, "r2", "r1")
    with database.read() as tx:
        assert tx.rows(RUNS) == [("r1",)]
    database.close()


def test_a_row_that_is_found_and_not_changed_counts_as_matched(backend: Backend) -> None:
    database = backend.database()
    with database.write() as tx:
        tx.change(ADD, "orders", "r1", 1)
        assert tx.change("UPDATE committed_run SET seq = seq WHERE run_id = ?", "r1") == 1
        assert tx.change("UPDATE committed_run SET seq = 1 WHERE run_id = ?", "r1") == 1
        assert tx.change("UPDATE committed_run SET seq = 1 WHERE run_id = ?", "r9") == 0
    database.close()


def test_a_text_that_is_too_long_for_its_column_is_refused_and_not_cut(backend: Backend) -> None:
    database = backend.database()
    with pytest.raises(StateError), database.write() as tx:
        tx.change(ADD, "orders", "r" * 201, 1)
    database.close()


def test_a_reader_that_waits_in_a_transaction_does_not_hold_up_a_writer(backend: Backend) -> None:
    database = backend.database()
    with database.write() as tx:
        tx.change(ADD, "orders", "r1", 1)
    snapshot = database.snapshot()
    done: list[object] = []

    def write() -> None:
        with database.write() as tx:
            done.append(tx.change(ADD, "orders", "r2", 1))

    writer: Callable = threading.Thread(target=write)
    writer.start()
    writer.join(timeout=20)
    assert done == [1]
    assert snapshot.rows(RUNS) == [("r1",)]
    snapshot.close()
    snapshot.close()
    database.close()


def test_a_spec_without_an_address_says_which_property_is_missing() -> None:
    for kind in ("postgresql", "mysql"):
        with pytest.raises(StateError) as caught:
            Place(StateSpec(kind)).open()
        assert "state.store.db.url" in caught.value.fix
