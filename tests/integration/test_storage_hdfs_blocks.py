"""Copies and blocks of files on HDFS are those that the job asks for."""

import pytest
import requests

from tests.integration.hdfs_places import Folder, use
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import STEP_MS, Story, day

ASKED = {"writer__file__replication__factor": "2", "writer__file__block__size": "1048576"}


@pytest.fixture
def folder(hdfs, monkeypatch):
    use(monkeypatch)
    return Folder(hdfs)


def kept(folder, key):
    address = f"{folder.uri.replace('webhdfs:', 'http:', 1)}/{key}"
    address = address.replace(folder.path, f"/webhdfs/v1{folder.path}", 1)
    about = requests.get(address, {"op": "GETFILESTATUS"}, timeout=30).json()["FileStatus"]
    return about["replication"], about["blockSize"]


@pytest.mark.parametrize("target_bytes", ["1", "134217728"])
def test_files_of_rows_are_kept_as_the_job_asks(folder, tmp_path, target_bytes):
    place = {
        "data__publisher__final__dir": f"{folder.uri}/lake",
        "ms__writer__target__bytes": target_bytes,
    }
    with HttpServer(Dataset.generate(8, units=("a",), step_ms=STEP_MS)) as source:
        Story(tmp_path, source, **place, **ASKED).run(day(2))
    keys = [key for key in folder.keys("lake/") if "/_" not in key and "/." not in key]
    assert keys
    assert {kept(folder, key) for key in keys} == {(2, 1048576)}
