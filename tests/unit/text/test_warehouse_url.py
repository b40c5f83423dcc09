"""URLs of the databases that rows are loaded into."""

from __future__ import annotations

import pytest

from dil.model.database_address import DatabaseUrlError
from dil.text.warehouse_url import Engine, read_warehouse_url


@pytest.mark.parametrize(
    ("text", "engine", "shown"),
    [
        ("postgresql+psycopg://u:p%40@db:5433/w?sslmode=require", "postgresql", "//db:5433/w"),
        ("postgres://db/w", "postgresql", "//db:5432/w"),
        ("mysql+pymysql://u:p@db/w?charset=utf8mb4", "mysql", "//db:3306/w"),
        ("mariadb://db/w", "mysql", "//db:3306/w"),
        ("jdbc:postgresql://db/w", "postgresql", "//db:5432/w"),
        ("duckdb:///folder/a file.duckdb", "duckdb", "///folder/a%20file.duckdb"),
        ("sqlite:////tmp/w.db", "sqlite", "////tmp/w.db"),
    ],
)
def test_a_url_is_shown_without_its_login(text: str, engine: str, shown: str) -> None:
    found = read_warehouse_url(text)
    assert found.engine == engine
    assert str(found) == f"{engine}:{shown}"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u%3A:p%40%2F%25@[::1]:5433/w%20x?sslmode=require&application_name=a+b",
        "mysql://u:p@db/w?ssl-mode=required",
        "mysql:///w?unix-socket=/run/mysqld.sock",
        "duckdb:////tmp/a%20%25.duckdb",
        "sqlite:///w.db",
    ],
)
def test_the_url_of_an_address_is_the_same_address(text: str) -> None:
    found = read_warehouse_url(text)
    again = read_warehouse_url(found.url())
    assert again == found
    assert again.server is None or again.server.options == found.server.options


def test_a_password_is_kept_and_not_shown() -> None:
    found = read_warehouse_url("postgresql://u:s3cret@db/w")
    assert found.server is not None
    assert found.server.password is not None
    assert found.server.password.reveal() == "s3cret"
    assert "s3cret" not in f"{found} {found!r}"
    assert found.url() == "postgresql://u:s3cret@db:5432/w"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("s3cret", "is no URL of a database"),
        ("oracle://u:s3cret@db/w", "which is no known database"),
        ("postgresql://u:s3cret@db", "names no database"),
        ("sqlite://", "in memory"),
        ("duckdb:///:memory:", "in memory"),
        ("sqlite://s3cret/w.db", "names a host"),
        ("sqlite:///w.db?mode=ro", "has options"),
        ("mysql://u:s3cret@db/w?nonsense=1", "unknown option nonsense"),
    ],
)
def test_what_is_no_database_is_told_without_the_url(text: str, what: str) -> None:
    with pytest.raises(DatabaseUrlError) as caught:
        read_warehouse_url(text)
    assert what in caught.value.what
    assert "s3cret" not in f"{caught.value.what} {caught.value.fix}"


def test_where_there_are_schemas_one_is_the_default() -> None:
    assert {engine: engine.default_schema for engine in Engine if engine.has_schemas} == {
        Engine.POSTGRESQL: "public",
        Engine.DUCKDB: "main",
    }
