"""Tables that lost published rows while the state still counts these rows as published."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import ConfigError, StateError
from dil.model.report import RunReport, RunStatus
from tests.jobs import dataset, manifest_files
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, ids_of
from tests.table_readers import FORMATS, delta_table, files_of, iceberg_table, ids, rows_of
from tests.table_readers import catalog as open_catalog

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


@pytest.mark.parametrize("is_dropped", [False, True])
def test_one_replace_makes_up_for_all_lost_loads(
    tmp_path: Path, source: HttpServer, is_dropped: bool
) -> None:
    shop = Shop(tmp_path, source)
    shop.run(1)
    copy = shop.file.read_bytes()
    shop.run(2)
    shop.file.write_bytes(copy)
    if is_dropped:
        shop.execute("DROP TABLE orders")
    shop.story.run(day(3), shop.story.job(ms__publish__mode="replace"))
    assert shop.dil("verify") == 0
    assert shop.run(4).status is RunStatus.SUCCESS
    assert shop.rows() == ids_of("a", "b", days=range(4))
    assert shop.dil("verify") == 0


@pytest.mark.parametrize("prefix", ["part", "orders-of-shop"])
def test_labels_past_their_retention_are_no_lost_rows(
    tmp_path: Path, source: HttpServer, prefix: str
) -> None:
    """Their files are in the chain, but were never loaded."""
    shop = Shop(
        tmp_path, source, **SERIES, ms__timeseries__retention="P2D", writer__file__name=prefix
    )
    shop.story.clock = day(5)
    for days in (2, 2, 5, 5):
        assert shop.run(days).status in {RunStatus.SUCCESS, RunStatus.NOTHING_DUE}
    assert set(shop.rows("orders_view")) == set(ids_of("a", "b", days=range(2, 5)))
    assert shop.dil("verify") == 0


def test_the_table_of_a_label_that_was_dropped_by_hand_is_given_up_and_read_again(
    tmp_path: Path, source: HttpServer
) -> None:
    shop, label = Shop(tmp_path, source, **SERIES), "20200101000000"
    shop.run(1)
    shop.run(2)
    shop.execute(f"DROP TABLE _orders_{label}")
    assert [each.code for each in shop.run(3).failures] == ["DIL-WRITE"]
    with shop.story.store() as store:
        assert store.pending_intent() is None

    conf = str(shop.story.folder / "orders.conf")
    assert main(["timelabels", "drop", conf, label, "--yes"]) == 0
    assert shop.run(3).status is RunStatus.SUCCESS
    assert shop.rows("orders_view") == ids_of("a", "b", days=range(1, 3))
    assert main(["timelabels", "reopen", conf, label, "--yes"]) == 0
    assert shop.dil("forget", "--from", "2020-01-01", "--to", "2020-01-02", "--yes") == 0
    assert shop.run(4).status is RunStatus.SUCCESS
    assert shop.rows("orders_view") == ids_of("a", "b", days=range(4))
    assert shop.dil("verify") == 0


def test_a_timeseries_needs_no_base_table(tmp_path: Path, source: HttpServer) -> None:
    shop = Shop(tmp_path, source, **SERIES)
    shop.run(1)
    shop.execute("DROP TABLE orders")
    assert shop.dil("verify") == 0
    assert [shop.says_gone(days) for days in (1, 2)] == [False, False]
    assert shop.rows("orders_view") == ids_of("a", "b", days=range(2))


class Table:
    """A job that publishes to a Delta or Iceberg table."""

    def __init__(self, folder: Path, source: HttpServer, kind: str, **changes: str) -> None:
        self.kind = kind
        self.story = Story(folder, source, ms__table__format=kind, **changes)

    def says_gone(self, days: int) -> bool:
        return any("ROWS ARE GONE" in note for note in self.story.run(day(days)).notes)

    def roll_back(self) -> None:
        if self.kind == "delta":
            table = delta_table(self.story.folder)
            table.restore(table.version() - 1)
            return
        iceberg = iceberg_table(self.story.folder)
        newest = iceberg.current_snapshot()
        iceberg.manage_snapshots().rollback_to_snapshot(newest.parent_snapshot_id).commit()

    def put_older_log_back(self, *, after: int) -> None:
        """Publish ``after`` days; then put the log back as it was after the first day.

        The log is the catalog of Iceberg or the folder ``_delta_log``.
        """
        folder, is_delta = self.story.folder, self.kind == "delta"
        log = dataset(folder) / "_delta_log" if is_delta else folder / "state/iceberg-catalog.db"
        duplicate = shutil.copytree if is_delta else shutil.copyfile
        self.says_gone(1)
        duplicate(log, folder / "copy")
        for days in range(2, after + 1):
            self.says_gone(days)
        if is_delta:
            shutil.rmtree(log)
        duplicate(folder / "copy", log)

    def delete_from(self, row: int) -> None:
        if self.kind == "delta":
            delta_table(self.story.folder).delete(f"id >= {row}")
        else:
            iceberg_table(self.story.folder).delete(f"id >= {row}")

    def compact(self) -> None:
        if self.kind == "delta":
            delta_table(self.story.folder).optimize.compact()
        else:
            table = iceberg_table(self.story.folder)
            table.overwrite(table.scan().to_arrow())

    def rows(self) -> Counter[tuple[str, int]]:
        return ids(rows_of(self.kind, self.story.folder))

    def dil(self, verb: str, *options: str) -> int:
        self.story.job()
        return main(["state", verb, str(self.story.folder / "orders.conf"), *options])

    def assert_rows_come_back(self) -> None:
        dates = ("--from", "2020-01-02", "--to", "2020-01-03")
        assert self.dil("forget", *dates, "--yes") == 0
        assert self.dil("relist", "--yes") == 0
        assert not self.says_gone(4)
        assert self.rows() == ids_of("a", "b", days=range(4))
        assert self.dil("verify") == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", FORMATS)
def test_rows_of_a_table_that_was_set_back_come_back(
    tmp_path: Path, source: HttpServer, kind: str, mode: str
) -> None:
    table = Table(tmp_path, source, kind, **MODES[mode])
    assert not table.says_gone(1)
    assert not table.says_gone(2)
    table.roll_back()
    assert table.dil("verify") == 1
    assert table.says_gone(3)
    assert table.dil("verify") == 1
    table.assert_rows_come_back()


def test_rows_that_an_older_copy_of_a_catalog_lacks_come_back(
    tmp_path: Path, source: HttpServer
) -> None:
    table = Table(tmp_path, source, "iceberg")
    table.put_older_log_back(after=2)
    assert table.says_gone(3)
    table.assert_rows_come_back()


@pytest.mark.parametrize("is_older", [False, True])
def test_the_catalog_is_brought_in_line_with_a_folder_that_lost_rows(
    tmp_path: Path, source: HttpServer, is_older: bool
) -> None:
    table, lake = Table(tmp_path, source, "iceberg"), tmp_path / "lake"
    catalog = tmp_path / "state" / "iceberg-catalog.db"
    table.says_gone(1)
    copy = catalog.read_bytes()
    shutil.copytree(lake, tmp_path / "copy")
    table.says_gone(2)
    shutil.rmtree(lake)
    if is_older:
        shutil.copytree(tmp_path / "copy", lake)
    assert table.says_gone(2)
    with pytest.raises(StateError):
        table.story.run(day(3))

    if is_older:
        catalog.write_bytes(copy)
    else:
        with closing(open_catalog(tmp_path)) as opened:
            opened.drop_table("shop.orders")
    lost = ("--from", "2020-01-02") if is_older else ("--all",)
    assert table.dil("forget", *lost, "--yes") == 0
    assert table.dil("relist", "--yes") == 0
    assert not table.says_gone(3)
    assert table.rows() == ids_of("a", "b", days=range(3))
    assert table.dil("verify") == 0


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_is_set_back_until_rows_are_published_to_it(
    tmp_path: Path, source: HttpServer, kind: str
) -> None:
    table = Table(tmp_path, source, kind)
    table.says_gone(1)
    table.says_gone(2)
    table.roll_back()
    assert [table.says_gone(days) for days in (3, 4)] == [True, False]


@pytest.mark.parametrize("kind", FORMATS)
def test_publishes_after_an_older_copy_of_a_tables_log_are_the_newest(
    tmp_path: Path, source: HttpServer, kind: str
) -> None:
    """The manifest counts more publishes than the log."""
    table = Table(tmp_path, source, kind)
    table.put_older_log_back(after=4)
    assert table.dil("verify") == 1

    assert [table.says_gone(days) for days in (5, 6)] == [True, False]

    assert {*files_of(kind, tmp_path)} <= {*manifest_files(tmp_path)}
    assert table.rows() == ids_of("a", "b", days=range(1)) + ids_of("a", "b", days=range(4, 6))


def compacted_table(folder: Path, source: HttpServer, kind: str) -> Table:
    """Return a table of two days that two runs published and ``dil compact`` rewrote."""
    table = Table(folder, source, kind)
    table.says_gone(1)
    table.says_gone(2)
    assert main(["compact", str(folder / "orders.conf")]) == 0
    return table


@pytest.mark.parametrize("kind", FORMATS)
def test_a_compaction_that_was_undone_is_no_loss(
    tmp_path: Path, source: HttpServer, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the rows were read again, they would be doubled. The run before it is a loss."""
    table = compacted_table(tmp_path, source, kind)
    assert table.dil("verify") == 0
    table.roll_back()
    assert table.rows() == ids_of("a", "b", days=range(2))
    assert table.dil("verify") == 0
    if kind == "delta":
        delta_table(tmp_path).restore(1)
    else:
        table.roll_back()
    assert table.dil("verify") == 1
    assert "lacks 8 rows of 2" in capsys.readouterr().out
    assert table.says_gone(3)


@pytest.mark.parametrize("kind", FORMATS)
def test_runs_after_a_compaction_that_was_undone_say_nothing(
    tmp_path: Path, source: HttpServer, kind: str
) -> None:
    table = compacted_table(tmp_path, source, kind)
    table.roll_back()
    assert not table.says_gone(3)
    assert table.rows() == ids_of("a", "b", days=range(3))


@pytest.mark.parametrize("kind", FORMATS)
def test_no_work_unit_is_forgotten_whose_compaction_was_undone(
    tmp_path: Path, source: HttpServer, kind: str
) -> None:
    table = compacted_table(tmp_path, source, kind)
    table.roll_back()
    for options in (["--all"], ["--from", "2020-01-02", "--withdraw-files"]):
        assert table.dil("forget", *options, "--yes") == 1
    table.says_gone(2)
    assert table.rows() == ids_of("a", "b", days=range(2))
    assert table.dil("forget", "--all", "--keep-files", "--yes") == 0


def test_a_restore_to_a_time_of_an_unknown_zone_sets_back_what_it_removed(
    tmp_path: Path, source: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Earlier files left the table because another program compacted them."""
    table = Table(tmp_path, source, "delta")
    table.says_gone(1)
    table.compact()
    compacted = delta_table(tmp_path).version()
    table.says_gone(2)
    table.says_gone(3)
    delta_table(tmp_path).restore(compacted)
    newest = max((dataset(tmp_path) / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in newest.read_text().splitlines()]
    (said,) = (each["commitInfo"] for each in actions if "commitInfo" in each)
    said["operationParameters"] = {"version": None, "timestamp": "2020-01-01 00:00:00.0"}
    newest.write_text("\n".join(map(json.dumps, actions)))

    assert table.dil("verify") == 1
    assert "lacks 16 rows of 4" in capsys.readouterr().out
    assert table.says_gone(4)


def test_a_restore_that_was_undone_is_no_loss(tmp_path: Path, source: HttpServer) -> None:
    table = Table(tmp_path, source, "delta")
    table.says_gone(1)
    table.says_gone(2)
    table.compact()
    whole = delta_table(tmp_path).version()
    delta_table(tmp_path).restore(1)
    delta_table(tmp_path).restore(whole)
    assert table.dil("verify") == 0
    assert not table.says_gone(3)


@pytest.mark.parametrize("kind", FORMATS)
def test_files_that_other_programs_compact_or_empty_are_not_set_back(
    tmp_path: Path, source: HttpServer, kind: str
) -> None:
    table = Table(tmp_path, source, kind)
    table.says_gone(1)
    table.compact()
    assert table.dil("verify") == 0
    assert not table.says_gone(2)
    table.delete_from(0)
    assert not table.says_gone(3)
    table.compact()
    table.delete_from(10)
    table.roll_back()  # only the delete
    assert not table.says_gone(4)


@pytest.mark.parametrize(("minutes", "is_gone"), [(30, False), (-30, True)])
def test_a_restore_to_a_time_sets_back_only_later_commits(
    tmp_path: Path, source: HttpServer, minutes: int, is_gone: bool
) -> None:
    table = Table(tmp_path, source, "delta")
    log = dataset(tmp_path) / "_delta_log"
    table.says_gone(1)
    for commit in log.glob("*.json"):
        os.utime(commit, ns=(0, commit.stat().st_mtime_ns - 3_600_000_000_000))
    table.says_gone(2)
    (last,) = delta_table(tmp_path).history(1)
    table.compact()
    newest = max(log.glob("*.json"))
    os.utime(newest, ns=(0, newest.stat().st_mtime_ns + 3_600_000_000_000))
    at = datetime.fromtimestamp(last["timestamp"] / 1000, UTC) + timedelta(minutes=minutes)
    delta_table(tmp_path).restore(at)
    table.compact()

    assert table.says_gone(3) == is_gone


def test_a_restore_of_a_copied_table_goes_by_the_times_of_the_copy(
    tmp_path: Path, source: HttpServer
) -> None:
    table = Table(tmp_path, source, "delta")
    table.says_gone(1)
    table.says_gone(2)
    (last,) = delta_table(tmp_path).history(1)
    for commit in (dataset(tmp_path) / "_delta_log").glob("*.json"):
        os.utime(commit, ns=(0, commit.stat().st_mtime_ns + 3_600_000_000_000))
    at = datetime.fromtimestamp(last["timestamp"] / 1000, UTC) + timedelta(minutes=30)
    delta_table(tmp_path).restore(at)

    assert table.says_gone(3)


def test_a_snapshot_that_a_tag_keeps_is_not_set_back(tmp_path: Path, source: HttpServer) -> None:
    """Its descendants expired, so it is no known ancestor of the newest snapshot."""
    table = Table(tmp_path, source, "iceberg")
    table.says_gone(1)
    iceberg = iceberg_table(table.story.folder)
    kept = iceberg.current_snapshot().snapshot_id
    iceberg.manage_snapshots().create_tag(kept, "audit").commit()
    table.says_gone(2)
    table.compact()
    iceberg = iceberg_table(table.story.folder)
    kept = {kept, iceberg.current_snapshot().snapshot_id}
    expired = {each.snapshot_id for each in iceberg.snapshots()} - kept
    iceberg.maintenance.expire_snapshots().by_ids([*expired]).commit()
    assert not table.says_gone(3)


def test_a_table_without_its_log_or_catalog_is_refused(tmp_path: Path, source: HttpServer) -> None:
    """Its files are there, and a new table would begin without their rows."""
    delta = Table(tmp_path / "delta", source, "delta")
    delta.says_gone(1)
    shutil.rmtree(dataset(delta.story.folder) / "_delta_log")
    dropped = Table(tmp_path / "dropped", source, "iceberg")
    dropped.says_gone(1)
    iceberg_table(dropped.story.folder).catalog.drop_table("shop.orders")
    for table in (delta, dropped):
        assert table.dil("verify") == 1
        with pytest.raises(ConfigError):
            table.story.run(day(2))


def test_a_table_whose_catalog_cannot_be_read_is_not_sound(
    tmp_path: Path, source: HttpServer
) -> None:
    table = Table(tmp_path, source, "iceberg")
    table.says_gone(1)
    (tmp_path / "state" / "iceberg-catalog.db").write_bytes(b"no database" * 1000)
    assert table.dil("verify") == 1
