"""Event time in jobs: late rows by the watermark of the run before, moved in the commit."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dil.api import event_watermark
from dil.cli.main import main
from dil.execution.executor import Execution, Watch
from dil.model.event_tally import EVENT_TIME
from dil.model.report import RunStatus
from dil.model.task import RunContext
from dil.model.work_unit import WorkUnit
from dil.observe.report import report_json, report_text
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.state import open_store
from dil.state.blocks.canonical import watermark_text
from tests.event_feed import EVENTS, KILLS, MINUTE, Crash, Feed, kept_watermark, minutes
from tests.integration.local_jobs import NOW
from tests.stories import executor
from tests.torture.kills import KillServer, restore, spread, steps


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "job")


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


def test_a_run_that_drops_all_rows_as_late_does_not_look_like_a_silent_source(feed: Feed) -> None:
    feed.put(0)
    feed.run(**{"ms.late.action": "drop"})
    feed.put(-5)
    report = feed.run(at=1, **{"ms.late.action": "drop"})
    assert (report.rows, report.rows_dropped) == (0, 1)
    assert not any("NO ROWS" in note for note in report.notes)
    assert "no row passed of 1 row read" in report_text(report)


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
    report = feed.run(**{"ms.event.column": "att", "ms.output.schema": ""})
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
        rows, kept = feed.rows(), kept_watermark(feed)
        assert [row["id"] for row in rows if row["_late"]] == [201, 300, 301]
        numbers = sorted(set(steps(whole["events"]).values()))
        for at in spread(numbers, KILLS):
            restore(before, work)
            assert kills.run(path, NOW + MINUTE, at)["killed"], at
            again = kills.run(path, NOW + MINUTE)
            assert again["exit"] == 0, whole["events"][at]
            assert feed.rows() == rows, whole["events"][at]
            assert kept_watermark(feed) == kept, whole["events"][at]


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
    assert shown.count("2024-12-31T22:19:00Z") == 1
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
