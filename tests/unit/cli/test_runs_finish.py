"""``dil runs finish --without-lost`` when it is cut off, and of an operator's act."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.model.report import RunStatus
from dil.publishing import publisher
from dil.storage.local import LocalFilesystem
from tests.jobs import dataset, manifest_files, visible_files
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import ROWS_PER_DAY, STEP_MS, Story, day, ids_of, work_unit


class KilledError(BaseException):
    """The process is gone."""


@pytest.fixture
def source() -> Iterator[HttpServer]:
    rows = Dataset.generate(6 * ROWS_PER_DAY, units=("a", "b"), step_ms=STEP_MS)
    with HttpServer(rows) as server:
        yield server


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source)


def die(*arguments, **options):
    raise KilledError


def dil(story: Story, room: str, verb: str, *options: str) -> int:
    return main([room, verb, str(story.folder / "orders.conf"), *options, "--yes"])


def test_an_undo_whose_copies_are_gone_is_finished_and_the_rows_stay_to_be_read(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.run(day(3))
    assert dil(story, "state", "forget", "--signature", work_unit(1, "a"), "--withdraw-files") == 0
    with monkeypatch.context() as patch:
        patch.setattr(publisher, "carry_out", die)
        dil(story, "state", "undo")
    for copy in (dataset(story.folder) / "_dil/withdrawn").rglob("*.parquet"):
        copy.unlink()

    assert dil(story, "runs", "finish", "--without-lost") == 0

    assert story.states()[work_unit(1, "a")].status == "PENDING"
    assert story.run(day(3)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_a_finish_that_is_cut_off_leaves_no_file_that_the_manifest_does_not_know(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.changes["ms.publish.mode"] = "replace"
    story.run(day(2))
    move, moved = LocalFilesystem.move, []

    def some(self, source, target, *, mode=None):
        if len(moved) == 3:
            raise KilledError
        moved.append(target)
        return move(self, source, target, mode=mode)

    with monkeypatch.context() as patch:
        patch.setattr(LocalFilesystem, "move", some)
        with pytest.raises(KilledError):
            story.run(day(3))
    next(path for path in story.staged() if path.suffix == ".parquet").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(LocalFilesystem, "delete_file", die)
        dil(story, "runs", "finish", "--without-lost")

    assert dil(story, "runs", "finish", "--without-lost") == 0

    assert manifest_files(story.folder) == visible_files(story.folder)
    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3))
