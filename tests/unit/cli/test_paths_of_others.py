"""Edited state, staging and manifests: no command moves or deletes a file that is not the job's."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import WriteError
from dil.model.report import RunStatus
from dil.storage.local import LocalFilesystem
from tests.jobs import dataset
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, failing, ids_of, snapshot

Plant = Callable[[Path], Path]


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path / "job", source)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Return a folder of somebody else, with files in it."""
    folder = tmp_path / "foreign"
    (folder / "deep").mkdir(parents=True)
    (folder / "precious.parquet").write_text("do not touch")
    (folder / "deep" / "more.txt").write_text("nor this")
    return folder


def dil(story: Story, *words: str) -> int:
    room, verb, *options = words
    return main([room, verb, str(story.folder / "orders.conf"), *options])


def edit(story: Story, statement: str, *values: object) -> None:
    """Change the state store as somebody who may write its file."""
    (path,) = (story.folder / "state").glob("*.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement, values).rowcount == 1


def edit_intent(story: Story, change: Callable[[dict], None]) -> None:
    (path,) = (story.folder / "state").glob("*.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        ((text,),) = connection.execute("SELECT payload FROM intent").fetchall()
        intent = json.loads(text)
        change(intent["intent"])
        connection.execute("UPDATE intent SET payload = ?", (json.dumps(intent),))


def edit_manifest(story: Story, change: Callable[[dict], None]) -> None:
    meta = dataset(story.folder) / "_dil"
    path = meta / json.loads((meta / "current.json").read_text())["manifest"]
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def broken_off(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run two days; the publish stops after its intent, before the first file moves."""

    def refuse(self, source, target, *, mode=None):
        raise WriteError(f"{target}: disk full", "Make room.")

    with monkeypatch.context() as patch:
        patch.setattr(LocalFilesystem, "move", refuse)
        assert story.run(day(2)).status is RunStatus.FAILED


def by_name(story: Story, foreign: Path) -> str:
    return str(foreign)


def by_dots(story: Story, foreign: Path) -> str:
    return f"{story.folder}/lake/_staging/orders/../../../../{foreign.name}"


def by_link(story: Story, foreign: Path) -> str:
    staging = story.folder / "lake" / "_staging" / "orders"
    for path in sorted((staging / "run-1").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (staging / "run-1").rmdir()
    (staging / "run-1").symlink_to(foreign)
    return str(staging / "run-1")


@pytest.mark.parametrize("way", [by_name, by_dots, by_link])
@pytest.mark.parametrize("words", [("runs", "clean", "--yes"), ("run",)], ids=" ".join)
def test_a_staging_folder_that_is_not_the_jobs_is_left_alone(
    story: Story, source: HttpServer, foreign: Path, way, words: tuple[str, ...]
) -> None:
    source.faults.append(failing(1, "a"))
    assert story.run(day(2)).status is RunStatus.FAILED
    source.faults.clear()
    place, before = way(story, foreign), snapshot(foreign)
    edit(story, "UPDATE run SET staging_dir = ?", place)

    if words == ("run",):
        assert story.run(day(2)).status is RunStatus.SUCCESS
        assert story.rows() == ids_of("a", "b", days=range(2))
        assert dil(story, "runs", "clean", "--yes") == 0
    else:
        assert dil(story, *words) == 0

    assert snapshot(foreign) == before
    assert "run-1" not in story.runs()


def moves_a_foreign_file(intent: dict, foreign: Path, story: Story) -> None:
    intent["commit"]["moves"][0]["source"] = str(foreign / "precious.parquet")


def moves_by_dots(intent: dict, foreign: Path, story: Story) -> None:
    move = intent["commit"]["moves"][0]
    up = "/".join([".."] * (len(Path(move["source"]).parts) + 2))
    move["source"] = f"{Path(move['source']).parent}/{up}{foreign}/precious.parquet"


def moves_a_link(intent: dict, foreign: Path, story: Story) -> None:
    source = Path(intent["commit"]["moves"][0]["source"])
    source.unlink()
    source.symlink_to(foreign / "precious.parquet")


def moves_a_link_of_the_same_name(intent: dict, foreign: Path, story: Story) -> None:
    source = Path(intent["commit"]["moves"][0]["source"])
    other = story.folder / source.name
    other.write_text("of somebody else")
    source.unlink()
    source.symlink_to(other)


def publishes_outside(intent: dict, foreign: Path, story: Story) -> None:
    intent["commit"]["moves"][0]["target"]["uri"] = (foreign / "new.parquet").as_uri()


def publishes_by_encoded_dots(intent: dict, foreign: Path, story: Story) -> None:
    base = dataset(story.folder).as_uri()
    intent["commit"]["moves"][0]["target"]["uri"] = f"{base}/%2e%2e/%2e%2e/%2e%2e/x.parquet"


def removes_a_foreign_file(intent: dict, foreign: Path, story: Story) -> None:
    removed = {**intent["commit"]["moves"][0]["target"]}
    removed["uri"] = (foreign / "precious.parquet").as_uri()
    intent["commit"]["removes"] = [removed]


def removes_a_foreign_dump(intent: dict, foreign: Path, story: Story) -> None:
    other = story.folder / "lake" / "other"
    (other / "_dil").mkdir(parents=True)
    (other / "x.parquet").write_text("of another job")
    removed = {**intent["commit"]["moves"][0]["target"], "is_dump": True}
    removed["uri"] = (other / "x.parquet").as_uri()
    intent["commit"]["removes"] = [removed]


def removes_foreign_rejects(intent: dict, foreign: Path, story: Story) -> None:
    intent["commit"]["quarantine_removes"] = [(foreign / "precious.parquet").as_uri()]


def writes_a_foreign_manifest(intent: dict, foreign: Path, story: Story) -> None:
    intent["dataset_dir"] = str(foreign)


INTENTS = [
    moves_a_foreign_file,
    moves_by_dots,
    moves_a_link,
    moves_a_link_of_the_same_name,
    publishes_outside,
    publishes_by_encoded_dots,
    removes_a_foreign_file,
    removes_a_foreign_dump,
    removes_foreign_rejects,
    writes_a_foreign_manifest,
]


@pytest.mark.parametrize("attack", INTENTS)
@pytest.mark.parametrize(
    ("words", "options"),
    [
        (("run",), ("--now", "2020-01-03T00:00:00Z")),
        (("runs", "finish"), ("--yes", "--without-lost")),
    ],
)
def test_an_edited_intent_touches_nothing_that_is_not_the_jobs(
    story: Story,
    foreign: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    attack: Callable[[dict, Path, Story], None],
    words: tuple[str, ...],
    options: tuple[str, ...],
) -> None:
    broken_off(story, monkeypatch)
    edit_intent(story, lambda intent: attack(intent, foreign, story))
    lake = story.folder / "lake"
    before, published = snapshot(foreign), snapshot(lake)

    assert main([*words, str(story.folder / "orders.conf"), *options]) == 1
    assert "DIL-COMMIT-UNKNOWN" in capsys.readouterr().err

    assert snapshot(foreign) == before
    assert {name for name in snapshot(lake) if "_staging" in name or "other" in name} == {
        name for name in published if "_staging" in name or "other" in name
    }


@pytest.mark.parametrize("attack", INTENTS)
def test_a_publish_whose_record_was_edited_can_be_given_up_and_no_row_is_lost(
    story: Story,
    foreign: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    attack: Callable[[dict, Path, Story], None],
) -> None:
    broken_off(story, monkeypatch)
    edit_intent(story, lambda intent: attack(intent, foreign, story))
    before = snapshot(foreign)

    assert dil(story, "runs", "abandon") == 0
    assert "nothing was done" in capsys.readouterr().out
    assert dil(story, "runs", "abandon", "--yes") == 0

    other = story.folder / "lake" / "other"
    if other.exists():
        assert (other / "x.parquet").read_text() == "of another job"
        shutil.rmtree(other)
    assert story.run(day(2)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(2))
    assert snapshot(foreign) == before


@pytest.mark.parametrize("mode", ["replace", "window_replace"])
def test_an_edited_manifest_takes_no_foreign_file_away(
    story: Story, foreign: Path, mode: str
) -> None:
    story.changes |= {"ms.publish.mode": mode, "ms.grace.period.days": "2"}
    story.run(day(2))
    before = snapshot(foreign)

    def add(manifest: dict) -> None:
        file = {**manifest["files"][0], "uri": (foreign / "precious.parquet").as_uri()}
        manifest["files"].append(file)

    edit_manifest(story, add)
    failures = story.run(day(3)).failures

    assert [failure.code for failure in failures] == ["DIL-WRITE"]
    assert "precious.parquet" in failures[0].error
    assert snapshot(foreign) == before


def test_an_edited_result_in_staging_takes_no_foreign_file_into_the_dataset(
    story: Story, source: HttpServer, foreign: Path
) -> None:
    source.faults.append(failing(1, "a"))
    story.run(day(2))
    source.faults.clear()
    for path in (story.folder / "lake" / "_staging").rglob("result.json"):
        result = json.loads(path.read_text())
        for file in result["report"]["files"]:
            link = path.parent / "linked"
            if not link.exists():
                link.symlink_to(foreign)
            file |= {"path": str(link / "precious.parquet"), "bytes": len("do not touch")}
        path.write_text(json.dumps(result))
    before = snapshot(foreign)

    report = story.run(day(2))

    assert [failure.code for failure in report.failures] == ["DIL-WRITE"]
    assert snapshot(foreign) == before
