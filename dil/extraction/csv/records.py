"""Cuts a stream of delimited text into blocks of whole records, in bounded memory."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO

from dil.errors import SourceContractError
from dil.extraction.content import decoded_texts, is_utf8
from dil.extraction.csv.dialect import NO_TEXT, CsvDialect, record_patterns
from dil.extraction.sizes import CSV_RECORD_BYTES

_CHUNK_BYTES = 2 * 1024 * 1024


class CsvBlock:
    """Text that begins with a record; the end of its last whole record may not be known yet.

    ``likely`` is the text up to its last line break, which may be within quotes. A reader that
    finds the line break outside of quotes calls ``settle``. Otherwise ``records`` are the whole
    records, perhaps none; finding them requires a check of every quote.
    """

    def __init__(self, text: bytes, end: int, careful_end: Callable[[], int] | None = None) -> None:
        self._text = text
        self._end = end
        self._careful_end = careful_end

    @property
    def is_settled(self) -> bool:
        """Return whether ``likely`` certainly consists of whole records."""
        return self._careful_end is None

    @property
    def likely(self) -> bytes:
        """Return the text up to the last line break."""
        return self._text[: self._end]

    @property
    def records(self) -> bytes:
        """Return the whole records."""
        return self._text[: self.end]

    @property
    def end(self) -> int:
        """Return the offset of the end of the last whole record, 0 if there is none."""
        if self._careful_end is not None:
            self._end = self._careful_end()
            self.settle()
        return self._end

    def settle(self) -> None:
        """Record that the last line break is the end of a record."""
        self._careful_end = None


class RecordBlocks:
    """The records of one response, in plain form (``CsvDialect.plain``), in order.

    ``chunk_bytes`` is the number of bytes to read at a time, ``record_bytes`` the most bytes of a
    record.
    """

    def __init__(
        self,
        stream: BinaryIO,
        charset: str,
        dialect: CsvDialect,
        *,
        chunk_bytes: int = _CHUNK_BYTES,
        record_bytes: int = CSV_RECORD_BYTES,
    ) -> None:
        self._patterns = record_patterns(dialect)
        self._quote = dialect.quote_byte
        self._chunks = _plain_chunks(stream, charset, dialect, chunk_bytes)
        self._record_bytes = record_bytes
        self._rest = b""
        self._is_at_end = False

    def take(self, count: int) -> list[bytes]:
        """Return the next records one by one; fewer if the text ends.

        Raises:
            SourceContractError: a quote is never closed, or a record is too long.
        """
        taken: list[bytes] = []
        while len(taken) < count:
            found = self._patterns.record.match(self._rest, 0, self._certain)
            if found is not None:
                taken.append(found[0])
                self._rest = self._rest[found.end() :]
            elif not self._is_at_end:
                self._fill()
            else:
                break
        if len(taken) < count and self._rest:
            taken.append(self._last())
        return taken

    def blocks(self) -> Iterator[CsvBlock]:
        """Yield the rest of the records in blocks; read each block before taking the next one.

        Raises:
            SourceContractError: a quote is never closed, or a record is too long.
        """
        while not self._is_at_end:
            self._fill()
            yield from self._block()
        # All the rest may have been read already, together with the skipped lines.
        yield from self._block()
        if self._rest:
            last = self._last()
            yield CsvBlock(last, len(last))

    def _block(self) -> Iterator[CsvBlock]:
        """Yield the text read so far up to its last line break, if it has one."""
        text, certain = self._rest, self._certain
        end = max(text.rfind(b"\n", 0, certain), text.rfind(b"\r", 0, certain)) + 1
        if not end:
            return
        has_quotes = bool(self._quote) and self._quote in text
        block = CsvBlock(
            text, end, partial(self._end_of_records, text, end) if has_quotes else None
        )
        yield block
        self._rest = text[block.end :]

    @property
    def _certain(self) -> int:
        """Return the length of the text without a final CR, which may be half of a CRLF."""
        is_open = self._rest.endswith(b"\r") and not self._is_at_end
        return len(self._rest) - is_open

    def _fill(self) -> None:
        if len(self._rest) > self._record_bytes:
            raise SourceContractError(
                f"a record is longer than {self._record_bytes // 1024:,} KiB", _LONG_FIX
            )
        chunk = next(self._chunks, None)
        if chunk is None:
            self._is_at_end = True
        else:
            self._rest += chunk

    def _end_of_records(self, text: bytes, most: int) -> int:
        found = self._patterns.records.match(text, 0, most)
        return found.end() if found else 0

    def _last(self) -> bytes:
        record, self._rest = self._rest, b""
        if self._patterns.last.match(record) is None:
            raise SourceContractError("a quote is opened and never closed", _QUOTE_FIX)
        return record


_LONG_FIX = (
    "A quote that is never closed makes such a record, or lines that do not end in LF or CR:"
    " correct quoteCharacter and escapeCharacter of ms.csv. A record may have a sixteenth of"
    f" ms.task.memory.max.bytes, and {CSV_RECORD_BYTES >> 20} MiB at most."
)
_QUOTE_FIX = (
    "The answer may have been cut off; or correct quoteCharacter and escapeCharacter of ms.csv."
)


def _plain_chunks(
    stream: BinaryIO, charset: str, dialect: CsvDialect, size: int
) -> Iterator[bytes]:
    """Yield chunks of the text in plain form; no chunk ends within an escape.

    Raises:
        UnicodeDecodeError: the text is not in its character set; text in UTF-8 is checked later.
    """
    escape = dialect.escape.encode()
    held = b""
    for chunk in _utf8_chunks(stream, charset, size, whole_characters=dialect.is_wide):
        for byte in NO_TEXT:
            if byte in chunk:
                raise UnicodeDecodeError("utf-8", chunk, chunk.index(byte), chunk.index(byte) + 1,
                                         "invalid start byte")  # fmt: skip
        text = held + chunk
        open_escapes = _run_at_end(text, escape)
        held = text[len(text) - open_escapes :]
        yield dialect.plain(text[: len(text) - open_escapes])
    if held:
        yield dialect.plain(held)


def _run_at_end(text: bytes, escape: bytes) -> int:
    """Return the number of escape characters at the end of a text."""
    length = 0
    while escape and text.endswith(escape, 0, len(text) - length):
        length += len(escape)
    return length


def _utf8_chunks(
    stream: BinaryIO, charset: str, size: int, *, whole_characters: bool
) -> Iterator[bytes]:
    """Yield the stream as UTF-8 without a byte order mark at its beginning."""
    if is_utf8(charset) and not whole_characters:
        chunks = _chunks(stream, size)
        yield next(chunks, b"").removeprefix(codecs.BOM_UTF8)
        yield from chunks
        return
    yield from map(str.encode, decoded_texts(_chunks(stream, size), charset))


def _chunks(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield chunks of exactly ``size`` bytes, because a network stream returns fewer at a time."""
    parts: list[bytes] = []
    wanted = size
    while data := stream.read(wanted):
        parts.append(data)
        wanted -= len(data)
        if wanted <= 0:
            yield b"".join(parts)
            parts, wanted = [], size
    if parts:
        yield b"".join(parts)
