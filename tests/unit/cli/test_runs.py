"""``dil runs``: what ran, what is left in staging, and a publish that lost its files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import CommitUnknownError, WriteError
from dil.model.report import RunStatus
from dil.storage.local import LocalFilesystem
from tests.servers.http_server import HttpServer
from tests.stories import ROWS_PER_DAY, Story, day, failing, ids_of, work_unit

pytestmark = pytest.mark.slow


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source)


class Dil:
    """Calls ``dil runs`` about the story's job."""

    def __init__(self, story: Story, capsys: pytest.CaptureFixture[str]) -> None:
        self._path = str(story.folder / "orders.conf")
        self._capsys = capsys
        self.error = ""

    def __call__(self, verb: str, *options: str, code: int = 0) -> str:
        self._capsys.readouterr()
        assert main(["runs", verb, self._path, *options]) == code
        told = self._capsys.readouterr()
        self.error = told.err
        return told.out

    def json(self, verb: str, *options: str):
        return json.loads(self(verb, "--json", *options))


@pytest.fixture
def dil(story: Story, capsys: pytest.CaptureFixture[str]) -> Dil:
    return Dil(story, capsys)


def broken_off(story: Story, monkeypatch: pytest.MonkeyPatch, **changes: str) -> None:
    """Run two days; the publish stops after its intent, before the first file moves."""

    def refuse(self, source, target, *, mode=None):
        raise WriteError(f"{target}: disk full", "Make room.")

    with monkeypatch.context() as patch:
        patch.setattr(LocalFilesystem, "move", refuse)
        assert story.run(day(2), story.job(**changes)).status is RunStatus.FAILED


# Listing


def test_runs_are_listed_newest_first(story: Story, source: HttpServer, dil: Dil) -> None:
    story.run(day(1))
    source.faults.append(failing(1, "a"))
    story.clock += 1000
    story.run(day(2))

    listed = dil.json("list")

    assert [run["run_id"] for run in listed] == ["run-2", "run-1"]
    assert [(run["status"], run["committed"], run["staged"]) for run in listed] == [
        ("failed", False, True),
        ("success", True, False),
    ]
    assert listed[1]["rows"] == 2 * ROWS_PER_DAY
    assert [run["run_id"] for run in dil.json("list", "--limit", "1")] == ["run-2"]
    text = dil("list")
    assert text.index("run-2") < text.index("run-1")


def test_a_job_that_never_ran_has_no_runs(story: Story, dil: Dil) -> None:
    story.job()

    assert dil.json("list") == []
    assert "no run has begun yet" in dil("list")
    assert not (story.folder / ".dil").exists()


def test_one_run_is_shown_with_what_it_staged(story: Story, source: HttpServer, dil: Dil) -> None:
    source.faults.append(failing(1, "a"))
    story.run(day(2))

    shown = dil.json("show", "run-1")

    assert shown["status"] == "failed"
    assert (shown["staging"]["planned"], shown["staging"]["complete"]) == (4, 3)
    assert shown["staging"]["reusable"] is True
    assert "3 of 4 work units complete" in dil("show", "run-1")


def test_what_another_configuration_staged_is_not_promised_to_the_next_run(
    story: Story, source: HttpServer, dil: Dil
) -> None:
    source.faults.append(failing(1, "a"))
    story.run(day(2))
    source.faults.clear()
    story.changes["ms__grace__period__days"] = "1"
    story.job()

    assert dil.json("show", "run-1")["staging"]["reusable"] is False
    assert "the next run cannot use them" in dil("clean")
    assert story.run(day(2)).units.adopted == 0


def test_an_unknown_run_is_named_as_such(story: Story, dil: Dil) -> None:
    story.run(day(1))

    dil("show", "run-9", code=2)
    assert '"run-9" is no run of orders' in dil.error


# Cleaning


def test_cleaning_is_previewed_and_then_loses_no_row(
    story: Story, source: HttpServer, dil: Dil
) -> None:
    source.faults.append(failing(1, "a"))
    story.run(day(2))
    source.faults.clear()

    assert "nothing was deleted" in dil("clean")
    assert story.staged() != []
    assert dil.json("clean", "--yes")["cleaned"] == 1
    assert story.staged() == []
    report = story.run(day(2))

    assert (report.units.adopted, report.units.succeeded) == (0, 4)
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_a_folder_that_no_run_knows_is_swept_too(story: Story, dil: Dil) -> None:
    story.run(day(1))
    stray = story.folder / "lake/_staging/orders/run-of-a-lost-state/x"
    stray.mkdir(parents=True)
    (stray / "part.parquet").write_bytes(b"x" * 10)

    found = dil.json("clean")["leftovers"]

    assert [(one["run_id"], one["status"], one["bytes"]) for one in found] == [
        ("run-of-a-lost-state", None, 10)
    ]
    dil("clean", "--yes")
    assert story.staged() == []


def test_nothing_is_cleaned_while_a_publish_waits(
    story: Story, dil: Dil, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_off(story, monkeypatch)

    dil("clean", "--yes", code=1)

    assert "began to publish" in dil.error
    story.run(day(2))
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_nothing_is_cleaned_while_a_run_is_under_way(story: Story, dil: Dil, source) -> None:
    source.faults.append(failing(1, "a"))
    story.run(day(2))
    with story.store() as store:
        lease = store.acquire_lease("another", lease_s=10**9)
        dil("clean", "--yes", code=3)
        store.release_lease(lease)
    assert story.staged() != []


# A publish whose staged files are gone


def lose(story: Story, number: int, unit: str) -> None:
    """Delete what was staged for one work unit."""
    lost = [
        folder
        for folder in (story.folder / "lake/_staging/orders/run-1").iterdir()
        if folder.is_dir() and work_unit(number, unit).replace('"', '\\"') in _result(folder)
    ]
    assert len(lost) == 1
    shutil.rmtree(lost[0])


def _result(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.rglob("result.json"))


def test_a_publish_is_finished_without_a_work_unit_that_lost_its_files(
    story: Story, dil: Dil, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_off(story, monkeypatch)
    lose(story, 0, "a")
    with pytest.raises(CommitUnknownError, match="runs finish"):
        story.run(day(2))

    assert "restore the files" in dil("finish", "--yes", code=2)
    assert story.rows() == {}
    assert dil.json("finish", "--without-lost", "--yes")["finished"] is True

    assert story.rows() == ids_of("b", days=range(1)) + ids_of("a", "b", days=range(1, 2))
    assert story.states()[work_unit(0, "a")].status == "FAILED"
    story.head()
    story.run(day(2))
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_a_replace_that_lost_a_file_is_given_up_as_a_whole(
    story: Story, dil: Dil, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"ms.publish.mode": "replace"}
    broken_off(story, monkeypatch, **changes)
    lose(story, 0, "a")

    dil("finish", "--without-lost", "--yes")

    assert story.rows() == {}
    story.run(day(2), story.job(**changes))
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_a_window_replace_keeps_the_old_files_of_what_was_lost(
    story: Story, dil: Dil, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"ms.publish.mode": "window_replace", "ms.grace.period.days": "5"}
    story.run(day(1), story.job(**changes))
    story.clock += 1000

    def refuse(self, source, target, *, mode=None):
        raise WriteError(f"{target}: disk full", "Make room.")

    with monkeypatch.context() as patch:
        patch.setattr(LocalFilesystem, "move", refuse)
        story.run(day(2))
    again = story.folder / "lake/_staging/orders/run-2"
    for folder in again.iterdir():
        if folder.is_dir() and work_unit(0, "a").replace('"', '\\"') in _result(folder):
            shutil.rmtree(folder)

    dil("finish", "--without-lost", "--yes")

    assert story.rows() == ids_of("a", "b", days=range(2))


def test_a_publish_that_lost_nothing_can_be_finished_without_a_run(
    story: Story, dil: Dil, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_off(story, monkeypatch)

    assert "--yes does it" in dil("finish")
    dil("finish", "--yes")

    assert story.rows() == ids_of("a", "b", days=range(2))
    assert "no publish is unfinished" in dil("finish")
