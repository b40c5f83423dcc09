"""Servers that many tests share: each process of the test run starts its own, once."""

from collections.abc import Iterator

import pytest

from tests.servers.mariadb import MariadbServer
from tests.servers.postgresql import PostgresqlServer


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as server:
        yield server


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[MariadbServer]:
    with MariadbServer() as server:
        yield server
