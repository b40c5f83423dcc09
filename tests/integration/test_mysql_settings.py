"""Settings of MySQL servers, on a real MariaDB server that has settings of the same effect."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pymysql.constants import FIELD_TYPE

from dil.databases import mysql
from dil.errors import WriteError
from dil.model.destination import MergeSpec
from dil.model.job import PublishMode
from dil.publishing.warehouse.mysql import _sort_buffer
from tests.contract.state_servers import mysql_place, server_address
from tests.integration.jdbc_jobs import jdbc, read
from tests.servers.mariadb import MariadbServer
from tests.servers.meddling_proxy import MeddlingProxy
from tests.warehouses import Loads, Warehouse, made, new_warehouse


@pytest.fixture
def demanding_server(mysql_server: MariadbServer) -> Iterator[MariadbServer]:
    """Let the server refuse tables without a primary key."""
    mysql_server.execute(f"SET GLOBAL {mysql_server.demands_keys} = ON")
    yield mysql_server
    mysql_server.execute(f"SET GLOBAL {mysql_server.demands_keys} = OFF")


@pytest.fixture
def warehouse(tmp_path: Path, request) -> Iterator[Warehouse]:
    with new_warehouse("mysql", tmp_path, request) as made_warehouse:
        yield made_warehouse


def numbers(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def test_a_state_store_has_only_tables_with_primary_keys(demanding_server) -> None:
    with mysql_place(demanding_server, "keyed") as place, place.open() as store:
        store.acquire_lease("run-1", lease_s=60)
        assert "state_format" in place.traces()


def test_rows_are_merged_where_every_table_needs_a_primary_key(
    demanding_server, warehouse: Warehouse, tmp_path: Path
) -> None:
    merge = MergeSpec(("id",), deletes_missing=True, max_deleted_percent=100)
    loads = Loads(warehouse, tmp_path, PublishMode.MERGE, merge)
    loads.load("run-1", numbers(1, 2), numbers(3))
    loads.load("run-2", numbers(2, 3), numbers(4))
    assert loads.rows() == [(2,), (3,), (4,)]


def test_rows_without_a_key_need_a_table_with_one(
    demanding_server, warehouse: Warehouse, tmp_path: Path
) -> None:
    loads = Loads(warehouse, tmp_path)
    with pytest.raises(WriteError) as caught:
        loads.load("run-1", numbers(1))
    assert "AUTO_INCREMENT PRIMARY KEY" in caught.value.fix
    made(warehouse, "number BIGINT AUTO_INCREMENT PRIMARY KEY, id BIGINT")
    loads.load("run-1", numbers(7))
    loads.load("run-2", numbers(8))
    assert loads.rows() == [(1, 7), (2, 8)]


def test_tables_are_of_innodb_where_another_engine_is_the_default(
    mysql_server: MariadbServer, warehouse: Warehouse, tmp_path: Path
) -> None:
    mysql_server.execute("SET GLOBAL default_storage_engine = MyISAM")
    try:
        Loads(warehouse, tmp_path).load("run-1", numbers(1))
    finally:
        mysql_server.execute("SET GLOBAL default_storage_engine = InnoDB")
    assert warehouse.rows("SHOW TABLE STATUS WHERE engine <> 'InnoDB'") == []


def test_all_rows_are_read_where_the_server_limits_those_of_a_select(
    mysql_server: MariadbServer,
) -> None:
    mysql_server.execute("SET GLOBAL sql_select_limit = 2")
    try:
        url = jdbc(f"mysql://127.0.0.1:{mysql_server.port}/mysql")
        found = read(url, "select 1 as n union select 2 union select 3")
    finally:
        mysql_server.execute("SET GLOBAL sql_select_limit = 18446744073709551615")
    assert sorted(found.column("n").to_pylist()) == [1, 2, 3]


def test_the_size_of_the_sort_buffer_is_a_whole_number(warehouse: Warehouse) -> None:
    with warehouse.reader() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {_sort_buffer(2)}")
        assert cursor.description[0][1] == FIELD_TYPE.LONGLONG  # MySQL takes no decimal


def test_a_server_that_vanished_is_noticed_after_ninety_seconds(mysql_server) -> None:
    address = server_address(f"mysql://127.0.0.1:{mysql_server.port}/mysql")
    with mysql.connect(address, connect_s=10) as connection:
        names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        options = [connection._sock.getsockopt(socket.IPPROTO_TCP, name) for name in names]
        assert connection._sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert options[0] + options[1] * options[2] == 90


class _VectorProxy(MeddlingProxy):
    """Gives binary columns the type VECTOR, which only MySQL 9 has."""

    def answer(self, data: bytes) -> bytes:
        return re.sub(rb"(\x0c\x3f\0.{4})\xfd", b"\\1\xf2", data, flags=re.DOTALL)


def test_vectors_are_bytes(mysql_server: MariadbServer) -> None:
    with _VectorProxy(mysql_server.port) as proxy:
        url = jdbc(f"mysql://127.0.0.1:{proxy.port}/mysql?sslMode=DISABLED")
        found = read(url, "select x'0000803f' as v")
    assert found.column("v").to_pylist() == [b"\0\0\x80?"]
