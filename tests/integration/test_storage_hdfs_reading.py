"""Files of HDFS that another program replaces while they are read."""

import pytest

from dil.errors import WriteError
from dil.storage.hdfs.filesystem import HdfsFilesystem
from tests.integration.hdfs_places import opened
from tests.servers.hdfs import MIB


@pytest.fixture
def folder(hdfs, monkeypatch):
    return opened(hdfs, monkeypatch)


def test_a_file_that_changes_while_it_is_read_is_an_error(folder):
    files = HdfsFilesystem()
    files.put(f"{folder.uri}/a", bytes(4 * MIB))
    with files.open_input(f"{folder.uri}/a") as stream:
        stream.read(10)
        files.put(f"{folder.uri}/a", bytes(5 * MIB))
        stream.seek(3 * MIB)
        with pytest.raises(WriteError, match="the file was replaced while it was read"):
            stream.read(10)


def test_a_file_that_is_replaced_before_its_first_byte_is_read_is_read_whole(folder):
    files = HdfsFilesystem()
    files.put(f"{folder.uri}/a", b"1\n2\n1234")
    with files.open_input(f"{folder.uri}/a") as stream:
        files.put(f"{folder.uri}/a", b"10\n20\n30\n40\n5000\n")
        assert stream.read() == b"10\n20\n30\n40\n5000\n"


def test_a_file_that_is_replaced_once_its_size_is_known_is_an_error(folder):
    files = HdfsFilesystem()
    files.put(f"{folder.uri}/a", b"1\n2\n1234")
    with files.open_input(f"{folder.uri}/a") as stream:
        assert stream.seek(0, 2) == 8
        files.put(f"{folder.uri}/a", b"10\n20\n30\n")
        stream.seek(0)
        with pytest.raises(WriteError, match="the file was replaced while it was read"):
            stream.read()
