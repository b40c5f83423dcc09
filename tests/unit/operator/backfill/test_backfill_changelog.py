"""Backfills of a job that records which rows its merges change."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dil.cli.main import main
from dil.state.store.sql_store import SqlStateStore
from dil.storage.local import LocalFilesystem
from tests.backfills import Backfills, correct
from tests.killed import KilledError, killed
from tests.servers.http_server import HttpServer
from tests.stories import ROWS_PER_DAY, Story, day

CHANGELOG = {
    "ms__publish__mode": "merge",
    "extract__primary__key__fields": "id,unit",
    "ms__publish__changelog": "true",
}


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source, **CHANGELOG)


def kept(story: Story) -> list[dict[str, Any]]:
    """Return what blocks say of the changelog, oldest first."""
    with story.store() as store:
        events: list[Any] = [block["event"] for block in store.blocks()][::-1]
    return [event["changelogData"] for event in events if "changelogData" in event]


def changes(story: Story) -> list[tuple[bool, Counter[int]]]:
    """Return of each block with a changelog whether it begins there, and its rows by ``op``."""
    found = []
    for each in kept(story):
        paths = [part["path"].removeprefix("file://") for part in each["parts"]]
        rows = Counter(op for path in paths for op in pq.read_table(path)["op"].to_pylist())
        found.append((each["isBegun"], rows))
    return found


def test_a_backfill_is_recorded_and_its_undo_lets_the_changelog_begin_anew(
    story: Story, source: HttpServer
) -> None:
    story.run(day(4))
    correct(source, "a", 5)
    backfills = Backfills(story, 4)
    backfills.publish(backfills.take(range(1, 3)))
    every = ROWS_PER_DAY * 2
    assert changes(story) == [(True, Counter({0: 4 * every})), (False, Counter({2: 1, 3: 1}))]

    backfills.undo(backfills.known()[0])
    assert len(changes(story)) == 2, "files that come back are no changes"
    story.run(day(5))
    assert changes(story)[2:] == [(True, Counter({0: 5 * every}))]
    assert main(["state", "verify", str(story.folder / "orders.conf"), "--full"]) == 0


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("verb", ["publish", "undo"])
def test_an_act_on_a_table_that_is_cut_off_before_its_block_is_finished_with_its_changes(
    tmp_path: Path, source: HttpServer, kind: str, verb: str
) -> None:
    table = {"ms__table__format": kind, "writer__file__path__type": ""}
    story = Story(tmp_path, source, **CHANGELOG, **table)
    story.run(day(4))
    correct(source, "a", 5)
    backfills = Backfills(story, 4)
    definition = backfills.take(range(1, 3))
    if verb == "undo":
        backfills.publish(definition)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqlStateStore, "commit", killed)
        with pytest.raises(KilledError):
            backfills.publish(definition) if verb == "publish" else backfills.undo(definition)
    story.run(day(5))

    every = ROWS_PER_DAY * 2
    corrected = [(True, Counter({0: 4 * every})), (False, Counter({2: 1, 3: 1}))]
    anew = verb == "undo"  # files that come back are no changes
    assert changes(story) == [*corrected, (anew, Counter({0: (5 if anew else 1) * every}))]
    assert main(["state", "verify", str(story.folder / "orders.conf"), "--full"]) == 0


def test_a_publish_that_is_given_up_leaves_no_changelog(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.run(day(1))
    before = changes(story)
    move = LocalFilesystem.move

    def only_changes(self, source, target, *, mode=None):
        if "_changelog" not in target:
            raise KilledError
        return move(self, source, target, mode=mode)

    with monkeypatch.context() as patch:
        patch.setattr(LocalFilesystem, "move", only_changes)
        with pytest.raises(KilledError):
            story.run(day(2))
    folder = next((story.folder / "lake").rglob("*_changelog"))
    assert len(list(folder.glob("part-*"))) > len(before)
    assert main(["runs", "abandon", str(story.folder / "orders.conf"), "--yes"]) == 0
    assert changes(story) == before
    assert len(list(folder.glob("part-*"))) == sum(len(each["parts"]) for each in kept(story))

    story.run(day(2))
    assert changes(story)[-1] == (False, Counter({0: 2 * ROWS_PER_DAY}))
