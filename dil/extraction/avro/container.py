"""Unpacks and checks the blocks of Avro container files: fastavro itself sets no limit of size.

Few bytes can hold many records, so a block is checked before its records are made. Source: Apache
Avro 1.12 specification, "Object Container Files" and "Binary encoding".
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, BinaryIO, cast

import pyarrow as pa

from dil.errors import SourceContractError
from dil.extraction.avro.empty_items import MOST_EMPTY, EmptyItems
from dil.extraction.avro.types import AvroType
from dil.extraction.sizes import XZ_MEMORY_BYTES, too_long

_MAGIC = b"Obj\x01"
_SYNC = 16
_CODEC = b"avro.codec"
_CHUNK = 1024 * 1024
# A number has at most ten bytes; the highest bit of a byte says that another byte follows.
_MOST_PARTS = 10
_MORE = 0x80


class CheckedBlocks:
    """The blocks of a file as fastavro reads them, none longer than ``longest`` bytes.

    Raises:
        SourceContractError: a block is too long, its codec is not known, or it has far more rows or
        array items than bytes.
        Exception: any error of fastavro about bytes that it does not understand.
    """

    def __init__(self, stream: BinaryIO, longest: int) -> None:
        from fastavro import block_reader

        self._blocks = block_reader(cast("Any", PlainBlocks(stream, longest)))

    @property
    def schema(self) -> AvroType:
        """Return the schema of the file in fastavro's parsed form."""
        return self._blocks.writer_schema

    def __iter__(self) -> Iterator[Any]:
        """Yield each block: its records, their number (``num_records``) and bytes (``bytes_``)."""
        empty_items = EmptyItems(self.schema)
        has_empty_items = empty_items.may_be
        for block in self._blocks:
            found = cast("Any", block)  # the type stubs lack its attributes
            with found.bytes_.getbuffer() as data:
                rows, size = found.num_records, data.nbytes
                if rows > max(size, MOST_EMPTY):  # rows that take no bytes
                    raise SourceContractError(
                        f"a block of {size:,} bytes declares {rows:,} rows",
                        "Write the file again at the source: it is damaged, or was made to exhaust"
                        " memory.",
                    )
                if has_empty_items:
                    empty_items.check(data, rows)
            yield found


class PlainBlocks:
    """Reads a container file as if it were not packed; a block has at most ``longest`` bytes.

    This class has the methods of a file that fastavro needs. If the bytes are no container file, it
    passes them on unchanged, so that fastavro refuses them. It does not close the stream.
    """

    def __init__(self, stream: BinaryIO, longest: int) -> None:
        self._source = _Source(stream, longest)
        self._longest = longest
        self._unpacked: Callable[[bytes], bytes] = bytes
        self._position = 0
        self._ready = io.BytesIO(self._header())

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes; fewer at the end of the header or a block, none at the file's end.

        Raises:
            SourceContractError: a block is too long.
            ValueError, OSError: a block is cut off or damaged.
        """
        found = self._ready.read(size)
        if not found and size:
            self._ready = io.BytesIO(self._block())
            found = self._ready.read(size)
        self._position += len(found)
        return found

    def tell(self) -> int:
        """Return the number of bytes that were read."""
        return self._position

    def _header(self) -> bytes:
        """Read the header, and return it with the codec ``null`` in place of the file's codec."""
        source = self._source
        magic = source.up_to(len(_MAGIC))
        if magic != _MAGIC:
            return magic
        facts: dict[bytes, bytes] = {}
        while count := source.number():
            if count < 0:
                count = -count
                source.number()  # the bytes of this part
            for _ in range(count):
                name = source.text()
                facts[name] = source.text()
        codec = facts.get(_CODEC, b"null").decode("utf-8", "replace")
        self._unpacked = _unpacker(codec, self._longest)
        facts[_CODEC] = b"null"
        pairs = b"".join(_text(name) + _text(value) for name, value in facts.items())
        return b"".join((magic, _number(len(facts)), pairs, _number(0), source.exactly(_SYNC)))

    def _block(self) -> bytes:
        """Return the next block, unpacked; empty at the end of the file."""
        source = self._source
        count = source.next_number()
        if count is None:
            return b""
        data = self._unpacked(source.text())
        return b"".join((_number(count), _text(data), source.exactly(_SYNC)))


class _Source:
    """The bytes of a file, read value by value; no text is longer than ``longest``."""

    def __init__(self, stream: BinaryIO, longest: int) -> None:
        self._stream = stream
        self._longest = longest
        self._held = b""
        self._at = 0

    def up_to(self, size: int) -> bytes:
        """Return ``size`` bytes, fewer if the file ends before."""
        pieces = [self._held[self._at : self._at + size]]
        self._at += len(pieces[0])
        left = size - len(pieces[0])
        while left:
            self._held = self._stream.read(_CHUNK)
            self._at = min(left, len(self._held))
            if not self._at:
                break
            pieces.append(self._held[: self._at])
            left -= self._at
        return b"".join(pieces)

    def exactly(self, size: int) -> bytes:
        """Return exactly ``size`` bytes."""
        found = self.up_to(size)
        if len(found) < size:
            raise ValueError("the file is cut off")  # An EOFError would mean the end of the file.
        return found

    def text(self) -> bytes:
        """Read a length, and return that many bytes."""
        size = self.number()
        if size < 0:
            raise ValueError("a length is negative")
        return self.exactly(_checked(size, self._longest))

    def number(self) -> int:
        """Return a number of Avro's type long."""
        found = self.next_number()
        if found is None:
            raise ValueError("the file is cut off")  # An EOFError would mean the end of the file.
        return found

    def next_number(self) -> int | None:
        """Return a number of Avro's type long, None if the file has ended."""
        begin = self.up_to(1)
        if not begin:
            return None
        found = _varint(chain(begin, iter(lambda: self.exactly(1)[0], None)))
        return (found >> 1) ^ -(found & 1)


def _varint(parts: Iterable[int]) -> int:
    """Return the number whose bits come seven to a byte, the lowest first."""
    found = 0
    for place, part in zip(range(_MOST_PARTS), parts, strict=False):
        found |= (part & 0x7F) << (7 * place)
        if part < _MORE:
            return found
    raise ValueError("a number has too many bytes, or too few")


def _number(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    found = bytearray()
    while rest >= _MORE:
        found.append((rest & 0x7F) | _MORE)
        rest >>= 7
    return bytes((*found, rest))


def _text(value: bytes) -> bytes:
    return _number(len(value)) + value


def _checked(size: int, longest: int) -> int:
    if size > longest:
        raise too_long(
            f"a block has {size:,} bytes or more, but at most {longest:,} can be read at once"
        )
    return size


def _unpacker(codec: str, longest: int) -> Callable[[bytes], bytes]:
    """Return the function that unpacks a block of a codec.

    Raises:
        SourceContractError: the codec is not known. The returned function raises it for a block
            that is too long.
    """

    def whole(found: bytes) -> bytes:
        _checked(len(found), longest)
        return found

    def zstandard(data: bytes) -> bytes:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            return whole(stream.read(longest + 1))

    def snappy(data: bytes) -> bytes:
        packed, checksum = data[:-4], data[-4:]
        found: bytes = of_size(packed, _varint(packed), "snappy")
        if zlib.crc32(found).to_bytes(4, "big") != checksum:
            raise ValueError("the checksum of a block differs")
        return found

    def of_size(data: bytes, size: int, name: str) -> bytes:
        found: bytes = pa.decompress(data, _checked(size, longest), codec=name, asbytes=True)
        return found

    known: Mapping[str, Callable[[bytes], bytes]] = {
        "null": bytes,
        "deflate": lambda data: whole(
            zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, longest + 1)
        ),
        "bzip2": lambda data: whole(bz2.BZ2Decompressor().decompress(data, longest + 1)),
        "xz": lambda data: whole(
            lzma.LZMADecompressor(memlimit=XZ_MEMORY_BYTES).decompress(data, longest + 1)
        ),
        "zstandard": zstandard,
        "snappy": snappy,
        "lz4": lambda data: of_size(data[4:], int.from_bytes(data[:4], "little"), "lz4_raw"),
    }
    if codec not in known:
        raise SourceContractError(
            f"the file is packed with {codec}, which is not supported",
            f"Supported are {', '.join(known)}. Write the file with deflate or snappy at the"
            " source.",
        )
    return known[codec]
