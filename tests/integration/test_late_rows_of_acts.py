"""Acts of operators take late rows along: a backfill, a forget with its files, and their undo."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dil.cli.main import main
from dil.operator.backfill.publication import RowDecision
from dil.publishing import publisher
from dil.publishing.files import FileDestination
from dil.storage import LocalFilesystem
from tests.backfills import Backfills
from tests.jobs import dataset, visible_files
from tests.killed import KilledError, killed_after
from tests.marks import some_long
from tests.servers.day_rows import DayRows
from tests.servers.rows import DAY_MS, START_MS
from tests.stories import Story, day
from tests.table_readers import delta_table
from tests.torture.kills import KillServer, restore, spread, steps

SERVER = Path(__file__).parents[1] / "torture" / "backfill_kill_server.py"
# The short form kills at this many steps of each act; the long form (make torture) at all.
KILLS = int(os.environ.get("DIL_KILLS", "5"))

SCHEMA = (
    '[{"columnName": "id", "isNullable": "false", "dataType": {"type": "long"}},'
    ' {"columnName": "at", "dataType": {"type": "long"}}]'
)
LATE = {
    "ms__event__column": "at",
    "ms__event__watermark": "bounded",
    "ms__event__delay": "PT1H",
    "ms__late__action": "side_table",
    "ms__watermark": '[{"name": "system", "type": "datetime", '
    '"range": {"from": "2020-01-01", "to": "P0D"}}]',
    "ms__parameters": '[{"name": "since", "type": "watermark", "value": "low"}]',
    "ms__session__key__field": "",
    "ms__output__schema": SCHEMA,
}
MODES = {
    "window_replace": {"ms__publish__mode": "window_replace"},
    "merge": {"ms__publish__mode": "merge", "extract__primary__key__fields": "id"},
    "append": {"ms__publish__mode": "append"},
}


@pytest.fixture
def source() -> Iterator[DayRows]:
    with DayRows() as running:
        yield running


def at(number: int, hour: int, *, id_: int) -> dict[str, int]:
    return {"id": id_, "at": START_MS + number * DAY_MS + hour * 3_600_000}


class LateStory(Story):
    """A job of two days, of which the second brought a row that was late."""

    def __init__(self, folder: Path, source: DayRows, **changes: str) -> None:
        super().__init__(folder, source, **{**LATE, **changes})  # type: ignore[arg-type]
        self.kind = changes.get("ms__table__format", "files")
        source.days[day(0)] = [at(0, 23, id_=0)]
        self.run(day(1))
        source.days[day(1)] = [at(1, 5, id_=100), at(0, 1, id_=101)]
        self.run(day(2))
        assert self.found() == ([0, 100], [101])

    @property
    def conf(self) -> str:
        return str(self.folder / "orders.conf")

    @property
    def late_folder(self) -> Path:
        folder = dataset(self.folder)
        return folder.with_name(f"{folder.name}_late")

    def visible_ids(self) -> list[int]:
        """Return the ids in the folder of the dataset and beside it."""
        files = visible_files(self.folder)
        return [id_ for path in files for id_ in pq.read_table(path)["id"].to_pylist()]

    def found(self) -> tuple[list[int], list[int]]:
        """Return the ids in the dataset and beside it; the chain is verified on the way."""
        assert main(["state", "verify", self.conf, "--full"]) == 0
        files = sorted(self.late_folder.glob("*")) if self.late_folder.exists() else []
        if self.kind == "delta":
            rows = delta_table(self.folder, "shop.orders").to_pyarrow_table()["id"].to_pylist()
        else:
            inside = (path for path in visible_files(self.folder) if path not in files)
            rows = [id_ for path in inside for id_ in pq.read_table(path)["id"].to_pylist()]
        late = [id_ for path in files for id_ in pq.read_table(path)["id"].to_pylist()]
        return sorted(rows), sorted(late)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["files", "delta"])
def test_a_backfill_takes_the_late_rows_of_what_it_replaces_and_its_undo_brings_them_back(
    source: DayRows, tmp_path: Path, kind: str, mode: str
) -> None:
    story = LateStory(tmp_path, source, **MODES[mode], ms__table__format=kind)
    backfills = Backfills(story, 2)
    definition = backfills.take(range(1, 2))
    is_append = mode == "append"
    backfills.publish(definition, RowDecision.REPLACE if is_append else RowDecision.UNDECIDED)
    assert story.found() == ([0, 100, 101], [])
    for _ in range(2):
        backfills.undo(definition)
        assert story.found() == ([0, 100], [101])
        backfills.undo(definition)
        assert story.found() == ([0, 100, 101], [])
    source.days[day(2)] = [at(2, 5, id_=200)]
    story.run(day(3))
    assert story.found() == ([0, 100, 101, 200], [])


def test_a_reader_of_both_folders_finds_each_row_at_each_step_of_a_backfill_and_its_undo(
    source: DayRows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = LateStory(tmp_path, source, **MODES["window_replace"])
    backfills = Backfills(story, 2)
    definition = backfills.take(range(1, 2))
    seen = []

    def looked(name: str) -> None:
        step = getattr(LocalFilesystem, name)

        def step_and_look(
            files: LocalFilesystem, path: str, *more: object, **given: object
        ) -> None:
            step(files, path, *more, **given)
            seen.append(sorted(set(story.visible_ids())))

        monkeypatch.setattr(LocalFilesystem, name, step_and_look)

    looked("move")
    looked("delete_file")
    backfills.publish(definition)
    backfills.undo(definition)
    backfills.undo(definition)
    assert len(seen) > 10
    assert [ids for ids in seen if ids != [0, 100, 101]] == []


def test_a_backfill_that_is_another_version_leaves_the_late_rows_of_the_earlier_one(
    source: DayRows, tmp_path: Path
) -> None:
    story = LateStory(tmp_path, source, **MODES["append"])
    backfills = Backfills(story, 2)
    definition = backfills.take(range(1, 2))
    backfills.publish(definition, RowDecision.APPEND)
    assert story.found() == ([0, 100, 100, 101], [101])


@pytest.mark.parametrize("mode", ["append", "window_replace"])
def test_a_forget_that_withdraws_files_takes_their_late_rows_and_its_undo_brings_them_back(
    source: DayRows, tmp_path: Path, mode: str
) -> None:
    story = LateStory(tmp_path, source, **MODES[mode])
    words = ["--from", "2020-01-02", "--to", "2020-01-02T12:00:00Z", "--withdraw-files", "--yes"]
    assert main(["state", "forget", story.conf, *words]) == 0
    assert story.found() == ([0], [])
    assert main(["state", "undo", story.conf, "--yes"]) == 0
    assert story.found() == ([0, 100], [101])
    assert main(["state", "forget", story.conf, *words]) == 0
    story.run(day(2))
    rows, late = story.found()
    assert sorted([*rows, *late]) == [0, 100, 101]


def test_a_rewind_brings_late_rows_back_with_the_files_of_their_work_units(
    source: DayRows, tmp_path: Path
) -> None:
    story = LateStory(tmp_path, source, **MODES["window_replace"])
    head = story.head()
    words = ["--from", "2020-01-02", "--to", "2020-01-02T12:00:00Z", "--withdraw-files", "--yes"]
    assert main(["state", "forget", story.conf, *words]) == 0
    assert story.found() == ([0], [])
    assert head is not None
    words = [str(head["sequenceNumber"]), "--withdraw-files", "--yes"]
    assert main(["state", "rewind", story.conf, "--to", *words]) == 0
    assert story.found() == ([0, 100], [101])


@pytest.mark.parametrize("mode", ["append", "window_replace"])
def test_a_rewind_takes_the_late_rows_of_a_run_that_published_nothing_else(
    source: DayRows, tmp_path: Path, mode: str
) -> None:
    story = LateStory(tmp_path, source, **MODES[mode])
    head = story.head()
    assert head is not None
    source.days[day(2)] = [at(0, 2, id_=200)]
    story.run(day(3))
    assert story.found() == ([0, 100], [101, 200])
    words = [str(head["sequenceNumber"]), "--withdraw-files", "--yes"]
    assert main(["state", "rewind", story.conf, "--to", *words]) == 0
    assert story.found() == ([0, 100], [101])
    assert main(["state", "undo", story.conf, "--yes"]) == 0
    assert story.found() == ([0, 100], [101, 200])
    assert main(["state", "undo", story.conf, "--yes"]) == 0
    story.run(day(3))
    assert story.found() == ([0, 100], [101, 200])


@pytest.mark.parametrize("verb", ["publish", "undo"])
def test_an_act_that_is_given_up_leaves_late_rows_where_they_were(
    source: DayRows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    story = LateStory(tmp_path, source, **MODES["window_replace"])
    backfills = Backfills(story, 2)
    definition = backfills.take(range(1, 2))
    if verb == "undo":
        backfills.publish(definition)
    before = story.found()

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FileDestination, "carry_out", die)
        with pytest.raises(KeyboardInterrupt):
            getattr(backfills, verb)(definition)
    assert main(["runs", "abandon", story.conf, "--yes"]) == 0
    assert story.found() == before
    getattr(backfills, verb)(definition)
    assert story.found() == (([0, 100, 101], []) if verb == "publish" else ([0, 100], [101]))


@pytest.mark.parametrize("kind", ["files", "delta"])
@pytest.mark.parametrize("mode", ["window_replace", "merge"])
@pytest.mark.parametrize("is_lost", [False, True], ids=["abandoned", "finished without late rows"])
def test_a_backfill_that_readers_see_and_that_cannot_be_finished_has_each_row_once(
    source: DayRows,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    mode: str,
    *,
    is_lost: bool,
) -> None:
    story = LateStory(tmp_path, source, **MODES[mode], ms__table__format=kind)
    backfills = Backfills(story, 2)
    definition = backfills.take(range(1, 2))
    with monkeypatch.context() as patch:
        patch.setattr(publisher, "place_files", killed_after(1, publisher.place_files))
        with pytest.raises(KilledError):
            backfills.publish(definition)
    assert story.found() == ([0, 100, 101], [101])
    words = ["abandon"]
    if is_lost:
        words = ["finish", "--without-lost"]
        shutil.rmtree(story.late_folder)
    assert main(["runs", *words, story.conf, "--yes"]) == 0
    assert story.found() == ([0, 100, 101], [])


@pytest.mark.parametrize("kind", some_long(["files", "delta"], "delta"))
@pytest.mark.parametrize("verb", ["publish", "undo"])
def test_an_act_that_was_killed_takes_late_rows_along_when_it_is_done_again(
    source: DayRows, tmp_path: Path, verb: str, kind: str
) -> None:
    live, base = tmp_path / "job", tmp_path / "before"
    story = LateStory(live, source, **MODES["window_replace"], ms__table__format=kind)
    backfills = Backfills(story, 2)
    definition = backfills.take(range(1, 2))
    if verb == "undo":
        backfills.publish(definition)
    before, after = ([0, 100], [101]), ([0, 100, 101], [])
    if verb == "undo":
        before, after = after, before
    shutil.copytree(live, base)
    order = {"job": story.conf, "now": day(2), "id": definition.id}
    with KillServer(SERVER) as kills:
        whole = kills.order(**order, verb=verb, at=-1)
        assert (whole["error"], story.found()) == ("", after)
        chosen = sorted(set(steps(whole["events"]).values()))
        for number, at_step in enumerate(spread(chosen, KILLS)):
            restore(base, live)
            step = f"killed at {at_step}: {whole['events'][at_step]}"
            assert kills.order(**order, verb=verb, at=at_step)["killed"], step
            if number % 2:
                assert kills.order(**order, verb="run", at=-1)["error"] == "", step
                assert story.found() in (before, after), step
            assert kills.order(**order, verb=verb, at=-1)["error"] == "", step
            assert story.found() == after, step
