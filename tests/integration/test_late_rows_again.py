"""Rows beside the dataset that are read again are in one place, whatever the job says by then."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dil.cli.main import main
from dil.model.dataset import Intent
from dil.model.work_unit import unit_hash
from dil.publishing.destination import place_files
from dil.publishing.publisher import Publisher
from dil.state import open_store
from tests.closing_days import ClosingDays, label
from tests.event_feed import MINUTE, Feed, beside
from tests.integration.local_jobs import NOW
from tests.jobs import visible_files
from tests.marks import all_long_but, some_long
from tests.servers.day_rows import DayRows
from tests.table_readers import delta_table
from tests.torture.kills import KillServer, restore, spread, steps
from tests.warehouses import Warehouse, kept_copy, new_warehouse

# The short form kills at this many steps of each place; the long form (make torture) at all.
KILLS = int(os.environ.get("DIL_KILLS", "6"))
ROOMS = ("publishing/", "state/", "run/commit", "run/publish", "run/recover")

SIDE = {"ms.late.action": "side_table", "ms.source.files.once": "path"}
BESIDE = {"ms__late__after__close": "side_table"}
REPLACING = {"ms.publish.mode": "replace", "ms.source.files.once": "", "ms.late.action": ""}
PLACES = some_long(["files", "delta", "postgresql", "duckdb", "sqlite"], "duckdb")
MODES = {
    "append": {"ms__publish__mode": "append"},
    "merge": {
        "ms__publish__mode": "merge",
        "extract__primary__key__fields": "id",
        "ms__output__schema": '[{"columnName": "id", "isNullable": "false", "dataType":'
        ' {"type": "long"}}, {"columnName": "unit", "dataType": {"type": "string"}}]',
    },
}


@pytest.fixture
def source() -> Iterator[DayRows]:
    with DayRows() as running:
        yield running


class Place:
    """Where a feed's rows are: files, a table of files, or a table of a database."""

    def __init__(self, feed: Feed, kind: str, warehouse: Warehouse | None) -> None:
        self.feed, self.kind, self.warehouse = feed, kind, warehouse

    @property
    def namespace(self) -> str:
        return self.feed.properties["extract.namespace"]

    @property
    def conf(self) -> str:
        return str(self.feed.folder / "feed.conf")

    def rows(self) -> list[int]:
        """Return the ids of the dataset's rows."""
        if self.warehouse is not None:
            return self._loaded("feed")
        if self.kind == "delta":
            return sorted(
                delta_table(self.feed.folder, "lake.feed").to_pyarrow_table()["id"].to_pylist()
            )
        folder = self.feed.folder / "lake" / "lake" / "feed"
        files = [path for path in visible_files(self.feed.folder) if folder in path.parents]
        return sorted(id_ for path in files for id_ in pq.read_table(path)["id"].to_pylist())

    def late(self) -> list[int]:
        """Return the ids of the rows beside it; those of a table are those of its files."""
        found = [int(str(row["id"])) for row in beside(self.feed, self.namespace)]
        if self.warehouse is not None:
            assert self._loaded("feed_late") == found
        return found

    def forget(self) -> None:
        """Make all work units as if they had never been read."""
        words = ["--all", "--keep-files", "--yes"]
        assert main(["state", "forget", self.conf, *words]) == 0

    def units(self) -> list[str]:
        """Return the work units that were read."""
        job = self.feed.job()
        with open_store(job.state, job.name, clock=lambda: NOW) as store:
            return [each.signature for each in store.unit_entries()]

    def _loaded(self, table: str) -> list[int]:
        assert self.warehouse is not None
        rows = self.warehouse.rows(f"SELECT id FROM {self.warehouse.prefix}{table} ORDER BY id")
        return [row[0] for row in rows]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    kind = request.param
    if kind in {"files", "delta"}:
        yield Place(Feed(tmp_path / "feed", **SIDE, **{"ms.table.format": kind}), kind, None)
        return
    (tmp_path / "feed").mkdir()
    with new_warehouse(kind, tmp_path / "feed", request) as made:
        given = {"ms.warehouse.url": made.url, "extract.namespace": "shop"}
        yield Place(Feed(tmp_path / "feed", **SIDE, **given), kind, made)


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_late_rows_that_are_read_again_leave_the_side_table_of_a_job_that_flags_them_now(
    place: Place,
) -> None:
    place.feed.properties["ms.publish.mode"] = "window_replace"
    late_rows_of_two_runs(place)
    place.forget()
    place.feed.run(at=2, **{"ms.late.action": "flag"})
    assert (place.rows(), place.late()) == ([100, 200, 201], [])
    assert main(["state", "verify", place.conf]) == 0


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_late_rows_leave_the_side_table_of_a_job_that_replaces_everything_now(
    place: Place,
) -> None:
    late_rows_of_two_runs(place)
    place.feed.run(at=2, **REPLACING)
    assert (place.rows(), place.late()) == ([100, 200, 201], [])
    assert main(["state", "verify", place.conf]) == 0


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_late_rows_of_a_job_that_appended_go_when_it_replaces_their_work_unit(
    place: Place,
) -> None:
    place.feed.put(-10)
    place.feed.run()
    place.feed.put(-12, -13)
    place.feed.run(at=1)
    assert (place.rows(), place.late()) == ([100], [200, 201])
    [unit] = [each for each in place.units() if "002.jsonl" in each]
    words = ["--signature", unit, "--keep-files", "--yes"]
    assert main(["state", "forget", place.conf, *words]) == 0
    place.feed.run(at=2, **{"ms.publish.mode": "window_replace", "ms.late.action": "flag"})
    assert (place.rows(), place.late()) == ([100, 200, 201], [])


@pytest.mark.parametrize(
    "place", some_long(["postgresql", "duckdb", "sqlite"], "duckdb"), indirect=True
)
@pytest.mark.parametrize("is_empty", [False, True])
def test_late_rows_whose_files_somebody_deleted_leave_their_table_with_their_work_unit(
    place: Place, *, is_empty: bool
) -> None:
    place.feed.properties["ms.publish.mode"] = "window_replace"
    place.feed.put(-10)
    place.feed.run()
    place.feed.put(-12, -13)
    place.feed.run(at=1)
    assert (place.rows(), place.late()) == ([100], [200, 201])
    shutil.rmtree(place.feed.folder / "lake" / "shop" / "feed_late")
    if is_empty:
        (place.feed.folder / "in" / "002.jsonl").write_text("")
    place.forget()
    place.feed.run(at=2)
    assert (place.rows(), place.late()) == ([100], [] if is_empty else [200, 201])
    assert main(["state", "verify", place.conf]) == 0


class Crash(BaseException):
    """The driver is gone."""


def crash(*_: object) -> None:
    raise Crash


@pytest.mark.parametrize("place", ["files", "delta", "postgresql", "sqlite"], indirect=True)
@pytest.mark.parametrize("cut", ["append_block", "carry_out"])
def test_late_rows_go_also_where_the_publish_that_replaced_them_landed_and_was_given_up(
    place: Place, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    place.feed.properties["ms.publish.mode"] = "window_replace"
    late_rows_of_two_runs(place)
    place.forget()
    place.feed.properties["ms.late.action"] = "flag"
    with monkeypatch.context() as patch:
        if cut == "carry_out":

            def carry_out_and_crash(self: Publisher, intent: Intent) -> None:
                place_files(intent.commit.quarantine, self.job.publishing, self.filesystem)
                self.destination.carry_out(intent)
                raise Crash

            patch.setattr(Publisher, "carry_out", carry_out_and_crash)
        else:
            patch.setattr(Publisher, "append_block", crash)
        with pytest.raises(Crash):
            place.feed.run(at=2)
    assert main(["runs", "abandon", place.conf, "--yes"]) == 0
    assert (place.rows(), place.late()) == ([100, 200, 201], [])
    assert main(["state", "verify", place.conf]) == 0
    place.feed.run(at=3)
    assert (place.rows(), place.late()) == ([100, 200, 201], [])


def test_a_publish_beside_a_closed_label_that_is_given_up_leaves_a_chain_that_is_sound(
    source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had taken the earlier rows beside it away, and nothing says that it landed."""
    days = ClosingDays(tmp_path / "job", source, **BESIDE)
    days.fill(0, 1)
    days.run(2)
    for rows in (4, 5):
        forget(days)
        days.fill(0, rows=rows)
        if rows == 4:
            days.run(2)
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "append_block", crash)
        with pytest.raises(Crash):
            days.run(2)
    assert main(["runs", "abandon", str(days.path), "--yes"]) == 0
    assert main(["state", "verify", str(days.path)]) == 0
    days.run(2)
    assert late_of(days, None) == list(range(5))
    assert main(["state", "verify", str(days.path)]) == 0


@pytest.mark.parametrize("place", ["files"], indirect=True)
def test_late_rows_go_with_what_is_published_without_lost_files(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.feed.properties["ms.publish.mode"] = "window_replace"
    late_rows_of_two_runs(place)
    place.forget()
    place.feed.properties["ms.late.action"] = "flag"
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "carry_out", crash)
        with pytest.raises(Crash):
            place.feed.run(at=2)
    [first] = [each for each in place.units() if "001.jsonl" in each]
    staging = place.feed.folder / "lake" / "_staging" / "feed"
    [lost] = staging.rglob(f"{unit_hash(first)}/**/*.parquet")
    lost.unlink()
    assert main(["runs", "finish", place.conf, "--without-lost", "--yes"]) == 0
    assert (place.rows(), place.late()) == ([100, 200, 201], [])
    assert main(["state", "verify", place.conf]) == 0


def test_another_dataset_of_the_name_is_left_alone_by_a_job_without_late_rows(
    tmp_path: Path,
) -> None:
    feed = Feed(tmp_path / "feed", **{"ms.publish.mode": "replace", "ms.source.files.once": ""})
    other = feed.folder / "lake" / "lake" / "feed_late"
    files = [other / "_dil" / "manifest-0.json", other / f"part-run-{'0' * 16}-0.parquet"]
    foreign = feed.folder / "lake" / "lake" / "feed_late" / "notes.txt"
    for file in (*files, foreign):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    feed.put(-10)
    feed.run()
    assert all(file.exists() for file in (*files, foreign))


def late_rows_of_two_runs(place: Place) -> None:
    place.feed.put(-10)
    place.feed.run()
    place.feed.put(-12, -1)
    place.feed.run(at=1)
    assert (place.rows(), place.late()) == ([100, 201], [200])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["files", "delta", "postgresql", "sqlite"])
def test_rows_beside_a_closed_label_are_there_once_and_go_when_it_is_reopened(
    source, tmp_path: Path, request: pytest.FixtureRequest, mode: str, kind: str
) -> None:
    (tmp_path / "job").mkdir()
    with contextlib.ExitStack() as stack:
        warehouse, given = None, {"ms__table__format": kind}
        if kind not in {"files", "delta"}:
            warehouse = stack.enter_context(new_warehouse(kind, tmp_path / "job", request))
            given = {"ms__warehouse__url": warehouse.url}
        days = ClosingDays(tmp_path / "job", source, **BESIDE, **MODES[mode], **given)
        days.fill(0, 1)
        days.run(2)
        for rows in (4, 5):
            forget(days)
            days.fill(0, rows=rows)
            days.run(2)
            assert late_of(days, warehouse) == list(range(rows))
        assert main(["timelabels", "reopen", str(days.path), label(0), "--yes"]) == 0
        forget(days)
        days.run(2)
        assert late_of(days, warehouse) == []
        assert days.closed(3) == [0, 1]
        assert days.problems() == ()


def forget(days: ClosingDays) -> None:
    words = ["--from", "2020-01-01", "--to", "2020-01-01T12:00:00Z", "--keep-files", "--yes"]
    assert main(["state", "forget", str(days.path), *words]) == 0


def late_of(days: ClosingDays, warehouse: Warehouse | None) -> list[int]:
    """Return the ids of the rows beside the dataset; those of a table are those of its files."""
    found = [int(str(row["id"])) for row in days.beside()]
    if warehouse is not None:
        loaded = warehouse.rows(f"SELECT id FROM {warehouse.prefix}orders_late ORDER BY id")
        assert [row[0] for row in loaded] == found
    return found


@pytest.mark.parametrize(
    "place", all_long_but(["files", "delta", "sqlite", "postgresql"], "files"), indirect=True
)
def test_late_rows_are_in_one_place_wherever_the_run_that_reads_them_again_is_killed(
    place: Place, request: pytest.FixtureRequest
) -> None:
    """Their file was deleted, so that those of a table go by what the table says."""
    feed, now = place.feed, NOW + 2 * MINUTE
    feed.properties["ms.publish.mode"] = "window_replace"
    late_rows_of_two_runs(place)
    place.forget()
    if place.warehouse is not None:
        shutil.rmtree(feed.folder / "lake" / "shop" / "feed_late")
    feed.job(**{"ms.late.action": "flag"})
    base, conf = feed.folder.with_name("before"), feed.folder / "feed.conf"
    shutil.copytree(feed.folder, base)
    put_back = kept_copy(place.warehouse, request) if place.warehouse else lambda: None
    with KillServer() as kills:
        whole = kills.run(conf, now)
        assert whole["exit"] == 0
        assert (place.rows(), place.late()) == ([100, 200, 201], [])
        numbers = steps(whole["events"])
        chosen = sorted({at for step, at in numbers.items() if any(room in step for room in ROOMS)})
        for at in spread(chosen, KILLS):
            restore(base, feed.folder)
            put_back()
            step = f"killed at {at}: {whole['events'][at]}"
            assert kills.run(conf, now, at)["killed"], step
            assert kills.run(conf, now)["exit"] == 0, step
            assert (place.rows(), place.late()) == ([100, 200, 201], []), step
            assert main(["state", "verify", str(conf)]) == 0, step
