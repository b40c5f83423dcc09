"""Poolers in transaction mode: after a transaction, the session is another one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlsplit

import pyarrow as pa
import pytest

from dil.errors import SourceError
from dil.model.destination import MergeSpec
from dil.model.job import PublishMode
from dil.publishing.warehouse.postgresql import PostgresqlDialect
from dil.state.databases.postgresql_database import PostgresqlDriver
from dil.state.databases.server_driver import STATEMENT_S
from dil.testing.in_process import InProcessExecutor
from dil.text.warehouse_url import read_warehouse_url
from tests.contract.state_servers import postgresql_place, server_address
from tests.contract.state_stores import commit_of, outcome, run_record
from tests.integration.jdbc_jobs import jdbc, read
from tests.servers.databases import new_database
from tests.servers.http_server import HttpServer
from tests.servers.meddling_proxy import MeddlingProxy
from tests.servers.postgresql import PASSWORD, PostgresqlServer
from tests.stories import ROWS_PER_DAY, Story, day
from tests.warehouses import Loads, Warehouse, new_warehouse


class _Watch(MeddlingProxy):
    """Counts answers, and the statements that were prepared outside of a transaction."""

    answers = outside = 0

    def answer(self, data: bytes) -> bytes:
        # ReadyForQuery; also after ParseComplete, with the status "idle".
        self.answers += data.count(b"Z\0\0\0\5")
        self.outside += data.count(b"1\0\0\0\4Z\0\0\0\5I")
        return data


@pytest.fixture
def warehouse(tmp_path: Path, request) -> Iterator[Warehouse]:
    with new_warehouse("postgresql", tmp_path, request) as made:
        yield made


def test_the_state_sets_limits_and_schema_for_each_transaction(
    postgresql_server: PostgresqlServer,
) -> None:
    with postgresql_place(postgresql_server, f"t{uuid.uuid4().hex[:12]}") as place:
        address = place.spec.server
        assert address is not None
        with closing(PostgresqlDriver(address).connect(may_idle=False)) as connection:
            for begin in (connection.begin_writing, connection.begin_reading):
                begin()
                assert connection.rows("SHOW search_path") == [(address.schema,)]
                assert connection.rows("SHOW statement_timeout") == [(f"{STATEMENT_S}s",)]
                connection.rollback()
                assert connection.rows("SHOW search_path") == [('"$user", public',)]
                assert connection.rows("SHOW statement_timeout") == [("0",)]


def test_the_state_uses_its_schema_in_transactions_only(
    postgresql_server: PostgresqlServer,
) -> None:
    with postgresql_place(postgresql_server, f"t{uuid.uuid4().hex[:12]}") as place:
        with place.open() as store:
            assert store.head() is None
            lease = store.acquire_lease("r1", lease_s=60)
            store.begin_run(lease, run_record("r1"))
            assert store.commit(lease, commit_of("r1", outcome(0))) is not None
            assert [each.attempts for each in store.unit_states()] == [1]
        assert "mc_block" in place.traces()


def test_no_transaction_of_the_state_is_open_while_work_units_run(
    postgresql_server: PostgresqlServer, tmp_path: Path, source: HttpServer, monkeypatch
) -> None:
    open_ones = []
    execute = InProcessExecutor.execute
    with new_database(postgresql_server) as url:
        name = url.rpartition("/")[2]

        def watched(*given):
            open_ones.extend(
                postgresql_server.execute(
                    "SELECT state, query FROM pg_stat_activity WHERE xact_start IS NOT NULL"
                    f" AND datname = '{name}'"
                )
            )
            return execute(*given)

        monkeypatch.setattr(InProcessExecutor, "execute", watched)
        login = url.replace("://", f"://admin:{quote(PASSWORD, safe='')}@", 1)
        state = {"state__store__type": "postgresql", "state__store__db__url": login}
        story = Story(tmp_path, source, **state)
        assert story.run(day(1)).rows == 2 * ROWS_PER_DAY
        assert story.run(day(2)).rows == 2 * ROWS_PER_DAY
    assert open_ones == []


def test_no_statement_of_a_warehouse_is_prepared_outside_of_a_transaction(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    port = urlsplit(warehouse.url).port or 0
    with _Watch(port) as proxy:
        front = replace(warehouse, url=warehouse.url.replace(str(port), str(proxy.port)))
        loads = Loads(front, tmp_path, PublishMode.MERGE, MergeSpec(("id",)))
        loads.destination.check()
        loads.load("run-1", pa.table({"id": [1]}))
        loads.load("run-2", pa.table({"id": [1, 2]}))
        assert loads.rows() == [(1,), (2,)]
        assert proxy.outside == 0


def test_a_transaction_is_begun_and_set_up_in_two_messages(warehouse: Warehouse) -> None:
    port = urlsplit(warehouse.url).port or 0
    with _Watch(port) as proxy:
        address = read_warehouse_url(warehouse.url.replace(str(port), str(proxy.port)))
        with closing(PostgresqlDialect(address).connect()) as connection:
            before = proxy.answers
            connection.begin()
            assert proxy.answers - before <= 2


def test_a_transaction_of_the_state_is_begun_and_set_up_in_one_message(
    postgresql_server: PostgresqlServer,
) -> None:
    url = f"postgresql://127.0.0.1:{postgresql_server.port}/postgres"
    with _Watch(postgresql_server.port) as proxy:
        hosts = (("127.0.0.1", proxy.port),)
        address = replace(server_address(url), hosts=hosts, schema='"it\'s \\", shop')
        with closing(PostgresqlDriver(address).connect(may_idle=False)) as connection:
            before = proxy.answers
            connection.begin_writing()
            assert proxy.answers - before == 1
            assert connection.rows("SHOW search_path") == [(address.schema,)]


def test_a_failed_statement_leaves_nothing(warehouse: Warehouse, tmp_path: Path) -> None:
    loads = Loads(warehouse, tmp_path)
    loads.load("run-1", pa.table({"id": [1]}))
    dialect = PostgresqlDialect(read_warehouse_url(warehouse.url))
    connection = dialect.connect()
    with pytest.raises(dialect.errors()):
        connection.change("INSERT INTO shop.orders SELECT 1 / (2 - n) FROM generate_series(1, 2) n")
    connection.close()
    assert loads.rows() == [(1,)]


def test_the_schema_of_a_source_is_set_in_the_transaction(
    postgresql_server: PostgresqlServer,
) -> None:
    with new_database(postgresql_server) as url:
        name = url.rpartition("/")[2]
        for schema in ("public", "shop"):
            postgresql_server.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}", name)
            postgresql_server.execute(f"CREATE TABLE {schema}.t AS SELECT '{schema}' AS v", name)
        found = read(jdbc(url) + "?currentSchema=absent,shop", "select v from t")
        assert found.column("v").to_pylist() == ["shop"]


def test_a_schema_of_a_source_that_is_no_list_of_names_is_said(
    postgresql_server: PostgresqlServer,
) -> None:
    with new_database(postgresql_server) as url, pytest.raises(SourceError) as caught:
        read(jdbc(url) + "?currentSchema=a%20b", "select 1 as v")
    assert "search_path" in caught.value.message
    assert "ms.source.uri" in caught.value.fix
