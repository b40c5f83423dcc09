"""Estimates the sizes of rows from the statistics of an ORC file, before any row is read.

The library's reader ends its process if it gets no memory, so it must read few rows at a time if
rows are long. Source: ORC specification v1, "File Tail" and "Compression"
(orc.apache.org/specification/ORCv1, read 2026-11-24).
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from dil.errors import SourceContractError

_PLAIN, _ZLIB, _SNAPPY, _ZSTD = 0, 1, 2, 5
_USUAL_CHUNK = 256 * 1024
# Other codecs than those above never unpack to more than this many times the packed bytes.
_MOST_EXPANSION = 256
# The length of a chunk has 23 bits (Apache ORC specification, "Compression").
_MOST_CHUNK = 1 << 23
_VALUE_BYTES = 8
_LENGTH_BYTES = 3
_VARINT_BITS = 70

Message = dict[int, list[int | bytes]]


@dataclass(frozen=True, slots=True)
class StripeSize:
    """The number of rows of a stripe or of a file, and about how many bytes their values take."""

    rows: int
    bytes: int

    @property
    def row_bytes(self) -> int:
        """Return how many bytes a row has on average."""
        return -(-self.bytes // max(1, self.rows))


class OrcTail:
    """The metadata behind the rows of a file; it contains the statistics of the columns.

    Raises:
        ValueError: the metadata is damaged.
        SourceContractError: the metadata takes more than ``most`` bytes.
    """

    def __init__(self, file: pa.NativeFile, size: int, most: int) -> None:
        self._size = size
        length = _bytes_at(file, size - 1, 1)[0]
        script = _message(_bytes_at(file, max(0, size - 1 - length), length))
        self._kind, self._chunk = _number(script, 2), _number(script, 3) or _USUAL_CHUNK
        footer, stripes = _number(script, 1), _number(script, 5)
        end = size - 1 - length
        if footer + stripes > end or self._chunk > _MOST_CHUNK:
            raise _damaged()
        packed = [
            _bytes_at(file, end - footer - stripes, stripes),
            _bytes_at(file, end - footer, footer),
        ]
        self._refuse_long(packed, most)
        self._stripes, self._footer = ([], {})
        if (unpack := _UNPACK.get(self._kind)) is not None:
            texts = [self._unpacked(each, unpack) for each in packed]
            self._stripes = [_message(each) for each in _parts(_message(texts[0]), 1)]
            self._footer = _message(texts[1])

    def parts(self, columns: Sequence[str]) -> list[StripeSize]:
        """Return the sizes of columns by stripe; one size for the file if stripes state none."""
        if not self._footer:
            return [StripeSize(1, self._size * _MOST_EXPANSION)]
        wanted = self._places(columns)
        rows = [_number(_message(each), 5) for each in _parts(self._footer, 3)]
        if len(rows) == len(self._stripes):
            found = zip(rows, (_parts(each, 1) for each in self._stripes), strict=True)
            return [StripeSize(count, _bytes_of(each, wanted)) for count, each in found]
        whole = _bytes_of(_parts(self._footer, 7), wanted)
        return [StripeSize(_number(self._footer, 6), whole)]

    def _places(self, columns: Sequence[str]) -> set[int]:
        """Return the numbers of some columns and of the columns inside them, in pre-order."""
        types = _parts(self._footer, 4)
        root = _message(types[0]) if types else {}
        names = [each.decode(errors="replace") for each in _parts(root, 3)]
        begins = [*_numbers(root, 2), len(types)]
        return {
            place
            for name, begin, end in zip(names, begins, begins[1:], strict=False)
            if name in columns
            for place in range(begin, end)
        }

    def _refuse_long(self, packed: Sequence[bytes], most: int) -> None:
        """Raise if the unpacked metadata is too long, because the library reads it as a whole."""
        chunks = (chunk for text in packed for chunk in self._chunks(text))
        known = sum(len(text) if is_plain else self._chunk for is_plain, text in chunks)
        if known > max(most, 2 * self._chunk * len(packed)):
            raise SourceContractError(
                f"the metadata at the end of the file takes up to {known:,} bytes, but at most"
                f" {most:,} may be read at once",
                "Values of many megabytes make the metadata long, because it has the least and"
                " the greatest value of each column. Write such a column as binary, or the file"
                " as Parquet, or raise ms.task.memory.max.bytes.",
            )

    def _chunks(self, text: bytes) -> Iterator[tuple[bool, bytes]]:
        """Yield, for each chunk of a packed part, whether it is stored unpacked, and its bytes."""
        at = 0
        while at < len(text) and self._kind != _PLAIN:
            head = int.from_bytes(text[at : at + _LENGTH_BYTES], "little")
            at += _LENGTH_BYTES
            yield bool(head & 1), text[at : at + (head >> 1)]
            at += head >> 1
        if self._kind == _PLAIN:
            yield True, text

    def _unpacked(self, text: bytes, unpack: Callable[[bytes, int], bytes]) -> bytes:
        try:
            return b"".join(
                chunk if is_plain else unpack(chunk, self._chunk)
                for is_plain, chunk in self._chunks(text)
            )
        except (zlib.error, pa.ArrowException, OSError) as error:
            raise _damaged() from error


def _bytes_at(file: pa.NativeFile, place: int, count: int) -> bytes:
    file.seek(place)
    return bytes(file.read(count))


def _unzlib(chunk: bytes, most: int) -> bytes:
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(chunk, most)


def _unsnap(chunk: bytes, most: int) -> bytes:
    size, _ = _varint(chunk, 0)
    if size > most:
        raise _damaged()
    return bytes(pa.decompress(chunk, size, "snappy", asbytes=True))


def _unzstd(chunk: bytes, most: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(chunk), "zstd") as stream:
        return bytes(stream.read(most))


_UNPACK: dict[int, Callable[[bytes, int], bytes]] = {
    _PLAIN: lambda chunk, _most: chunk,
    _ZLIB: _unzlib,
    _SNAPPY: _unsnap,
    _ZSTD: _unzstd,
}


def _bytes_of(statistics: Sequence[bytes], wanted: set[int]) -> int:
    """Return about how many bytes the values of some columns take."""
    total = 0
    for place in wanted & set(range(len(statistics))):
        found = _message(statistics[place])
        lengths = [
            _number(_message(each), field)
            for number, field in ((4, 3), (8, 1))  # of texts, of bytes
            for each in _parts(found, number)
        ]
        # The number of values does not include null items, but these take memory too.
        items = [_number(_message(each), 3) for each in _parts(found, 12)]
        total += _VALUE_BYTES * (_number(found, 1) + sum(items))
        total += sum(each >> 1 for each in lengths)  # zigzag, and not below 0
    return total


def _message(data: bytes) -> Message:
    """Return the fields of a message of Protocol Buffers (texts and numbers) by their numbers."""
    found: Message = defaultdict(list)
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        value: int | bytes
        match key & 7:
            case 0:
                value, at = _varint(data, at)
            case 2:
                length, at = _varint(data, at)
                value, at = data[at : at + length], at + length
            case 1 | 5 as wire:
                length = 8 if wire == 1 else 4
                value, at = int.from_bytes(data[at : at + length], "little"), at + length
            case _:
                raise _damaged()
        found[key >> 3].append(value)
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < _VARINT_BITS:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte >> 7:
            return value, at
        shift += 7
    raise _damaged()


def _parts(message: Message, number: int) -> list[bytes]:
    return [each for each in message.get(number, ()) if isinstance(each, bytes)]


def _number(message: Message, number: int) -> int:
    return next((each for each in message.get(number, ()) if isinstance(each, int)), 0)


def _numbers(message: Message, number: int) -> list[int]:
    """Return the numbers of a field that may be packed."""
    found: list[int] = []
    for each in message.get(number, ()):
        if isinstance(each, int):
            found.append(each)
            continue
        at = 0
        while at < len(each):
            value, at = _varint(each, at)
            found.append(value)
    return found


def _damaged() -> ValueError:
    return ValueError("the end of the ORC file is damaged")
