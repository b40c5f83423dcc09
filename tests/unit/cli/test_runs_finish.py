"""``dil runs finish --without-lost`` when it is cut off, and of an operator's act."""

from __future__ import annotations

from pathlib import Path

import pytest

from dil.cli.main import main
from dil.model.report import RunStatus
from dil.model.work_unit import unit_hash
from dil.publishing.publisher import Publisher
from dil.state.amendments.last_act import watermark_at
from dil.storage.local import LocalFilesystem
from tests.dumps import dump_story, dumped, listed
from tests.jobs import dataset, manifest_files, visible_files
from tests.killed import KilledError, killed, killed_after
from tests.servers.http_server import HttpServer, Reply
from tests.stories import Story, day, ids_of, work_unit

pytestmark = pytest.mark.slow


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source)


def dil(story: Story, room: str, verb: str, *options: str) -> int:
    return main([room, verb, str(story.folder / "orders.conf"), *options, "--yes"])


def test_an_undo_whose_copies_are_gone_is_finished_and_the_rows_stay_to_be_read(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.run(day(3))
    assert dil(story, "state", "forget", "--signature", work_unit(1, "a"), "--withdraw-files") == 0
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "carry_out", killed)
        dil(story, "state", "undo")
    for copy in (dataset(story.folder) / "_dil/withdrawn").rglob("*.parquet"):
        copy.unlink()

    assert dil(story, "runs", "finish", "--without-lost") == 0

    assert story.states()[work_unit(1, "a")].status == "PENDING"
    assert story.run(day(3)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_an_undo_that_brings_back_a_part_leaves_the_watermark_before_the_rest(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.run(day(3))
    units = ("--signature", work_unit(1, "a"), "--signature", work_unit(1, "b"))
    assert dil(story, "state", "forget", *units, "--withdraw-files") == 0
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "carry_out", killed)
        dil(story, "state", "undo")
    copies = (dataset(story.folder) / "_dil/withdrawn").rglob("*.parquet")
    next(path for path in copies if unit_hash(work_unit(1, "a")) in path.name).unlink()

    assert dil(story, "runs", "finish", "--without-lost") == 0

    assert story.rows() == ids_of("a", "b", days=range(3)) - ids_of("a", days=range(1, 2))
    with story.store() as store:
        head = int(str(store.head()["sequenceNumber"]))
        assert watermark_at(store.blocks(), head) == day(1)
    assert story.run(day(3)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_a_finish_that_is_cut_off_leaves_no_file_that_the_manifest_does_not_know(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.changes["ms.publish.mode"] = "replace"
    story.run(day(2))
    with monkeypatch.context() as patch:
        patch.setattr(LocalFilesystem, "move", killed_after(3, LocalFilesystem.move))
        with pytest.raises(KilledError):
            story.run(day(3))
    next(path for path in story.staged() if path.suffix == ".parquet").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(LocalFilesystem, "delete_file", killed)
        dil(story, "runs", "finish", "--without-lost")

    assert dil(story, "runs", "finish", "--without-lost") == 0

    assert manifest_files(story.folder) == visible_files(story.folder)
    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3))


def pages_story(folder: Path, source: HttpServer) -> Story:
    """Return a job whose only work unit dumps the pages x_0, x_1 and the empty x_2."""
    return dump_story(
        folder,
        source,
        "x",
        ms__parameters='[{"name":"page","type":"pageno"}]',
        ms__pagination='{"initialvalues":[0,10,1]}',
    )


def lose_the_second_page(story: Story, now: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run until the first page is at its name; what is staged of the second one disappears."""
    with monkeypatch.context() as patch:
        patch.setattr(LocalFilesystem, "replace", killed_after(1, LocalFilesystem.replace))
        with pytest.raises(KilledError):
            story.run(now)
    for path in story.staged():
        if path.name.startswith("dump-"):
            path.unlink()


def test_a_page_that_took_a_new_name_goes_with_its_work_unit_and_comes_with_it_again(
    tmp_path: Path, source: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = pages_story(tmp_path, source)
    source.script("/files/x", Reply(b"p0"), Reply(b"p1"), Reply(b""))
    lose_the_second_page(story, day(3), monkeypatch)

    assert dil(story, "runs", "finish", "--without-lost") == 0

    assert dumped(tmp_path) == {}
    assert dil_verify(story) == 0
    source.script("/files/x", Reply(b"p0"), Reply(b"p1"), Reply(b""))
    assert story.run(day(3)).status is RunStatus.SUCCESS
    assert dumped(tmp_path) == {"x_0": b"p0", "x_1": b"p1", "x_2": b""}
    assert listed(tmp_path) == {"x_0": 2, "x_1": 2, "x_2": 0}


@pytest.mark.parametrize("cut_off", [False, True])
def test_a_page_that_replaced_an_earlier_one_is_listed_as_it_is_until_it_is_read_again(
    tmp_path: Path, source: HttpServer, monkeypatch: pytest.MonkeyPatch, *, cut_off: bool
) -> None:
    story = pages_story(tmp_path, source)
    source.script("/files/x", Reply(b"old 0"), Reply(b"old 1"), Reply(b""))
    story.run(day(3))
    source.script("/files/x", Reply(b"new page 0"), Reply(b"new page 1"), Reply(b""))
    lose_the_second_page(story, day(4), monkeypatch)
    if cut_off:
        with monkeypatch.context() as patch:
            patch.setattr(LocalFilesystem, "delete_file", killed)
            dil(story, "runs", "finish", "--without-lost")

    assert dil(story, "runs", "finish", "--without-lost") == 0

    assert dumped(tmp_path) == {"x_0": b"new page 0", "x_1": b"old 1", "x_2": b""}
    assert listed(tmp_path) == {"x_0": 10, "x_1": 5, "x_2": 0}
    assert dil_verify(story) == 0
    source.script("/files/x", Reply(b"new page 0"), Reply(b"new page 1"), Reply(b""))
    assert story.run(day(4)).status is RunStatus.SUCCESS
    assert dumped(tmp_path) == {"x_0": b"new page 0", "x_1": b"new page 1", "x_2": b""}
    assert dil_verify(story) == 0


def dil_verify(story: Story) -> int:
    return main(["state", "verify", str(story.folder / "orders.conf")])
