"""Decodes snappy streams: Hadoop's blocks, and the framing format.

Source: Hadoop's SnappyCodec (BlockCompressorStream); "Snappy framing format description".
"""

from __future__ import annotations

from collections.abc import Generator
from typing import BinaryIO

import cramjam

from dil.errors import SourceContractError
from dil.extraction.preprocessing.decoded import Pieces, cut, damaged
from dil.extraction.streams import read_up_to

_FRAMED = b"\xff\x06\x00\x00sNaPpY"
_COMPRESSED, _PLAIN, _FIRST_SKIPPABLE = 0, 1, 0x80
_MOST_BYTES = 256 * 1024 * 1024  # The most bytes of one block; Hadoop's blocks have 256 KiB.
_NUMBER = 4


def unsnapped(source: BinaryIO) -> Pieces:
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
