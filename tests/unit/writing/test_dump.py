"""Pieces become staged files, one for each page, whole and named."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pytest

from dil.errors import WriteError
from dil.storage import FileInfo, Folder, LocalFilesystem
from dil.writing.dump import DumpWriter


def pieces(alone: str, numbered: str, *data: bytes) -> pa.RecordBatch:
    size = len(data)
    return pa.RecordBatch.from_arrays(
        [pa.array([alone] * size), pa.array([numbered] * size), pa.array(data, pa.binary())],
        names=["file", "numbered_file", "data"],
    )


def test_the_only_file_has_the_plain_name_and_counts_as_one_row(tmp_path: Path) -> None:
    writer = DumpWriter(Folder(LocalFilesystem(), str(tmp_path)))
    writer.write(pieces("a", "a_0", b"one", b"", b"two"))
    writer.write(pieces("a", "a_0", b"three"))
    (file,) = writer.finish()
    body = Path(file.path).read_bytes()
    assert body == b"onetwothree"
    assert (file.name, file.rows, file.bytes) == ("a", 1, len(body))
    assert file.sha256 == hashlib.sha256(body).hexdigest()


def test_several_files_have_their_numbers(tmp_path: Path) -> None:
    writer = DumpWriter(Folder(LocalFilesystem(), str(tmp_path)))
    for number in range(3):
        writer.write(pieces("a", f"a_{number}", b"x" * number))
    files = writer.finish()
    assert [(file.name, file.bytes) for file in files] == [("a_0", 0), ("a_1", 1), ("a_2", 2)]


def test_nothing_written_is_no_file_and_no_schema(tmp_path: Path) -> None:
    writer = DumpWriter(Folder(LocalFilesystem(), str(tmp_path)))
    assert writer.schema is None
    assert writer.finish() == ()


def test_an_aborted_dump_leaves_nothing(tmp_path: Path) -> None:
    writer = DumpWriter(Folder(LocalFilesystem(), str(tmp_path)))
    writer.write(pieces("a", "a_0", b"1"))
    writer.write(pieces("a", "a_1", b"2"))
    writer.abort()
    writer.abort()
    assert list(tmp_path.iterdir()) == []


class Forgetful(LocalFilesystem):
    """A mount that says it has written, and has not."""

    def files(self, path: str):
        for info in super().files(path):
            yield FileInfo(info.path, info.size - 1, info.modified)


def test_a_file_that_has_another_size_than_was_written_is_an_error(tmp_path: Path) -> None:
    writer = DumpWriter(Folder(Forgetful(), str(tmp_path)))
    writer.write(pieces("a", "a_0", b"1234"))
    with pytest.raises(WriteError, match="has 3 of 4 bytes"):
        writer.finish()
