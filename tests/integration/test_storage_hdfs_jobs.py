"""Whole jobs that publish to HDFS: what is its own."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from dil.errors import WriteError
from dil.model.report import RunStatus
from tests.dumps import dump_story, give
from tests.integration.hdfs_places import opened, use
from tests.integration.places import on_place, visible
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import Story, day


@pytest.fixture
def folder(hdfs, monkeypatch):
    return opened(hdfs, monkeypatch)


def test_published_files_and_folders_have_the_permissions_of_the_job(folder, source, tmp_path):
    modes = {"writer__file__permissions": "640", "data__publisher__permissions": "750"}
    Story(tmp_path, source, **on_place(folder, **modes)).run(day(2))
    assert {folder.mode(key) for key in visible(folder)} == {"640"}
    assert folder.mode("lake/shop/orders") == "750"


def test_published_files_and_folders_belong_to_the_group_of_the_job(hdfs, folder, source, tmp_path):
    group = {"data__publisher__final__dir__group": "analysts"}
    Story(tmp_path, source, **on_place(folder, **group)).run(day(2))

    def group_of(key: str) -> str:
        answer = hdfs.ask("GET", f"{folder.path}/{key}", "GETFILESTATUS")
        return str(answer.json()["FileStatus"]["group"])

    assert {group_of(key) for key in visible(folder)} == {"analysts"}
    assert group_of("lake/shop/orders") == "analysts"


def test_a_group_that_the_user_is_not_in_is_refused_before_anything_is_read(
    hdfs, folder, source, tmp_path, monkeypatch
):
    hdfs.ask("PUT", folder.path, "SETPERMISSION", permission="777").raise_for_status()
    use(monkeypatch, "ann")
    place = on_place(folder, data__publisher__final__dir__group="analysts")
    with pytest.raises(WriteError, match=r"cannot be given to .*group=analysts"):
        Story(tmp_path, source, **place).run(day(1))
    assert source.requests == []


def test_no_folder_of_a_run_is_left_behind(folder, source, tmp_path):
    Story(tmp_path, source, **on_place(folder)).run(day(2))
    assert [path for path in folder.folders() if path.startswith("lake/_staging/")] == []


def test_files_are_dumped_as_they_are_under_any_name_that_hdfs_takes(folder, tmp_path):
    names = ("a b", "in/c", "ü#?%20+")
    with HttpServer(Dataset.generate(1)) as server:
        place = {"data__publisher__final__dir": f"{folder.uri}/lake"}
        story = dump_story(tmp_path, server, *names, **place)
        for name in names:
            give(server, quote(name, safe=""), name.encode())
        assert story.run(day(4)).status is RunStatus.SUCCESS
    found = {key.removeprefix("lake/"): folder.objects(key)[key] for key in visible(folder)}
    assert found == {name: name.encode() for name in names}


def test_a_user_without_rights_is_refused_before_anything_is_read(
    folder, source, tmp_path, monkeypatch
):
    use(monkeypatch, "mallory")
    place = {"data__publisher__final__dir": f"{folder.uri}/lake"}
    with pytest.raises(WriteError, match="Permission denied: user=mallory"):
        Story(tmp_path, source, **place).run(day(1))
    assert source.requests == []
    assert folder.keys() == []


def test_a_cluster_by_another_name_is_refused_before_anything_is_read(folder, source, tmp_path):
    Story(tmp_path, source, **on_place(folder)).run(day(1))
    before, asked = folder.objects(), len(source.requests)
    renamed = folder.uri.replace("127.0.0.1", "localhost")
    final = {"data__publisher__final__dir": f"{renamed}/lake"}
    with pytest.raises(WriteError, match=r"listed under another address: webhdfs://127\.0\.0\.1"):
        Story(tmp_path, source, **on_place(folder) | final).run(day(2))
    assert len(source.requests) == asked
    assert {key: data for key, data in folder.objects().items() if key in before} == before
