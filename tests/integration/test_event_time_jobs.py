"""Event time in jobs: late rows by the watermark of the run before, moved in the commit."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dil import config
from dil.api import event_watermark
from dil.cli.main import main
from dil.errors import ConfigError
from dil.execution.executor import Execution, Watch
from dil.model.event_tally import EVENT_TIME
from dil.model.report import RunReport, RunStatus
from dil.model.task import RunContext
from dil.model.work_unit import WorkUnit
from dil.observe.report import report_json, report_text
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.state import open_store
from dil.state.blocks.canonical import watermark_text
from tests.integration.local_jobs import NOW
from tests.jobs import visible_files
from tests.stories import executor
from tests.torture.kills import KillServer, restore, steps

MINUTE = 60_000
# The short form kills at some steps, the long form (make torture) at all.
KILLS = int(os.environ.get("DIL_KILLS", "14"))
EVENTS = {
    "ms.event.column": "at",
    "ms.event.watermark": "bounded",
    "ms.event.delay": "PT1M",
    "ms.late.action": "flag",
}
SCHEMA = json.dumps(
    [
        {"columnName": "id", "isNullable": False, "dataType": {"type": "long"}},
        {"columnName": "at", "isNullable": True, "dataType": {"type": "long"}},
        {"columnName": "site", "isNullable": True, "dataType": {"type": "string"}},
    ]
)


class Feed:
    """A folder of which each file is read once, and the job that reads it."""

    def __init__(self, folder: Path, **changes: str) -> None:
        self.folder = folder
        (folder / "in").mkdir(parents=True)
        self.properties = {
            "job.name": "feed",
            "source.class": "hdfs",
            "ms.source.uri": str(folder / "in"),
            "ms.source.files.once": "version",
            "ms.extractor.class": "json",
            "ms.output.schema": SCHEMA,
            "extract.namespace": "lake",
            "extract.table.name": "feed",
            "extract.table.type": "APPEND_ONLY",
            "ms.timezone": "UTC",
            "writer.output.format": "PARQUET",
            "writer.file.path.type": "namespace_table",
            "data.publisher.final.dir": str(folder / "lake"),
            "state.store.dir": str(folder / "state"),
            "task.maxretries": "0",
            **EVENTS,
            **changes,
        }
        self.runs = self.files = 0

    def put(self, *times: int | None, site: str = "a", start: int = 0) -> None:
        """Put a file of rows, of event times in minutes around now."""
        self.files += 1
        lines = [
            json.dumps(
                {
                    "id": self.files * 100 + n,
                    "at": None if at is None else NOW + at * MINUTE,
                    "site": site,
                }
            )
            for n, at in enumerate(times, start)
        ]
        (self.folder / "in" / f"{self.files:03}.jsonl").write_text("\n".join(lines) + "\n")

    def job(self, **changes: str):
        path = self.folder / "feed.conf"
        given = {**self.properties, **changes}
        path.write_text("".join(f"{name}={value}\n" for name, value in given.items() if value))
        return config.load(path, environ={}).job

    def run(self, *, at: int = 0, **changes: str) -> RunReport:
        """Run the job, in minutes after now."""
        self.runs += 1
        now = NOW + at * MINUTE
        options = RunOptions(
            now_ms=now, clock=lambda: now, executor=executor(), run_id=f"run-{self.runs}"
        )
        return run_job(self.job(**changes), options)

    def checkpoint(self) -> dict[str, object]:
        job = self.job()
        with open_store(job.state, job.name, clock=lambda: NOW) as store:
            return dict(store.checkpoint(EVENT_TIME))

    def head(self) -> dict[str, object]:
        job = self.job()
        with open_store(job.state, job.name, clock=lambda: NOW) as store:
            return dict(store.head() or {})

    def rows(self) -> list[dict[str, object]]:
        tables = [
            pq.read_table(path) for path in visible_files(self.folder) if path.parent.name != "in"
        ]
        found = [row for table in tables for row in table.to_pylist()]
        return sorted(found, key=lambda row: row["id"])

    def late(self) -> dict[int, bool | None]:
        return {row["id"]: row.get("_late") for row in self.rows()}


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "job")


def minutes(ms: object) -> float | None:
    return None if ms is None else (int(str(ms)) - NOW) / MINUTE


def test_a_run_is_judged_by_the_watermark_of_the_run_before(feed: Feed) -> None:
    feed.put(-10, -60)
    first = feed.run()
    assert first.status is RunStatus.SUCCESS
    assert feed.late() == {100: False, 101: False}
    assert first.events is not None
    assert first.events.judged_by is None
    assert minutes(first.events.watermark) == -11
    feed.put(-11, -12, -1, None)
    second = feed.run(at=1)
    assert {k: v for k, v in feed.late().items() if k >= 200} == {
        200: False, 201: True, 202: False, 203: False,
    }  # fmt: skip
    assert {row["id"]: row["_lateness_ms"] for row in feed.rows()}[201] == MINUTE
    assert second.events is not None
    assert (second.events.counts.late, second.events.counts.most_late_ms) == (1, MINUTE)
    assert (second.events.counts.nulls, minutes(second.events.judged_by)) == (1, -11)
    assert minutes(feed.checkpoint()["watermark"]) == -2


def test_the_watermark_of_a_job_is_that_of_python_over_all_rows_in_the_order_of_the_plan(
    feed: Feed,
) -> None:
    written = {
        "ms.event.watermark": "adaptive",
        "ms.event.order": "arrival",
        "ms.event.adaptive": '{"window": 7, "min": 1000, "margins": [[3, 60000]]}',
        "ms.event.idle.timeout": "PT1H",
    }
    expected = event_watermark(written)
    for number in range(4):
        batch = [[-30 + number, -50 + 3 * number, -20], [-40, -10 + number]]
        for times in batch:
            feed.put(*times)
        rows = [NOW + at * MINUTE for times in batch for at in times]
        now = datetime.fromtimestamp((NOW + number * MINUTE) / 1000, UTC)
        judged = expected.commit(rows, now=now)
        report = feed.run(at=number, **written)
        assert report.events is not None
        assert (report.events.judged_by, report.events.watermark) == (
            judged.effective,
            judged.watermark,
        )
        flags = [late for row, late in sorted(feed.late().items())][-len(rows) :]
        assert flags == judged.late


def test_drop_publishes_the_others_and_says_how_many(feed: Feed) -> None:
    feed.put(0)
    feed.run(**{"ms.late.action": "drop"})
    feed.put(-5, 1)
    report = feed.run(at=1, **{"ms.late.action": "drop"})
    assert [row["id"] for row in feed.rows()] == [100, 201]
    assert report.events is not None
    assert report.events.counts.dropped == 1
    assert report.rows_dropped == 1
    assert report.rows_read == report.rows + report.rows_dropped


def test_fail_publishes_nothing_and_a_later_action_is_the_way_out(feed: Feed) -> None:
    feed.put(0)
    feed.run(**{"ms.late.action": "fail"})
    feed.put(-5, 1)
    failed = feed.run(at=1, **{"ms.late.action": "fail"})
    assert failed.status is RunStatus.FAILED
    assert "1 row came late" in failed.failures[0].error
    assert minutes(feed.checkpoint()["watermark"]) == -1
    assert feed.run(at=2, **{"ms.late.action": "flag"}).status is RunStatus.SUCCESS
    assert feed.late() == {100: None, 200: True, 201: False}


def test_a_poison_time_is_put_aside_and_moves_nothing(feed: Feed) -> None:
    feed.put(0, 10_000_000)
    report = feed.run()
    assert report.events is not None
    assert report.events.counts.refused == 1
    assert [row["id"] for row in feed.rows()] == [100]
    assert minutes(feed.checkpoint()["watermark"]) == -1
    [reason] = report.aside.reasons
    assert "ms.event.max.future" in reason.reason


def test_switching_the_event_column_on_marks_nothing_late(feed: Feed) -> None:
    off = dict.fromkeys(EVENTS, "")
    feed.put(0)
    feed.run(**off)
    before = feed.head()["event"]["newWatermark"]  # type: ignore[index]
    assert feed.checkpoint() == {}
    feed.put(-500_000, -10)
    report = feed.run(at=1)
    assert report.events is not None
    assert report.events.judged_by is None
    assert report.events.counts.late == 0
    assert feed.head()["event"]["newWatermark"] >= before  # type: ignore[index]


def test_a_partition_without_rows_in_a_run_is_not_waited_for(feed: Feed) -> None:
    by_site = {"ms.event.partition.column": "site"}
    feed.put(-100, site="a")
    feed.put(-10, site="b")
    feed.run(**by_site)
    assert minutes(feed.checkpoint()["watermark"]) == -101
    feed.put(-5, site="b")
    report = feed.run(at=1, **by_site)
    assert minutes(feed.checkpoint()["watermark"]) == -6
    assert report.events is not None
    assert report.events.idle == ("a",)


def test_only_what_is_published_moves_the_watermark(feed: Feed) -> None:
    feed.put(-100)
    feed.run()
    feed.put(-5)
    (feed.folder / "in" / "zzz.jsonl").write_text('{"id": "x"\n')
    failed = feed.run(at=1)
    assert failed.status is RunStatus.FAILED
    assert minutes(feed.checkpoint()["watermark"]) == -101
    partial = feed.run(at=1, **{"job.commit.policy": "successful"})
    assert partial.status is RunStatus.PARTIAL
    assert partial.units.adopted == 1
    assert minutes(feed.checkpoint()["watermark"]) == -6


@pytest.mark.parametrize("moved", [False, True])
def test_staged_work_is_adopted_only_where_the_same_watermark_judged_it(
    feed: Feed, *, moved: bool
) -> None:
    feed.put(-100)
    feed.run()
    feed.put(-50)
    broken = feed.folder / "in" / "zzz.jsonl"
    broken.write_text('{"id": "x"\n')
    assert feed.run(at=1).status is RunStatus.FAILED
    if moved:
        higher = event_watermark(EVENTS, floor=NOW - 40 * MINUTE)
        state = base64.b64encode(higher.state()).decode()
        job = feed.job()
        with open_store(job.state, job.name, clock=lambda: NOW) as store:
            lease = store.acquire_lease("act", lease_s=1)
            store.change_checkpoint(lease, EVENT_TIME, {"state": state})
            store.release_lease(lease)
    broken.unlink()
    report = feed.run(at=1)
    assert report.units.adopted == (0 if moved else 1)
    assert feed.late()[200] is moved


def test_columns_of_lateness_are_there_only_where_an_action_is_written(feed: Feed) -> None:
    feed.put(0)
    feed.run(**{"ms.late.action": ""})
    feed.put(-5)
    report = feed.run(at=1, **{"ms.late.action": ""})
    assert "_late" not in feed.rows()[0]
    assert report.events is not None
    assert report.events.counts.late == 1
    assert len(feed.rows()) == 2


def test_a_missing_column_fails_with_its_name_and_the_nearest(feed: Feed) -> None:
    feed.put(0)
    report = feed.run(**{"ms.event.column": "att"})
    assert report.status is RunStatus.FAILED
    assert 'ms.event.column is "att"' in report.failures[0].error
    assert "id, at, site" in report.failures[0].error


def test_the_watermark_of_the_chain_waits_for_that_of_events(feed: Feed) -> None:
    feed.put(-100)
    feed.run()
    event = feed.head()["event"]
    assert event["newWatermark"] == watermark_text(NOW - 101 * MINUTE)  # type: ignore[index]


def test_a_run_that_is_killed_anywhere_ends_with_the_same_flags_and_watermark(feed: Feed) -> None:
    """What the killed run had completed is one batch with what it had not."""
    feed.properties["job.commit.policy"] = "successful"
    feed.put(-60, -90)
    with KillServer() as kills:
        feed.job()
        path = feed.folder / "feed.conf"
        assert kills.run(path, NOW)["exit"] == 0
        feed.put(-61, -62, -5)
        feed.put(-70, -80, None, -30)
        before, work = feed.folder.with_name("before"), feed.folder
        shutil.copytree(work, before)
        whole = kills.run(path, NOW + MINUTE)
        assert whole["exit"] == 0
        rows, kept = feed.rows(), told(feed)
        assert [row["id"] for row in rows if row["_late"]] == [201, 300, 301]
        numbers = sorted(set(steps(whole["events"]).values()))
        for at in numbers[:: max(1, len(numbers) // KILLS)]:
            restore(before, work)
            assert kills.run(path, NOW + MINUTE, at)["killed"], at
            again = kills.run(path, NOW + MINUTE)
            assert again["exit"] == 0, whole["events"][at]
            assert feed.rows() == rows, whole["events"][at]
            assert told(feed) == kept, whole["events"][at]


def told(feed: Feed) -> dict[str, object]:
    return {name: feed.checkpoint()[name] for name in ("state", "watermark", "counts")}


def test_plan_and_state_show_the_watermark(feed: Feed, capsys: pytest.CaptureFixture[str]) -> None:
    feed.put(-100)
    feed.run()
    path = str(feed.folder / "feed.conf")
    now = "2025-01-01T00:05:00Z"
    assert main(["plan", path, "--now", now]) == 0
    assert (
        "rows are late below 2024-12-31T22:19:00Z, late rows are marked" in capsys.readouterr().out
    )
    assert main(["plan", path, "--now", now, "--json"]) == 0
    events = json.loads(capsys.readouterr().out)["events"]
    assert (minutes(events["judged_by"]), events["judged_by_iso"]) == (-101, "2024-12-31T22:19:00Z")
    assert main(["state", "show", path]) == 0
    shown = capsys.readouterr().out
    assert "bounded, 1 min 00 s behind" in shown
    assert "1 row judged in all, 0 late" in shown
    assert main(["state", "show", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["events"]["strategy"] == "bounded"


def test_the_summary_of_a_run_names_watermark_and_late_rows(feed: Feed) -> None:
    feed.put(-100)
    feed.run()
    feed.put(-150, None)
    report = feed.run(at=1)
    text = report_text(report)
    assert "event time  2024-12-31T22:19:00Z (bounded, 1 min 00 s behind)" in text
    assert "late        1 row, by 49 min 00 s at most; judged by 2024-12-31T22:19:00Z" in text
    assert "1 row without event time" in text
    members = report_json(report)["events"]
    assert members["late"] == 1
    assert members["watermark_iso"] == "2024-12-31T22:19:00Z"


class Crash(BaseException):
    """The driver is gone."""


class CrashingExecutor:
    """Runs the first work unit, then crashes."""

    def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        executor().execute(run, units[:1], watch)
        raise Crash


def test_what_a_crashed_run_completed_is_one_batch_with_what_it_did_not(feed: Feed) -> None:
    feed.properties["job.commit.policy"] = "successful"
    feed.put(-60)
    feed.run()
    feed.put(-5)
    feed.put(-30, -80)
    options = RunOptions(
        now_ms=NOW, clock=lambda: NOW, executor=CrashingExecutor(), run_id="crashed"
    )
    with pytest.raises(Crash):
        run_job(feed.job(), options)
    report = feed.run()
    assert report.units.adopted == 1
    assert feed.late() == {100: False, 200: False, 300: False, 301: True}


def test_an_operator_sets_the_watermark_forward_and_takes_it_back_until_a_run_used_it(
    feed: Feed, capsys: pytest.CaptureFixture[str]
) -> None:
    manual = {"ms.event.watermark": "manual", "ms.event.delay": ""}
    feed.properties |= manual
    feed.put(-100)
    assert feed.run().events.judged_by is None  # type: ignore[union-attr]
    path = str(feed.folder / "feed.conf")
    now = ["--now", "2025-01-01T00:00:00Z"]
    to = ["--set", "2024-12-31T23:00:00Z"]
    assert main(["state", "watermark", path, *to, *now]) == 0
    assert "nothing was changed" in capsys.readouterr().out
    assert feed.checkpoint()["watermark"] is None
    assert main(["state", "watermark", path, *to, *now, "--yes", "--reason", "x"]) == 0
    assert minutes(feed.checkpoint()["watermark"]) == -60
    assert main(["state", "watermark", path, *to, *now, "--yes"]) == 2
    assert "never goes back" in capsys.readouterr().err
    assert main(["state", "watermark", path, "--set", "2025-01-03", *now, "--yes"]) == 2
    assert main(["state", "watermark", path, "--undo", *now, "--yes"]) == 0
    assert feed.checkpoint()["watermark"] is None
    assert main(["state", "watermark", path, *to, *now, "--yes"]) == 0
    capsys.readouterr()
    assert main(["state", "watermark", path]) == 0
    assert "rows are late below 2024-12-31T23:00:00Z" in capsys.readouterr().out
    feed.put(-61, -60)
    feed.run(at=1)
    assert feed.late() == {100: False, 200: True, 201: False}
    assert main(["state", "watermark", path, "--undo", *now, "--yes"]) == 1
    assert "judged by it" in capsys.readouterr().err


SIDE = {"ms.late.action": "side_table"}


def beside(feed: Feed) -> list[dict[str, object]]:
    """Return the rows of the side table, without the id of the run that read them."""
    folder = feed.folder / "lake" / "lake" / "feed_late"
    found = [row for path in sorted(folder.glob("*")) for row in pq.read_table(path).to_pylist()]
    assert all(row.pop("_batch") for row in found)
    return sorted(found, key=lambda row: row["id"])


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


def test_a_run_of_late_rows_alone_publishes_them_and_moves_on(feed: Feed) -> None:
    feed.properties |= SIDE
    feed.put(-10)
    feed.run()
    feed.put(-50)
    assert feed.run(at=1).status is RunStatus.SUCCESS
    assert [row["id"] for row in beside(feed)] == [200]
    assert feed.run(at=2).status is RunStatus.NOTHING_DUE


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


@pytest.mark.parametrize("table", ["files", "delta"])
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
        expected = beside(feed), main_rows(feed), told(feed)
        assert [row["id"] for row in expected[0]] == [201, 300]
        numbers = sorted(set(steps(whole["events"]).values()))
        for at in numbers[:: max(1, len(numbers) // KILLS)]:
            restore(before, work)
            assert kills.run(path, NOW + MINUTE, at)["killed"], at
            rows = {row["id"] for row in beside(feed)}
            assert rows.isdisjoint(main_rows(feed)), whole["events"][at]
            again = kills.run(path, NOW + MINUTE)
            assert again["exit"] == 0, whole["events"][at]
            assert (beside(feed), main_rows(feed), told(feed)) == expected, whole["events"][at]


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
    from dil import publishing
    from dil.publishing import publisher

    feed.properties |= SIDE | {"ms.table.format": table}
    feed.put(-10)
    feed.run()
    feed.put(-12, -1)

    def crash(*_: object) -> None:
        raise Crash

    if landed:
        monkeypatch.setattr(publishing, "append_block", crash)
    else:
        place = publisher.place

        def place_and_crash(*given: object) -> None:
            place(*given)  # type: ignore[arg-type]
            raise Crash

        monkeypatch.setattr(publisher, "place", place_and_crash)
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
