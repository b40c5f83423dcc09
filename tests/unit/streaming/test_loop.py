"""When micro-batches run, what they take, and when a stream ends."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dil.errors import ConfigError, LeaseLostError, StateError, WriteError
from dil.model.report import ReportedFailure, RunReport, RunStatus
from dil.model.stream import MicroBatch
from dil.model.work_unit import Plan
from dil.streaming import checkpoint
from dil.streaming.checkpoint import COMMITS, OFFSETS, CheckpointAheadError
from tests.micro_batches import FakeBatches, World

KINDS = (OFFSETS, COMMITS)


def stop_after(world: World, looks: int) -> None:
    world.is_stopping = lambda: world.batches.looks >= looks and not world.batches.errors


def test_it_ends_when_it_has_caught_up(world: World) -> None:
    world.batches.due = [1, 2, 3, 4, 5]

    report = world.loop(max_units=2).run("run")

    assert world.batches.ran == [(1, 2), (3, 4), (5,)]
    assert (report.status, report.rows, report.units.planned) == (RunStatus.SUCCESS, 50, 5)
    assert report.notes == ("3 micro-batches",)
    assert world.clock.slept == []


@pytest.mark.parametrize(("size", "lines"), [(1, ["2 work units due"]), (2, [])])
def test_the_log_says_how_much_is_due_where_one_micro_batch_does_not_say_it(
    world: World, caplog: pytest.LogCaptureFixture, size: int, lines: list[str]
) -> None:
    world.batches.due = [1, 2]
    caplog.set_level(logging.INFO)

    world.loop(max_units=size).run("run")

    assert [each for each in caplog.messages if each.endswith("due")] == lines


def test_a_failure_ends_it_and_what_was_published_before_stays(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.batches.due, world.batches.poison = [1, 2, 3], {2}
    caplog.set_level(logging.INFO)

    report = world.loop(max_units=1).run("run")

    lines = [each for each in caplog.records if each.getMessage().startswith("micro-batch ")]
    assert [each.levelname for each in lines] == ["INFO", "WARNING"]
    assert "[2] from 1970-01-03T00:00:00Z: no  [DIL-SRC]" in lines[1].getMessage()

    assert world.batches.done == [1]
    assert world.batches.ran == [(1,), (2,)]
    assert (report.status, report.exit_code) == (RunStatus.FAILED, 1)


def test_failures_beside_successes_make_it_partial(world: World) -> None:
    world.batches.due, world.batches.poison = [1, 2, 3, 4], {2}
    world.batches.policy = "successful"

    report = world.loop(max_units=2).run("run")

    assert world.batches.done == [1, 3, 4]
    assert report.exit_code == 4


def test_a_service_looks_again_after_its_time_and_stops_between_micro_batches(
    world: World,
) -> None:
    def arrive(batches: FakeBatches) -> None:
        batches.due = [batches.looks]

    world.batches.on_look = arrive
    stop_after(world, 4)

    report = world.loop(every_ms=30_000).run("run")

    assert world.batches.done == [1, 2, 3]
    assert world.clock.now_s == pytest.approx(90)
    assert max(world.clock.slept) <= 0.2, "a stop is heard at once"
    assert report.exit_code == 0
    assert report.notes[1] == "stopped by a signal, between two micro-batches"


def test_slices_of_a_query_come_one_after_the_other_without_a_wait(world: World) -> None:
    world.batches.is_query, world.batches.due = True, [1, 2, 3]

    report = world.loop().run("run")

    assert world.batches.ran == [(1,), (2,), (3,)]
    assert (report.exit_code, report.notes, world.batches.looks) == (0, ("3 micro-batches",), 4)
    assert world.clock.slept == []


def test_a_service_of_a_query_waits_when_it_has_caught_up(world: World) -> None:
    def arrive(batches: FakeBatches) -> None:
        batches.due = [4, 5] if batches.looks in {1, 4} else batches.due

    world.batches.is_query, world.batches.on_look = True, arrive
    stop_after(world, 6)

    world.loop(every_ms=30_000).run("run")

    assert world.batches.done == [4, 5, 4, 5]
    assert world.clock.now_s == pytest.approx(30)


def test_a_signal_stops_between_two_slices_of_a_query(world: World) -> None:
    world.batches.is_query, world.batches.due = True, [1, 2, 3]
    world.is_stopping = lambda: len(world.batches.ran) == 2

    report = world.loop().run("run")

    assert (world.batches.done, report.left) == ([1, 2], 1)
    assert "stopped by a signal" in report.notes[1]


def test_a_slice_that_fails_again_and_again_is_not_overtaken_and_is_a_failure(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.batches.is_query, world.batches.due, world.batches.poison = True, [1, 2, 3], {2}
    world.is_stopping = lambda: len(world.batches.ran) == 8

    report = world.loop(every_ms=1_000).run("run")

    assert world.batches.done == [1]
    assert world.batches.ran == [(1,), *[(2,)] * 7]
    assert world.clock.now_s == pytest.approx(1 + 2 + 4 + 8 + 16 + 32)
    assert "failed 5 times in a row: block 2." in caplog.text
    assert report.exit_code == 1


def test_a_service_with_nothing_to_do_says_once_that_it_looks_for_work(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world.is_stopping = lambda: world.clock.now_s > 100

    world.loop(every_ms=30_000).run("run")

    assert caplog.messages == ["this service looks for new work every 30 s, until it is stopped"]


def test_a_signal_lets_the_micro_batch_end_and_leaves_the_next_ones(world: World) -> None:
    world.batches.due = [1, 2, 3]
    world.is_stopping = lambda: len(world.batches.ran) == 2

    report = world.loop(every_ms=30_000, max_units=1).run("run")

    assert world.batches.done == [1, 2]
    assert report.exit_code == 0
    assert world.clock.slept == []


def test_a_run_by_cron_that_is_stopped_says_that_it_has_not_caught_up(world: World) -> None:
    world.batches.due = [1, 2, 3]
    world.is_stopping = lambda: len(world.batches.ran) == 2

    report = world.loop(max_units=1).run("run")

    assert (report.exit_code, report.left) == (0, 1)
    assert "stopped by a signal, between two micro-batches" in report.notes


def test_the_stop_file_is_deleted_when_it_is_heeded(world: World, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    world.batches.on_look = lambda _batches: stop.touch()

    report = world.loop(every_ms=1_000, stop_file=str(stop)).run("run")

    assert not stop.exists()
    assert report.exit_code == 0
    assert str(stop) in report.notes[-1]


def test_a_stop_file_that_comes_too_late_does_not_stop_the_next_run(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = tmp_path / "stop"
    world.batches.due = [1]
    run = FakeBatches.run

    def touching(self: FakeBatches, *given: object, **more: object):
        stop.touch()
        return run(self, *given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(FakeBatches, "run", touching)
    report = world.loop(stop_file=str(stop)).run("run")

    assert not stop.exists()
    assert (report.status, world.batches.done) == (RunStatus.SUCCESS, [1])


def test_a_stop_file_from_before_stops_a_service_and_no_run_by_cron(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stop = tmp_path / "stop"
    stop.touch()
    world.batches.due = [1]

    assert world.loop(stop_file=str(stop)).run("run").rows == 10
    assert not stop.exists()
    assert "existed before the run" in caplog.text

    stop.touch()
    world.batches.due = [2]
    assert world.loop(stop_file=str(stop), every_ms=1_000).run("run").left == 1
    assert not stop.exists()
    assert world.batches.done == [1]


def test_a_signal_cuts_a_micro_batch_with_the_exit_code_of_its_report(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.batches.due = [1, 2]
    run = FakeBatches.run

    def cut(self: FakeBatches, *given: object, **more: object):
        report = run(self, *given, **more)  # type: ignore[arg-type]
        lost = replace(report, status=RunStatus.FAILED, forced_exit_code=143)
        return replace(lost, failures=(ReportedFailure(None, "DIL-INTERRUPTED", "stopped"),))

    monkeypatch.setattr(FakeBatches, "run", cut)

    report = world.loop(every_ms=1_000, max_units=1).run("run")

    assert world.batches.ran == [(1,)]
    assert (report.status, report.exit_code) == (RunStatus.FAILED, 143)


def test_a_service_waits_longer_after_each_failure_and_starts_spark_anew(world: World) -> None:
    world.batches.due = [1]
    world.batches.errors = [StateError("away", "") for _ in range(11)]
    stop_after(world, 12)

    world.loop(every_ms=1_000).run("run")

    assert world.batches.resets == 11
    waits = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert world.clock.now_s == pytest.approx(sum(waits))
    assert world.batches.looks == 12


@pytest.mark.parametrize("error", [ConfigError.single("a", "b", "c"), LeaseLostError("d", "e")])
def test_what_waiting_does_not_help_ends_a_service(world: World, error) -> None:
    world.batches.errors = [error]

    with pytest.raises(type(error)):
        world.loop(every_ms=1_000).run("run")


def test_a_checkpoint_ahead_of_the_chain_ends_a_service_with_what_to_do(world: World) -> None:
    world.batches.due = [1]
    assert world.loop().run("run").exit_code == 0
    world.batches.newest = None

    with pytest.raises(CheckpointAheadError, match="ahead of the chain") as caught:
        world.loop(every_ms=1_000).run("run")

    assert "Restore the newest" in caught.value.fix
    assert world.batches.resets == 0


def test_a_service_that_only_failed_does_not_end_as_if_nothing_were_due(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.batches.errors = [StateError("away", "Start the server.") for _ in range(3)]
    stop_after(world, 3)

    report = world.loop(every_ms=1_000).run("run")

    assert (report.status, report.exit_code) == (RunStatus.FAILED, 1)
    assert [(each.error, each.fix) for each in report.failures] == [("away", "Start the server.")]
    assert "stopped by a signal, between two micro-batches" in report.notes
    assert "Start the server." in caplog.text


def test_a_service_that_failed_for_a_while_and_went_on_ends_well(world: World) -> None:
    world.batches.errors = [StateError("away", "Start the server.")]
    stop_after(world, 2)

    report = world.loop(every_ms=1_000).run("run")

    assert (report.status, report.exit_code) == (RunStatus.NOTHING_DUE, 0)
    assert [each.error for each in report.failures] == ["away"]


def test_five_failures_of_the_same_micro_batch_let_its_work_units_be_read_alone(
    world: World,
) -> None:
    world.batches.due, world.batches.poison = [1, 2, 3, 4], {2}

    def arrive(batches: FakeBatches) -> None:
        if batches.looks == 3:
            batches.due.append(5)

    world.batches.on_look = arrive
    stop_after(world, 7)

    report = world.loop(every_ms=1_000, max_units=3).run("run")

    assert world.batches.ran[:5] == [(1, 2, 3)] * 5, "the same ones, whatever has arrived"
    assert world.batches.ran[5:] == [(1,), (2,), (3,), (4, 5)]
    assert world.batches.done == [1, 3, 4, 5]
    assert report.exit_code == 0
    assert [each.signature for each in report.failures] == ["[2]"]


def test_a_work_unit_that_fails_alone_is_tried_again_later_each_time(world: World) -> None:
    world.batches.due, world.batches.poison = [1, 2], {1}
    world.batches.policy = "successful"
    stop_after(world, 60)

    world.loop(every_ms=1_000).run("run")

    assert world.batches.ran[0] == (1, 2)
    assert set(world.batches.ran[1:]) == {(1,)}
    assert 4 <= len(world.batches.ran) <= 8, "and not sixty times"


def test_a_micro_batch_keeps_its_number_until_it_is_committed(world: World) -> None:
    world.batches.due, world.batches.poison = [1], {1}
    loop = world.loop()
    loop.run("run")
    folder = Path(world.folder)
    assert [each.name for each in (folder / "offsets").iterdir()] == ["0"]
    assert not (folder / "commits").exists()

    world.batches.poison = set()
    world.loop().run("run")

    assert world.batches.newest is not None
    assert world.batches.newest.batch.number == 0
    assert [each.name for each in (folder / "commits").iterdir()] == ["0"]


def test_a_micro_batch_is_in_the_checkpoint_before_it_runs_and_as_committed_after(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a stream whose last micro-batch failed would seem to be ahead of its chain."""
    world.batches.due, world.batches.poison = [1, 2], {2}
    folder, before = Path(world.folder), list[list[str]]()
    real = world.batches.run

    def run(due: Plan, batch: MicroBatch, *, is_alone: bool = False) -> RunReport:
        before.append(sorted(each.name for each in (folder / "offsets").iterdir()))
        return real(due, batch, is_alone=is_alone)

    monkeypatch.setattr(world.batches, "run", run)
    world.loop(max_units=1).run("run")

    assert before == [["0"], ["0", "1"]]
    assert [each.name for each in (folder / "commits").iterdir()] == ["0"]


def test_micro_batches_of_a_new_epoch_are_counted_from_the_first(world: World) -> None:
    world.batches.due = [1]
    world.loop().run("run")
    shutil.rmtree(world.folder)

    world.batches.due = [2]
    world.loop().run("run")

    assert world.batches.newest is not None
    assert world.batches.newest.batch.number == 0


def test_a_micro_batch_that_lost_its_lease_ends_a_service(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.batches.due, world.batches.poison = [1], {1}
    stop_after(world, 3)
    lost = ReportedFailure("", LeaseLostError.code, "another run took the lease over")
    real = world.batches.run
    monkeypatch.setattr(
        world.batches,
        "run",
        lambda *given, **kinds: replace(real(*given, **kinds), failures=(lost,)),
    )

    with pytest.raises(LeaseLostError):
        world.loop(every_ms=1_000).run("run")
    assert world.batches.ran == [(1,)]


def test_a_checkpoint_that_cannot_be_written_afterwards_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loop = world.loop(max_units=1)
    world.batches.due = [1, 2]
    put = loop.checkpoint._put

    def refusing(kind: str, number: int, text: str) -> None:
        if kind == "commits":
            raise WriteError("the disk is full", "")
        put(kind, number, text)

    monkeypatch.setattr(loop.checkpoint, "_put", refusing)

    assert loop.run("run").exit_code == 0
    assert world.batches.done == [1, 2]
    assert "the disk is full" in caplog.text


def test_a_forced_epoch_begins_anew_and_the_next_run_continues_it(world: World) -> None:
    world.batches.due = [1, 2]
    world.loop(max_units=1).run("run")
    world.batches.newest, world.batches.due = None, [3]
    forced = world.loop()
    forced.around = replace(forced.around, forces_new_epoch=True)

    assert forced.run("run").exit_code == 0
    world.batches.due = [4]
    assert world.loop().run("run").exit_code == 0
    assert world.batches.newest is not None
    assert world.batches.newest.batch.number == 1


def test_a_checkpoint_keeps_the_newest_micro_batches_and_files_of_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "KEPT", 2)
    folder = Path(world.folder)
    (folder / "commits").mkdir(parents=True)
    (folder / "commits" / "0.bak").touch()
    world.batches.due = [1, 2, 3, 4]
    loop = world.loop(max_units=1)
    loop.run("run")

    names = {kind: {each.name for each in (folder / kind).iterdir()} for kind in KINDS}
    assert names == {"offsets": {"2", "3"}, "commits": {"2", "3", "0.bak"}}
    loop.checkpoint.delete()
    assert [each for each in folder.rglob("*") if each.is_file()] == [folder / "commits" / "0.bak"]


def test_a_range_of_very_many_work_units_has_their_number_and_not_all_names(
    world: World,
) -> None:
    names = [f"[{number}]" for number in range(2_001)]
    world.loop().checkpoint.plan(MicroBatch("e", 0), {}, names, 0)

    planned = json.loads((Path(world.folder) / "offsets" / "0").read_text())
    assert (planned["count"], len(planned["workUnits"])) == (2_001, 2_000)


def test_a_stop_file_does_not_outlive_a_run_that_a_signal_cut(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = tmp_path / "stop"
    world.batches.due = [1]
    run = FakeBatches.run

    def cut(self: FakeBatches, *given: object, **more: object):
        stop.touch()
        lost = run(self, *given, **more)  # type: ignore[arg-type]
        return replace(lost, failures=(ReportedFailure(None, "DIL-INTERRUPTED", "stopped"),))

    monkeypatch.setattr(FakeBatches, "run", cut)
    world.loop(stop_file=str(stop)).run("run")

    assert not stop.exists()


def test_a_service_that_went_well_and_stops_while_an_input_is_away_ends_well(
    world: World,
) -> None:
    def arrive(batches: FakeBatches) -> None:
        batches.errors = [StateError("away", "")] if batches.looks == 2 else []

    world.batches.due, world.batches.on_look = [1], arrive
    world.is_stopping = lambda: world.batches.looks >= 2

    assert world.loop(every_ms=1_000).run("run").exit_code == 0


def test_a_service_forgets_a_failure_when_it_has_gone_on(world: World) -> None:
    world.batches.errors = [StateError("away", "")]
    stop_after(world, 4)

    world.loop(every_ms=30_000).run("run")

    assert world.clock.now_s == pytest.approx(1 + 30 + 30)


def test_a_service_looks_at_its_pace_however_long_a_look_takes(world: World) -> None:
    def arrive(_: FakeBatches) -> None:
        world.clock.now_s += 10

    world.batches.on_look = arrive
    stop_after(world, 3)

    world.loop(every_ms=30_000).run("run")

    assert world.clock.now_s == pytest.approx(30 + 30 + 10)


def test_micro_batches_grow_up_to_the_limit_of_rows(world: World) -> None:
    world.batches.due = list(range(1, 13))

    world.loop(max_rows=50).run("run")

    assert [len(each) for each in world.batches.ran] == [1, 2, 4, 5]


def test_a_micro_batch_that_finds_nothing_is_no_failure(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.batches.due = [1]
    monkeypatch.setattr(
        world.batches, "run", lambda *_, **__: world.batches.summary(RunStatus.NOTHING_DUE)
    )

    assert world.loop().run("run").exit_code == 0


@pytest.mark.parametrize(("day", "says"), [(99, True), (101, False)])
def test_only_a_stream_that_is_behind_says_so(
    world: World, caplog: pytest.LogCaptureFixture, day: int, says: bool
) -> None:
    world.batches.due = [day]
    caplog.set_level(logging.INFO)

    world.loop().run("run")

    assert (" behind" in caplog.text) is says
