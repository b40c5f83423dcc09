"""A backfill of which files are gone: what is still there stays, and the rest is read again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import StateError
from dil.model.work_unit import unit_hash
from dil.operator.backfill.definition import BackfillDefinition
from dil.operator.backfill.status import Phase
from dil.storage.local import LocalFilesystem
from tests.backfills import Backfills, correct, notes_of, source_notes
from tests.jobs import dataset, properties, published_ids, visible_files
from tests.killed import KilledError, killed_after
from tests.servers.http_server import HttpServer
from tests.stories import ROWS_PER_DAY, Story, day, ids_of, work_unit

MODES = {
    "window_replace": {"ms__publish__mode": "window_replace"},
    "merge": {"ms__publish__mode": "merge", "extract__primary__key__fields": "id,unit"},
}


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    """Return a job that asks for one row at a time and writes a file of it."""
    parameters = json.loads(properties(tmp_path, source.url)["ms.parameters"])
    parameters[-1]["value"] = 1
    changes = {"ms__writer__target__bytes": "1", "ms__writer__row__group__rows": "1"}
    changes["ms__parameters"] = json.dumps(parameters)
    return Story(tmp_path, source, **MODES["window_replace"], **changes)


def begin_to_publish(
    backfills: Backfills, definition: BackfillDefinition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill the publish of a backfill when three files are at their names."""
    with monkeypatch.context() as patch:
        patch.setattr(LocalFilesystem, "move", killed_after(3, LocalFilesystem.move))
        with pytest.raises(KilledError):
            backfills.publish(definition)


def held(story: Story, signature: str = "") -> list[Path]:
    """Return the files in the folder of the backfill, those of one work unit if it is named."""
    word = f"-{unit_hash(signature)}-" if signature else ""
    files = (story.folder / "lake" / "_backfill").rglob("part-*.parquet")
    return sorted(path for path in files if word in path.name)


def lose(story: Story, signature: str) -> None:
    """Delete the last of the files of a work unit, which is not at its name yet."""
    held(story, signature)[-1].unlink()


def finish(story: Story, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    capsys.readouterr()
    assert main(["runs", "finish", str(story.folder / "orders.conf"), *options]) == 0
    return capsys.readouterr().out


def test_a_publish_without_a_lost_file_keeps_the_others_of_its_work_unit(
    story: Story,
    source: HttpServer,
    backfills: Backfills,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    story.run(day(4))
    for number in (5, 9):
        correct(source, "a", number)
    definition = backfills.take(range(1, 3), "a")
    others = held(story, work_unit(1, "a"))[:-1]
    assert len(others) == 3
    begin_to_publish(backfills, definition, monkeypatch)
    lose(story, work_unit(1, "a"))

    shown = finish(story, capsys)
    assert "1 work unit would stay as they are" in shown
    assert "3 other files of these work units, with 3 rows, would go back to their" in shown
    assert others != held(story, work_unit(1, "a")), "some are at their names"
    finish(story, capsys, "--without-lost", "--yes")

    assert held(story, work_unit(1, "a")) == others
    assert published_ids(others).total() == 3
    expected = source_notes(source, range(4))
    expected[("a", 5, "corrected")] = 0
    expected[("a", 5, None)] = 1
    assert notes_of(story) == +expected
    assert backfills.status(definition).phase is Phase.PUBLISHED
    story.head()


@pytest.mark.parametrize("mode", MODES)
def test_a_publish_of_which_nothing_is_left_is_asked_for_again(
    story: Story,
    source: HttpServer,
    backfills: Backfills,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mode: str,
) -> None:
    story.changes.update(MODES[mode])
    story.run(day(4))
    before = notes_of(story)
    correct(source, "a", 5)
    days = range(1, 3) if mode == "merge" else range(1, 2)
    definition = backfills.take(days, "a")
    head = story.head()
    begin_to_publish(backfills, definition, monkeypatch)
    lose(story, work_unit(days[-1], "a"))

    assert "nothing of the publish would be left: it can be asked for again" in finish(
        story, capsys
    )
    finish(story, capsys, "--without-lost", "--yes")

    assert len(held(story)) == ROWS_PER_DAY * len(days) - 1
    assert (notes_of(story), story.head()) == (before, head)
    assert backfills.status(definition).lost == {work_unit(days[-1], "a")}
    with pytest.raises(StateError, match="not complete"):
        backfills.publish(definition)
    assert backfills.read(definition).rows == ROWS_PER_DAY
    backfills.publish(definition)
    assert notes_of(story) == source_notes(source, range(4))


def test_work_units_that_lost_files_are_left_out_or_read_again(
    story: Story, source: HttpServer, backfills: Backfills
) -> None:
    story.run(day(4))
    correct(source, "a", 5)
    definition = backfills.take(range(1, 3), "a")
    lose(story, work_unit(2, "a"))
    assert backfills.status(definition).phase is Phase.UNFINISHED

    found = backfills.propose(definition, is_partial=True)
    assert [unit.signature for unit in found.work_units] == [work_unit(1, "a")]
    assert backfills.read(definition).rows == ROWS_PER_DAY
    assert backfills.status(definition).phase is Phase.COMPLETE
    backfills.publish(definition)

    assert notes_of(story) == source_notes(source, range(4))


def test_nothing_is_merged_into_a_dataset_whose_manifest_is_gone(
    story: Story, backfills: Backfills
) -> None:
    story.changes |= MODES["merge"]
    story.run(day(2))
    definition = backfills.take(range(2), "a")
    shutil.rmtree(dataset(story.folder) / "_dil")
    with pytest.raises(StateError):
        backfills.publish(definition)
    assert published_ids(visible_files(story.folder)) == ids_of("a", "b", days=range(2))
