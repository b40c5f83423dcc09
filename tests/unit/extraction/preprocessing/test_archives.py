"""One file inside an archive, or a clear error."""

from __future__ import annotations

import io
import struct
import tarfile
import tracemalloc
import zipfile
import zlib

import pytest

from dil.errors import SourceContractError
from dil.extraction.preprocessing.archives import Tar, Zip
from dil.spi.preprocessor import Preprocessor
from tests.preprocessing import tar_of, through, zip_of

DATA = bytes(range(256)) * 3000
BOTH = pytest.mark.parametrize(("kind", "pack"), [(Tar, tar_of), (Zip, zip_of)])


@BOTH
def test_by_products_of_packing_programs_are_no_data(kind: type[Preprocessor], pack) -> None:
    files = {"__MACOSX/d/._x.csv": b"1", "d/.DS_Store": b"2", "d/._x.csv": b"3", "d/x.csv": DATA}
    assert through(kind, pack(files), size=1000) == DATA


@BOTH
def test_of_several_files_the_pattern_names_one(kind: type[Preprocessor], pack) -> None:
    packed = pack({"a.csv": b"1", "b/x.json": DATA, "z": b"2"})
    assert through(kind, packed, member=r".*\.json") == DATA
    with pytest.raises(SourceContractError, match=r"holds 3 files to read: 'a.csv', 'b/x.json'"):
        through(kind, packed)
    with pytest.raises(SourceContractError, match="holds no file to read"):
        through(kind, packed, member="x.json")


@BOTH
def test_what_is_no_archive_is_told_as_what_it_is(kind: type[Preprocessor], pack) -> None:
    with pytest.raises(SourceContractError, match=r"begins: .<html>"):
        through(kind, b"<html>log in</html>" * 100)
    with pytest.raises(SourceContractError, match="the stream is empty"):
        through(kind, b"")


@BOTH
def test_two_archives_in_one_file_are_an_error(kind: type[Preprocessor], pack) -> None:
    with pytest.raises(SourceContractError):
        through(kind, pack({"a": DATA}) * 2)


@BOTH
def test_a_bad_pattern_is_found_before_the_run(kind: type[Preprocessor], pack) -> None:
    assert ["no regular expression" in what for what in kind.check({"member": "("})] == [True]


def test_a_tar_archive_cut_between_two_files_is_an_error() -> None:
    whole = tar_of({"a": DATA, "b": b"1"})
    end_of_a = 512 + len(DATA)
    with pytest.raises(SourceContractError, match="ends too early"):
        through(Tar, whole[:end_of_a], member="a")


def test_a_tar_archive_with_a_damaged_header_is_an_error() -> None:
    whole = bytearray(tar_of({"a": DATA, "b": b"1"}))
    whole[512 + len(DATA) + 3] ^= 0x55
    with pytest.raises(SourceContractError, match="damaged"):
        through(Tar, bytes(whole), member="a")


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_of_tar_archives_are_understood(form: int) -> None:
    assert through(Tar, tar_of({"d/" * 120 + "ä.csv": DATA}, form), size=700) == DATA


def test_links_and_folders_are_no_files() -> None:
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    whole = link.tobuf() + tar_of({"a": DATA})
    assert through(Tar, whole) == DATA


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_every_common_method_of_zip_is_read(method: int) -> None:
    assert through(Zip, zip_of({"a": DATA}, method), size=999) == DATA


def test_a_zip_member_with_a_wrong_checksum_is_an_error() -> None:
    whole = bytearray(zip_of({"a": DATA}, zipfile.ZIP_STORED))
    whole[5000] ^= 1
    with pytest.raises(SourceContractError, match="Bad CRC-32"):
        through(Zip, bytes(whole))


class _Sink(io.RawIOBase):
    """Takes bytes and cannot be sought, as a pipe: sizes then follow a member's data."""

    def __init__(self) -> None:
        self.taken = b""

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:
        piece = bytes(data)  # type: ignore[call-overload]
        self.taken += piece
        return len(piece)


def streamed_zip(method: int, *, zip64: bool = False) -> bytes:
    sink = _Sink()
    with (
        zipfile.ZipFile(sink, "w", method) as archive,  # type: ignore[arg-type]
        archive.open("a", "w", force_zip64=zip64) as member,
    ):
        member.write(DATA)
    return sink.taken


@pytest.mark.parametrize("zip64", [False, True])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_archive_that_was_written_as_a_stream_is_read(method: int, zip64: bool) -> None:
    assert through(Zip, streamed_zip(method, zip64=zip64), size=999) == DATA


@pytest.mark.parametrize("listed", [0, len(DATA) // 2])
@pytest.mark.parametrize("pack", [lambda: zip_of({"a": DATA}, 0), lambda: streamed_zip(0)])
def test_a_list_of_files_that_tells_of_a_part_only_is_an_error(pack, listed: int) -> None:
    whole = bytearray(pack())
    at = whole.rfind(b"PK\x01\x02")
    whole[at + 16 : at + 28] = struct.pack("<3I", zlib.crc32(DATA[:listed]), listed, listed)
    with pytest.raises(SourceContractError, match="list of files"):
        through(Zip, bytes(whole))


def test_an_encrypted_zip_member_is_refused() -> None:
    whole = bytearray(zip_of({"a": DATA}))
    listed = whole.rfind(b"PK\x01\x02")
    whole[6] |= 1
    whole[listed + 8] |= 1
    with pytest.raises(SourceContractError, match="encrypted"):
        through(Zip, bytes(whole))


def pax(*values: int, kind: bytes = tarfile.XHDTYPE) -> bytes:
    """Return headers of an archive, each with a comment of so many bytes, and one file."""
    headers = []
    for number, size in enumerate(values):
        record = f" comment{number}={'x' * size}\n"
        record = f"{len(record) + len(str(len(record) + 9))}{record}"
        header = tarfile.TarInfo("x")
        header.type, header.size = kind, len(record)
        headers.append(header.tobuf() + record.encode() + bytes(-len(record) % 512))
    return b"".join(headers) + tar_of({"a": DATA})


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_long_header_of_a_tar_archive_is_refused_before_it_is_read(kind: bytes) -> None:
    packed = pax(20_000_000, kind=kind)
    tracemalloc.start()
    try:
        with pytest.raises(SourceContractError, match="a header is longer than 1,048,576 bytes"):
            through(Tar, packed)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000


def test_headers_of_a_tar_archive_are_no_longer_together() -> None:
    with pytest.raises(SourceContractError, match="a header is longer"):
        through(Tar, pax(*[300_000] * 12))
    with pytest.raises(SourceContractError, match=r"(a header is longer|too many headers)"):
        through(Tar, pax(*[10] * 2000))
    assert through(Tar, pax(300_000, 300_000)) == DATA


def test_a_long_file_of_a_tar_archive_is_no_header() -> None:
    large = {"b.json": DATA * 10, "a.csv": DATA * 10, "c.json": DATA * 10}
    assert through(Tar, tar_of(large), member="a.csv") == DATA * 10


@pytest.mark.parametrize("says_so", [True, False])
def test_a_long_list_of_a_zip_archive_is_refused_before_it_is_read(says_so: bool) -> None:
    name = b"x" * 60_000
    entry = struct.pack("<4s6H3I5H2I", b"PK\x01\x02", *[0] * 9, len(name), *[0] * 6)
    listed = (entry + name) * 300
    local = struct.pack("<4s5H3I2H", b"PK\x03\x04", *[0] * 10)
    end = len(local) + len(listed)
    record = struct.pack(
        "<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 300, 300, len(listed), len(local)
    )
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1)
    most = (0xFFFFFFFF, 0xFFFFFFFF) if says_so else (46, end + len(record) + len(locator) - 46)
    last = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, *most, 0)
    with pytest.raises(SourceContractError, match="its list of files has 18,013,800 bytes"):
        through(Zip, local + listed + record + locator + last)
