"""Suites of other files on a real MySQL, which differs from the MariaDB that they run on there.

Fixtures of this file take the place of those of the same names.
"""

# ruff: noqa: F401, F403 - tests and their fixtures, which stand in their files
from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from dil.model.destination import MergeSpec
from dil.model.job import PublishMode
from tests.contract.state_servers import mysql_place
from tests.contract.state_stores import Place
from tests.contract.test_state_store import *
from tests.integration.jdbc_jobs import jdbc, read
from tests.integration.test_jdbc_types_mariadb import *
from tests.integration.test_mysql_settings import *
from tests.integration.test_mysql_tls import *
from tests.integration.test_mysql_tls import cipher
from tests.integration.test_warehouse_tables import *
from tests.integration.test_warehouse_tables_of_others import (
    mysql,
    test_a_changed_value_is_an_error_where_the_server_keeps_no_warnings,
    test_a_column_that_is_widened_stays_what_else_it_was,
)
from tests.servers.certificates import server_of
from tests.servers.mysql import MysqlServer
from tests.warehouses import Loads, Warehouse, new_warehouse


@pytest.fixture(scope="module")
def mysql_server() -> Iterator[MysqlServer]:
    with MysqlServer() as running:
        yield running


@pytest.fixture(scope="module")
def server(authorities) -> Iterator[MysqlServer]:
    with MysqlServer(identity=server_of(authorities[0])) as running:
        yield running


@pytest.fixture(params=["mysql"])
def place(mysql_server: MysqlServer) -> Iterator[Place]:
    with mysql_place(mysql_server, f"t{uuid.uuid4().hex[:12]}") as made:
        yield made


@pytest.fixture
def warehouse(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Warehouse]:
    with new_warehouse("mysql", tmp_path, request) as made:
        yield made


def test_a_password_is_sent_encrypted_whether_or_not_the_connection_is(server) -> None:
    """The server asks for the whole password where it has forgotten the last login."""
    plugins = "SELECT DISTINCT plugin FROM mysql.user WHERE user = 'admin'"
    assert server.execute(plugins) == [("caching_sha2_password",)]
    for mode in ("required", "disabled"):
        server.execute("FLUSH PRIVILEGES")
        assert bool(cipher(server, ssl_mode=mode)) == (mode == "required")


def test_a_vector_is_bytes(url: str) -> None:
    found = read(jdbc(url), "select string_to_vector('[1, 2]') as v")
    assert found.column("v").to_pylist() == [b"\0\0\x80?\0\0\0@"]


def test_rows_are_loaded_and_merged_where_the_server_adds_primary_keys(
    mysql_server: MysqlServer, warehouse: Warehouse, tmp_path: Path
) -> None:
    mysql_server.execute("SET GLOBAL sql_generate_invisible_primary_key = ON")
    try:
        Loads(warehouse, tmp_path, table="added").load("run-1", pa.table({"id": [1, 1]}))
        loads = Loads(warehouse, tmp_path, PublishMode.MERGE, MergeSpec(("id",)))
        loads.load("run-2", pa.table({"id": [1, 2]}))
        loads.load("run-3", pa.table({"id": [2, 3]}))
    finally:
        mysql_server.execute("SET GLOBAL sql_generate_invisible_primary_key = OFF")
    assert warehouse.rows("SELECT * FROM added") == [(1,), (1,)]
    assert loads.rows() == [(1,), (2,), (3,)]
