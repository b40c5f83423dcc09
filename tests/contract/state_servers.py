"""State stores on database servers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from dil.model.database_address import DatabaseAddress
from dil.model.job import StateSpec
from dil.model.secret import Secret
from dil.text.database_url import read_database_url
from tests.contract.state_stores import Place
from tests.servers.mariadb import MariadbServer
from tests.servers.postgresql import PASSWORD, PostgresqlServer


@contextmanager
def postgresql_place(server: PostgresqlServer, name: str) -> Iterator[Place]:
    """Return a store in a schema of its own."""
    server.execute(f"CREATE SCHEMA {name}")
    url = f"postgresql://127.0.0.1:{server.port}/postgres"
    address = replace(server_address(url), schema=name)

    def traces() -> list[str]:
        found = server.execute(
            f"SELECT relname FROM pg_class WHERE relnamespace='{name}'::regnamespace"
        )
        return [row[0] for row in found]

    yield Place(StateSpec("postgresql", server=address), traces=traces)
    server.execute(f"DROP SCHEMA {name} CASCADE")


@contextmanager
def mysql_place(server: MariadbServer, name: str) -> Iterator[Place]:
    """Return a store in a database of its own."""
    address = server_address(server.add_database(name))

    def traces() -> list[str]:
        return [row[0] for row in server.execute(f"SHOW TABLES IN {name}")]

    yield Place(StateSpec("mysql", server=address), traces=traces)
    server.drop_database(name)


def server_address(url: str) -> DatabaseAddress:
    """Return a test server's address with the administrator's name and password."""
    return replace(read_database_url(url).address, user="admin", password=Secret(PASSWORD))
