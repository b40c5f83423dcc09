"""Keeps the bytes of a response in memory if they are few, else in a temporary file.

The file is needed because look-ups into a response (totals, cursors, pushed-down fields) must be
right before its first row is yielded, and the values looked up may be behind the rows.
"""

from __future__ import annotations

import codecs
import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

from dil.errors import SourceContractError
from dil.extraction.content import decoded_texts, is_utf8
from dil.extraction.sizes import JSON_VALUE_BYTES
from dil.extraction.streams import read_up_to, temporary_file_errors
from dil.spi.connector import Response

_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SpoolLimits:
    """The most bytes of a body that may be in memory at once.

    A body of up to ``body`` bytes is read whole. A longer body is read in windows of ``window``
    bytes; a window grows, up to ``value`` bytes, for a row or another value that is needed whole.
    If an object or array is longer than a window, ``members`` is how many of its members or
    elements are kept for look-ups.
    """

    body: int = 16 * 1024 * 1024
    window: int = 4 * 1024 * 1024
    value: int = JSON_VALUE_BYTES
    members: int = 100_000


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes ``[begin, end)`` of a spooled text."""

    begin: int
    end: int


class Spool:
    """UTF-8 text without byte order mark, in a temporary file without a name.

    The file is in the folder of temporary files, which TMPDIR names; the file exists as long as
    this object.
    """

    def __init__(self) -> None:
        with temporary_file_errors("a response"):
            # The file has no buffer, because windows are larger than any buffer.
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by finalize
        self.size = 0
        weakref.finalize(self, self._file.close)

    def append(self, text: bytes) -> None:
        """Write text at the end.

        Raises:
            WriteError: the disk is full.
        """
        view = memoryview(text)
        with temporary_file_errors("a response"):
            while view:
                view = view[self._file.write(view) :]
        self.size += len(text)

    def read(self, span: Span) -> bytes:
        """Return the bytes of a span, fewer if the text ends before."""
        with temporary_file_errors("a response"):
            return os.pread(self._file.fileno(), span.end - span.begin, span.begin)


def read_body(response: Response, charset: str, limits: SpoolLimits) -> bytes | Spool:
    """Read a body to its end, close it, and return it as UTF-8 without byte order mark.

    A short UTF-8 body is returned unchecked: its reader finds out whether it is UTF-8.

    Raises:
        SourceContractError: the body is not text in ``charset``.
        WriteError: the folder of temporary files is full.
    """
    if response.body is None:
        return b""
    with closing(response.body) as stream:
        begin = read_up_to(stream, limits.body)
        chunks = iter(lambda: stream.read(_CHUNK), b"")
        following = next(chunks, b"")
        if not following and is_utf8(charset):
            return begin.removeprefix(codecs.BOM_UTF8)
        texts = _utf8(chain((begin, following), chunks), charset, response.location)
        if not following:
            return b"".join(texts)
        spool = Spool()
        for text in texts:
            spool.append(text)
        return spool


def _utf8(chunks: Iterable[bytes], charset: str, place: str) -> Iterator[bytes]:
    try:
        yield from map(str.encode, decoded_texts(chunks, "utf-8" if is_utf8(charset) else charset))
    except UnicodeDecodeError as error:
        raise SourceContractError(
            f"{place}: the body is not {charset} text: {error.reason} at byte {error.start} or"
            " shortly before",
            "Check ms.source.data.character.set.",
        ) from None
