"""A stream of micro-batches through the real engine without Spark: rows once, whatever happens.

The required tests of streaming: T1 crashes, T2 a lost checkpoint, T3 arrivals meanwhile, T5 many
open work units, T9 event time as in batches, T12 an empty source; T8 is in
test_streaming_processes.py.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import pkgutil
import shutil

import pytest

from dil.cli.main import main
from dil.errors import ConfigError, DilError, LeaseHeldError, StateError
from dil.execution.executor import Execution
from dil.model.report import RunStatus
from dil.operator.streaming import run_stream
from dil.run import job_run, micro_batches
from dil.run.options import RunOptions
from dil.state import open_store
from tests.event_feed import Crash, crash_at_second_call
from tests.integration.local_jobs import NOW
from tests.stories import Story, day, executor, ids_of
from tests.streams import INGEST, StreamFeed


@pytest.fixture
def feed(tmp_path) -> StreamFeed:
    return StreamFeed(tmp_path)


def filled(feed: StreamFeed, files: int) -> StreamFeed:
    for number in range(files):
        feed.put(-number, -number - 1)
    return feed


def test_micro_batches_publish_each_row_once_and_each_is_one_block(feed) -> None:
    report = filled(feed, 5).stream()

    assert (report.status, report.exit_code, report.rows) == (RunStatus.SUCCESS, 0, 10)
    assert (report.units.planned, report.units.succeeded) == (5, 5)
    assert feed.ids() == feed.expected()
    streams = [event["newSourceState"]["value"]["stream"] for event in feed.blocks()]
    epoch = streams[0]["epoch"]
    assert [(each["epoch"], each["batchId"]) for each in streams] == [
        (epoch, 0), (epoch, 1), (epoch, 2)
    ]  # fmt: skip
    assert [each["end"]["stateVersion"] for each in streams] == [1, 2, 3]
    assert feed.newest() == streams[-1]


def test_a_stream_goes_on_where_it_was_and_reads_no_row_again(feed) -> None:
    filled(feed, 3).stream()
    filled(feed, 2).stream(at=1)
    last = feed.stream(at=2)

    assert last.status is RunStatus.NOTHING_DUE
    assert last.notes[0].startswith("nothing is due")
    assert feed.ids() == feed.expected()
    assert feed.newest()["batchId"] == 2
    kept = sorted(path.name for path in (feed.checkpoint_dir / "commits").iterdir())
    assert kept == ["0", "1", "2"]
    planned = json.loads((feed.checkpoint_dir / "offsets" / "2").read_text())
    assert (planned["batchId"], planned["count"], len(planned["workUnits"])) == (2, 2, 2)


def test_an_empty_source_makes_no_commit(feed) -> None:
    report = feed.stream()

    assert report.status is RunStatus.NOTHING_DUE
    assert feed.head() == {}
    assert feed.newest() == {}


@pytest.mark.parametrize("lost", ["all of it", "its epoch"])
def test_a_lost_checkpoint_begins_an_epoch_and_loses_or_doubles_no_row(feed, lost) -> None:
    filled(feed, 3).stream()
    before = feed.newest()
    filled(feed, 3)
    if lost == "all of it":
        shutil.rmtree(feed.checkpoint_dir)
    else:
        (feed.checkpoint_dir / "dil_epoch").unlink()

    feed.stream(at=1)

    assert feed.ids() == feed.expected()
    after = feed.newest()
    assert after["epoch"] != before["epoch"]
    assert after["batchId"] == 1


def test_rows_that_arrive_while_it_catches_up_wait_for_the_next_run(feed, monkeypatch) -> None:
    filled(feed, 3)
    run = micro_batches.MicroBatches.run

    def arriving(self, due, batch, **more):
        filled(feed, 1)
        return run(self, due, batch, **more)

    monkeypatch.setattr(micro_batches.MicroBatches, "run", arriving)
    report = feed.stream()
    assert report.units.planned == 3

    monkeypatch.undo()
    feed.stream(at=1)
    assert feed.ids() == feed.expected()


STEPS = (
    "dil.run.micro_batches.plan", "dil.run.micro_batches.claim", "dil.run.job_run.execute",
    "dil.run.job_run.publish", "dil.run.job_run.commit", "dil.run.job_run.keep_report",
    "dil.streaming.checkpoint.CheckpointFolder.plan",
    "dil.streaming.checkpoint.CheckpointFolder.commit",
    "dil.publishing.publisher.Publisher.make_visible",
    "dil.publishing.publisher.Publisher.append_block",
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> StreamFeed:
    """A stream that nothing interrupted."""
    feed = filled(StreamFeed(tmp_path_factory.mktemp("whole")), 6)
    assert feed.stream().exit_code == 0
    return feed


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_a_step_of_the_second_micro_batch_changes_no_row(
    feed, whole, monkeypatch, step, when
) -> None:
    policy = ("full", "successful")[(STEPS.index(step) + (when == "after")) % 2]
    filled(feed, 6)
    place, _, name = step.rpartition(".")
    target = pkgutil.resolve_name(place)
    monkeypatch.setattr(target, name, crash_at_second_call(getattr(target, name), when))
    with pytest.raises(Crash):
        feed.stream(**{"job.commit.policy": policy})
    monkeypatch.undo()

    assert feed.stream(at=1, **{"job.commit.policy": policy}).exit_code == 0
    assert feed.ids() == feed.expected()
    assert feed.late() == whole.late()
    assert feed.checkpoint()["watermark"] == whole.checkpoint()["watermark"]


def test_the_same_rows_are_late_as_in_one_run_for_each_micro_batch(tmp_path) -> None:
    streamed, batches = StreamFeed(tmp_path / "s"), StreamFeed(tmp_path / "b")
    adaptive = {"ms.event.watermark": "adaptive", "ms.event.delay": ""}
    times = [(0, -1), (3, 2), (1, 5), (-60 * 24 * 8, 6), (7, -60 * 24 * 9), (8, 9)]
    for each in times:
        streamed.put(*each)
    for place in range(0, len(times), 2):
        for each in times[place : place + 2]:
            batches.put(*each)
        assert batches.run(at=10, **adaptive).exit_code == 0

    assert streamed.stream(at=10, **adaptive).exit_code == 0

    assert any(streamed.late().values())
    assert streamed.late() == batches.late()
    assert streamed.checkpoint()["watermark"] == batches.checkpoint()["watermark"]


def test_the_report_counts_the_late_rows_of_all_micro_batches(feed) -> None:
    for times in ((10, 20), (1, 2, 30), (3, 40), (50, 60)):
        feed.put(*times)

    report = feed.stream(**{"ms.stream.max.files": "1", "ms.late.action": "drop"})

    assert report.rows == 6
    assert (report.events.counts.rows, report.events.counts.dropped) == (9, 3)


def test_late_rows_go_beside_the_dataset_in_the_commit_of_their_micro_batch(feed) -> None:
    for at in (0, 10, 1, 11):
        feed.put(at)

    feed.stream(at=20, **{"ms.late.action": "side_table", "ms.stream.max.files": "1"})

    assert [row["id"] for row in feed.rows() if "_late_at" not in row] == [100, 200, 400]
    late = [event.get("lateData") for event in feed.blocks()]
    assert [each is not None for each in late] == [False, False, True, False]


def test_offsets_stay_small_where_many_work_units_are_open(feed, monkeypatch) -> None:
    monkeypatch.setattr("dil.state.store.committing.MOST_OPEN", 1)
    from dil.model.stream import StreamState
    from dil.state.blocks.source_state import COMMITTED, UnitRow, UnitSummary
    from dil.state.store.committing import offset_of

    rows = [UnitRow(f"[{n}]", n, n + 10, n + 10, COMMITTED, 1) for n in range(2)]
    summary = UnitSummary(version=7, digest="a" * 64, max_high=11, frontier=5)
    few, many = offset_of("e", summary, rows[:1]), offset_of("e", summary, rows)

    assert few == {
        "v": 1, "epoch": "e", "stateVersion": 7, "done": 5, "open": {"[0]": {"high": 10}}
    }  # fmt: skip
    assert many == {**few, "open": {}, "digest": "a" * 64}
    assert StreamState.of({}) is None


def test_a_checkpoint_ahead_of_the_chain_is_refused_with_what_to_do(feed, tmp_path) -> None:
    filled(feed, 2).stream()
    shutil.copytree(tmp_path / "state", tmp_path / "older")
    filled(feed, 2).stream(at=1)
    shutil.rmtree(tmp_path / "state")
    shutil.copytree(tmp_path / "older", tmp_path / "state")

    with pytest.raises(DilError, match=r"older|ahead"):
        feed.stream(at=2)


def test_what_is_advised_for_an_older_state_reads_each_file_once_more(
    feed, tmp_path, capsys
) -> None:
    filled(feed, 2).stream()
    shutil.copytree(tmp_path / "state", tmp_path / "older")
    filled(feed, 3).stream(at=1)
    shutil.rmtree(tmp_path / "state")
    shutil.copytree(tmp_path / "older", tmp_path / "state")
    for more in ({}, {"forces_new_epoch": True}):
        with pytest.raises(StateError) as caught:
            feed.stream(at=2, **more)
        assert "move" in caught.value.fix
        assert "dil state forget JOB.conf --all --keep-files --yes" in caught.value.fix

    feed.job(**INGEST)
    job = str(feed.folder / "feed.conf")
    shutil.move(tmp_path / "lake" / "lake" / "feed", tmp_path / "away")
    assert main(["state", "forget", job, "--all", "--keep-files", "--yes"]) == 0
    assert feed.stream(at=2, forces_new_epoch=True).rows == 10

    filled(feed, 1).stream(at=3)
    assert feed.ids() == feed.expected()
    assert main(["state", "relist", job, "--yes"]) == 0
    assert main(["state", "verify", job]) == 0, capsys.readouterr().out


def test_another_chain_beside_the_checkpoint_needs_a_word(feed, tmp_path) -> None:
    filled(feed, 2).stream()
    shutil.rmtree(tmp_path / "state")
    shutil.rmtree(tmp_path / "lake" / "lake")

    with pytest.raises(StateError, match="ahead of the chain") as caught:
        feed.stream(at=1)
    assert "--force-new-epoch" in caught.value.fix

    assert feed.stream(at=1, forces_new_epoch=True).exit_code == 0
    assert feed.ids() == feed.expected()


def test_two_streams_at_once_exclude_each_other(feed) -> None:
    filled(feed, 3)
    job = feed.job(**INGEST)
    with open_store(job.state, job.name, clock=lambda: NOW) as store:
        lease = store.acquire_lease("another", lease_s=60)
        with pytest.raises(LeaseHeldError) as caught:
            feed.stream()
        # Nobody can wait for the end of a service.
        with pytest.raises(LeaseHeldError) as of_service:
            feed.stream(**{"ms.stream.trigger": "PT1S"})
        store.release_lease(lease)
    assert caught.value.fix == "Wait for it to end."
    assert of_service.value.fix.startswith("The job is a service, which does not end by itself: ")
    assert feed.stream(at=1).rows == 6


def test_a_micro_batch_that_is_under_way_is_running_by_the_process_of_its_stream(
    feed, capsys
) -> None:
    filled(feed, 1)
    found = []

    class Looking:
        def execute(self, run: object, units: list, watch: object) -> Execution:
            done = executor().execute(run, units, watch)
            assert main(["runs", "list", str(feed.folder / "feed.conf"), "--json"]) == 0
            found.extend(json.loads(capsys.readouterr().out))
            return done

    # The command compares with the real clock. All is in the same second, as it often is.
    clock = itertools.count(10**14)
    options = RunOptions(now_ms=NOW, clock=lambda: next(clock), executor=Looking())
    run_stream(feed.job(**INGEST), options)

    (run,) = found
    assert (run["status"], run["holder"]["pid"]) == ("running", os.getpid())


def test_a_file_that_fails_is_told_once_in_the_log(feed, caplog) -> None:
    caplog.set_level(logging.INFO)
    filled(feed, 1)
    (feed.folder / "in" / "zzz.jsonl").write_text('{"id": "x"\n')
    report = feed.stream(**{"job.commit.policy": "successful"})

    assert report.units.failed == 1
    told = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert [each.getMessage().split(" (")[0] for each in told] == ["micro-batch 0"]
    assert "zzz.jsonl" in told[0].getMessage()
    assert "behind" not in told[0].getMessage(), "its work units have no time"


def test_a_service_reads_what_arrives_until_its_stop_file_is_there(feed, monkeypatch) -> None:
    filled(feed, 1)
    stop, looks = feed.folder / "stop", []
    look = micro_batches.MicroBatches.look

    def looking(self, now_ms):
        looks.append(now_ms)
        filled(feed, 2)
        if len(looks) == 3:
            stop.touch()
        return look(self, now_ms)

    monkeypatch.setattr(micro_batches.MicroBatches, "look", looking)
    slept: list[float] = []
    report = feed.stream(
        **{
            "ms.stream.trigger": "PT0.001S",
            "ms.stream.stop.file": str(stop),
        },
        sleep=slept.append,
    )

    assert report.exit_code == 0
    assert not stop.exists()
    assert any("stopped by the file" in note for note in report.notes)
    monkeypatch.undo()
    feed.stream(at=1)
    assert feed.ids() == feed.expected()


@pytest.mark.parametrize("policy", ["full", "successful"])
def test_a_file_that_always_fails_holds_up_no_other(feed, monkeypatch, policy) -> None:
    filled(feed, 3)
    poison = feed.folder / "in" / "002a.jsonl"
    poison.write_text("{ this is no JSON\n")
    looks = []
    look = micro_batches.MicroBatches.look

    def looking(self, now_ms):
        looks.append(now_ms)
        return look(self, now_ms)

    monkeypatch.setattr(micro_batches.MicroBatches, "look", looking)
    report = feed.stream(
        **{
            "ms.stream.trigger": "PT0.001S",
            "job.commit.policy": policy,
            "ms.event.column": "",
            "ms.event.watermark": "",
            "ms.event.delay": "",
            "ms.late.action": "",
        },
        stops=lambda: len(looks) > 6,
    )

    assert report.exit_code == 0
    poison_free = [n * 100 + k for n in (1, 2, 3) for k in (0, 1)]
    assert sorted(feed.ids().elements()) == poison_free
    failed = [each for each in report.failures if each.signature]
    assert len(failed) == 1
    assert "002a.jsonl" in failed[0].signature


def test_what_a_stream_cannot_be_is_refused_all_at_once_with_its_line(feed) -> None:
    with pytest.raises(ConfigError) as caught:
        feed.job(
            **INGEST,
            **{"ms.publish.mode": "replace", "ms.work.unit.min.units": "1", "ms.backfill": "true"},
        )
    found = [each for each in caught.value.problems if each.key == "ms.stream.mode"]
    assert len(found) == 3
    assert all(each.origin.line for each in found)


@pytest.mark.parametrize("trigger", ["now", "PT0S", "P1M", "-PT5S"])
def test_a_trigger_that_is_none_is_refused(feed, trigger) -> None:
    with pytest.raises(ConfigError, match=r"ms\.stream\.trigger"):
        feed.job(**INGEST, **{"ms.stream.trigger": trigger})


def test_what_the_grace_period_reads_again_is_read_again(tmp_path, source) -> None:
    """Two days are read again each morning, and replaced; no row is there twice."""
    story = Story(
        tmp_path,
        source,
        ms__publish__mode="window_replace",
        ms__grace__period__days="2",
        ms__stream__mode="ingest",
        ms__stream__max__files="3",
    )
    asked = [source.count("/records")]
    for number in (3, 4):
        assert run_stream(story.job(), story.options(day(number))).exit_code == 0
        asked.append(source.count("/records"))

    assert story.rows() == ids_of("a", "b", days=range(4))
    first, second = asked[1] - asked[0], asked[2] - asked[1]
    assert (first, second) == (6, 6), "two days again, and the new one, of two units each"


def test_work_units_that_keep_a_distance_keep_it_over_micro_batches(
    tmp_path, source, monkeypatch
) -> None:
    waits: list[int] = []
    run = micro_batches.MicroBatches.run

    def noting(self, due, batch, **more):
        waits.extend(unit.not_before - due.now for unit in due.work_units)
        return run(self, due, batch, **more)

    monkeypatch.setattr(micro_batches.MicroBatches, "run", noting)
    story = Story(
        tmp_path,
        source,
        ms__stream__mode="ingest",
        ms__stream__max__files="2",
        ms__work__unit__pacing__seconds="10",
    )
    assert run_stream(story.job(), story.options(day(2))).rows == 16
    assert waits == [0, 10_000, 20_000, 30_000]


@pytest.mark.parametrize("action", ["drop", "side_table"])
def test_a_unit_is_not_judged_by_what_another_of_its_day_has_just_moved(
    tmp_path, source, action
) -> None:
    """Two units a day, one in each micro-batch: the plan was made before the first of them."""
    story = Story(
        tmp_path,
        source,
        ms__event__column="updated_ms",
        ms__event__watermark="bounded",
        ms__event__delay="PT1H",
        ms__late__action=action,
        ms__stream__mode="ingest",
        ms__stream__max__files="1",
    )

    for number in (2, 3):
        report = run_stream(story.job(), story.options(day(number)))
        assert (report.exit_code, report.events.counts.late) == (0, 0)

    assert story.rows() == ids_of("a", "b", days=range(3))


@pytest.mark.parametrize(("more", "batches"), [(0, 0), (1, 1), (3, 2)])
def test_the_rows_that_a_look_finishes_are_in_one_report(feed, monkeypatch, more, batches) -> None:
    """A killed micro-batch is published by the next look, with and without others after it."""
    filled(feed, 1)

    def crashing(*_given, **_more):
        raise Crash

    monkeypatch.setattr("dil.publishing.publisher.Publisher.append_block", crashing)
    with pytest.raises(Crash):
        feed.stream()
    monkeypatch.undo()
    filled(feed, more)
    kept = []
    monkeypatch.setattr(job_run, "keep_report", lambda _run, done: kept.append(done))

    report = feed.stream(at=1)

    assert feed.ids() == feed.expected()
    assert (len(report.recovered), report.units.planned) == (1, more)
    assert [each.recovered for each in kept] == [report.recovered, ()][:batches]


def test_plan_and_runs_show_the_stream(feed, capsys) -> None:
    filled(feed, 5)
    feed.job(**INGEST)
    job = str(feed.folder / "feed.conf")
    assert main(["plan", job, "--json"]) == 0
    before = json.loads(capsys.readouterr().out)["stream"]
    assert main(["plan", job]) == 0
    assert "5 work units due, in 3 micro-batches of 2 at most" in capsys.readouterr().out

    report = feed.stream()

    assert (before["epoch"], before["next_batch"], before["max_work_units"]) == (None, 0, 2)
    assert main(["plan", job, "--json"]) == 0
    after = json.loads(capsys.readouterr().out)["stream"]
    assert (after["epoch"], after["next_batch"]) == (feed.newest()["epoch"], 3)
    assert main(["runs", "list", job, "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)
    assert sorted(each["stream"]["batchId"] for each in runs) == [0, 1, 2]
    assert main(["runs", "list", job]) == 0
    assert f"micro-batch 2 ({after['epoch']})" in capsys.readouterr().out
    # The summary of the stream names it by an id of its own.
    feed.put(-9)
    feed.stream(at=1)
    assert main(["runs", "show", job, report.run_id, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["run_id"], shown["micro_batches"]) == (report.run_id, runs)
    assert main(["runs", "show", job, report.run_id]) == 0
    text = capsys.readouterr().out
    assert f"micro-batches of the stream {report.run_id}, times in UTC" in text
    assert text.count("micro-batch ") == 3
