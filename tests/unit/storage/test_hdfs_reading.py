"""Reading a file of HDFS whose data node sends less than the name node says."""

from __future__ import annotations

import io
from typing import Any

import pytest
import requests
import urllib3

from dil.errors import WriteError
from dil.storage.hdfs.client import FileState
from dil.storage.hdfs.reading import FileReader


class Client:
    """A cluster with one file of ten bytes, of which a data node has five."""

    def state(self, path: str) -> FileState:
        return FileState(name="", is_folder=False, size=10, modified=1, identity=1)

    def opened(self, path: str, position: int) -> requests.Response:
        answer = requests.Response()
        answer.raw = urllib3.HTTPResponse(io.BytesIO(b"12345"[position:]), preload_content=False)
        return answer


def test_half_of_a_file_is_not_read_as_the_whole() -> None:
    client: Any = Client()
    with io.BufferedReader(FileReader(client, "hdfs://nn/a")) as stream, pytest.raises(WriteError):
        stream.read()
