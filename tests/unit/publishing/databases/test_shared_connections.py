"""Which work on a database shares a connection, and when it is closed."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from dil.errors import WriteError
from dil.publishing.warehouse.attempts import Attempts
from dil.publishing.warehouse.dialect import Connection
from dil.publishing.warehouse.sqlite import SqliteDialect
from dil.text.warehouse_url import read_warehouse_url


class Watched(SqliteDialect):
    """Keeps the connections that it opened."""

    def __init__(self, folder: Path) -> None:
        super().__init__(read_warehouse_url(f"sqlite:///{folder}/w.db"))
        self.opened: list[Connection] = []

    def connect(self) -> Connection:
        self.opened.append(super().connect())
        return self.opened[-1]

    @property
    def are_closed(self) -> list[bool]:
        return [not answers(connection) for connection in self.opened]


def answers(connection: Connection) -> bool:
    try:
        connection.rows("SELECT 1")
    except sqlite3.ProgrammingError:
        return False
    return True


@pytest.fixture
def dialect(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


@pytest.fixture
def attempts(dialect: Watched) -> Attempts:
    return Attempts(dialect, "the database")


def broken(connection: Connection) -> None:
    connection.begin()
    connection.change("CREATE TABLE t (id)")
    connection.change("no SQL")


def test_work_has_a_connection_of_its_own_that_is_closed(
    attempts: Attempts, dialect: Watched
) -> None:
    assert [attempts.run(answers), attempts.run(answers)] == [True, True]
    assert dialect.are_closed == [True, True]


def test_work_within_a_block_shares_a_connection_that_the_block_closes(
    attempts: Attempts, dialect: Watched
) -> None:
    with attempts.connected():
        attempts.run(answers)
        attempts.run(answers)
        assert dialect.are_closed == [False]
    assert dialect.are_closed == [True]
    attempts.run(answers)
    assert dialect.are_closed == [True, True]


def test_an_error_within_the_block_closes_the_connection(
    attempts: Attempts, dialect: Watched
) -> None:
    def interrupted() -> None:
        with attempts.connected():
            attempts.run(answers)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert dialect.are_closed == [True]


def test_failed_work_is_rolled_back_and_leaves_its_connection_to_nobody(
    attempts: Attempts, dialect: Watched
) -> None:
    with attempts.connected():
        attempts.run(answers)
        with pytest.raises(WriteError):
            attempts.run(broken)
        assert dialect.are_closed == [True]
        assert attempts.run(lambda connection: connection.rows("PRAGMA table_list(t)")) == []
    assert dialect.are_closed == [True, True]


def test_what_lasts_as_long_as_the_connection_ends_with_the_last_work(
    attempts: Attempts, dialect: Watched
) -> None:
    with attempts.connected():
        attempts.run(answers)
        attempts.run(lambda each: each.change("CREATE TEMPORARY TABLE t (id)"), is_last=True)
        attempts.run(lambda each: each.change("CREATE TEMPORARY TABLE t (id)"))
    assert dialect.are_closed == [True, True]
