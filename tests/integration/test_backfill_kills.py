"""Kill -9 between any two steps of a backfill, then the same again: as if nothing had been.

Tasks run in the driver's process, as in test_kill_matrix.py. The killed act is done again by the
same command, or finished by the next run of the job, in turn.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from dil.operator.compaction import CompactionRequest, compact
from tests.backfills import Backfills, correct, late_row, notes_of, source_notes
from tests.jobs import manifest_files, visible_files
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import ROWS_PER_DAY, STEP_MS, Story, day
from tests.torture.kills import KillServer, restore, spread, steps

SERVER = Path(__file__).parents[1] / "torture" / "backfill_kill_server.py"
# The short form kills at this many steps of each act; the long form (make torture) at all.
KILLS = int(os.environ.get("DIL_KILLS", "3"))
WINDOW = "window_replace"
SHARED = "window_replace, shared files"
MODES = {
    WINDOW: {"ms__publish__mode": "window_replace"},
    SHARED: {"ms__publish__mode": "window_replace"},
    "merge": {
        "ms__publish__mode": "merge",
        "extract__table__type": "SNAPSHOT_APPEND",
        "extract__primary__key__fields": "id,unit",
        "extract__delta__fields": "updated_ms",
    },
}


@pytest.fixture(scope="module")
def kills():
    with KillServer(SERVER) as server:
        yield server


@pytest.fixture
def source():
    rows = Dataset.generate(4 * ROWS_PER_DAY, units=("a", "b"), step_ms=STEP_MS)
    with HttpServer(rows) as server:
        yield server


class Scene:
    """A job that ran for four days, and a backfill of two of them; rows were corrected since."""

    def __init__(self, folder: Path, source: HttpServer, kills: KillServer, mode: str) -> None:
        self.live, self.base = folder / "job", folder / "before"
        self.story = Story(self.live, source, **MODES[mode])
        self.story.run(day(4))
        if mode == SHARED:
            compact(self.story.job(), CompactionRequest(clock=lambda: self.story.clock))
            assert len(visible_files(self.live)) == 3
        self.before = notes_of(self.story)
        correct(source, "a", 5)
        late_row(source, "b", 2, 900)
        self.backfills = Backfills(self.story, 4)
        self.definition = self.backfills.begin(range(1, 3))
        self.kills = kills

    def do(self, verb: str, at: int = -1) -> dict:
        """Do one act, killed at a step."""
        answer = self.kills.order(
            job=str(self.live / "orders.conf"),
            now=day(4),
            verb=verb,
            id=self.definition.id,
            at=at,
        )
        if at == -1:
            assert (answer["killed"], answer["error"]) == (False, "")
        return answer

    def killed(self, verb: str):
        """Do an act, killed at one step after the other, from the state as it is now; yield."""
        shutil.copytree(self.live, self.base, symlinks=True)
        whole = self.do(verb)
        chosen = sorted(set(steps(whole["events"]).values()))
        for number, at in enumerate(spread(chosen, KILLS)):
            restore(self.base, self.live)
            assert self.do(verb, at)["killed"], f"step {at} was never reached"
            yield number, f"{verb} killed at {at}: {whole['events'][at]}"
        shutil.rmtree(self.base)

    def live_rows(self) -> Counter:
        assert manifest_files(self.live) == visible_files(self.live)
        return notes_of(self.story)


def test_reading_goes_on_where_it_was_killed(tmp_path, source, kills):
    scene = Scene(tmp_path, source, kills, WINDOW)

    for _, step in scene.killed("read"):
        assert scene.live_rows() == scene.before, step
        scene.do("read")
        held = scene.backfills.held(scene.definition)
        expected = Counter((unit, number) for unit, number, _ in source_notes(source, range(1, 3)))
        assert held == expected, step


@pytest.mark.parametrize("mode", MODES)
def test_a_publish_that_was_killed_is_finished_by_whoever_comes_next(mode, tmp_path, source, kills):
    scene = Scene(tmp_path, source, kills, mode)
    states = scene.story.states()
    scene.do("read")

    for number, step in scene.killed("publish"):
        if number % 2:
            scene.do("run")
            found = scene.live_rows()
            assert found in (scene.before, source_notes(source, range(4))), step
        scene.do("publish")
        assert scene.live_rows() == source_notes(source, range(4)), step
        assert scene.story.states() == states, step
        assert scene.story.head(), step


@pytest.mark.parametrize("mode", MODES)
def test_an_undo_that_was_killed_is_finished_by_whoever_comes_next(mode, tmp_path, source, kills):
    scene = Scene(tmp_path, source, kills, mode)
    states = scene.story.states()
    scene.do("read")
    scene.do("publish")

    for number, step in scene.killed("undo"):
        if number % 2:
            scene.do("run")
        scene.do("undo")
        assert scene.live_rows() == scene.before, step
        assert scene.story.states() == states, step
        assert scene.story.head(), step


def test_a_drop_that_was_killed_can_be_done_again(tmp_path, source, kills):
    scene = Scene(tmp_path, source, kills, WINDOW)
    scene.do("read")

    for _, step in scene.killed("drop"):
        if scene.backfills.known():
            scene.do("drop")
        left = (scene.live / "lake" / "_backfill").rglob("*")
        assert not [path for path in left if path.is_file()], step
        assert scene.live_rows() == scene.before, step


def test_a_drop_deletes_what_a_killed_publish_staged(tmp_path, source, kills):
    scene = Scene(tmp_path, source, kills, "merge")
    scene.do("read")
    shutil.copytree(scene.live, scene.base, symlinks=True)
    events = scene.do("publish")["events"]
    restore(scene.base, scene.live)

    merged = next(at for at, event in enumerate(events) if event.endswith(":build_commit"))
    assert scene.do("publish", merged)["killed"]
    scene.do("drop")

    staging = scene.live / "lake" / "_staging"
    assert [path for path in staging.rglob("*") if path.is_file()] == []
    assert scene.live_rows() == scene.before
