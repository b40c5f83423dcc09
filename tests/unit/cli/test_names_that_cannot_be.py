"""One bad name never wedges a job: it is refused before a publish, and there is a way out."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import CommitUnknownError
from dil.model.report import RunStatus
from dil.publishing.files import FileDestination
from dil.publishing.publisher import Publisher
from dil.storage.local import LocalFilesystem
from tests.dumps import dump_story, dumped
from tests.killed import KilledError, killed
from tests.servers.http_server import HttpServer, Reply
from tests.stories import Story, day, ids_of

DEEP = "/".join(["d"] * 1500 + ["file"])


@pytest.mark.parametrize(
    "name",
    [DEEP, "x" * 300 + "/y", "a\0b", "/".join(["é" * 100] * 30)],
    ids=["1,500 levels", "a long part", "zero", "a long path"],
)
def test_a_name_that_no_file_can_have_fails_its_work_unit_and_no_other(
    tmp_path: Path, source: HttpServer, name: str
) -> None:
    source.script("/file", Reply(b"content", content_type="text/plain"))
    facts = {
        "ms__source__uri": f"{source.url}/file",
        "job__commit__policy": "successful",
        "task__maxretries": "0",
    }
    story = dump_story(tmp_path, source, "good.txt", name, **facts)

    first, second = story.run(day(1)), story.run(day(1))

    assert [report.status for report in (first, second)] == [RunStatus.PARTIAL, RunStatus.FAILED]
    assert {failure.code for failure in (*first.failures, *second.failures)} <= {
        "DIL-WRITE",
        "DIL-SRC-CONTRACT",
    }
    assert dumped(tmp_path) == {"good.txt": b"content"}


def test_a_publish_that_a_bad_name_keeps_from_being_finished_can_be_given_up(
    tmp_path: Path,
    source: HttpServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    story = Story(tmp_path, source)

    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "carry_out", killed)
        with pytest.raises(KilledError):
            story.run(day(1))
    (path,) = (tmp_path / "state").glob("*.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        ((text,),) = connection.execute("SELECT payload FROM intent").fetchall()
        intent = json.loads(text)
        target = intent["intent"]["commit"]["moves"][0]["target"]
        folder, _, name = target["uri"].rpartition("/")
        target["uri"] = f"{folder}/{'x' * 300}/{name}"
        connection.execute("UPDATE intent SET payload = ?", (json.dumps(intent),))
    job = str(tmp_path / "orders.conf")
    assert main(["run", job, "--now", "2020-01-02T00:00:00Z"]) == 1
    assert main(["runs", "finish", job, "--yes", "--without-lost"]) == 1

    capsys.readouterr()

    assert main(["runs", "abandon", job, "--yes", "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["abandoned"]
    assert story.run(day(1)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(1))


def test_a_publish_that_readers_see_is_kept_when_it_is_given_up(
    tmp_path: Path, source: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(tmp_path, source)

    with monkeypatch.context() as patch:
        patch.setattr("dil.run.commit.append", killed)
        with pytest.raises(KilledError):
            story.run(day(1))

    assert main(["runs", "abandon", str(tmp_path / "orders.conf"), "--yes"]) == 0

    assert story.rows() == ids_of("a", "b", days=range(1))
    assert story.run(day(1)).rows == 0
    assert story.rows() == ids_of("a", "b", days=range(1))


def test_what_readers_see_replaces_the_rows_before_it_when_the_publish_is_given_up(
    tmp_path: Path, source: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = {"ms.publish.mode": "window_replace", "ms.grace.period.days": "2"}
    story = Story(tmp_path, source, **again)
    story.run(day(2))

    with monkeypatch.context() as patch:
        patch.setattr(FileDestination, "_delete", killed)
        with pytest.raises(KilledError):
            story.run(day(3))

    assert main(["runs", "abandon", str(tmp_path / "orders.conf"), "--yes"]) == 0

    assert story.rows() == ids_of("a", "b", days=range(3))
    assert story.run(day(4)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(4))


def test_a_publish_is_not_given_up_by_a_job_that_publishes_elsewhere(
    tmp_path: Path, source: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(tmp_path, source)

    with monkeypatch.context() as patch:
        patch.setattr("dil.run.commit.append", killed)
        with pytest.raises(KilledError):
            story.run(day(1))
    elsewhere = f"data.publisher.final.dir={tmp_path}/elsewhere"

    assert main(["runs", "abandon", str(tmp_path / "orders.conf"), "--yes", "-D", elsewhere]) == 1

    assert story.run(day(1)).rows == 0
    assert story.rows() == ids_of("a", "b", days=range(1))


class FoldingFilesystem(LocalFilesystem):
    """A store as of macOS: letter case in names counts for nothing when they are looked up."""

    def exists(self, path: str) -> bool:
        return super().exists(path) or super().exists(path.replace("_STAGING", "_staging"))


@pytest.mark.parametrize(("one", "other"), [("A.txt", "a.txt"), ("é.txt", "e\u0301.txt")])
def test_names_that_are_one_on_the_store_are_a_clash(
    tmp_path: Path, source: HttpServer, monkeypatch: pytest.MonkeyPatch, one: str, other: str
) -> None:
    source.script("/file", Reply(b"content", content_type="text/plain"))
    story = dump_story(tmp_path, source, one, other, ms__source__uri=f"{source.url}/file")
    for module in ("dil.publishing.publisher", "dil.task.context"):
        monkeypatch.setattr(f"{module}.filesystem_for", lambda *_: FoldingFilesystem())

    report = story.run(day(1))

    assert report.status is RunStatus.FAILED
    assert {failure.code for failure in report.failures} == {"DIL-SRC-CONTRACT"}
    assert dumped(tmp_path) == {}
    assert CommitUnknownError.code not in {failure.code for failure in report.failures}


def test_a_name_that_is_a_live_file_in_another_letter_case_fails_before_it_replaces_that(
    tmp_path: Path, source: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.script("/file", Reply(b"content", content_type="text/plain"))
    uri = {"ms__source__uri": f"{source.url}/file"}
    for module in ("dil.publishing.publisher", "dil.task.context"):
        monkeypatch.setattr(f"{module}.filesystem_for", lambda *_: FoldingFilesystem())
    assert dump_story(tmp_path, source, "A.txt", **uri).run(day(1)).status is RunStatus.SUCCESS
    story = dump_story(tmp_path, source, "a.txt", "b.txt", **uri)

    report = story.run(day(1), run_id="run-2")

    (failure,) = report.failures
    assert failure.code == "DIL-SRC-CONTRACT"
    assert "A.txt" in failure.error
    assert dumped(tmp_path) == {"A.txt": b"content"}
    with story.store() as store:
        assert store.pending_intent() is None
