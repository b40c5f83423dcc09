"""``dil state prune`` deletes what was put aside long ago, and nothing that undo asks for."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.storage.local import LocalFilesystem
from tests.jobs import dataset
from tests.killed import KilledError
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS
from tests.stories import Story, day, ids_of, work_unit


class PrunedStory(Story):
    """A job with two forgotten work units, whose files were withdrawn by an act each."""

    def __init__(self, folder: Path, source: HttpServer) -> None:
        super().__init__(folder, source, ms__retention='{"aside": "P30D"}')
        self.run(day(2))
        self.in_order: list[Path] = []
        for unit in ("a", "b"):
            self.forget(work_unit(0, unit))
            self.in_order += [path for path in self.copies() if path not in self.in_order]
        self.later = ["--now", "2030-01-01T00:00:00Z"]

    def forget(self, signature: str) -> None:
        assert self.dil("forget", "--signature", signature, "--withdraw-files", "--yes") == 0

    def dil(self, verb: str, *options: str) -> int:
        return main(["state", verb, str(self.folder / "orders.conf"), *options])

    def copies(self) -> list[Path]:
        return sorted((dataset(self.folder) / "_dil" / "withdrawn").rglob("*.parquet"))

    def put(self, name: str) -> Path:
        path = dataset(self.folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
        return path


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> PrunedStory:
    return PrunedStory(tmp_path, source)


def test_copies_of_acts_that_cannot_be_undone_any_more_are_deleted(story: PrunedStory) -> None:
    first, second = story.in_order

    assert story.dil("prune", *story.later) == 0
    assert set(story.copies()) == {first, second}, "a preview deletes nothing"
    assert story.dil("prune", *story.later, "--yes") == 0

    assert story.copies() == [second]
    assert not first.parent.exists()
    assert story.dil("undo", "--yes") == 0, "the last act is undone as before"
    assert story.rows() == ids_of("a", "b", days=range(2)) - ids_of("a", days=range(1))
    story.head()


def test_the_copies_of_one_act_stay_together_while_one_of_them_is_young(story: PrunedStory) -> None:
    first, second = story.in_order
    late = 1_893_000_000  # some days before 2030
    young = first.with_name("1-late.parquet")
    young.write_bytes(first.read_bytes())
    os.utime(young, (late, late))

    assert story.dil("prune", *story.later, "--yes") == 0

    assert set(story.copies()) == {first, young, second}


def test_young_copies_stay_and_so_do_all_without_a_period(story: PrunedStory) -> None:
    kept = story.copies()
    for path in kept:
        os.utime(path, (story.clock / 1000, story.clock / 1000))
    assert story.dil("prune", "--yes", "--now", "2022-10-01T00:00:00Z") == 0
    assert story.copies() == kept
    del story.changes["ms__retention"]
    story.job()
    assert story.dil("prune", *story.later, "--yes") == 0
    assert story.copies() == kept


def test_rows_that_were_put_aside_and_audits_go_by_their_age(
    story: PrunedStory, capsys: pytest.CaptureFixture[str]
) -> None:
    old = [story.put(f"{folder}/part-x-1-0.json") for folder in ("_quarantine", "_failed")]
    old.append(story.put("_audit/2020/x.jsonl"))
    young = story.put("_quarantine/part-y-1-0.json")
    late = (day(0) + 5000 * DAY_MS) / 1000
    os.utime(young, (late, late))
    capsys.readouterr()

    assert story.dil("prune", *story.later, "--json") == 0
    found = json.loads(capsys.readouterr().out)["leftovers"]
    assert {each["folder"]: each["files"] for each in found} == {
        "_dil/withdrawn": 2, "_quarantine": 1, "_failed": 1, "_audit": 1,
    }  # fmt: skip
    assert story.dil("prune", *story.later, "--yes") == 0

    assert not any(path.exists() for path in old)
    assert young.exists()
    assert not (dataset(story.folder) / "_audit").exists()


def test_nothing_outside_of_the_dataset_is_deleted(story: PrunedStory, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "part-x-1-0.json").write_text("{}")
    (dataset(story.folder) / "_failed").symlink_to(outside)
    story.put("_quarantine/part-x-1-0.json")
    (dataset(story.folder) / "_quarantine" / "more").symlink_to(outside)

    assert story.dil("prune", *story.later, "--yes") == 0

    assert (outside / "part-x-1-0.json").exists()
    assert not list((dataset(story.folder) / "_quarantine").glob("*.json"))


def test_what_another_job_of_the_dataset_put_aside_stays(
    story: PrunedStory, source: HttpServer
) -> None:
    other = story.put("_dil/withdrawn/forget-of-another-job/0-part.parquet")
    aside = story.put("_quarantine/part-x-1-0.json")
    story.run(day(2), story.job(job__name="other", state__store__dir=str(story.folder / "other")))
    story.job()

    assert story.dil("prune", *story.later, "--yes") == 0

    assert other.exists()
    assert aside.exists()
    assert len(story.copies()) == 2, "its own act is old, and the other one can be undone"


def test_a_prune_that_was_killed_goes_on_when_it_is_called_again(
    story: PrunedStory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        story.put(f"_quarantine/part-x-1-{number}.json")
    delete, gone = LocalFilesystem.delete_file, []

    def some(self, path):
        if "_quarantine" in path and len(gone) == 2:
            raise KilledError
        gone.append(path)
        return delete(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(LocalFilesystem, "delete_file", some)
        story.dil("prune", *story.later, "--yes")
    assert story.dil("prune", *story.later, "--yes") == 0

    assert not list((dataset(story.folder) / "_quarantine").glob("*"))
    assert len(story.copies()) == 1
    story.head()
