"""Poolers in transaction mode: after a transaction, the session is another one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from dil.model.destination import MergeSpec
from dil.model.job import PublishMode
from dil.publishing.warehouse.postgresql import PostgresqlDialect
from dil.text.warehouse_url import read_warehouse_url
from tests.servers.meddling_proxy import MeddlingProxy
from tests.warehouses import Loads, Warehouse, new_warehouse


class _Watch(MeddlingProxy):
    """Counts the statements that were prepared outside of a transaction."""

    outside = 0

    def answer(self, data: bytes) -> bytes:
        # ParseComplete, then ReadyForQuery with the status "idle".
        self.outside += data.count(b"1\0\0\0\4Z\0\0\0\5I")
        return data


@pytest.fixture
def warehouse(tmp_path: Path, request) -> Iterator[Warehouse]:
    with new_warehouse("postgresql", tmp_path, request) as made:
        yield made


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


def test_a_failed_statement_leaves_nothing(warehouse: Warehouse, tmp_path: Path) -> None:
    loads = Loads(warehouse, tmp_path)
    loads.load("run-1", pa.table({"id": [1]}))
    dialect = PostgresqlDialect(read_warehouse_url(warehouse.url))
    connection = dialect.connect()
    with pytest.raises(dialect.errors()):
        connection.change("INSERT INTO shop.orders SELECT 1 / (2 - n) FROM generate_series(1, 2) n")
    connection.close()
    assert loads.rows() == [(1,)]
