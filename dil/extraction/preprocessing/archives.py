"""Reads the only data file inside a zip or tar archive.

A response is one file, so an archive has to hold exactly one file, or exactly one file whose path
matches the parameter ``member``. No file is written to disk under a name from the archive.
"""

from __future__ import annotations

import re
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, BinaryIO, ClassVar, cast

from dil.errors import SourceContractError, WriteError
from dil.extraction.preprocessing.decoded import (
    CHUNK,
    Pieces,
    PieceStream,
    cut,
    damaged,
    garbage,
    not_of,
    nothing,
)
from dil.extraction.sizes import TAR_HEADER_BYTES, ZIP_LIST_BYTES
from dil.extraction.streams import ReadStream
from dil.spi.preprocessor import Parameters, Preprocessor, without_suffix
from dil.text.java_regex import compile_java

_MEMBER = "member"
_PARAMETERS = {
    _MEMBER: "Java regular expression that the whole path of the file inside has to match."
}
_SHOWN = 5
_BLOCK = 512
_MAGIC_AT = 257
# The end of a zip archive after its last member: record, comment (APPNOTE.TXT 4.3.16).
_END_RECORD = b"PK\x05\x06"
_END_SIZE = 22
_MOST_COMMENT = 65_535
_IN_ZIP64 = 0xFFFFFFFF
_ENCRYPTED = 1
# The header before each member: signature, version, flags, method, time, date, checksum, both
# sizes, and the lengths of name and extra field (4.3.7).
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_LOCATOR = struct.Struct("<4sIQI")
_END64 = struct.Struct("<4sQ2H2I4Q")
_HAS_DESCRIPTOR = 8
_SIZES_OF_ZIP64 = 1


class Zip(Preprocessor):
    """Turns a zip archive into the bytes of its one file; meanwhile the archive is on disk."""

    parameters: ClassVar[Mapping[str, str]] = _PARAMETERS

    @classmethod
    def check(cls, parameters: Parameters) -> Iterable[str]:
        """Return the problems of the pattern."""
        return _pattern_problems(parameters)

    @classmethod
    def file_name(cls, name: str) -> str:
        """Return the name without the ending of the format."""
        return without_suffix(name, {".zip": ""})

    def process(self, stream: BinaryIO) -> BinaryIO:
        """Return the stream of the file inside."""
        wanted = _wanted(self.context.text(_MEMBER))
        return cast("BinaryIO", PieceStream(_unzipped(stream, wanted), stream))


class Tar(Preprocessor):
    """Turns a tar archive into the bytes of its one file; links and folders do not count as files.

    The archive is read as a stream, so a second file is noticed only after the first file was read.
    The task then fails.
    """

    parameters: ClassVar[Mapping[str, str]] = _PARAMETERS

    @classmethod
    def check(cls, parameters: Parameters) -> Iterable[str]:
        """Return the problems of the pattern."""
        return _pattern_problems(parameters)

    @classmethod
    def file_name(cls, name: str) -> str:
        """Return the name without the ending of the format."""
        return without_suffix(name, {".tar": ""})

    def process(self, stream: BinaryIO) -> BinaryIO:
        """Return the stream of the file inside."""
        wanted = _wanted(self.context.text(_MEMBER))
        return cast("BinaryIO", PieceStream(_untarred(stream, wanted), stream))


def _pattern_problems(parameters: Parameters) -> Iterator[str]:
    try:
        _wanted(str(parameters.get(_MEMBER, "")))
    except ValueError as error:
        yield f"{_MEMBER} is no regular expression that can be used: {error}"


def _wanted(pattern: str) -> Callable[[str], bool]:
    """Return a function that decides whether to read the file at a path inside an archive."""
    if not pattern:
        return _is_data
    compiled: re.Pattern[str] = compile_java(pattern)
    return lambda path: compiled.fullmatch(path) is not None


def _is_data(path: str) -> bool:
    """Return whether a path is a data file, not a by-product of the packing program."""
    parts = path.split("/")
    return parts[0] != "__MACOSX" and not parts[-1].startswith("._") and parts[-1] != ".DS_Store"


def _only(word: str, found: list[str], count: int) -> SourceContractError:
    """Return the error for an archive with ``count`` matching files; ``found`` has the first."""
    names = ", ".join(repr(name) for name in found[:_SHOWN])
    more = "" if count <= _SHOWN else f" and {count - _SHOWN} more"
    what = f"{count} files to read: {names}{more}" if found else "no file to read"
    return SourceContractError(
        f"the {word} archive holds {what}",
        f'Exactly one is needed; select it by the parameter "{_MEMBER}", a regular expression.',
    )


def _unzipped(source: BinaryIO, wanted: Callable[[str], bool]) -> Pieces:
    with tempfile.TemporaryFile(prefix="dil-zip-") as kept:
        _keep(source, kept)
        _check_ends(kept)
        try:
            with zipfile.ZipFile(kept) as archive:
                paths = [
                    info
                    for info in archive.infolist()
                    if not info.is_dir() and wanted(info.filename)
                ]
                if len(paths) != 1:
                    raise _only("zip", [info.filename for info in paths], len(paths))
                yield from _member(archive, paths[0], kept)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
            raise damaged("zip", str(error)) from error
        except NotImplementedError as error:
            raise SourceContractError(
                f"the zip archive is packed by a method that is not supported: {error}",
                "Pack the archive with one of the methods stored, deflate, bzip2 and lzma.",
            ) from error


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, kept: IO[bytes]) -> Pieces:
    if info.flag_bits & _ENCRYPTED:
        raise SourceContractError(
            "the file inside the zip archive is encrypted",
            "Ask the source for an archive without encryption.",
        )
    _check_sizes(kept, info)
    made = 0
    with archive.open(info) as member:
        while piece := member.read(CHUNK):
            made += len(piece)
            yield piece
    if made != info.file_size:
        raise cut("zip")


def _check_sizes(kept: IO[bytes], info: zipfile.ZipInfo) -> None:
    """Raise if the list of files and the member's own header give different lengths.

    The member's header has checksum and sizes, else a descriptor behind its data (4.3.9) has them.
    """
    kept.seek(info.header_offset)
    header = kept.read(_LOCAL_HEADER.size)
    if len(header) < _LOCAL_HEADER.size:
        raise damaged("zip", "its list of files names a place beyond its end")
    _, _, flags, *_, crc, packed, size, name_length, extra_length = _LOCAL_HEADER.unpack(header)
    kept.seek(name_length, 1)
    extra = kept.read(extra_length)
    if _IN_ZIP64 in (packed, size):
        size, packed = _sizes_of_zip64(extra) or (size, packed)
    listed = (info.CRC, info.compress_size, info.file_size)
    found = (crc, packed, size)
    # A header may lack some of the sizes.
    if any(found) and all(here in (0, there) for here, there in zip(found, listed, strict=True)):
        return
    if any(found) and not flags & _HAS_DESCRIPTOR:
        raise damaged("zip", "its list of files and the header of the file give different sizes")
    kept.seek(info.compress_size, 1)
    behind = kept.read(4 + 4 + 8 + 8)
    if not behind.startswith((*_descriptors(*listed), b"PK\x01\x02", b"PK\x03\x04")):
        raise damaged("zip", "the file does not end where its list of files says")


def _sizes_of_zip64(extra: bytes) -> tuple[int, int] | None:
    """Return the unpacked and the packed size in a local header's extra field (4.5.3)."""
    at = 0
    while at + 4 <= len(extra):
        number, length = struct.unpack_from("<2H", extra, at)
        if number == _SIZES_OF_ZIP64 and at + 4 + 16 <= len(extra):
            size, packed = struct.unpack_from("<2Q", extra, at + 4)
            return size, packed
        at += 4 + length
    return None


def _descriptors(crc: int, packed: int, size: int) -> Iterator[bytes]:
    """Yield the possible descriptors behind a member: with or without signature, 32 or 64 bit."""
    for signature in (b"PK\x07\x08", b""):
        yield signature + struct.pack("<I2Q", crc, packed, size)
        if max(packed, size) <= _IN_ZIP64:
            yield signature + struct.pack("<3I", crc, packed, size)


def _keep(source: BinaryIO, kept: IO[bytes]) -> None:
    while data := source.read(CHUNK):
        try:
            kept.write(data)
            kept.flush()
        except OSError as error:
            raise WriteError(
                f"{tempfile.gettempdir()}: a zip archive cannot be kept: {error.strerror}",
                "A zip archive has to be on disk while it is read. Free space there, or name"
                " another folder in TMPDIR.",
            ) from error


def _check_ends(kept: IO[bytes]) -> None:
    """Raise if bytes are no archive, or the archive is incomplete or has bytes behind its end."""
    size = kept.seek(0, 2)
    kept.seek(0)
    begin = kept.read(1024)
    if not begin:
        raise nothing("zip")
    if not begin.startswith((b"PK\x03\x04", _END_RECORD)):
        raise not_of("zip", begin)
    kept.seek(max(0, size - _END_SIZE - _MOST_COMMENT))
    tail = kept.read()
    at = tail.rfind(_END_RECORD)
    if at < 0 or len(tail) - at < _END_SIZE:
        raise cut("zip")
    record = tail[at : at + _END_SIZE]
    end = at + _END_SIZE + int.from_bytes(record[20:22], "little")
    if end != len(tail):
        raise cut("zip") if end > len(tail) else garbage("zip")
    length = int.from_bytes(record[12:16], "little")
    offset = int.from_bytes(record[16:20], "little")
    is_zip64 = _IN_ZIP64 in (length, offset)
    longest = max(0 if is_zip64 else length, _list_of_zip64(kept, size - len(tail) + at))
    if longest > ZIP_LIST_BYTES:
        raise damaged("zip", f"its list of files has {longest:,} bytes")
    if is_zip64:
        return
    if offset + length != size - len(tail) + at:
        raise damaged("zip", "bytes that are no part of it are in front of it or inside it")


def _list_of_zip64(kept: IO[bytes], end: int) -> int:
    """Return the length of the list of files from the record of ZIP64, 0 without one (4.3.14)."""
    kept.seek(max(0, end - _LOCATOR.size))
    locator = kept.read(_LOCATOR.size)
    if len(locator) < _LOCATOR.size or not locator.startswith(b"PK\x06\x07"):
        return 0
    kept.seek(_LOCATOR.unpack(locator)[2])
    record = kept.read(_END64.size)
    return int(_END64.unpack(record)[8]) if len(record) == _END64.size else 0


def _untarred(source: BinaryIO, wanted: Callable[[str], bool]) -> Pieces:
    watched = _WatchedStream(source)
    found: list[str] = []
    count = 0
    try:
        with tarfile.open(fileobj=watched, mode="r|", bufsize=CHUNK) as archive:
            for info in _members(archive, watched):
                if not wanted(info.name):
                    continue
                count += 1
                if count <= _SHOWN:
                    found.append(info.name)
                if count == 1:
                    yield from _pieces(archive, info)
            end = archive.offset
    except tarfile.TarError as error:
        raise _tar_error(watched, error) from error
    except RecursionError as error:
        raise damaged("tar", "too many headers follow one another without a file") from error
    _check_tail(watched, end)
    if count != 1:
        raise _only("tar", found, count)


def _members(archive: tarfile.TarFile, watched: _WatchedStream) -> Iterator[tarfile.TarInfo]:
    """Yield the files of an archive.

    Raises:
        SourceContractError: the headers of one member, or the common headers, are too long.
    """
    while True:
        watched.expect_headers(archive.offset)
        if (info := archive.next()) is None:
            return
        watched.end_of_headers = None
        # Otherwise the library keeps every member that it has read.
        archive.members = []  # type: ignore[attr-defined]
        if sum(map(len, archive.pax_headers.values())) > TAR_HEADER_BYTES:
            raise _long_headers()
        if info.isfile():
            yield info


def _long_headers() -> SourceContractError:
    return damaged("tar", f"a header is longer than {TAR_HEADER_BYTES:,} bytes")


def _check_tail(watched: _WatchedStream, end: int) -> None:
    """Raise if an archive is incomplete or damaged; the library takes damage for the end.

    Only zeros from ``end`` on prove that the archive is whole.
    """
    while watched.read(CHUNK):
        pass
    if watched.data_end > end:
        raise damaged("tar", "a header cannot be read, or something follows the archive")
    if watched.size < end + _BLOCK:
        raise cut("tar")


def _pieces(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Pieces:
    member = archive.extractfile(info)
    left = info.size
    while member is not None and (piece := member.read(CHUNK)):
        left -= len(piece)
        yield piece
    if left:
        raise cut("tar")


def _tar_error(watched: _WatchedStream, error: tarfile.TarError) -> SourceContractError:
    if not watched.size:
        return nothing("tar")
    if watched.begin[_MAGIC_AT:].startswith(b"ustar"):
        return cut("tar") if watched.is_at_end else damaged("tar", str(error))
    return cut("tar") if watched.size < _BLOCK else not_of("tar", watched.begin)


class _WatchedStream(ReadStream):
    """Passes on a stream, and keeps the offset of the last byte that is not zero.

    The library reads whole headers of any length. They have to end at ``end_of_headers``, which is
    None while a file is read.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self.begin = b""
        self.size = 0
        self.data_end = 0
        self.is_at_end = False
        self.end_of_headers: int | None = None
        self.expect_headers(0)

    def expect_headers(self, begin: int) -> None:
        """Set a limit for the headers of the member that begins at ``begin``."""
        self.end_of_headers = begin + TAR_HEADER_BYTES + CHUNK

    def read(self, size: int = -1, /) -> bytes:
        """Return ``size`` bytes, fewer only at the end: fewer bytes mean the end to the library."""
        if self.end_of_headers is not None and self.size > self.end_of_headers:
            raise _long_headers()
        pieces, left = [], size
        while left and (data := self._source.read(left)):
            pieces.append(data)
            left -= len(data)
        whole = b"".join(pieces)
        self.is_at_end = self.is_at_end or len(whole) < size
        self.begin = self.begin or whole[:1024]
        kept = len(whole.rstrip(b"\0"))
        if kept:
            self.data_end = self.size + kept
        self.size += len(whole)
        return whole
