"""Streams of derived datasets without Spark: slices of their inputs, each row once."""

from __future__ import annotations

import json
import logging
import os
import pkgutil
import shutil
from collections import Counter
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import ConfigError, StateError
from dil.model.report import RunStatus
from dil.operator.compaction import CompactionRequest, compact
from dil.run import micro_batches
from dil.run.queries.slices import plan_slices
from tests.derived import SCHEMA, Lake
from tests.event_feed import Crash, crash_at_second_call
from tests.unit.state.derived_store import counted_bodies

# make torture: DIL_COMMITS=500.
COMMITS = int(os.environ.get("DIL_COMMITS", "24"))
EVEN = "SELECT id, amount FROM orders WHERE id % 2 = 0"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def even(lake: Lake, **changes: str) -> Path:
    given = {"ms__stream__mode": "stateful", "ms__query__input__max__blocks": "1", **changes}
    return lake.derive("even", EVEN, **given)


def fed(lake: Lake, files: int) -> Lake:
    """Let the root publish files of four rows, one in each run."""
    for _ in range(files):
        start = lake._files * 4
        lake.feed(*range(start, start + 4))
    return lake


def expected(lake: Lake) -> Counter[int]:
    return Counter(range(0, lake._files * 4, 2))


def streams(lake: Lake, path: Path) -> list[dict]:
    return [event["stream"] for event in lake.data(path) if "stream" in event]


def checkpoint(lake: Lake) -> Path:
    return lake.folder / "lake" / "_checkpoint" / "even"


def test_micro_batches_take_slices_of_the_input_and_each_is_one_block(lake: Lake) -> None:
    path = even(fed(lake, 3))
    report = lake.stream(path)

    assert (report.status, report.exit_code, report.rows) == (RunStatus.SUCCESS, 0, 6)
    assert lake.ids("even") == expected(lake)
    found = streams(lake, path)
    epoch = found[0]["epoch"]
    assert [(each["epoch"], each["batchId"]) for each in found] == [
        (epoch, number) for number in range(len(found))
    ]
    places = [event["queryInputs"][0] for event in lake.data(path)]
    assert [each["end"]["inputs"]["orders"]["hash"] for each in found] == [
        each["newBlockHash"] for each in places
    ]
    assert found[-1]["end"]["inputs"]["orders"]["offset"] == 11
    assert found[-1] == lake.newest(path)
    assert lake.verify(path).problems == ()


def test_a_stream_goes_on_where_it_was_and_a_run_of_its_own_between_takes_no_row_again(
    lake: Lake,
) -> None:
    path = even(fed(lake, 2))
    lake.stream(path)
    before = lake.newest(path)
    fed(lake, 1)
    even(lake, ms__stream__mode="")
    assert lake.run(path).rows == 2
    fed(lake, 1)
    even(lake)
    lake.stream(path)
    last = lake.stream(path)

    assert last.status is RunStatus.NOTHING_DUE
    assert last.notes == ("nothing is due: orders has nothing new",)
    assert lake.ids("even") == expected(lake)
    assert (lake.newest(path)["epoch"], lake.newest(path)["batchId"]) == (
        before["epoch"],
        before["batchId"] + 1,  # type: ignore[operator]
    )
    assert len(streams(lake, path)) == len(lake.data(path)) - 1


def test_without_limits_one_micro_batch_takes_all_that_is_new(lake: Lake) -> None:
    path = even(fed(lake, 3), ms__query__input__max__blocks="")
    assert lake.stream(path).notes[0] == "1 micro-batch"
    assert lake.ids("even") == expected(lake)


def test_blocks_without_rows_are_passed_without_spark(lake: Lake) -> None:
    path = even(fed(lake, 1))
    lake.stream(path)
    for _ in range(3):
        lake.feed()

    report = lake.stream(path, executor=None)  # which would start Spark

    assert (report.status, report.rows, report.notes[0]) == ("success", 0, "3 micro-batches")
    assert lake.stream(path, executor=None).status == "nothing_due"


def test_an_input_that_has_published_nothing_is_no_failure(lake: Lake) -> None:
    path = even(lake)
    assert lake.stream(path).status is RunStatus.NOTHING_DUE
    assert lake.blocks(path) == []


def test_blocks_that_come_while_it_catches_up_wait_for_the_next_run(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = even(fed(lake, 2))
    run = micro_batches.MicroBatches.run

    def arriving(self, due, batch, **more):
        fed(lake, 1)
        return run(self, due, batch, **more)

    monkeypatch.setattr(micro_batches.MicroBatches, "run", arriving)
    assert lake.stream(path).rows == 4
    monkeypatch.undo()

    assert lake.ids("even") == Counter(range(0, 8, 2))
    lake.stream(path)
    assert lake.ids("even") == expected(lake)


@pytest.mark.parametrize("lost", ["all of it", "its epoch"])
def test_a_lost_checkpoint_begins_an_epoch_and_loses_or_doubles_no_row(
    lake: Lake, lost: str
) -> None:
    path = even(fed(lake, 2))
    lake.stream(path)
    before = lake.newest(path)
    fed(lake, 2)
    if lost == "all of it":
        shutil.rmtree(checkpoint(lake))
    else:
        (checkpoint(lake) / "dil_epoch").unlink()

    lake.stream(path)

    assert lake.ids("even") == expected(lake)
    assert lake.newest(path)["epoch"] != before["epoch"]
    assert [each["batchId"] for each in streams(lake, path)][-2:] == [0, 1]


def test_a_chain_behind_its_checkpoint_is_refused_until_a_word_is_given(lake: Lake) -> None:
    path = even(fed(lake, 2), state__store__dir=str(lake.folder / "own"))
    lake.stream(path)
    shutil.rmtree(lake.folder / "own")
    shutil.rmtree(lake.folder / "lake" / "shop" / "even")

    with pytest.raises(StateError, match="ahead of the chain") as caught:
        lake.stream(path)
    assert "--force-new-epoch" in caught.value.fix

    assert lake.stream(path, forces_new_epoch=True).rows == 4
    assert lake.ids("even") == expected(lake)


# Kills at all steps are in test_query_kills.py.
CRASHES = [
    ("dil.run.micro_batches.claim", "before"),
    ("dil.run.job_run.publish", "before"),
    ("dil.publishing.publisher.Publisher.append_block", "before"),
    ("dil.run.job_run.keep_report", "after"),
]


@pytest.mark.parametrize(("step", "when"), CRASHES)
def test_a_crash_at_a_step_of_a_micro_batch_changes_no_row(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, step: str, when: str
) -> None:
    path = even(fed(lake, 3), ms__query__input__max__blocks="3")
    place, _, name = step.rpartition(".")
    target = pkgutil.resolve_name(place)
    monkeypatch.setattr(target, name, crash_at_second_call(getattr(target, name), when))
    with pytest.raises(Crash):
        lake.stream(path)
    monkeypatch.undo()
    assert lake.stream(path).exit_code == 0

    assert lake.ids("even") == expected(lake)
    found = streams(lake, path)
    assert [each["batchId"] for each in found] == list(range(len(found)))
    assert lake.newest(path) == found[-1]
    assert lake.verify(path).problems == ()


def test_a_service_takes_what_comes_until_its_stop_file_is_there(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = lake.folder / "stop"
    path = even(fed(lake, 1), ms__stream__trigger="PT0.001S", ms__stream__stop__file=str(stop))
    look, looks = micro_batches.MicroBatches.look, 0

    def looking(self, now_ms):
        nonlocal looks
        looks += 1
        found = look(self, now_ms)
        if not found.plan.work_units:
            if lake._files == 4:
                stop.touch()
            else:
                fed(lake, 1)
        return found

    monkeypatch.setattr(micro_batches.MicroBatches, "look", looking)
    report = lake.stream(path)

    assert (report.exit_code, report.rows, lake._files) == (0, 8, 4)
    assert any("stopped by the file" in note for note in report.notes)
    assert not stop.exists()
    assert lake.ids("even") == expected(lake)


FUNCTION = """
from dil.errors import QueryError
from pathlib import Path
def chosen(inputs):
    if Path({broken!r}).exists():
        raise QueryError("no such site")
    return inputs["orders"]
"""


@pytest.mark.parametrize("is_mended", [True, False])
def test_a_slice_that_fails_is_tried_again_and_none_overtakes_it(
    lake: Lake,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    is_mended: bool,
) -> None:
    broken = lake.folder / "broken"
    module = f"rows_mended_{is_mended}"
    (lake.folder / f"{module}.py").write_text(FUNCTION.format(broken=str(broken)))
    path = lake.derive(
        "even", "", ms__query__function=f"{module}:chosen", ms__stream__mode="stateful",
        ms__stream__trigger="PT0.001S", ms__query__input__max__blocks="3",
    )  # fmt: skip
    fed(lake, 1)
    assert lake.stream(path, stops=lambda: bool(lake.ids("even"))).rows == 4
    broken.touch()
    fed(lake, 2)
    before = lake.ids("even")
    monkeypatch.setattr("dil.streaming.loop.backoff_s", lambda _failures: 0.0)

    def errors() -> list[str]:
        return [each.message for each in caplog.records if each.levelno == logging.ERROR]

    def stops() -> bool:
        if is_mended and len(errors()) == 2:
            broken.unlink(missing_ok=True)
        return len(errors()) == 3 or lake.ids("even") == Counter(range(12))

    with caplog.at_level(logging.INFO, "dil.streaming.loop"):
        report = lake.stream(path, stops=stops)

    assert "failed 5 times in a row: blocks 4 to 5 of orders" in errors()[0]
    if is_mended:
        assert (report.exit_code, lake.ids("even")) == (0, Counter(range(12)))
    else:
        assert (report.exit_code, lake.ids("even")) == (1, before)
        assert "no such site" in report.failures[-1].error


def test_a_compaction_and_a_new_schema_of_the_input_come_between_micro_batches(lake: Lake) -> None:
    path = even(fed(lake, 2))
    lake.stream(path)
    lake.now += 60_000
    compact(lake.job(lake.orders), CompactionRequest(clock=lambda: lake.now))
    fed(lake, 1)
    more = {"columnName": "note", "dataType": {"type": "string"}}
    text = lake.orders.read_text()
    lake.orders.write_text(text.replace(json.dumps(SCHEMA), json.dumps([*SCHEMA, more])))
    fed(lake, 2)
    lake.stream(path)

    assert lake.ids("even") == expected(lake)
    assert lake.verify(path).problems == ()


def test_what_a_stream_of_a_query_cannot_be_is_refused_with_what_to_do(lake: Lake) -> None:
    path = lake.derive(
        "even",
        EVEN,
        ms__stream__mode="stateful",
        ms__query__mode="full",
        ms__query__wait="PT1M",
        ms__stream__max__rows="5",
        ms__stream__max__files="5",
    )
    with pytest.raises(ConfigError) as caught:
        lake.job(path)
    found = {each.key: each for each in caught.value.problems}
    assert set(found) == {
        "ms.stream.mode", "ms.query.wait", "ms.stream.max.rows", "ms.stream.max.files"
    }  # fmt: skip
    assert "rebuild the dataset" in found["ms.stream.mode"].what
    assert "ms.query.input.max.rows" in found["ms.stream.max.rows"].fix
    assert all(each.origin.line for each in found.values())


def test_inputs_that_cannot_be_read_are_the_only_problem(lake: Lake) -> None:
    path = lake.derive("even", EVEN, ms__stream__mode="stateful")
    path.write_text(path.read_text().replace('"as":', '"alias":'))
    with pytest.raises(ConfigError) as caught:
        lake.job(path)
    assert {each.key for each in caught.value.problems} == {"ms.query.inputs"}


def test_each_mode_names_the_other_where_it_does_not_fit(lake: Lake) -> None:
    with pytest.raises(ConfigError, match=r"Set ms\.stream\.mode=stateful"):
        lake.job(lake.derive("even", EVEN, ms__stream__mode="ingest"))
    text = lake.orders.read_text()
    lake.orders.write_text(f"{text}ms.stream.mode=stateful\n")
    with pytest.raises(ConfigError, match=r"Set ms\.stream\.mode=ingest; let a job of its own"):
        lake.job(lake.orders)


def test_plan_and_runs_show_the_stream(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(even(fed(lake, 3), ms__query__input__max__blocks="2"))
    assert main(["plan", path]) == 0
    assert "a micro-batch takes at most 2 blocks of each input" in capsys.readouterr().out

    lake.stream(Path(path))

    assert main(["plan", path, "--json"]) == 0
    stream = json.loads(capsys.readouterr().out)["stream"]
    newest = lake.newest(Path(path))
    assert (stream["mode"], stream["epoch"], stream["next_batch"], stream["max_blocks"]) == (
        "stateful",
        newest["epoch"],
        newest["batchId"] + 1,  # type: ignore[operator]
        2,
    )
    assert main(["runs", "list", path, "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)
    assert sorted(each["stream"]["batchId"] for each in runs) == [
        *range(newest["batchId"] + 1)  # type: ignore[operator]
    ]


def test_after_many_commits_without_rows_planning_reads_one_block_of_its_own(lake: Lake) -> None:
    """Each block of the input is a micro-batch that gives no row; then one gives some."""
    orders = lake.orders.read_text()
    lake.orders.write_text(f"{orders}ms.stream.mode=ingest\nms.stream.max.files=1\n")
    path = lake.derive(
        "even",
        f"SELECT * FROM orders WHERE id >= {COMMITS}",
        ms__stream__mode="stateful",
        ms__query__input__max__blocks="1",
    )
    for number in range(COMMITS):
        lake.add(number)
    assert lake.stream(lake.orders).exit_code == lake.stream(path).exit_code == 0
    lake.add(COMMITS)
    assert lake.stream(lake.orders).rows == 1
    blocks_before = len(lake.data(path))
    job = lake.job(path)
    with counted_bodies() as bodies:
        planned = plan_slices(job, job.query, lambda: lake.now)

    assert blocks_before >= COMMITS
    assert (planned.rows, bodies["even"]) == (1, 1)
    assert lake.stream(path).rows == 1
    assert lake.ids("even") == Counter([COMMITS])
    assert [event["newData"] is None for event in lake.data(path)] == [
        *[True] * blocks_before,
        False,
    ]
    assert lake.verify(path).problems == ()
