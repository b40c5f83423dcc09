"""Unpacks files whose names show a compression (docs/files.md).

Snappy has two forms: Hadoop's blocks, and the framing format. Source: Hadoop's SnappyCodec
(BlockCompressorStream); "Snappy framing format description".
"""

from __future__ import annotations

from collections.abc import Generator
from typing import BinaryIO, cast

import cramjam

from dil.errors import SourceContractError
from dil.extraction.preprocessing.compression import Bzip2, Deflate, GunzipProcessor, Xz, Zstd
from dil.extraction.preprocessing.decoded import Pieces, PieceStream, cut, damaged
from dil.extraction.preprocessing.limits import CountedStream, LimitedStream, ReceivedBytes
from dil.extraction.streams import ReadStream, read_up_to
from dil.model.job import ExpansionSpec
from dil.spi.preprocessor import Preprocessor, PreprocessorContext

_FORMATS: dict[str, type[Preprocessor]] = {
    ".gz": GunzipProcessor,
    ".bz2": Bzip2,
    ".deflate": Deflate,
    ".xz": Xz,
    ".zst": Zstd,
}
_SNAPPY = ".snappy"
_FRAMED = b"\xff\x06\x00\x00sNaPpY"
_COMPRESSED, _PLAIN, _FIRST_SKIPPABLE = 0, 1, 0x80
_MOST_BYTES = 256 * 1024 * 1024  # The most bytes of one block; Hadoop's blocks have 256 KiB.
_NUMBER = 4


def plain_name(name: str) -> str:
    """Return a file name without the ending that shows a compression.

    >>> plain_name("a.csv.GZ"), plain_name("a.snappy.parquet")
    ('a.csv', 'a.snappy.parquet')
    """
    stem, point, ending = name.rpartition(".")
    return stem if f"{point}{ending}".lower() in {*_FORMATS, _SNAPPY} else name


def decompressed(stream: BinaryIO, name: str, shown: str, limit: ExpansionSpec) -> BinaryIO:
    """Return a stream of a file's unpacked bytes; closing it closes ``stream``.

    Reading raises an error if the data is incomplete or unpacks to more than ``limit`` allows.
    """
    ending = name[len(plain_name(name)) :].lower()
    if not ending:
        return stream
    received = ReceivedBytes()
    stream = cast("BinaryIO", CountedStream(stream, received))
    if ending == _SNAPPY:
        plain = cast("BinaryIO", PieceStream(_unsnapped(stream), stream))
    else:
        plain = _FORMATS[ending](PreprocessorContext(ending[1:])).process(stream)
    limited = cast("BinaryIO", LimitedStream(plain, f"unpacking {ending}", received, limit))
    return cast("BinaryIO", _Placed(limited, shown))


class _Placed(ReadStream):
    """A stream whose errors name the file."""

    def __init__(self, stream: BinaryIO, shown: str) -> None:
        self._stream = stream
        self._shown = shown

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, empty at the end; -1 means all the rest."""
        try:
            return self._stream.read(size)
        except SourceContractError as error:
            if error.message.startswith(self._shown):
                raise
            raise SourceContractError(f"{self._shown}: {error.message}", error.fix) from error

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        super().close()


def _unsnapped(source: BinaryIO) -> Pieces:
    """Yield the decoded bytes of a snappy stream.

    Raises:
        SourceContractError: the stream is damaged or incomplete. A stream that ends between two
            blocks looks complete.
    """
    begin = read_up_to(source, _NUMBER)
    if not begin:
        return
    try:
        if begin == _FRAMED[:_NUMBER]:
            yield from _frames(source, begin)
        else:
            yield from _blocks(source, begin)
    except cramjam.DecompressionError as error:
        raise damaged("snappy", str(error)) from error


def _blocks(source: BinaryIO, begin: bytes) -> Generator[bytes, None, None]:
    """Yield the content of Hadoop's blocks: a decoded length, then chunks with their lengths."""
    while begin:
        left = _length(begin)
        while left > 0:
            packed = _whole(source, _length(_whole(source, _NUMBER)))
            piece = bytes(cramjam.snappy.decompress_raw(packed))
            left -= len(piece)
            yield piece
        if left:
            raise damaged("snappy", "a block is longer than its stated length")
        begin = read_up_to(source, _NUMBER)


def _frames(source: BinaryIO, begin: bytes) -> Generator[bytes, None, None]:
    """Yield the content of the framing format's chunks; the library verifies their checksums."""
    while begin:
        kind, length = begin[0], int.from_bytes(begin[1:], "little")
        data = _whole(source, length)
        if len(begin) < _NUMBER:
            raise cut("snappy")
        if kind in {_COMPRESSED, _PLAIN}:
            yield bytes(cramjam.snappy.decompress(_FRAMED + begin + data))
        elif kind < _FIRST_SKIPPABLE:
            raise damaged("snappy", f"a chunk is of the unknown type {kind}")
        begin = read_up_to(source, _NUMBER)


def _length(number: bytes) -> int:
    if len(number) < _NUMBER:
        raise cut("snappy")
    length = int.from_bytes(number, "big")
    if length > _MOST_BYTES:
        raise SourceContractError(
            "this is no snappy data, or it has blocks of more than 256 MiB",
            "To read files without unpacking them, set ms.source.files.decompress=false.",
        )
    return length


def _whole(source: BinaryIO, size: int) -> bytes:
    data = read_up_to(source, size)
    if len(data) < size:
        raise cut("snappy")
    return data
