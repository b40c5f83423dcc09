"""Tables that lost published rows while the state still counts these rows as published."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import StateError
from dil.model.report import RunReport, RunStatus
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, ids_of

MODES = {
    "append": {},
    "window_replace": {"ms__publish__mode": "window_replace"},
    "merge": {"ms__publish__mode": "merge", "extract__primary__key__fields": "unit,id"},
}
SERIES = {"ms__warehouse__table__kind": "timeseries", "ms__timelabel__schedule": "0 0 * * *"}


class Shop:
    """A job whose rows are loaded into a table of an SQLite file."""

    def __init__(self, folder: Path, source: HttpServer, **changes: str) -> None:
        self.file = folder / "shop.db"
        self.story = Story(folder / "job", source, ms__warehouse__url=f"sqlite:///{self.file}")
        self.story.changes |= changes

    def run(self, days: int) -> RunReport:
        return self.story.run(day(days))

    def says_gone(self, days: int) -> bool:
        return any("ROWS ARE GONE" in note for note in self.run(days).notes)

    def execute(self, statement: str) -> list[tuple]:
        with closing(sqlite3.connect(self.file)) as connection:
            rows = connection.execute(statement).fetchall()
            connection.commit()
            return rows

    def rows(self, table: str = "orders") -> Counter[tuple[str, int]]:
        return Counter(self.execute(f"SELECT unit, id FROM {table}"))

    def dil(self, *words: str) -> int:
        self.story.job()
        verb, *options = words
        return main(["state", verb, str(self.story.folder / "orders.conf"), *options])


@pytest.mark.parametrize("mode", MODES)
def test_rows_of_a_table_that_was_dropped_come_back(
    tmp_path: Path, source: HttpServer, mode: str
) -> None:
    shop = Shop(tmp_path, source, **MODES[mode])
    assert not shop.says_gone(1)
    shop.run(2)
    shop.execute("DROP TABLE orders")
    assert shop.says_gone(2)
    assert shop.says_gone(2)
    assert shop.dil("verify") == 1

    assert shop.dil("forget", "--all", "--yes") == 0
    assert shop.dil("relist", "--yes") == 0
    assert not shop.says_gone(3)
    assert not shop.says_gone(4)
    assert shop.rows() == ids_of("a", "b", days=range(4))
    assert shop.dil("verify") == 0


def test_a_table_is_gone_until_a_run_creates_it_again(tmp_path: Path, source: HttpServer) -> None:
    shop = Shop(tmp_path, source)
    shop.run(1)
    shop.execute("DROP TABLE orders")
    assert [shop.says_gone(days) for days in (2, 2, 3)] == [True, False, False]


def test_a_dropped_table_is_no_news_after_relist(tmp_path: Path, source: HttpServer) -> None:
    shop = Shop(tmp_path, source)
    shop.run(1)
    shop.execute("DROP TABLE orders")
    assert shop.dil("relist", "--yes") == 0
    assert not shop.says_gone(1)
    assert shop.dil("verify") == 0


def test_a_table_may_be_emptied(tmp_path: Path, source: HttpServer) -> None:
    shop = Shop(tmp_path, source)
    shop.run(1)
    shop.execute("DELETE FROM orders")
    assert [shop.says_gone(days) for days in (1, 2)] == [False, False]
    assert shop.dil("verify") == 0


def test_rows_that_an_older_copy_of_a_timeseries_lacks_come_back(
    tmp_path: Path, source: HttpServer
) -> None:
    shop = Shop(tmp_path, source, **SERIES)
    shop.run(1)
    copy = shop.file.read_bytes()
    shop.run(2)
    shop.file.write_bytes(copy)
    for days in (2, 3):
        with pytest.raises(StateError):
            shop.run(days)
    assert shop.dil("verify") == 1

    assert shop.dil("forget", "--from", "2020-01-02", "--yes") == 0
    assert shop.dil("relist", "--yes") == 0
    for days in (3, 4):
        assert shop.run(days).status is RunStatus.SUCCESS
    assert shop.rows("orders_view") == ids_of("a", "b", days=range(4))
    assert shop.dil("verify") == 0


def test_labels_past_their_retention_are_no_lost_rows(tmp_path: Path, source: HttpServer) -> None:
    """Their files are in the chain, but were never loaded."""
    shop = Shop(tmp_path, source, **SERIES, ms__timeseries__retention="P2D")
    shop.story.clock = day(5)
    for days in (2, 2, 5, 5):
        assert shop.run(days).status in {RunStatus.SUCCESS, RunStatus.NOTHING_DUE}
    assert set(shop.rows("orders_view")) == set(ids_of("a", "b", days=range(2, 5)))
    assert shop.dil("verify") == 0


def test_a_timeseries_needs_no_base_table(tmp_path: Path, source: HttpServer) -> None:
    shop = Shop(tmp_path, source, **SERIES)
    shop.run(1)
    shop.execute("DROP TABLE orders")
    assert shop.dil("verify") == 0
    assert [shop.says_gone(days) for days in (1, 2)] == [False, False]
    assert shop.rows("orders_view") == ids_of("a", "b", days=range(2))
