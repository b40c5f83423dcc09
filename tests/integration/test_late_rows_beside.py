"""Late rows beside the dataset, in the same commit: published, verified, given up."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dil.cli.main import main
from dil.errors import ConfigError
from dil.model.report import RunStatus
from dil.observe.report import report_json, report_text
from dil.state import open_store
from tests.event_feed import KILLS, MINUTE, Crash, Feed, beside, kept_watermark, minutes
from tests.integration.local_jobs import NOW
from tests.jobs import visible_files
from tests.marks import some_long
from tests.torture.kills import KillServer, restore, spread, steps


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "job")


SIDE = {"ms.late.action": "side_table"}


def main_rows(feed: Feed) -> list[int]:
    folder = feed.folder / "lake" / "lake" / "feed"
    tables = [pq.read_table(path) for path in visible_files(feed.folder) if folder in path.parents]
    return sorted(number for table in tables for number in table["id"].to_pylist())


@pytest.mark.parametrize("table", ["files", "delta"])
def test_late_rows_are_published_beside_the_dataset_in_the_same_commit(
    feed: Feed, table: str
) -> None:
    feed.properties |= SIDE | {"ms.table.format": table}
    feed.put(-10)
    feed.run()
    assert beside(feed) == []
    feed.put(-12, -1, -13)
    report = feed.run(at=1)
    assert report.status is RunStatus.SUCCESS
    assert main_rows(feed) == [100, 201]
    at = datetime.fromtimestamp((NOW + MINUTE) / 1000, UTC)
    judge = datetime.fromtimestamp((NOW - 11 * MINUTE) / 1000, UTC)
    own = {"site": "a", "_late_at": at, "_watermark": judge, "_timelabel": ""}
    assert beside(feed) == [
        {"id": 200, "at": NOW - 12 * MINUTE, **own},
        {"id": 202, "at": NOW - 13 * MINUTE, **own},
    ]
    assert report.rows == 1
    assert report.events is not None
    assert (report.events.counts.late, report.events.counts.beside) == (2, 2)
    assert "2 beside the dataset" in report_text(report)


def test_a_run_of_late_rows_alone_publishes_them_and_moves_on(
    feed: Feed, capsys: pytest.CaptureFixture[str]
) -> None:
    feed.properties |= SIDE
    feed.put(-10)
    feed.run()
    feed.put(-50)
    assert feed.run(at=1).status is RunStatus.SUCCESS
    assert [row["id"] for row in beside(feed)] == [200]
    assert feed.run(at=2).status is RunStatus.NOTHING_DUE
    job = str(feed.folder / "feed.conf")
    capsys.readouterr()
    assert main(["runs", "list", job, "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)
    assert [(run["rows"], run.get("rows_beside")) for run in runs] == [(0, 1), (1, None)]
    assert main(["runs", "list", job]) == 0
    assert "1 row beside the dataset" in capsys.readouterr().out


def test_late_rows_of_a_failed_run_are_not_published_before_the_others(feed: Feed) -> None:
    feed.properties |= SIDE
    feed.put(-10)
    feed.run()
    feed.put(-50, -1)
    broken = feed.folder / "in" / "zzz.jsonl"
    broken.write_text('{"id": "x"\n')
    assert feed.run(at=1).status is RunStatus.FAILED
    assert (beside(feed), main_rows(feed)) == ([], [100])
    broken.unlink()
    assert feed.run(at=1).units.adopted == 1
    assert [row["id"] for row in beside(feed)] == [200]
    assert main_rows(feed) == [100, 201]


def test_a_dataset_of_the_name_of_the_side_table_is_left_alone(feed: Feed) -> None:
    feed.properties |= SIDE
    (feed.folder / "lake" / "lake" / "feed_late" / "_dil").mkdir(parents=True)
    feed.put(-10)
    with pytest.raises(ConfigError, match="another dataset"):
        feed.run()


@pytest.mark.parametrize("table", some_long(["files", "delta"], "delta"))
def test_a_side_table_and_its_dataset_stay_one_wherever_a_run_is_killed(
    feed: Feed, table: str
) -> None:
    feed.properties |= SIDE | {"ms.table.format": table}
    feed.put(-60, -90)
    with KillServer() as kills:
        feed.job()
        path = feed.folder / "feed.conf"
        assert kills.run(path, NOW)["exit"] == 0
        feed.put(-61, -62, -5)
        feed.put(-70, -30)
        before, work = feed.folder.with_name("before"), feed.folder
        shutil.copytree(work, before)
        whole = kills.run(path, NOW + MINUTE)
        assert whole["exit"] == 0
        expected = beside(feed), main_rows(feed), kept_watermark(feed)
        assert [row["id"] for row in expected[0]] == [201, 300]
        numbers = sorted(set(steps(whole["events"]).values()))
        for at in spread(numbers, KILLS):
            restore(before, work)
            assert kills.run(path, NOW + MINUTE, at)["killed"], at
            rows = {row["id"] for row in beside(feed)}
            assert rows.isdisjoint(main_rows(feed)), whole["events"][at]
            again = kills.run(path, NOW + MINUTE)
            assert again["exit"] == 0, whole["events"][at]
            assert (beside(feed), main_rows(feed), kept_watermark(feed)) == expected, whole[
                "events"
            ][at]


def test_the_block_names_the_files_of_late_rows_and_verify_looks_at_them(
    feed: Feed, capsys: pytest.CaptureFixture[str]
) -> None:
    feed.properties |= SIDE
    feed.put(-10)
    feed.run()
    assert "lateData" not in feed.head()["event"]  # type: ignore[operator]
    feed.put(-12, -13)
    report = feed.run(at=1)
    event = feed.head()["event"]
    [path] = (feed.folder / "lake" / "lake" / "feed_late").iterdir()
    assert event["newData"] is None  # type: ignore[index]
    [part] = event["lateData"]["parts"]  # type: ignore[index]
    assert (part["path"], part["rows"], part["size"]) == (path.as_uri(), 2, path.stat().st_size)
    conf = str(feed.folder / "feed.conf")
    assert main(["state", "verify", conf, "--full"]) == 0
    assert main(["state", "log", conf]) == 0
    assert "beside the dataset 1 file added" in capsys.readouterr().out
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"x")
    assert main(["state", "verify", conf]) == 0
    assert main(["state", "verify", conf, "--full"]) == 1
    path.unlink()
    assert main(["state", "verify", conf]) == 1
    assert f"V20: {path.as_uri()} is gone" in capsys.readouterr().out
    assert report.rows_beside == 2


def test_a_run_of_late_rows_alone_is_not_called_empty(feed: Feed) -> None:
    feed.properties |= SIDE
    feed.put(-10)
    feed.run()
    feed.put(-12, -13)
    report = feed.run(at=1)
    assert (report.rows, report.rows_beside) == (0, 2)
    assert "published   nothing in the dataset, 2 rows beside it" in report_text(report)
    assert not any("NO ROWS" in note for note in report.notes)
    assert report_json(report)["rows_beside"] == 2
    (feed.folder / "in" / "004.jsonl").write_text("")
    empty = feed.run(at=2)
    assert "ZERO ROWS" in report_text(empty)
    assert any("NO ROWS" in note for note in empty.notes)


def test_files_of_late_rows_leave_the_chain_with_the_rows_that_take_their_place(
    feed: Feed,
) -> None:
    feed.properties |= SIDE
    feed.properties |= {"ms.publish.mode": "window_replace", "ms.source.files.once": "path"}
    feed.put(-10)
    feed.run()
    feed.put(-12, -1)
    feed.run(at=1)
    [part] = feed.head()["event"]["lateData"]["parts"]  # type: ignore[index]
    conf = str(feed.folder / "feed.conf")
    assert main(["state", "forget", conf, "--all", "--keep-files", "--yes"]) == 0
    feed.run(at=2)
    late = feed.head()["event"]["lateData"]  # type: ignore[index]
    assert late["removes"] == [part["path"]]
    assert main(["state", "verify", conf]) == 0


def test_gaps_are_open_behind_the_event_watermark(
    feed: Feed, capsys: pytest.CaptureFixture[str]
) -> None:
    from dil.operator.gaps import find_gaps

    feed.put(-10)
    feed.run()
    dated = {
        "ms.source.files.once": "",
        "ms.watermark": '[{"name": "system", "type": "datetime", '
        '"range": {"from": "2024-12-31", "to": "-"}}]',
    }
    job = feed.job(**dated)
    with open_store(job.state, job.name, clock=lambda: NOW) as store:
        units = find_gaps(job, store, now_ms=NOW, low=NOW - 60 * MINUTE, high=NOW).units
    found = [
        (minutes(each.low), minutes(each.high), each.status.value)
        for unit in units
        if unit.in_job
        for each in unit.stretches
    ]
    assert found == [(-60, -11, "never"), (-11, 0, "open")]


@pytest.mark.parametrize(("table", "landed"), [("files", False), ("delta", False), ("delta", True)])
def test_late_rows_of_a_publish_that_is_given_up_are_neither_lost_nor_doubled(
    feed: Feed, monkeypatch: pytest.MonkeyPatch, table: str, *, landed: bool
) -> None:
    from dil.publishing import publisher
    from dil.publishing.publisher import Publisher

    feed.properties |= SIDE | {"ms.table.format": table}
    feed.put(-10)
    feed.run()
    feed.put(-12, -1)

    def crash(*_: object) -> None:
        raise Crash

    if landed:
        monkeypatch.setattr(Publisher, "append_block", crash)
    else:
        place = publisher.place_files

        def place_and_crash(*given: object) -> None:
            place(*given)  # type: ignore[arg-type]
            raise Crash

        monkeypatch.setattr(publisher, "place_files", place_and_crash)
    with pytest.raises(Crash):
        feed.run(at=1)
    monkeypatch.undo()
    conf = str(feed.folder / "feed.conf")
    assert [row["id"] for row in beside(feed)] == [200]
    assert main(["runs", "abandon", conf, "--yes"]) == 0
    assert [row["id"] for row in beside(feed)] == ([200] if landed else [])
    if landed:
        [part] = feed.head()["event"]["lateData"]["parts"]  # type: ignore[index]
        assert part["rows"] == 1
    assert main(["state", "verify", conf]) == 0
    feed.run(at=2)
    assert [row["id"] for row in beside(feed)] == [200]
    assert main_rows(feed) == [100, 201]
