"""Settings of MySQL servers, on a real MariaDB server that has settings of the same effect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pymysql.constants import FIELD_TYPE

from dil.publishing.warehouse.mysql import _sort_buffer
from tests.servers.mariadb import MariadbServer
from tests.warehouses import Loads, Warehouse, new_warehouse


@pytest.fixture
def warehouse(tmp_path: Path, request) -> Iterator[Warehouse]:
    with new_warehouse("mysql", tmp_path, request) as made_warehouse:
        yield made_warehouse


def numbers(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def test_tables_are_of_innodb_where_another_engine_is_the_default(
    mysql_server: MariadbServer, warehouse: Warehouse, tmp_path: Path
) -> None:
    mysql_server.execute("SET GLOBAL default_storage_engine = MyISAM")
    try:
        Loads(warehouse, tmp_path).load("run-1", numbers(1))
    finally:
        mysql_server.execute("SET GLOBAL default_storage_engine = InnoDB")
    assert warehouse.rows("SHOW TABLE STATUS WHERE engine <> 'InnoDB'") == []


def test_the_size_of_the_sort_buffer_is_a_whole_number(warehouse: Warehouse) -> None:
    with warehouse.reader() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {_sort_buffer(2)}")
        assert cursor.description[0][1] == FIELD_TYPE.LONGLONG  # MySQL takes no decimal
