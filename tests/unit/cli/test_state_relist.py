"""``dil state relist``: after a restore the chain is given the files that the dataset has."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.state.chain.recorded_files import live_parts
from tests.jobs import dataset, manifest_files, visible_files
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, ids_of

MERGE = {"extract__primary__key__fields": "unit,id"}
AGAIN = {"ms__grace__period__days": "1"}


@pytest.fixture(params=["window_replace", "replace", "merge"])
def story(tmp_path: Path, source: HttpServer, request: pytest.FixtureRequest) -> Story:
    keys = MERGE if request.param == "merge" else {}
    return Story(tmp_path, source, ms__publish__mode=request.param, **keys, **AGAIN)


class Verbs:
    """Calls ``dil state`` about the job of a story."""

    def __init__(self, story: Story, capsys: pytest.CaptureFixture[str]) -> None:
        self._path = story.folder / "orders.conf"
        self._capsys = capsys

    def __call__(self, verb: str, *options: object, code: int = 0) -> str:
        self._capsys.readouterr()
        assert main(["state", verb, str(self._path), *map(str, options)]) == code
        told = self._capsys.readouterr()
        return told.err + told.out


def restored(story: Story, verbs: Verbs) -> None:
    """Run, back up, run on with days read again, restore the backup, and run once more."""
    story.run(day(2))
    verbs("backup", story.folder / "early.db", "--yes")
    story.run(day(3))
    story.run(day(4))
    verbs("restore", story.folder / "early.db", "--yes")
    assert "is an older copy" in verbs("verify", code=1)
    story.run(day(4))


def test_after_a_restore_and_a_run_relist_makes_the_state_sound(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    verbs = Verbs(story, capsys)
    restored(story, verbs)
    assert story.rows() == ids_of("a", "b", days=range(4))
    assert "run the job, then dil state relist" in verbs("verify", code=1)
    files = manifest_files(story.folder)

    shown = verbs("relist")
    assert "that left the dataset" in shown
    assert shown.endswith("nothing was changed; --yes does it\n")
    verbs("verify", code=1)
    done = verbs("relist", "--yes")
    assert "this cannot be undone" in done
    assert "SOUND" in verbs("verify", "--full")

    assert manifest_files(story.folder) == files
    assert "nothing to change" in verbs("relist", "--yes")
    assert "it changed no row" in verbs("undo", "--yes", code=1)
    story.run(day(5))
    assert story.rows() == ids_of("a", "b", days=range(5))
    assert "SOUND" in verbs("verify", "--full")


def test_a_live_file_that_was_lost_stays_lost(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    verbs = Verbs(story, capsys)
    story.run(day(2))
    manifest_files(story.folder)[0].unlink()
    assert "nothing to change" in verbs("relist", "--yes")
    assert "V20" in verbs("verify", code=1)


def test_a_file_that_only_the_manifest_lacks_stays_listed(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    verbs = Verbs(story, capsys)
    story.run(day(2))
    shutil.rmtree(dataset(story.folder) / "_dil")

    assert "nothing to change" in verbs("relist", "--yes")

    with story.store() as store:
        assert set(live_parts(store)) == {path.as_uri() for path in visible_files(story.folder)}


def test_files_of_a_dataset_with_another_job_are_not_listed(
    tmp_path: Path, source: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The manifest does not say which of the two jobs published a file."""
    story = Story(tmp_path, source)
    story.run(day(1))
    story.run(day(2), story.job(**{"job.name": "second"}))
    story.job()

    told = Verbs(story, capsys)("relist", "--yes", code=1)

    assert "DIL-STATE" in told
    assert "second" in told


def test_relist_lists_what_it_records_as_json(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    verbs = Verbs(story, capsys)
    restored(story, verbs)
    told = json.loads(verbs("relist", "--json"))
    assert told["verb"] == "relist"
    assert not told["applied"]
    live = {path.as_uri() for path in manifest_files(story.folder)}
    assert set(told["files"]["listed"]) <= live
    assert told["files"]["no_longer_listed"]
    assert live.isdisjoint(told["files"]["no_longer_listed"])
