"""Streams that decode their source in bounded memory; an early end is an error."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from dil.errors import SourceContractError
from dil.extraction.excerpt import glimpse
from dil.extraction.streams import ReadStream

CHUNK = 256 * 1024
CUT_FIX = "The source sent only a part, or the file was still being written. Run the job again."
Pieces = Generator[bytes, None, None]


class PieceStream(ReadStream):
    """A stream over pieces that are made one at a time; closing it closes ``source``."""

    def __init__(self, pieces: Pieces, source: BinaryIO) -> None:
        self._pieces = pieces
        self._source = source
        self._rest = b""
        self._at = 0

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, empty at the end; -1 means all the rest."""
        if size < 0:
            return self.readall()
        while self._at == len(self._rest):
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._rest, self._at = piece, 0
        taken = self._rest[self._at : self._at + size]
        self._at += len(taken)
        return taken

    def close(self) -> None:
        """Close the generator of the pieces and the stream beneath."""
        if self.closed:
            return
        super().close()
        self._rest, self._at = b"", 0
        try:
            self._pieces.close()
        finally:
            self._source.close()


class CompressedMember(Protocol):
    """One member of a compressed stream, as bz2 and lzma decompress it."""

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Return up to ``max_length`` bytes; if ``data`` is empty, from data of earlier calls."""

    @property
    def needs_input(self) -> bool:
        """Return whether more data is needed for any output."""

    @property
    def eof(self) -> bool:
        """Return whether the whole member was read."""

    @property
    def unused_data(self) -> bytes:
        """Return the bytes after the member's end."""


@dataclass(frozen=True, slots=True)
class CompressedFormat:
    """A compressed format: its word in messages, the decoder of a member, a member's first bytes.

    ``faults`` are the library's errors for damaged bytes. If ``may_repeat`` is true, members may
    follow each other. Zeros between members are padding, in units of ``padding`` bytes.
    """

    word: str
    member: Callable[[], CompressedMember]
    faults: tuple[type[Exception], ...]
    magic: bytes = b""
    may_repeat: bool = True
    padding: int = 0


def decoded(source: BinaryIO, form: CompressedFormat) -> Pieces:
    """Yield the bytes of all members of a compressed stream.

    Raises:
        SourceContractError: a member is damaged or cut, there is no member, or other bytes follow.
    """
    data, is_first = source.read(CHUNK), True
    if not data:
        raise nothing(form.word)
    while data:
        if not (is_first or form.may_repeat):
            raise garbage(form.word)
        member = form.member()
        yield from _member(source, form, member, data, is_first=is_first)
        data, is_first = _following(source, member.unused_data, form), False


def _member(
    source: BinaryIO,
    form: CompressedFormat,
    member: CompressedMember,
    data: bytes,
    *,
    is_first: bool,
) -> Pieces:
    begin, has_made = data[:1024], False
    if not begin.startswith(form.magic[: len(begin)]):
        # A library that waits for a whole header would call a short text data that ends too early.
        raise not_of(form.word, begin) if is_first else garbage(form.word)
    while True:
        try:
            piece = member.decompress(data, CHUNK)
        except form.faults as error:
            if has_made or (form.magic and begin.startswith(form.magic)):
                raise damaged(form.word, str(error)) from error
            raise (not_of(form.word, begin) if is_first else garbage(form.word)) from error
        if piece:
            has_made = True
            yield piece
        if member.eof:
            return
        data = b""
        if member.needs_input:
            data = source.read(CHUNK)
            if not data:
                raise cut(form.word)


def _following(source: BinaryIO, unused: bytes, form: CompressedFormat) -> bytes:
    """Return the bytes after a member and its padding zeros; empty at the end."""
    data = unused or source.read(CHUNK)
    if not form.padding:
        return data
    zeros = 0
    while data:
        rest = data.lstrip(b"\0")
        zeros += len(data) - len(rest)
        data = rest
        if rest:
            break
        data = source.read(CHUNK)
    if zeros % form.padding:
        raise garbage(form.word)
    return data


def nothing(word: str) -> SourceContractError:
    """Return the error for an empty stream, which is valid in no format."""
    return SourceContractError(f"there is no {word} data: the stream is empty", CUT_FIX)


def cut(word: str) -> SourceContractError:
    """Return the error for a stream that ends too early."""
    return SourceContractError(f"the {word} data ends too early", CUT_FIX)


def damaged(word: str, reason: str) -> SourceContractError:
    """Return the error for a stream that cannot be decoded further."""
    return SourceContractError(
        f"the {word} data is damaged: {reason}",
        "Run the job again; if the error stays, the source's file itself is damaged.",
    )


def not_of(word: str, begin: bytes) -> SourceContractError:
    """Return the error for a stream whose first bytes show another format."""
    return SourceContractError(
        f'this is no {word} data; it begins: "{glimpse(begin)}"',
        "Check ms.extract.preprocessors, and whether the source sends the right file. Files of a"
        " disk or of HDFS are unpacked before, by the ending of their names such as .gz, unless"
        " ms.source.files.decompress=false.",
    )


def garbage(word: str) -> SourceContractError:
    """Return the error for other bytes behind the end of the data."""
    return SourceContractError(
        f"something that is no {word} data follows the {word} data",
        "Check the source's file: it may hold two transfers. Or change the preprocessor.",
    )
