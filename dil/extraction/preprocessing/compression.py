"""Unpacks gzip, bzip2, xz, zstd and deflate (RFC 1950 to 1952)."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO, cast

from isal import isal_zlib

from dil.extraction.preprocessing.decoded import (
    CHUNK,
    CompressedFormat,
    Pieces,
    PieceStream,
    cut,
    damaged,
    decoded,
    garbage,
    not_of,
    nothing,
)
from dil.extraction.sizes import XZ_MEMORY_BYTES
from dil.extraction.streams import ReadStream, has_zlib_header, read_up_to
from dil.spi.preprocessor import Preprocessor, without_suffix

_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPED = b"\x2a\x4d\x18"
_BEFORE_SKIPPED = range(0x50, 0x60)


class _ZlibMember:
    """A member of zlib's formats, with the methods that bz2 and lzma have."""

    def __init__(self, make: Callable[[int], Any], window: int) -> None:
        self._object = make(window)
        self._is_full = False

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Return up to ``max_length`` bytes."""
        made: bytes = self._object.decompress(
            data or self._object.unconsumed_tail, max(max_length, 0)
        )
        self._is_full = len(made) == max_length
        return made

    @property
    def needs_input(self) -> bool:
        """Return whether more input is needed; the library may hold output after a full piece."""
        return not self._object.unconsumed_tail and not self._is_full

    @property
    def eof(self) -> bool:
        """Return whether the whole member was read, including its checksum."""
        return bool(self._object.eof)

    @property
    def unused_data(self) -> bytes:
        """Return the bytes after the member's end."""
        return bytes(self._object.unused_data)


_GZIP = CompressedFormat(
    "gzip",
    # This library is three times as fast as zlib, and as strict.
    partial(_ZlibMember, isal_zlib.decompressobj, 16 + zlib.MAX_WBITS),
    (cast("type[Exception]", isal_zlib.error),),  # the type stub declares an instance
    b"\x1f\x8b",
)
_BZIP2 = CompressedFormat("bzip2", bz2.BZ2Decompressor, (OSError, ValueError), b"BZh")
_XZ = CompressedFormat(
    "xz",
    partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, XZ_MEMORY_BYTES),
    (lzma.LZMAError,),
    b"\xfd7zXZ\0",
    padding=4,
)
_FRAMED = CompressedFormat(
    "deflate",
    partial(_ZlibMember, zlib.decompressobj, zlib.MAX_WBITS),
    (zlib.error,),
    may_repeat=False,
)
_RAW = CompressedFormat(
    "deflate",
    partial(_ZlibMember, zlib.decompressobj, -zlib.MAX_WBITS),
    (zlib.error,),
    may_repeat=False,
)


class GunzipProcessor(Preprocessor):
    """Unpacks gzip; several members, one after the other, are one stream."""

    @classmethod
    def file_name(cls, name: str) -> str:
        """Return the name without the ending of the format."""
        return without_suffix(name, {".gz": "", ".gzip": "", ".tgz": ".tar"})

    def process(self, stream: BinaryIO) -> BinaryIO:
        """Return the plain stream."""
        return _stream(decoded(stream, _GZIP), stream)


class Bzip2(Preprocessor):
    """Unpacks bzip2; several bzip2 streams in one file are read one after the other."""

    @classmethod
    def file_name(cls, name: str) -> str:
        """Return the name without the ending of the format."""
        return without_suffix(name, {".bz2": "", ".bzip2": "", ".tbz2": ".tar"})

    def process(self, stream: BinaryIO) -> BinaryIO:
        """Return the plain stream."""
        return _stream(decoded(stream, _BZIP2), stream)


class Xz(Preprocessor):
    """Unpacks xz; data that needs more than 128 MiB of memory is refused."""

    @classmethod
    def file_name(cls, name: str) -> str:
        """Return the name without the ending of the format."""
        return without_suffix(name, {".xz": "", ".txz": ".tar"})

    def process(self, stream: BinaryIO) -> BinaryIO:
        """Return the plain stream."""
        return _stream(decoded(stream, _XZ), stream)


class Deflate(Preprocessor):
    """Unpacks deflate: in zlib's frame (RFC 1950), which has a checksum, or raw (RFC 1951)."""

    @classmethod
    def file_name(cls, name: str) -> str:
        """Return the name without the ending of the format."""
        return without_suffix(name, {".deflate": "", ".zz": ""})

    def process(self, stream: BinaryIO) -> BinaryIO:
        """Return the plain stream."""
        return _stream(_inflated(stream), stream)


class Zstd(Preprocessor):
    """Unpacks Zstandard; data that needs a window of more than 128 MiB is refused."""

    @classmethod
    def file_name(cls, name: str) -> str:
        """Return the name without the ending of the format."""
        return without_suffix(name, {".zst": "", ".zstd": "", ".tzst": ".tar"})

    def process(self, stream: BinaryIO) -> BinaryIO:
        """Return the plain stream."""
        return _stream(_unzstd(stream), stream)


def _stream(pieces: Pieces, source: BinaryIO) -> BinaryIO:
    return cast("BinaryIO", PieceStream(pieces, source))


def _inflated(source: BinaryIO) -> Pieces:
    ahead = _Ahead(source, 2)
    form = _FRAMED if has_zlib_header(ahead.begin) else _RAW
    yield from decoded(cast("BinaryIO", ahead), form)


def _unzstd(source: BinaryIO) -> Pieces:
    import pyarrow as pa  # Imported here, because the driver loads this module to check parameters.

    ahead = _Ahead(source, 4)
    if not ahead.begin:
        raise nothing("zstd")
    is_skipped = ahead.begin[1:] == _ZSTD_SKIPPED and ahead.begin[0] in _BEFORE_SKIPPED
    if not (is_skipped or _ZSTD.startswith(ahead.begin)):
        raise not_of("zstd", ahead.begin + source.read(1024))
    try:
        # Arrow owns and closes the file that it is given.
        with pa.CompressedInputStream(pa.PythonFile(ahead, mode="r"), "zstd") as stream:
            while piece := stream.read(CHUNK):
                yield piece
    except OSError as error:
        if ahead.failure is not None:
            raise ahead.failure from None
        raise _zstd_error(str(error)) from error


def _zstd_error(reason: str) -> Exception:
    if reason.startswith("Truncated"):
        return cut("zstd")
    if "Unknown frame descriptor" in reason:
        return garbage("zstd")
    return damaged("zstd", reason)


class _Ahead(ReadStream):
    """A stream that shows its first bytes in advance; keeps the error that its source raised."""

    def __init__(self, source: BinaryIO, size: int) -> None:
        self._source = source
        self.failure: Exception | None = None
        self.begin = read_up_to(source, size)
        self._rest = self.begin

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes."""
        if self._rest:
            most = len(self._rest) if size < 0 else size
            taken, self._rest = self._rest[:most], self._rest[most:]
            return taken if size >= 0 else taken + self.read(-1)
        try:
            return self._source.read(size)
        except Exception as error:
            self.failure = error
            raise
